//! When how many objects of a kind had reached a state: a pure record of what a watch has shown.

use std::collections::BTreeMap;
use std::time::Instant;

/// Counts what each object contributes. An object's contribution only grows: what was reached once stays reached.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    objects: BTreeMap<String, u32>,
    total: u32,
    rises: Vec<(u32, Instant)>,
}

impl Counter {
    /// An object, named by its UID, contributes this much at that time.
    pub(crate) fn see(&mut self, uid: &str, amount: u32, at: Instant) {
        let before = self.objects.get(uid).copied().unwrap_or_default();
        if amount > before {
            self.objects.insert(uid.to_owned(), amount);
            self.total += amount - before;
            self.rises.push((self.total, at));
        }
    }

    /// What all have contributed so far.
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// When the total had first come that far.
    pub(crate) fn reached(&self, total: u32) -> Option<Instant> {
        let first = self.rises.partition_point(|(so_far, _)| *so_far < total);
        self.rises.get(first).map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_total_is_reached_at_the_event_that_brings_it_there() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut counter = Counter::default();
        counter.see("a", 1, at(1));
        counter.see("a", 1, at(2));
        counter.see("b", 3, at(3));
        counter.see("b", 2, at(4));
        counter.see("a", 2, at(5));
        assert_eq!(counter.total(), 5);
        assert_eq!(counter.reached(1), Some(at(1)));
        assert_eq!(counter.reached(2), Some(at(3)), "three at once bring it beyond");
        assert_eq!(counter.reached(5), Some(at(5)), "a contribution that shrinks doesn't count");
        assert_eq!(counter.reached(6), None);
    }
}
