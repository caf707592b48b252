//! Instance types and offerings: what a MachineDeployment promises.

use crate::name::NamespacedName;
use crate::price::Price;
use crate::reason::UnavailableReason;
use crate::requirements::Requirements;
use crate::resources::{ResourceList, Resources};
use crate::taint::Taint;
use karpenter_capi_api::names::labels;
use std::cmp::Ordering;

/// A kind of machine with the places and prices it can be had at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// Unique within one solve. The name of the type as nodes carry it is the requirement on
    /// `node.kubernetes.io/instance-type`; two MachineDeployments may make the same type.
    pub name: String,
    /// The MachineDeployment that makes it. None in documents that know no Cluster API.
    pub machine_deployment: Option<NamespacedName>,
    /// What its nodes' labels are or may be. A key that isn't here is a label that its nodes lack, unless the NodePool sets it.
    pub requirements: Requirements,
    /// Taints that nodes carry besides the NodePool's (from the MachineDeployment).
    pub taints: Vec<Taint>,
    /// Whole capacity.
    pub capacity: Resources,
    /// Kube-reserved, system-reserved and eviction threshold, summed; hugepages are taken off memory by `allocatable`.
    pub overhead: Resources,
    /// Sorted by price (unknown last), then zone, then capacity type: see [`InstanceType::sort_offerings`].
    pub offerings: Vec<Offering>,
    /// Machines that may still be added: maximum size − replicas; None is unlimited. Shared by all NodePools.
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
    pub capacity_override: Option<ResourceList>,
    /// Resources that replace the type's overhead key by key.
    pub overhead_override: Option<ResourceList>,
}

impl InstanceType {
    /// What pods and DaemonSets may use of a machine, without regard to offerings' overrides.
    pub fn allocatable(&self) -> Resources {
        self.capacity.allocatable(&self.overhead)
    }

    /// What pods and DaemonSets may use of a machine got by this offering.
    pub fn allocatable_by(&self, offering: &Offering) -> Resources {
        let capacity = offering.capacity_override.as_ref().map(|list| self.capacity.overridden(list));
        let overhead = offering.overhead_override.as_ref().map(|list| self.overhead.overridden(list));
        capacity.as_ref().unwrap_or(&self.capacity).allocatable(overhead.as_ref().unwrap_or(&self.overhead))
    }

    /// What people call it: the MachineDeployment's name, or the type's where there is none.
    pub fn display_name(&self) -> &str {
        self.machine_deployment.as_ref().map_or(&self.name, |deployment| &deployment.name)
    }

    /// Puts the offerings into their order.
    pub fn sort_offerings(&mut self) {
        self.offerings.sort_by(Offering::order);
    }
}

impl Offering {
    /// The zone; empty where it has none, or several.
    pub fn zone(&self) -> &str {
        self.single(labels::TOPOLOGY_ZONE)
    }

    /// The capacity type; empty where it has none, or several.
    pub fn capacity_type(&self) -> &str {
        self.single(labels::CAPACITY_TYPE)
    }

    fn single(&self, key: &str) -> &str {
        self.requirements.get(key).and_then(crate::requirement::Requirement::single_value).unwrap_or("")
    }

    /// Whether it can be had now.
    pub const fn is_available(&self) -> bool {
        self.unavailable.is_none()
    }

    /// Cheaper first, an unknown price last; then zone, capacity type, and whatever else differs.
    pub fn order(a: &Self, b: &Self) -> Ordering {
        order_prices(a.price, b.price)
            .then_with(|| a.zone().cmp(b.zone()))
            .then_with(|| a.capacity_type().cmp(b.capacity_type()))
            .then_with(|| a.requirements.cmp(&b.requirements))
    }
}

/// Cheaper first, an unknown price last.
pub fn order_prices(a: Option<Price>, b: Option<Price>) -> Ordering {
    (a.is_none(), a).cmp(&(b.is_none(), b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirement::Requirement;
    use crate::resources::{CPU, MEMORY};

    fn offering(price: Option<i64>, zone: &str) -> Offering {
        Offering {
            requirements: [Requirement::one_of(labels::TOPOLOGY_ZONE, &[zone])].into_iter().collect(),
            price: price.map(Price),
            unavailable: None,
            reservation_capacity: None,
            capacity_override: None,
            overhead_override: None,
        }
    }

    #[test]
    fn offerings_without_a_price_come_after_all_that_have_one() {
        let mut sorted =
            [offering(None, "a"), offering(Some(9), "b"), offering(Some(9), "a"), offering(Some(1), "z")];
        sorted.sort_by(Offering::order);
        let zones: Vec<&str> = sorted.iter().map(Offering::zone).collect();
        assert_eq!(zones, ["z", "a", "b", "a"]);
        assert_eq!(sorted[3].price, None);
    }

    #[test]
    fn an_override_replaces_capacity_and_overhead_key_by_key() {
        let mut special = offering(None, "a");
        special.capacity_override = Some(ResourceList([("memory".into(), 4)].into()));
        special.overhead_override = Some(ResourceList([("cpu".into(), 0)].into()));
        let of_type = InstanceType {
            name: "t".to_owned(),
            machine_deployment: None,
            requirements: Requirements::new(),
            taints: Vec::new(),
            capacity: Resources::ZERO.with(CPU, 4000).with(MEMORY, 8),
            overhead: Resources::ZERO.with(CPU, 100).with(MEMORY, 1),
            offerings: Vec::new(),
            headroom: None,
            priority: 0,
        };
        assert_eq!(of_type.allocatable_by(&special), Resources::ZERO.with(CPU, 4000).with(MEMORY, 3));
        assert_eq!(of_type.allocatable(), Resources::ZERO.with(CPU, 3900).with(MEMORY, 7));
    }
}
