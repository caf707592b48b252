//! A checker of plans, written independently of the solver: it starts from the finished plan and asks of each node, existing
//! or to be made, whether everything on it may be there.

mod claims;
mod nodes;

use crate::input::{Input, PreferencePolicy};
use crate::plan::Plan;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_model::taint::{Taint, TaintEffect};
use std::collections::BTreeMap;

/// Something in a plan that must not be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The pod, node, claim or NodePool that it is about.
    pub subject: String,
    /// What is wrong, with figures.
    pub message: String,
}

/// Everything that is wrong with a plan; empty for a good one, in stable order.
pub fn audit(input: &Input, plan: &Plan) -> Vec<Violation> {
    let mut auditor = Auditor {
        input,
        plan,
        pods: input.pods.iter().map(|pod| (&pod.name, &**pod)).collect(),
        violations: Vec::new(),
    };
    auditor.each_pod_once();
    auditor.pending();
    auditor.placements();
    auditor.claims();
    auditor.limits();
    auditor.headroom();
    auditor.violations.sort();
    auditor.violations
}

struct Auditor<'a> {
    input: &'a Input,
    plan: &'a Plan,
    pods: BTreeMap<&'a NamespacedName, &'a Pod>,
    violations: Vec<Violation>,
}

impl<'a> Auditor<'a> {
    fn blame(&mut self, subject: impl Into<String>, message: impl Into<String>) {
        self.violations.push(Violation { subject: subject.into(), message: message.into() });
    }

    fn each_pod_once(&mut self) {
        let mut times: BTreeMap<&NamespacedName, usize> = self.pods.keys().map(|name| (*name, 0)).collect();
        let placed = self.plan.placements.iter().flat_map(|placement| &placement.pods);
        let claimed = self.plan.node_claims.iter().flat_map(|claim| &claim.pods);
        let pending = self.plan.pending.iter().map(|pending| &pending.pod);
        for name in placed.chain(claimed).chain(pending) {
            *times.entry(name).or_insert(0) += 1;
        }
        for (name, count) in times {
            if !self.pods.contains_key(name) {
                self.blame(format!("Pod/{name}"), "stands in the plan but not in the input");
            } else if count != 1 {
                self.blame(format!("Pod/{name}"), format!("stands {count} times in the plan"));
            }
        }
    }

    fn pending(&mut self) {
        for pending in &self.plan.pending {
            let subject = format!("Pod/{}", pending.pod);
            let Some(pod) = self.pods.get(&pending.pod).copied() else {
                continue;
            };
            if pending.reasons.is_empty() {
                self.blame(&subject, "is pending without a reason");
            }
            for reason in &pending.reasons {
                if reason.message.is_empty() {
                    self.blame(&subject, format!("has reason {} without words", reason.code));
                }
                let pools = &self.input.node_pools;
                if reason.node_pool.as_ref().is_some_and(|name| !pools.iter().any(|pool| pool.name == *name))
                {
                    self.blame(
                        &subject,
                        format!("has a reason for NodePool {:?}, which isn't there", reason.node_pool),
                    );
                }
                let untrue = match reason.code {
                    ReasonCode::Invalid => reason.node_pool.is_none() && pod.invalid.is_empty(),
                    ReasonCode::DynamicResources => !pod.needs_dynamic_resources,
                    _ => false,
                };
                if untrue {
                    self.blame(&subject, format!("reason {} isn't true of it", reason.code));
                }
            }
        }
    }

    /// What no solve of this version may place at all.
    fn may_be_placed(&mut self, pod: &Pod) {
        let soft = self.input.options.preference_policy == PreferencePolicy::Respect;
        let spread = pod.topology_spread.iter().any(|constraint| constraint.required || soft);
        let affinity = !pod.pod_affinity.is_empty() || !pod.pod_anti_affinity.is_empty();
        let wishes = !pod.preferred_pod_affinity.is_empty() || !pod.preferred_pod_anti_affinity.is_empty();
        let mut cannot = Vec::new();
        for (found, what) in [
            (!pod.invalid.is_empty(), "it can't be read"),
            (pod.needs_dynamic_resources, "it needs dynamic resources"),
            (pod.gated, "it is gated"),
            (spread, "it has topology spread constraints"),
            (affinity || (soft && wishes), "it has pod affinity or anti-affinity"),
            (!pod.volume_claims.is_empty(), "it has volumes"),
            (!pod.host_ports.is_empty(), "it has host ports"),
        ] {
            if found {
                cannot.push(what);
            }
        }
        for what in cannot {
            self.blame(format!("Pod/{}", pod.name), format!("has a place though {what}"));
        }
        self.is_not_repelled(pod);
    }

    /// Required anti-affinity repels in both directions.
    fn is_not_repelled(&mut self, pod: &Pod) {
        let others = self.input.pods.iter().chain(self.input.bound_pods.values().flatten());
        let mut repelled_by = None;
        for other in others {
            for term in &other.pod_anti_affinity {
                let selects = term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels));
                let labels = self.input.namespaces.get(&pod.name.namespace).cloned().unwrap_or_default();
                let named = term.namespaces.contains(&pod.name.namespace);
                let in_scope = match &term.namespace_selector {
                    Some(selector) => named || selector.matches(&labels),
                    None if term.namespaces.is_empty() => other.name.namespace == pod.name.namespace,
                    None => named,
                };
                if selects && in_scope {
                    repelled_by = Some(&other.name);
                }
            }
        }
        if let Some(other) = repelled_by {
            self.blame(
                format!("Pod/{}", pod.name),
                format!("has a place though anti-affinity of {other} selects it"),
            );
        }
    }

    /// The pods of this list that are known; the others are blamed elsewhere.
    fn known(&self, names: &[NamespacedName]) -> Vec<&'a Pod> {
        names.iter().filter_map(|name| self.pods.get(name).copied()).collect()
    }
}

/// A taint that keeps the pod away for good; `PreferNoSchedule` never does.
fn hard_taint<'t>(pod: &Pod, taints: impl IntoIterator<Item = &'t Taint>) -> Option<&'t Taint> {
    let hard = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
    let borne = |taint: &Taint| pod.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    taints.into_iter().filter(hard).find(|taint| !borne(taint))
}

/// Whether node selector and one of the required terms hold, given how to judge one requirement.
fn node_constraints_hold(pod: &Pod, holds: impl Fn(&Requirement) -> bool) -> bool {
    pod.node_selector.iter().all(&holds)
        && (pod.required_node_affinity.is_empty()
            || pod.required_node_affinity.iter().any(|term| term.iter().all(&holds)))
}

fn sum<'p>(pods: impl IntoIterator<Item = &'p Pod>) -> Resources {
    pods.into_iter().fold(Resources::ZERO, |sum, pod| sum.plus(&pod.requests))
}
