//! Capacity that exists or is on its way: a Node, a NodeClaim, or both seen as one.

use crate::instance_type::InstanceType;
use crate::name::NamespacedName;
use crate::price::Price;
use crate::resources::Resources;
use crate::taint::Taint;
use jiff::Timestamp;
use std::collections::BTreeMap;

mod from_api;

pub use from_api::{Sources, from_api};

/// A node as scheduling sees it: the Node where it is trustworthy, the NodeClaim's promise until then
/// (labels and taints until Registered, capacity until Initialized).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and any combination happens")]
pub struct Node {
    /// The Node's name; the NodeClaim's name while there is no Node.
    pub name: String,
    /// The NodeClaim's name, where it has one.
    pub node_claim: Option<String>,
    /// Whether a Node object exists.
    pub has_node: bool,
    /// The NodePool, where it has one.
    pub node_pool: Option<String>,
    /// The assigned MachineDeployment.
    pub machine_deployment: Option<NamespacedName>,
    /// `spec.providerID`.
    pub provider_id: Option<String>,
    /// Labels as scheduling sees them. For a claim in flight these include what its MachineDeployment promises.
    pub labels: BTreeMap<String, String>,
    /// Taints that count (ephemeral and startup taints are left out until Initialized).
    pub taints: Vec<Taint>,
    /// Whole capacity.
    pub capacity: Resources,
    /// What pods may use.
    pub allocatable: Resources,
    /// A NodeClaim of ours, Initialized, or a Node that we don't manage.
    pub initialized: bool,
    /// Being deleted or disrupted: no capacity, and its pods want a new place.
    pub marked_for_deletion: bool,
    /// Node condition Ready=True.
    pub ready: bool,
    /// The offering's price, where known.
    pub price: Option<Price>,
    /// When it was made.
    pub created: Option<Timestamp>,
}

impl Node {
    /// Whether a NodeClaim stands behind it.
    pub const fn is_managed(&self) -> bool {
        self.node_claim.is_some()
    }

    /// Whether the capacity of the node is like what the type promises, so that its allocatable says something about the
    /// machines that the type will give: made by the same MachineDeployment, as many processors, memory no more than a tenth
    /// below. A machine of an older template, of another size, says nothing.
    pub fn is_like(&self, instance_type: &InstanceType) -> bool {
        let promised = &instance_type.capacity;
        self.machine_deployment.is_some()
            && self.machine_deployment == instance_type.machine_deployment
            && self.capacity.cpu() == promised.cpu()
            && self.capacity.memory() <= promised.memory()
            && self.capacity.memory() >= promised.memory() / 10 * 9
    }
}
