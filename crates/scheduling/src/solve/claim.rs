//! Claims that are being filled.
//!
//! A claim keeps every instance type that could still serve its pods; more pods narrow them. The cheapest is what will be
//! launched. What that means for scarce things:
//! * *Headroom* (maximum size of a MachineDeployment) is held for the cheapest type only. When a pod that joins moves the claim
//!   to another MachineDeployment, that one must have room, else the pod can't join; the first one's room is free again.
//!   A type without room at the time drops out of the claim.
//! * *Limits* of the NodePool are charged when the claim is opened, with the most of each resource that any of its types has,
//!   as upstream does: whatever the claim becomes, the limit holds. `limits.nodes` is charged with one.
//! * *Reservations* are held for every type that might use one.

use super::bits::Bits;
use super::min_values;
use super::states::{State, StateId};
use super::template::Template;
use crate::input::Options;
use crate::plan::{InstanceOption, InstanceOptions, PlannedNodeClaim};
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::label::{CAPACITY_TYPE, restricted};
use karpenter_capi_model::pod::{HostPort, Pod};
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::Resources;
use std::sync::Arc;

/// The value of the capacity type of reservations.
const RESERVED: &str = "reserved";

/// A claim opened in this solve.
pub(super) struct Claim<'a> {
    pub(super) state: StateId,
    /// Slots that serve; never empty.
    pub(super) slots: Bits,
    /// Reservations that it holds a place in.
    pub(super) held: Vec<usize>,
    /// Host ports of its pods.
    pub(super) ports: Vec<&'a HostPort>,
    /// What will count a pod of it once it is known in which domain it is: for each pod, whether a repulsion, and which.
    pub(super) unsettled: Vec<(bool, usize)>,
    /// Its pods, by their position in the queue, in the order in which they were placed.
    pub(super) pods: Vec<u32>,
    pub(super) turn: Turn,
}

/// When a claim is tried: those with fewest pods first. Among claims with one pod the oldest is first, among others the one that got its
/// last pod last; so it comes about upstream, by sorting the same list again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pods: u32,
    since: i64,
    /// Grows when the claim changes without getting a pod.
    changes: u32,
}

impl Turn {
    pub(super) const fn first(moment: i64) -> Self {
        Self { pods: 1, since: moment, changes: 0 }
    }

    pub(super) const fn next(self, moment: i64) -> Self {
        Self { pods: self.pods + 1, since: -moment, changes: 0 }
    }

    /// The turn of a claim that has changed without getting a pod: the same, but what was noted before is out of date.
    pub(super) const fn changed(self) -> Self {
        Self { changes: self.changes + 1, ..self }
    }
}

/// What claims have used and have left, by axis; in one piece each, as every pod looks at many.
pub(super) struct Rooms {
    axes: usize,
    used: Vec<i64>,
    left: Vec<i64>,
}

impl Rooms {
    pub(super) const fn new(axes: usize) -> Self {
        Self { axes, used: Vec::new(), left: Vec::new() }
    }

    pub(super) fn used(&self, claim: usize) -> &[i64] {
        &self.used[claim * self.axes..(claim + 1) * self.axes]
    }

    /// The most that one of the claim's slots has left.
    pub(super) fn left(&self, claim: usize) -> &[i64] {
        &self.left[claim * self.axes..(claim + 1) * self.axes]
    }

    pub(super) fn open(&mut self) {
        self.used.resize(self.used.len() + self.axes, 0);
        self.left.resize(self.left.len() + self.axes, 0);
    }

    /// Counts a pod, after which `slots` are left to the claim.
    pub(super) fn add(&mut self, claim: usize, requests: &[i64], template: &Template<'_>, slots: &Bits) {
        let range = claim * self.axes..(claim + 1) * self.axes;
        let (used, left) = (&mut self.used[range.clone()], &mut self.left[range]);
        used.iter_mut().zip(requests).for_each(|(used, more)| *used = used.saturating_add(*more));
        template.fit.most(slots, left);
        left.iter_mut().zip(used).for_each(|(left, used)| *left = left.saturating_sub(*used));
    }
}

/// The types of these slots, the best first.
pub(super) fn types<'a>(template: &Template<'a>, slots: &Bits) -> Vec<&'a InstanceType> {
    types_of(template, &template.best_of_each(slots))
}

