//! A complete answer: what to make, what fits where it is, and why the rest has no place.

use karpenter_capi_model::{
    instance_type::{InstanceType, Offering},
    name::NamespacedName,
    reason::ReasonCode,
    requirements::Requirements,
    resources::Resources,
};
use std::fmt;
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
    pub options: InstanceOptions,
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

/// Instance types in an order of preference: some of a table that claims of one NodePool share, as each may list hundreds.
#[derive(Clone, Default)]
pub struct InstanceOptions {
    table: Arc<[InstanceOption]>,
    chosen: Vec<u32>,
}

impl InstanceOptions {
    /// Those of the table with these indices, in this order; what is outside is left out.
    pub fn new(table: Arc<[InstanceOption]>, chosen: impl IntoIterator<Item = usize>) -> Self {
        let chosen = chosen.into_iter().filter(|index| *index < table.len());
        let chosen = chosen.filter_map(|index| u32::try_from(index).ok()).collect();
        Self { table, chosen }
    }

    /// The options in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &InstanceOption> + Clone {
        self.chosen.iter().map(|index| &self.table[*index as usize])
    }

    /// The option to launch.
    pub fn first(&self) -> Option<&InstanceOption> {
        self.iter().next()
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.chosen.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }
}

impl FromIterator<InstanceOption> for InstanceOptions {
    fn from_iter<I: IntoIterator<Item = InstanceOption>>(iter: I) -> Self {
        let table: Arc<[InstanceOption]> = iter.into_iter().collect();
        let all = 0..table.len();
        Self::new(table, all)
    }
}

impl<'a> IntoIterator for &'a InstanceOptions {
    type Item = &'a InstanceOption;
    type IntoIter = Box<dyn Iterator<Item = &'a InstanceOption> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

impl PartialEq for InstanceOptions {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for InstanceOptions {}

impl fmt::Debug for InstanceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
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
