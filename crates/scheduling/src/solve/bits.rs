//! Sets of small numbers.

use fixedbitset::FixedBitSet;

/// A set of numbers below a bound that is given when it is made. Sets that are combined have the same bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Bits(FixedBitSet);

impl Bits {
    pub(super) fn empty(bound: usize) -> Self {
        Self(FixedBitSet::with_capacity(bound))
    }

    pub(super) fn of(bound: usize, numbers: impl IntoIterator<Item = usize>) -> Self {
        let mut bits = Self::empty(bound);
        numbers.into_iter().for_each(|number| bits.insert(number));
        bits
    }

    pub(super) fn insert(&mut self, number: usize) {
        self.0.insert(number);
    }

    pub(super) fn remove(&mut self, number: usize) {
        self.0.remove(number);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let gone: Vec<usize> = self.iter().filter(|number| !keep(*number)).collect();
        for number in gone {
            self.remove(number);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        self.0.contains(number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_clear()
    }

    pub(super) fn count(&self) -> usize {
        self.0.count_ones(..)
    }

    /// The smallest number.
    pub(super) fn first(&self) -> Option<usize> {
        self.0.minimum()
    }

    /// The smallest number that is in the other, too.
    pub(super) fn first_common(&self, other: &Self) -> Option<usize> {
        self.0.intersection(&other.0).next()
    }

    pub(super) fn intersects(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// Ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.ones()
    }

    /// Makes this a copy of the other, in the memory that it has.
    pub(super) fn copy(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }

    /// Keeps what is in the other, too.
    pub(super) fn keep(&mut self, other: &Self) {
        self.0.intersect_with(&other.0);
    }

    /// Takes away what is in the other.
    pub(super) fn drop_all(&mut self, other: &Self) {
        self.0.difference_with(&other.0);
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        self.0.union_with(&other.0);
    }
}
