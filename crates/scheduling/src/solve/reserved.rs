//! Reservations: capacity of which there is only so much, held by claims until they are launched.

use super::bits::Bits;
use super::template::{Slot, Template};
use karpenter_capi_model::instance_type::Offering;
use std::collections::BTreeMap;

/// Places left in each reservation, shared by all NodePools and all claims of one solve.
///
/// As upstream, a claim holds a place in every reservation that could still serve it, since nobody knows which one it will get;
/// what a further pod excludes is free again.
#[derive(Default)]
pub(super) struct Reservations<'a> {
    key: &'a str,
    index: BTreeMap<&'a str, usize>,
    names: Vec<&'a str>,
    left: Vec<i64>,
}

impl<'a> Reservations<'a> {
    pub(super) fn new(key: &'a str) -> Self {
        Self { key, ..Self::default() }
    }

    /// The reservation of an offering; None where it isn't reserved. Of several figures for one reservation the least counts.
    pub(super) fn register(&mut self, offering: &'a Offering) -> Option<usize> {
        let capacity = offering.reservation_capacity?;
        let name = offering.requirements.get(self.key).and_then(|own| own.single_value()).unwrap_or("");
        let next = self.left.len();
        let index = if name.is_empty() { next } else { *self.index.entry(name).or_insert(next) };
        if let Some(left) = self.left.get_mut(index) {
            *left = capacity.min(*left);
        } else {
            self.left.push(capacity);
            self.names.push(name);
        }
        Some(index)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The label that tells reservations apart.
    pub(super) const fn key(&self) -> &'a str {
        self.key
    }

    pub(super) fn name(&self, index: usize) -> &'a str {
        self.names[index]
    }

    /// Takes the reserved slots away of which a claim that holds `held` couldn't get one.
    pub(super) fn keep_free(&self, slots: &mut Bits, reserved: &Bits, all: &[Slot], held: &[usize]) {
        let mut gone = reserved.clone();
        gone.keep(slots);
        for slot in gone.iter() {
            let free = |index: usize| self.left[index] > 0 || held.contains(&index);
            if !all[slot].reservation.is_some_and(free) {
                slots.remove(slot);
            }
        }
    }

    /// Lets a claim hold what its slots stand for, and nothing else any more.
    pub(super) fn hold(&mut self, held: &mut Vec<usize>, slots: &Bits, template: &Template<'_>) {
        if self.is_empty() {
            return;
        }
        let mut reserved = slots.clone();
        reserved.keep(&template.reserved);
        let mut wanted: Vec<usize> =
            reserved.iter().filter_map(|slot| template.slots[slot].reservation).collect();
        wanted.sort_unstable();
        wanted.dedup();
        for index in held.iter().filter(|index| !wanted.contains(index)) {
            self.left[*index] += 1;
        }
        for index in wanted.iter().filter(|index| !held.contains(index)) {
            self.left[*index] -= 1;
        }
        *held = wanted;
    }
}
