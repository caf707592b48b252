//! Making and registering families, and ending series.

use std::collections::HashMap;

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::proto::Metric;
use prometheus::{
    Error, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry,
};

/// Upstream's buckets for durations, in seconds.
pub(super) const DURATION_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
];

/// Buckets of controller-runtime for a reconcile, in seconds.
pub(super) const RECONCILE_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

/// Where families are registered, if anywhere.
#[derive(Clone, Copy)]
pub(super) struct Register<'a> {
    registry: Option<&'a Registry>,
}

impl<'a> Register<'a> {
    pub(super) fn new(registry: &'a Registry) -> Self {
        Self { registry: Some(registry) }
    }

    pub(super) fn unregistered() -> Self {
        Self { registry: None }
    }

    pub(super) fn counters(self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        self.registered(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn gauges(self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, Error> {
        self.registered(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn gauge(self, name: &str, help: &str) -> Result<Gauge, Error> {
        self.registered(Gauge::new(name, help)?)
    }

    pub(super) fn histograms(
        self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: &[f64],
    ) -> Result<HistogramVec, Error> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.registered(HistogramVec::new(options, labels)?)
    }

    pub(super) fn histogram(self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, Error> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.registered(Histogram::with_opts(options)?)
    }

    fn registered<C: Collector + Clone + 'static>(self, collector: C) -> Result<C, Error> {
        if let Some(registry) = self.registry {
            registry.register(Box::new(collector.clone()))?;
        }
        Ok(collector)
    }
}

/// Whether a series carries `label` with `value`.
pub(super) fn has(series: &Metric, label: &str, value: &str) -> bool {
    series.get_label().iter().any(|pair| pair.name() == label && pair.value() == value)
}

/// Ends every series of `family` that `ends` says yes to.
pub(super) fn forget<T>(family: &MetricVec<T>, ends: impl Fn(&Metric) -> bool)
where
    T: MetricVecBuilder,
    MetricVec<T>: Collector,
{
    for collected in family.collect() {
        for series in collected.get_metric().iter().filter(|series| ends(series)) {
            let labels: HashMap<&str, &str> =
                series.get_label().iter().map(|pair| (pair.name(), pair.value())).collect();
            // It fails only if somebody else has ended the same series meanwhile.
            let _ = family.remove(&labels);
        }
    }
}

/// A count as a gauge's value; exact up to 2⁵³.
#[expect(clippy::cast_precision_loss, reason = "gauges are floats by the format; counts stay far below 2^53")]
pub(super) fn count(number: usize) -> f64 {
    number as f64
}