/// The type of each slot.
fn types_of<'a>(template: &Template<'a>, slots: &[usize]) -> Vec<&'a InstanceType> {
    slots.iter().map(|slot| &**template.candidate(*slot).of_type).collect()
}

/// The finished claim. `kept`: the slots that it lists.
pub(super) fn planned(
    (claim, state, template): (&Claim<'_>, &State, &Template<'_>),
    kept: Vec<usize>,
    pods: &[&Pod],
    options: &Options,
    table: &Table,
    reservation: (&str, &dyn Fn(usize) -> String),
) -> PlannedNodeClaim {
    let mut requirements = state.requirements.clone();
    let mut relaxed = state.relaxed;
    if kept.iter().any(|slot| template.reserved.contains(*slot)) {
        pin_reserved(&mut requirements, template, &claim.slots, reservation);
        // A minimum is for the case that capacity runs out, which what is held can't. Other types don't count any more.
        let types = types_of(template, &kept);
        if min_values::select(&types, &requirements, options.max_instance_types).is_err() {
            requirements = min_values::relaxed(&types, &requirements, options.max_instance_types);
            relaxed = true;
        }
    }
    let mut daemons = kept.iter().map(|slot| &template.candidate(*slot).daemons);
    let first = daemons.next().cloned().unwrap_or_default();
    let daemon_requests =
        daemons.fold(first, |least, other| if *other == least { least } else { least.min(other) });
    requirements.retain_keys(|key| restricted(key).is_none());
    let own: Vec<&Pod> = claim.pods.iter().map(|pod| pods[*pod as usize]).collect();
    let requests = own.iter().fold(Resources::ZERO, |mut sum, pod| {
        sum.add(&pod.requests);
        sum
    });
    PlannedNodeClaim {
        node_pool: template.pool.name.clone(),
        requirements,
        requests: requests.plus(&daemon_requests),
        daemon_requests,
        pods: own.iter().map(|pod| pod.name.clone()).collect(),
        options: table.some(kept),
        min_values_relaxed: relaxed,
    }
}

/// The best slot of each type that the claim will list, the best first: reserved ones alone where it has some.
pub(super) fn kept(
    claim: &Claim<'_>,
    state: &State,
    template: &Template<'_>,
    options: &Options,
) -> Vec<usize> {
    let mut slots = claim.slots.clone();
    if slots.intersects(&template.reserved) {
        slots.keep(&template.reserved);
    }
    let best = template.best_of_each(&slots);
    let all = types_of(template, &best);
    let cap = options.max_instance_types.max(1);
    let kept = min_values::select(&all, &state.requirements, cap)
        .unwrap_or_else(|_| (0..all.len().min(cap)).collect());
    kept.into_iter().map(|index| best[index]).collect()
}

/// What holds places in reservations is launched there and nowhere else.
fn pin_reserved(
    requirements: &mut Requirements,
    template: &Template<'_>,
    slots: &Bits,
    (key, name): (&str, &dyn Fn(usize) -> String),
) {
    requirements.add(Requirement::one_of(CAPACITY_TYPE, &[RESERVED]));
    let names: Vec<String> =
        slots.iter().filter_map(|slot| template.slots[slot].reservation).map(name).collect();
    if !key.is_empty() {
        requirements.add(Requirement::one_of(key, &names));
    }
}

/// Slots that claims list, as options, and where each stands in the table.
pub(super) struct Table {
    options: Arc<[InstanceOption]>,
    /// By slot.
    index: Vec<u32>,
}

impl Table {
    pub(super) fn new(template: &Template<'_>, listed: &Bits) -> Self {
        let mut index = vec![0; template.slots.len()];
        for (place, slot) in (0..).zip(listed.iter()) {
            index[slot] = place;
        }
        let option = |slot| InstanceOption {
            instance_type: Arc::clone(template.candidate(slot).of_type),
            offering: template.offering(slot).clone(),
        };
        Self { options: listed.iter().map(option).collect(), index }
    }

    fn some(&self, slots: Vec<usize>) -> InstanceOptions {
        InstanceOptions::new(
            Arc::clone(&self.options),
            slots.into_iter().map(|slot| self.index[slot] as usize),
        )
    }
}
