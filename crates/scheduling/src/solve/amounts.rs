//! Resources as rows of numbers, and which slots of a NodePool have room for a row.

use super::bits::Bits;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::resources::{CPU, MEMORY, PODS, Resources};
use std::collections::BTreeSet;

/// The resources that pending pods ask for: what no pod asks for can't run short.
pub(super) struct Axes(Vec<String>);

impl Axes {
    pub(super) fn of<'a>(pods: impl Iterator<Item = &'a Pod>) -> Self {
        let mut names: BTreeSet<String> = [CPU, MEMORY, PODS].map(str::to_owned).into();
        for pod in pods {
            for (name, _) in pod.requests.iter() {
                if !names.contains(name) {
                    names.insert(name.to_owned());
                }
            }
        }
        Self(names.into_iter().collect())
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn row(&self, resources: &Resources) -> Vec<i64> {
        self.0.iter().map(|name| resources.get(name)).collect()
    }
}

/// Whether everything asked for is there.
pub(super) fn fits(asked: &[i64], left: &[i64]) -> bool {
    asked.iter().zip(left).all(|(asked, left)| asked <= left)
}

/// For each resource the slots by how much room they have, so that those with room enough are found without looking at each.
pub(super) struct FitTable {
    axes: Vec<Axis>,
}

struct Axis {
    /// Ascending, without duplicates.
    amounts: Vec<i64>,
    /// For each amount the slots with at least so much.
    at_least: Vec<Bits>,
}

impl FitTable {
    /// `rooms` has a row for each slot.
    pub(super) fn new(rooms: &[Vec<i64>], axes: usize) -> Self {
        Self { axes: (0..axes).map(|axis| Axis::new(rooms, axis)).collect() }
    }

    /// Takes the slots away that have no room for `used` and `more` together.
    pub(super) fn keep_fitting(&self, slots: &mut Bits, used: &[i64], more: &[i64]) {
        for ((axis, used), more) in self.axes.iter().zip(used).zip(more) {
            match axis.at_least(used.saturating_add(*more)) {
                Some(fitting) => slots.keep(fitting),
                None => slots.clear(),
            }
        }
    }

    /// Takes the slots away that have more than so much of one resource.
    pub(super) fn drop_above(&self, axis: usize, amount: i64, slots: &mut Bits) {
        let axis = &self.axes[axis];
        if let Some(above) = axis.at_least.get(axis.amounts.partition_point(|own| *own <= amount)) {
            slots.drop_all(above);
        }
    }

    /// The most of each resource that one of the slots has.
    pub(super) fn most(&self, slots: &Bits, most: &mut [i64]) {
        for (axis, most) in self.axes.iter().zip(most) {
            *most = axis.most(slots);
        }
    }
}

impl Axis {
    fn new(rooms: &[Vec<i64>], axis: usize) -> Self {
        let mut amounts: Vec<i64> = rooms.iter().map(|room| room[axis]).collect();
        amounts.sort_unstable();
        amounts.dedup();
        let mut order: Vec<usize> = (0..rooms.len()).collect();
        order.sort_unstable_by_key(|slot| std::cmp::Reverse(rooms[*slot][axis]));
        let mut at_least = Vec::with_capacity(amounts.len());
        let (mut slots, mut next) = (Bits::empty(rooms.len()), order.into_iter().peekable());
        for amount in amounts.iter().rev() {
            while let Some(slot) = next.next_if(|slot| rooms[*slot][axis] >= *amount) {
                slots.insert(slot);
            }
            at_least.push(slots.clone());
        }
        at_least.reverse();
        Self { amounts, at_least }
    }

    fn at_least(&self, amount: i64) -> Option<&Bits> {
        self.at_least.get(self.amounts.partition_point(|own| *own < amount))
    }

    fn most(&self, slots: &Bits) -> i64 {
        // Sets shrink with the amount, so the last that meets the slots can be found by halving.
        let met = self.at_least.partition_point(|at_least| at_least.intersects(slots));
        met.checked_sub(1).map_or(0, |index| self.amounts[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_found_by_the_room_that_they_have() {
        let rooms = vec![vec![4, 10], vec![2, 20], vec![8, 5], vec![2, 5]];
        let table = FitTable::new(&rooms, 2);
        let fitting = |used: [i64; 2], more: [i64; 2]| {
            let mut slots = Bits::of(4, 0..4);
            table.keep_fitting(&mut slots, &used, &more);
            slots.iter().collect::<Vec<_>>()
        };
        assert_eq!(fitting([0, 0], [2, 5]), [0, 1, 2, 3]);
        assert_eq!(fitting([2, 5], [1, 0]), [0, 2]);
        assert_eq!(fitting([1, 9], [1, 1]), [0, 1]);
        assert_eq!(fitting([0, 0], [9, 0]), Vec::<usize>::new());
    }

    #[test]
    fn the_most_is_that_of_the_slots_that_are_left() {
        let table = FitTable::new(&[vec![4, 10], vec![2, 20], vec![8, 5]], 2);
        let most = |slots: &[usize]| {
            let mut most = [0; 2];
            table.most(&Bits::of(3, slots.iter().copied()), &mut most);
            most
        };
        assert_eq!((most(&[0, 1]), most(&[1]), most(&[0, 1, 2])), ([4, 20], [2, 20], [8, 20]));
    }
}
