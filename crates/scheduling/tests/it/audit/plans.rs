//! Plans written by hand, and what audit says of them.

use crate::support::*;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_scheduling::audit;
use karpenter_capi_scheduling::plan::{
    InstanceOption, PendingPod, PendingReason, Placement, Plan, PlannedNodeClaim,
};

/// A plan for a world, in which each pod is of namespace `default`.
pub(super) struct Hand<'w> {
    world: &'w World,
    pub(super) plan: Plan,
}

/// An empty plan.
pub(super) fn by_hand(world: &World) -> Hand<'_> {
    Hand { world, plan: Plan::default() }
}

fn names(pods: &[&str]) -> Vec<NamespacedName> {
    pods.iter().map(|pod| NamespacedName::new("default", *pod)).collect()
}

impl Hand<'_> {
    /// A claim of pool `p` that may become each of these types, the first of which is launched.
    pub(super) fn claim(self, types: &[&str], pods: &[&str]) -> Self {
        self.claim_of("p", types, pods)
    }

    pub(super) fn claim_of(mut self, pool: &str, types: &[&str], pods: &[&str]) -> Self {
        let input = &self.world.0;
        let of_pool = input.node_pools.iter().find(|own| own.name == pool).unwrap();
        let options = types.iter().map(|name| {
            let of_type = input.instance_types[pool].iter().find(|of_type| of_type.name == *name).unwrap();
            InstanceOption { instance_type: of_type.clone(), offering: of_type.offerings[0].clone() }
        });
        let pods = names(pods);
        let of_pods = input.pods.iter().filter(|pod| pods.contains(&pod.name));
        self.plan.node_claims.push(PlannedNodeClaim {
            node_pool: pool.to_owned(),
            requirements: of_pool.requirements.clone(),
            requests: of_pods.fold(Resources::ZERO, |sum, pod| sum.plus(&pod.requests)),
            daemon_requests: Resources::ZERO,
            options: options.collect(),
            pods,
            min_values_relaxed: false,
        });
        self
    }

    /// The claim added last asks for this value, and DaemonSets take this of it.
    pub(super) fn asking(mut self, key: &str, value: &str) -> Self {
        let claim = self.plan.node_claims.last_mut().unwrap();
        claim.requirements.add(Requirement::one_of(key, &[value]));
        self
    }

    /// What DaemonSets take of the claim added last.
    pub(super) fn with_daemons(mut self, amounts: &str) -> Self {
        let claim = self.plan.node_claims.last_mut().unwrap();
        claim.daemon_requests = resources(amounts);
        claim.requests = claim.requests.plus(&claim.daemon_requests);
        self
    }

    /// Pods on an existing node.
    pub(super) fn on(mut self, node: &str, pods: &[&str]) -> Self {
        self.plan.placements.push(Placement { node: node.to_owned(), in_flight: false, pods: names(pods) });
        self
    }

    /// A pod without a place, for a reason of pool `p` and perhaps one of its types.
    pub(super) fn pending(mut self, pod: &str, code: ReasonCode, of_type: Option<&str>) -> Self {
        let pool = self.world.0.node_pools.first().map(|pool| pool.name.clone());
        let reason = PendingReason {
            machine_deployment: of_type.map(|name| NamespacedName::new("default", name)),
            instance_type: of_type.map(str::to_owned),
            node_pool: pool,
            code,
            message: "words".to_owned(),
            remedy: None,
        };
        let pod = names(&[pod]).remove(0);
        self.plan.pending.push(PendingPod { pod, reasons: vec![reason] });
        self
    }

    /// `subject: message` of every violation.
    pub(super) fn audit(&self) -> Vec<String> {
        let violations = audit(&self.world.0, &self.plan);
        violations.iter().map(|one| format!("{}: {}", one.subject, one.message)).collect()
    }

    /// Asserts that nothing is wrong.
    #[track_caller]
    pub(super) fn is_right(&self) {
        assert_eq!(self.audit(), Vec::<String>::new());
    }

    /// Asserts that one thing is wrong, and that this is part of how it is told.
    #[track_caller]
    pub(super) fn is_wrong(&self, words: &str) {
        let found = self.audit();
        assert!(found.len() == 1 && found[0].contains(words), "{found:#?}");
    }
}
