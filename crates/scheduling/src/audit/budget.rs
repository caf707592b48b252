//! What claims take together: limits of NodePools, maximum sizes, reservations.

use super::Auditor;
use crate::plan::{Plan, PlannedNodeClaim};
use karpenter_capi_model::instance_type::{InstanceType, Offering};
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::resources::Resources;
use std::collections::{BTreeMap, BTreeSet};

/// What claims of the plan take if each becomes the largest of its options, and comes from each MachineDeployment that it lists.
pub(super) struct Taken<'a> {
    /// Claims, and the sum of their largest capacities.
    by_pool: BTreeMap<&'a str, (i64, Resources)>,
    by_maker: BTreeMap<String, i64>,
}

impl<'a> Taken<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        let mut taken = Self { by_pool: BTreeMap::new(), by_maker: BTreeMap::new() };
        for claim in &plan.node_claims {
            let capacities = claim.options.iter().map(|option| &option.instance_type.capacity);
            let largest = capacities.fold(Resources::ZERO, |most, capacity| most.max(capacity));
            let of_pool = taken.by_pool.entry(&claim.node_pool).or_default();
            *of_pool = (of_pool.0 + 1, of_pool.1.plus(&largest));
            let makers: BTreeSet<String> =
                claim.options.iter().map(|option| maker(&option.instance_type)).collect();
            for maker in makers {
                *taken.by_maker.entry(maker).or_default() += 1;
            }
        }
        taken
    }
}

impl Auditor<'_> {
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
            let entry = asked.entry(maker(of_type)).or_insert((0, of_type.headroom));
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

    /// No reservation is promised to more claims than it has places. A claim that lists it under any option was promised it.
    pub(super) fn reservations(&mut self) {
        let mut promised: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for claim in &self.plan.node_claims {
            let mut own: BTreeMap<String, i64> = BTreeMap::new();
            for option in &claim.options {
                if let Some(places) = option.offering.reservation_capacity {
                    let least = own
                        .entry(self.reservation(&option.instance_type, &option.offering))
                        .or_insert(places);
                    *least = places.min(*least);
                }
            }
            for (id, places) in own {
                let entry = promised.entry(id).or_insert((0, places));
                *entry = (entry.0 + 1, entry.1.min(places));
            }
        }
        for (id, (claims, places)) in promised {
            if claims > places {
                self.blame(
                    format!("Reservation/{id}"),
                    format!("is promised to {claims} claims, {places} places are left"),
                );
            }
        }
    }

    /// Whether an offering has a place left beside the claims that were promised one; always where it is no reservation.
    pub(super) fn reservation_allows_one_more(&self, of_type: &InstanceType, offering: &Offering) -> bool {
        let Some(places) = offering.reservation_capacity else {
            return true;
        };
        let id = self.reservation(of_type, offering);
        let holds = |claim: &&PlannedNodeClaim| {
            claim.options.iter().any(|option| {
                option.offering.reservation_capacity.is_some()
                    && self.reservation(&option.instance_type, &option.offering) == id
            })
        };
        let promised = self.plan.node_claims.iter().filter(holds).count();
        i64::try_from(promised).is_ok_and(|promised| promised < places)
    }

    /// A reservation's identifier; where the offering has none, it is a reservation of its own.
    fn reservation(&self, of_type: &InstanceType, offering: &Offering) -> String {
        let named = offering.requirements.get(&self.input.reservation_id_label);
        match named.and_then(Requirement::single_value) {
            Some(id) => id.to_owned(),
            None => format!("{} {}", of_type.name, offering.requirements),
        }
    }

    /// Whether the pool's limits let it have one more machine of this type, even if each claim of the plan became the largest
    /// of its options.
    pub(super) fn limits_allow_one_more(&self, pool: &NodePool, of_type: &InstanceType) -> bool {
        let (claims, largest) = self.taken.by_pool.get(pool.name.as_str()).cloned().unwrap_or_default();
        let nodes = pool.node_count.saturating_add(claims).saturating_add(1);
        pool.limits.exceeded(&pool.usage, &largest.plus(&of_type.capacity)).is_none()
            && pool.node_limit.is_none_or(|limit| nodes <= limit)
    }

    /// Whether the type's MachineDeployment may add one more machine, even if each claim that lists it took one.
    pub(super) fn headroom_allows_one_more(&self, of_type: &InstanceType) -> bool {
        let asked = || self.taken.by_maker.get(&maker(of_type)).copied().unwrap_or(0);
        of_type.headroom.is_none_or(|headroom| asked() < headroom)
    }
}

/// Who makes machines of the type.
fn maker(of_type: &InstanceType) -> String {
    of_type.machine_deployment.as_ref().map_or_else(|| of_type.name.clone(), ToString::to_string)
}
