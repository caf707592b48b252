//! Instance types and offerings: what a MachineDeployment promises.

use crate::name::NamespacedName;
use crate::price::Price;
use crate::reason::UnavailableReason;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::taint::Taint;

/// A kind of machine with the places and prices it can be had at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// Unique within one solve. The name of the type as nodes carry it is the requirement on
    /// `node.kubernetes.io/instance-type`; two MachineDeployments may make the same type.
    pub name: String,
    /// The MachineDeployment that makes it. None in documents that know no Cluster API.
    pub machine_deployment: Option<NamespacedName>,
    /// What its nodes' labels are or may be.
    pub requirements: Requirements,
    /// Taints that nodes carry besides the NodePool's (from the MachineDeployment).
    pub taints: Vec<Taint>,
    /// Whole capacity.
    pub capacity: Resources,
    /// Kube-reserved, system-reserved and eviction threshold, summed; hugepages are taken off memory by `allocatable`.
    pub overhead: Resources,
    /// Sorted by price (unknown last), then zone, then capacity type.
    pub offerings: Vec<Offering>,
    /// Machines that may still be added: maximum size − replicas; None is unlimited.
    pub headroom: Option<i64>,
    /// `karpenter.cluster.x-k8s.io/priority`: higher first among equal prices.
    pub priority: i32,
}

/// One way to get an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offering {
    /// Zone, capacity type, reservation and whatever else distinguishes it.
    pub requirements: Requirements,
    /// None is unknown: after all known ones, and never a saving.
    pub price: Option<Price>,
    /// Why it can't be had now; None when it can.
    pub unavailable: Option<UnavailableReason>,
    /// Places left in a reservation; None where it isn't one.
    pub reservation_capacity: Option<i64>,
    /// Resources that replace the type's capacity key by key.
    pub capacity_override: Option<Resources>,
    /// Resources that replace the type's overhead key by key.
    pub overhead_override: Option<Resources>,
}
