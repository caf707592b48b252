//! Median, 90th percentile and maximum.

use std::time::Duration;

use serde::Serialize;

/// What a series of durations comes to, in milliseconds..
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) count: usize,
    pub(crate) median: f64,
    pub(crate) p90: f64,
    pub(crate) max: f64,
}

/// By how much a duration is longer than another; negative when it is shorter. In milliseconds.
pub(crate) fn beyond(duration: Duration, other: Duration) -> f64 {
    milliseconds(duration) - milliseconds(other)
}

/// A duration in milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// The summary of at least one value. A percentile is the nearest rank: the smallest value that so many of all don't exceed.
pub(crate) fn summary(values: &[f64]) -> Option<Summary> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).max(1) - 1).copied();
    Some(Summary { count: sorted.len(), median: rank(50)?, p90: rank(90)?, max: rank(100)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        let summary = summary(&values).unwrap();
        // Of twenty values ten don't exceed the 10th, eighteen the 18th.
        assert_eq!((summary.count, summary.median, summary.p90, summary.max), (20, 10.0, 18.0, 20.0));
    }

    #[test]
    fn one_value_is_all_of_them_and_no_value_is_none() {
        let one = summary(&[7.5]).unwrap();
        assert_eq!((one.median, one.p90, one.max), (7.5, 7.5, 7.5));
        assert_eq!(summary(&[]), None);
    }

    #[test]
    fn a_duration_below_the_other_counts_negative() {
        assert!((beyond(Duration::from_millis(990), Duration::from_secs(1)) + 10.0).abs() < 1e-9);
    }
}
