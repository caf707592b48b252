//! Clocks, the heap, and what many runs come to.

use crate::HEAP;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Milliseconds on the wall and of the processor.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Time {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
}

impl Time {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { wall: self.wall + other.wall, cpu: self.cpu + other.cpu }
    }
}

/// Runs something and takes its time.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Time) {
    let (wall, cpu) = (Instant::now(), processor_time());
    let result = work();
    let time =
        Time { wall: milliseconds(wall.elapsed()), cpu: milliseconds(processor_time().saturating_sub(cpu)) };
    (result, time)
}

/// Of the whole process, which has one thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Least and middle of several runs.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Spread {
    pub(crate) least: Time,
    pub(crate) median: Time,
}

impl Spread {
    pub(crate) fn of(runs: &[Time]) -> Self {
        let part = |pick: fn(&Time) -> f64| {
            let mut sorted: Vec<f64> = runs.iter().map(pick).collect();
            sorted.sort_by(f64::total_cmp);
            let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
            (at(0), at(sorted.len() / 2))
        };
        let (wall, cpu) = (part(|time| time.wall), part(|time| time.cpu));
        Self { least: Time { wall: wall.0, cpu: cpu.0 }, median: Time { wall: wall.1, cpu: cpu.1 } }
    }
}

/// How many allocations something makes.
pub(crate) fn allocations<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    let result = work();
    let change = region.change();
    (result, change.allocations + change.reallocations)
}

/// Bytes on the heap now.
pub(crate) fn heap() -> usize {
    HEAP.allocated()
}

/// How much something adds to the heap at its height.
pub(crate) fn rise<T>(work: impl FnOnce() -> T) -> (T, usize) {
    // The allocator knows its height since the process began. Room that nobody touches raises the level to it, so that whatever
    // comes on top is seen.
    let room: Vec<u8> = Vec::with_capacity(HEAP.max_allocated().saturating_sub(heap()));
    let level = heap();
    let result = work();
    let risen = HEAP.max_allocated().saturating_sub(level);
    drop(black_box(room));
    (result, risen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_and_median_are_taken_of_wall_and_processor_apart() {
        let runs = [(3.0, 1.0), (1.0, 9.0), (2.0, 5.0)].map(|(wall, cpu)| Time { wall, cpu });
        let spread = Spread::of(&runs);
        let bits = |time: Time| (time.wall.to_bits(), time.cpu.to_bits());
        assert_eq!(bits(spread.least), (1.0_f64.to_bits(), 1.0_f64.to_bits()));
        assert_eq!(bits(spread.median), (2.0_f64.to_bits(), 5.0_f64.to_bits()));
    }

    #[test]
    fn allocations_and_the_height_of_the_heap_are_seen() {
        // Tests run beside each other in one process, so there may be more, but not less.
        drop(black_box(vec![0_u8; 1 << 23]));
        let ((list, made), risen) = rise(|| allocations(|| vec![0_u8; 1 << 22]));
        assert!(made >= 1 && risen >= list.len() && heap() >= list.len());
    }
}
