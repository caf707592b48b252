//! What a person should know and that stops nothing.

use super::amounts::{Axes, fits};
use super::existing::Existing;
use super::template::{Template, conflict};
use crate::plan::{PlannedNodeClaim, Warning};
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::resources::format_amount;
use karpenter_capi_model::taint::{Taint, untolerated};
use std::collections::BTreeSet;

/// Warnings, each once.
#[derive(Default)]
pub(super) struct Warnings(BTreeSet<Warning>);

impl Warnings {
    fn add(&mut self, object: String, message: String) {
        self.0.insert(Warning { object, message });
    }

    pub(super) fn given_up(&mut self, pod: &Pod, what: &str) {
        self.add(format!("Pod/{}", pod.name), format!("gave up {what}"));
    }

    /// NodePools that can never serve, and those above their limits.
    pub(super) fn note_pools(&mut self, templates: &[Template<'_>]) {
        for template in templates {
            let pool = template.pool;
            let object = || format!("NodePool/{}", pool.name);
            let fits = |of_type| conflict(of_type, None, &pool.requirements, pool, &template.keys).is_none();
            if template.candidates.is_empty() {
                self.add(object(), "no MachineDeployment matches".to_owned());
            } else if !template.candidates.iter().any(|candidate| fits(candidate.of_type)) {
                self.add(object(), "the requirements exclude every instance type".to_owned());
            }
            for (name, limit) in pool.limits.iter().filter(|(name, limit)| pool.usage.get(name) > *limit) {
                let (used, limit) = (format_amount(name, pool.usage.get(name)), format_amount(name, limit));
                self.add(object(), format!("{name}: {used} in use is above the limit of {limit}"));
            }
            if let Some(limit) = pool.node_limit.filter(|limit| pool.node_count > *limit) {
                self.add(
                    object(),
                    format!("nodes: {} in use is above the limit of {limit}", pool.node_count),
                );
            }
        }
    }

    /// Minima that were lowered for a claim.
    pub(super) fn note_relaxed(&mut self, claim: &PlannedNodeClaim, pool: &NodePool) {
        for asked in pool.requirements.iter().filter(|_| claim.min_values_relaxed) {
            let now = claim
                .requirements
                .get(asked.key())
                .and_then(karpenter_capi_model::requirement::Requirement::min_values);
            if let Some(wanted) = asked.min_values().filter(|wanted| Some(*wanted) != now) {
                let message = format!(
                    "{}: minValues lowered from {wanted} to {} for a claim",
                    asked.key(),
                    now.unwrap_or(0)
                );
                self.add(format!("NodePool/{}", pool.name), message);
            }
        }
    }

    /// Nodes that are starting and would have taken a pod for which a claim was opened, had it not been for a taint that
    /// nobody declared.
    pub(super) fn note_undeclared_taints(
        &mut self,
        nodes: &[Existing<'_>],
        axes: &Axes,
        templates: &[Template<'_>],
        pods: &[&Pod],
    ) {
        for existing in
            nodes.iter().filter(|existing| !existing.node.initialized && existing.node.is_managed())
        {
            let node = existing.node;
            let pool =
                templates.iter().map(|one| one.pool).find(|pool| Some(&pool.name) == node.node_pool.as_ref());
            let Some(pool) = pool else { continue };
            let undeclared: Vec<&Taint> = node
                .taints
                .iter()
                .filter(|taint| !pool.taints.iter().any(|own| own.matches(taint)))
                .collect();
            let kept_away = pods.iter().find_map(|pod| {
                let taint = untolerated(undeclared.iter().copied(), &pod.tolerations, false)?;
                let alternatives = super::alternatives(pod);
                let meets = alternatives.iter().any(|wanted| wanted.met_by(&node.labels).is_ok());
                (meets && fits(&axes.row(&pod.requests), &existing.remaining)).then_some((pod, taint))
            });
            if let Some((pod, taint)) = kept_away {
                let message = format!(
                    "taint {taint} keeps pods such as {} away while the node starts, which costs another node; \
                     if something removes it, declare it in startupTaints of NodePool {}",
                    pod.name, pool.name
                );
                self.add(format!("Node/{}", node.name), message);
            }
        }
    }

    pub(super) fn into_sorted(self) -> Vec<Warning> {
        self.0.into_iter().collect()
    }
}
