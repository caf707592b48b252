//! Claims that are to be made, each as a whole; `options` looks at the ways to launch it.

use super::options::Machine;
use super::{Auditor, sum};
use crate::input::MinValuesPolicy;
use crate::plan::{InstanceOption, PlannedNodeClaim};
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::resources::Resources;
use std::collections::BTreeSet;

impl<'a> Auditor<'a> {
    pub(super) fn claims(&mut self) {
        let plan = self.plan;
        for (index, claim) in plan.node_claims.iter().enumerate() {
            let subject = subject(index, claim);
            let Some(pool) = self.pool(&claim.node_pool) else {
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
                self.volumes_can_be_read(pod);
            }
            self.requests(&subject, claim, pool, &sum(pods.iter().copied()));
            for option in &claim.options {
                self.option(&subject, &Machine::of_option(claim, pool, option), &pods);
            }
        }
    }

    pub(super) fn pool(&self, name: &str) -> Option<&'a NodePool> {
        self.input.node_pools.iter().find(|pool| pool.name == name)
    }

    /// The requests are those of the pods and the DaemonSets; and the DaemonSets' part lies, resource by resource, between the
    /// least and the most that they take under one of the options.
    fn requests(&mut self, subject: &str, claim: &PlannedNodeClaim, pool: &NodePool, pods: &Resources) {
        if claim.requests != pods.plus(&claim.daemon_requests) {
            self.blame(
                subject,
                format!("requests {} aren't those of its pods and DaemonSets", claim.requests),
            );
        }
        let of_daemons = claim
            .options
            .iter()
            .map(|option| sum(self.daemons_on(&Machine::of_option(claim, pool, option))))
            .collect::<Vec<_>>();
        let least = of_daemons.iter().cloned().reduce(|a, b| a.min(&b)).unwrap_or_default();
        let most = of_daemons.iter().cloned().reduce(|a, b| a.max(&b)).unwrap_or_default();
        let between = least.fits(&claim.daemon_requests) && claim.daemon_requests.fits(&most);
        if !between && !of_daemons.is_empty() {
            self.blame(
                subject,
                format!("says that DaemonSets take {}, they take {least} to {most}", claim.daemon_requests),
            );
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
        if !claim.options.iter().is_sorted_by_key(key) {
            self.blame(subject, "lists its instance types out of order");
        }
    }

    /// `minValues` holds over the options; only `BestEffort` and reservations may lower it, never below what there is, and the claim says so.
    fn min_values(&mut self, subject: &str, claim: &PlannedNodeClaim, pool: &NodePool) {
        // What is reserved is got, so that there is nothing to be flexible for.
        let reserved = claim.options.iter().all(|option| option.offering.reservation_capacity.is_some());
        let strict = self.input.options.min_values_policy == MinValuesPolicy::Strict;
        if claim.min_values_relaxed && strict && !reserved {
            self.blame(subject, "has minValues relaxed although the policy is Strict");
        }
        let in_pool = |key: &str| pool.requirements.get(key).and_then(Requirement::min_values);
        for own in pool.requirements.iter().filter(|own| own.min_values().is_some()) {
            let asked = claim.requirements.get(own.key()).and_then(Requirement::min_values);
            if asked != own.min_values() && !claim.min_values_relaxed {
                self.blame(subject, format!("{}: minValues was changed and isn't said to be", own.key()));
            }
        }
        for asked in claim.requirements.iter() {
            if asked.min_values() > in_pool(asked.key()) {
                self.blame(subject, format!("{}: minValues is more than the NodePool asks for", asked.key()));
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
}

/// How a claim that has no name yet is called.
pub(super) fn subject(index: usize, claim: &PlannedNodeClaim) -> String {
    format!("NodeClaim/{}-{index}", claim.node_pool)
}
