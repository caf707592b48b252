//! What is told of scheduling.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::{Error, Gauge, GaugeVec, Histogram, HistogramVec};

use super::Metrics;
use super::register::{DURATION_BUCKETS, Register, count, forget, has};

const RUN: &[&str] = &["controller", "scheduling_id"];

pub(super) struct SchedulingSeries {
    duration: HistogramVec,
    queue_depth: GaugeVec,
    unfinished: GaugeVec,
    unschedulable: GaugeVec,
    ignored: Gauge,
    zones: GaugeVec,
    decision: Histogram,
}

impl SchedulingSeries {
    pub(super) fn new(register: Register<'_>) -> Result<Self, Error> {
        Ok(Self {
            duration: register.histograms(
                "karpenter_scheduler_scheduling_duration_seconds",
                "Duration of scheduling simulations used for deprovisioning and provisioning in seconds.",
                &["controller"],
                DURATION_BUCKETS,
            )?,
            queue_depth: register.gauges(
                "karpenter_scheduler_queue_depth",
                "The number of pods currently waiting to be scheduled.",
                RUN,
            )?,
            unfinished: register.gauges(
                "karpenter_scheduler_unfinished_work_seconds",
                "How many seconds of work has been done that is in progress and hasn't been observed by scheduling_duration_seconds.",
                RUN,
            )?,
            unschedulable: register.gauges(
                "karpenter_scheduler_unschedulable_pods_count",
                "The number of unschedulable pods.",
                &["controller"],
            )?,
            ignored: register.gauge(
                "karpenter_scheduler_ignored_pods_count",
                "Number of pods ignored during scheduling by Karpenter.",
            )?,
            zones: register.gauges(
                "karpenter_scheduler_pending_pods_by_effective_zone_count",
                "The number of pending pods by the zone that is left to them: a zone's name, \"flexible\" or \"none\".",
                &["controller", "zone"],
            )?,
            decision: register.histogram(
                "karpenter_pods_scheduling_decision_duration_seconds",
                "The time it takes for Karpenter to first try to schedule a pod after it's been seen.",
                DURATION_BUCKETS,
            )?,
        })
    }
}

/// A simulation that is under way. Its series end when it is dropped, since `scheduling_id` is new each time.
pub struct SchedulingRun<'a> {
    series: &'a SchedulingSeries,
    labels: [String; 2],
    queue_depth: Gauge,
    unfinished: Gauge,
}

impl SchedulingRun<'_> {
    /// How many pods wait, and how long the simulation has been running.
    pub fn progress(&self, pods: usize, since: Duration) {
        self.queue_depth.set(count(pods));
        self.unfinished.set(since.as_secs_f64());
    }
}

impl Drop for SchedulingRun<'_> {
    fn drop(&mut self) {
        // They can only be gone already if the same identifier was used twice.
        let _ = self.series.queue_depth.remove_label_values(&self.labels);
        let _ = self.series.unfinished.remove_label_values(&self.labels);
    }
}

impl Metrics {
    /// A simulation begins, with so many pods.
    pub fn scheduling_started(
        &self,
        controller: &str,
        scheduling_id: &str,
        pods: usize,
    ) -> SchedulingRun<'_> {
        let series = &self.scheduling;
        let labels = [controller.to_owned(), scheduling_id.to_owned()];
        let run = SchedulingRun {
            queue_depth: series.queue_depth.with_label_values(&labels),
            unfinished: series.unfinished.with_label_values(&labels),
            series,
            labels,
        };
        run.progress(pods, Duration::ZERO);
        run
    }

    /// A simulation has ended: how long it took, and how many pods found no place.
    pub fn scheduling_finished(&self, controller: &str, took: Duration, unschedulable: usize) {
        let series = &self.scheduling;
        series.duration.with_label_values(&[controller]).observe(took.as_secs_f64());
        series.unschedulable.with_label_values(&[controller]).set(count(unschedulable));
    }

    /// How many pods are passed over, since they say something that can't be understood.
    pub fn ignored_pods(&self, pods: usize) {
        self.scheduling.ignored.set(count(pods));
    }

    /// How many pods wait, by the zone that is left to them; series of zones for which nobody waits any more end.
    pub fn pending_pods_by_effective_zone(&self, controller: &str, zones: &BTreeMap<String, usize>) {
        let series = &self.scheduling.zones;
        forget(series, |metric| {
            has(metric, "controller", controller) && !zones.keys().any(|zone| has(metric, "zone", zone))
        });
        for (zone, pods) in zones {
            series.with_label_values(&[controller, zone.as_str()]).set(count(*pods));
        }
    }

    /// A pod was first decided on so long after it was first seen.
    pub fn pod_decided(&self, after: Duration) {
        self.scheduling.decision.observe(after.as_secs_f64());
    }
}
