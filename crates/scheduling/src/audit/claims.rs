//! Claims that are to be made: every option must really serve, whatever the labels that are still open become.

use super::{Auditor, hard_taint, node_constraints_hold, sum};
use crate::input::MinValuesPolicy;
use crate::plan::{InstanceOption, PlannedNodeClaim};
use karpenter_capi_model::label::HOSTNAME;
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_model::taint::Taint;
use std::collections::{BTreeMap, BTreeSet};

impl Auditor<'_> {
    pub(super) fn claims(&mut self) {
        let plan = self.plan;
        for (index, claim) in plan.node_claims.iter().enumerate() {
            let subject = format!("NodeClaim/{}-{index}", claim.node_pool);
            let Some(pool) = self.input.node_pools.iter().find(|pool| pool.name == claim.node_pool) else {
                self.blame(subject, "belongs to a NodePool that isn't in the input");
                continue;
            };
            if pool.not_ready.is_some() || pool.paused || pool.is_static {
                self.blame(&subject, "belongs to a NodePool that may not be used");
            }
            let pods = self.known(&claim.pods);
            if pods.is_empty() || claim.options.is_empty() {
                self.blame(&subject, "has no pods, or no way to be launched");
            }
            self.options_in_order(&subject, claim);
            self.min_values(&subject, claim, pool);
            for pod in &pods {
                self.may_be_placed(pod);
                if let Some(taint) = hard_taint(pod, &pool.taints) {
                    self.blame(
                        format!("Pod/{}", pod.name),
                        format!("is in {subject} in spite of taint {taint}"),
                    );
                }
            }
            let requests = sum(pods.iter().copied());
            if claim.requests != requests.plus(&claim.daemon_requests) {
                self.blame(
                    &subject,
                    format!("requests {} aren't those of its pods and DaemonSets", claim.requests),
                );
            }
            for option in &claim.options {
                self.option(&subject, claim, pool, option, &pods);
            }
        }
    }

    fn options_in_order(&mut self, subject: &str, claim: &PlannedNodeClaim) {
        let most = self.input.options.max_instance_types.max(1);
        if claim.options.len() > most {
            self.blame(subject, format!("lists {} instance types, more than {most}", claim.options.len()));
        }
        let key = |option: &InstanceOption| {
            let price = option.offering.price;
            (
                price.is_none(),
                price,
                -i64::from(option.instance_type.priority),
                option.instance_type.name.clone(),
            )
        };
        if !claim.options.is_sorted_by_key(key) {
            self.blame(subject, "lists its instance types out of order");
        }
    }

    fn min_values(&mut self, subject: &str, claim: &PlannedNodeClaim, pool: &NodePool) {
        let strict = self.input.options.min_values_policy == MinValuesPolicy::Strict;
        for asked in claim.requirements.iter() {
            let in_pool = pool.requirements.get(asked.key()).and_then(Requirement::min_values);
            if strict && asked.min_values() != in_pool {
                self.blame(subject, format!("{}: minValues was changed", asked.key()));
            }
            let Some(minimum) = asked.min_values() else {
                continue;
            };
            let own =
                claim.options.iter().filter_map(|option| option.instance_type.requirements.get(asked.key()));
            let values: BTreeSet<&str> = own
                .filter(|own| own.is_enumerated())
                .flat_map(Requirement::values)
                .filter(|value| asked.has(value))
                .collect();
            if values.len() < usize::try_from(minimum).unwrap_or(usize::MAX) {
                self.blame(
                    subject,
                    format!("{}: {} values, minValues is {minimum}", asked.key(), values.len()),
                );
            }
        }
    }

    fn option(
        &mut self,
        subject: &str,
        claim: &PlannedNodeClaim,
        pool: &NodePool,
        option: &InstanceOption,
        pods: &[&Pod],
    ) {
        let of_type = &option.instance_type;
        let subject = format!("{subject} as {}", of_type.name);
        let listed = self.input.instance_types.get(&pool.name).is_some_and(|types| types.contains(of_type));
        if !listed || !of_type.offerings.contains(&option.offering) {
            self.blame(&subject, "isn't an instance type of the NodePool, or not an offering of it");
        }
        if option.offering.unavailable.is_some() || option.offering.reservation_capacity.is_some() {
            self.blame(&subject, "can't be had now");
        }
        let starting =
            |taint: &&Taint| taint.is_ephemeral() || pool.startup_taints.iter().any(|own| own.matches(taint));
        let lasting: Vec<&Taint> = of_type.taints.iter().filter(|taint| !starting(taint)).collect();
        for requirement in claim.requirements.iter() {
            if !self.label_of(claim, pool, option, requirement.key()).meets(requirement) {
                self.blame(&subject, format!("doesn't meet {requirement}"));
            }
        }
        for pod in pods {
            self.may_run_as(pod, &subject, claim, pool, option, &lasting);
        }
        let room = of_type.allocatable_by(&option.offering);
        let used = sum(pods.iter().copied()).plus(&self.daemons_on(claim, pool, option, &lasting));
        if !used.fits(&room) {
            self.blame(&subject, format!("{used} are more than {room}"));
        }
    }

    fn may_run_as(
        &mut self,
        pod: &Pod,
        subject: &str,
        claim: &PlannedNodeClaim,
        pool: &NodePool,
        option: &InstanceOption,
        lasting: &[&Taint],
    ) {
        if let Some(taint) = hard_taint(pod, lasting.iter().copied()) {
            self.blame(format!("Pod/{}", pod.name), format!("is in {subject} in spite of taint {taint}"));
        }
        let holds = node_constraints_hold(pod, |wanted| {
            if wanted.key() == HOSTNAME {
                return !wanted.is_enumerated() && wanted.has("some-other-name");
            }
            let label = self.label_of(claim, pool, option, wanted.key());
            !label.is_contradiction() && label.implies(wanted)
        });
        if !holds {
            self.blame(
                format!("Pod/{}", pod.name),
                format!("isn't sure to have its affinity met by {subject}"),
            );
        }
    }

    /// What a label will be on the machine: what type and offering say, else what the claim says (the operator writes it),
    /// within what the claim requires; else it is absent.
    fn label_of(
        &self,
        claim: &PlannedNodeClaim,
        pool: &NodePool,
        option: &InstanceOption,
        key: &str,
    ) -> Requirement {
        let of_type = option.instance_type.requirements.get(key);
        let offered = option.offering.requirements.get(key);
        let claimed = claim.requirements.get(key);
        let by_machine = match (of_type, offered) {
            (Some(a), Some(b)) => Some(a.intersection(b)),
            (a, b) => a.or(b).cloned(),
        };
        let written = pool.labels.contains_key(key)
            || (pool.requirements.contains_key(key) && !self.is_decided_by_types(pool, key));
        match (by_machine, claimed) {
            (Some(machine), Some(claimed)) => machine.intersection(claimed),
            (Some(machine), None) => machine,
            (None, Some(claimed)) if written => claimed.clone(),
            (None, _) => Requirement::does_not_exist(key),
        }
    }

    fn is_decided_by_types(&self, pool: &NodePool, key: &str) -> bool {
        let types = self.input.instance_types.get(&pool.name).into_iter().flatten();
        karpenter_capi_model::label::well_known().contains(key)
            || self.input.well_known_labels.contains(key)
            || types.into_iter().any(|of_type| {
                of_type.requirements.contains_key(key)
                    || of_type.offerings.iter().any(|offering| offering.requirements.contains_key(key))
            })
    }

    fn daemons_on(
        &self,
        claim: &PlannedNodeClaim,
        pool: &NodePool,
        option: &InstanceOption,
        lasting: &[&Taint],
    ) -> Resources {
        let will_run = self.input.daemon_pods.iter().filter(|daemon| {
            hard_taint(daemon, pool.taints.iter().chain(lasting.iter().copied())).is_none()
                && node_constraints_hold(daemon, |wanted| {
                    let label = self.label_of(claim, pool, option, wanted.key());
                    label.implies(wanted) || (wanted.key() == HOSTNAME && !wanted.is_enumerated())
                })
        });
        sum(will_run.map(|daemon| &**daemon))
    }

    /// Limits hold for what will be launched.
    pub(super) fn limits(&mut self) {
        let mut added: BTreeMap<&str, (i64, Resources)> = BTreeMap::new();
        for claim in &self.plan.node_claims {
            let entry = added.entry(&claim.node_pool).or_default();
            entry.0 += 1;
            if let Some(chosen) = claim.chosen() {
                entry.1.add(&chosen.instance_type.capacity);
            }
        }
        let pools = &self.input.node_pools;
        for (name, (nodes, capacity)) in added {
            let Some(pool) = pools.iter().find(|pool| pool.name == name) else {
                continue;
            };
            if let Some(exceeded) = pool.limits.exceeded(&pool.usage, &capacity) {
                self.blame(format!("NodePool/{name}"), exceeded.to_string());
            }
            if let Some(limit) =
                pool.node_limit.filter(|limit| pool.node_count.saturating_add(nodes) > *limit)
            {
                self.blame(
                    format!("NodePool/{name}"),
                    format!("{nodes} more nodes pass the limit of {limit}"),
                );
            }
        }
    }

    /// No MachineDeployment is asked for more machines than it may add, over all NodePools together.
    pub(super) fn headroom(&mut self) {
        let mut asked: BTreeMap<String, (i64, Option<i64>)> = BTreeMap::new();
        for chosen in self.plan.node_claims.iter().filter_map(PlannedNodeClaim::chosen) {
            let of_type = &chosen.instance_type;
            let owner =
                of_type.machine_deployment.as_ref().map_or_else(|| of_type.name.clone(), ToString::to_string);
            let entry = asked.entry(owner).or_insert((0, of_type.headroom));
            entry.0 += 1;
            entry.1 = entry.1.min(of_type.headroom).or(of_type.headroom).or(entry.1);
        }
        for (owner, (machines, headroom)) in asked {
            if let Some(headroom) = headroom.filter(|headroom| machines > *headroom) {
                self.blame(
                    format!("MachineDeployment/{owner}"),
                    format!("{machines} machines asked, {headroom} may be added"),
                );
            }
        }
    }
}
