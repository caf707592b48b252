//! A complete answer: what to make, what fits where it is, and why the rest has no place.

use karpenter_capi_model::{
    instance_type::{InstanceType, Offering},
    name::NamespacedName,
    reason::ReasonCode,
    requirements::Requirements,
    resources::Resources,
};
use std::sync::Arc;

/// The plan; lists are in the order of decision, stable for equal inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Claims to make.
    pub node_claims: Vec<PlannedNodeClaim>,
    /// Pods that fit on existing nodes or are nominated to claims in flight; by node name.
    pub placements: Vec<Placement>,
    /// Pods without a place.
    pub pending: Vec<PendingPod>,
    /// What a person should know and that stops nothing.
    pub warnings: Vec<Warning>,
}

/// A claim that doesn't exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedNodeClaim {
    /// The NodePool.
    pub node_pool: String,
    /// All scheduling requirements, as they go into the claim.
    pub requirements: Requirements,
    /// Requests of the pods and the DaemonSets, `pods` included.
    pub requests: Resources,
    /// The DaemonSets' part of `requests`.
    pub daemon_requests: Resources,
    /// Pods, in the order in which they were placed.
    pub pods: Vec<NamespacedName>,
    /// Every instance type with an offering that would serve, cheapest first; never empty.
    pub options: Vec<InstanceOption>,
    /// `minValues` was relaxed (`BestEffort`).
    pub min_values_relaxed: bool,
}

impl PlannedNodeClaim {
    /// The option to launch: the cheapest.
    pub fn chosen(&self) -> Option<&InstanceOption> {
        self.options.first()
    }
}

/// An instance type and the offering of it that would serve best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceOption {
    /// The type.
    pub instance_type: Arc<InstanceType>,
    /// The cheapest available compatible offering.
    pub offering: Offering,
}

/// Pods on existing capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// `Input::nodes[..].name`.
    pub node: String,
    /// Whether the node is a claim in flight.
    pub in_flight: bool,
    /// Pods in the order in which they were placed.
    pub pods: Vec<NamespacedName>,
}

/// A pod without a place, with one reason for each NodePool and MachineDeployment, and for existing nodes where that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPod {
    /// The pod.
    pub pod: NamespacedName,
    /// Never empty; sorted by NodePool in order of trial, then instance type.
    pub reasons: Vec<PendingReason>,
}

/// The first constraint that failed for one NodePool and, where it was looked at, one instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReason {
    /// None: the pod itself can't be placed by anybody.
    pub node_pool: Option<String>,
    /// None: the NodePool as a whole, or an instance type that no MachineDeployment makes.
    pub machine_deployment: Option<NamespacedName>,
    /// `InstanceType::name`. None: the NodePool as a whole.
    pub instance_type: Option<String>,
    /// The typed reason.
    pub code: ReasonCode,
    /// One sentence with the figures: `cpu: needs 9, m1 has 4`.
    pub message: String,
    /// The smallest change that would have got the pod past this constraint: `request at most 4 cpu`. None where nothing that a
    /// person could change would help.
    pub remedy: Option<String>,
}

/// What a person should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// `Kind/name` or `Kind/namespace/name`.
    pub object: String,
    /// One sentence.
    pub message: String,
}
