//! What is told of the operator itself: reconciles, queues, watches, and the picture of the cluster that it has.

use std::time::Duration;

use prometheus::{Error, Gauge, GaugeVec, HistogramVec, IntCounterVec};

use super::Metrics;
use super::register::{RECONCILE_BUCKETS, Register, count};

pub(super) struct RunningSeries {
    reconciles: IntCounterVec,
    reconcile_errors: IntCounterVec,
    reconcile_time: HistogramVec,
    failing: GaugeVec,
    queue_depth: GaugeVec,
    watch_errors: IntCounterVec,
    watch_failing: GaugeVec,
    nodes: Gauge,
    synced: Gauge,
    unsynced_time: Gauge,
}

impl RunningSeries {
    pub(super) fn new(register: Register<'_>) -> Result<Self, Error> {
        Ok(Self {
            reconciles: register.counters(
                "controller_runtime_reconcile_total",
                "Total number of reconciliations per controller.",
                &["controller", "result"],
            )?,
            reconcile_errors: register.counters(
                "controller_runtime_reconcile_errors_total",
                "Total number of reconciliation errors per controller.",
                &["controller"],
            )?,
            reconcile_time: register.histograms(
                "controller_runtime_reconcile_time_seconds",
                "Length of time per reconciliation per controller.",
                &["controller"],
                RECONCILE_BUCKETS,
            )?,
            failing: register.gauges(
                "karpenter_capi_reconcile_failing",
                "Number of objects whose last reconciliation failed; it stays up for as long as they fail, however rarely they are tried.",
                &["controller"],
            )?,
            queue_depth: register.gauges(
                "workqueue_depth",
                "Current depth of workqueue.",
                &["name"],
            )?,
            watch_errors: register.counters(
                "karpenter_capi_watch_errors_total",
                "Number of times that a watch or its list failed, by kind.",
                &["kind"],
            )?,
            watch_failing: register.gauges(
                "karpenter_capi_watch_failing",
                "1 while a kind can't be listed or watched, else 0.",
                &["kind"],
            )?,
            nodes: register.gauge(
                "karpenter_cluster_state_node_count",
                "Current count of nodes in cluster state.",
            )?,
            synced: register.gauge(
                "karpenter_cluster_state_synced",
                "Returns 1 if cluster state is synced and 0 otherwise. Synced checks that nodeclaims and nodes that are stored in the APIServer have the same representation as Karpenter's cluster state.",
            )?,
            unsynced_time: register.gauge(
                "karpenter_cluster_state_unsynced_time_seconds",
                "The time for which cluster state is not synced.",
            )?,
        })
    }
}

impl Metrics {
    /// A reconcile has ended: `success`, `requeue`, `requeue_after` or `error`, controller-runtime's words.
    pub fn reconciled(&self, controller: &str, result: &str, took: Duration) {
        let series = &self.running;
        series.reconciles.with_label_values(&[controller, result]).inc();
        // Without an error yet the counter stands at 0, so that an alert on its rate sees the first one.
        let errors = series.reconcile_errors.with_label_values(&[controller]);
        if result == "error" {
            errors.inc();
        }
        series.reconcile_time.with_label_values(&[controller]).observe(took.as_secs_f64());
    }

    /// How many objects' last reconcile failed. Unlike a counter's rate it doesn't fall while the tries become rarer.
    pub fn reconcile_failing(&self, controller: &str, objects: usize) {
        self.running.failing.with_label_values(&[controller]).set(count(objects));
    }

    /// How many keys wait in a work queue.
    pub fn queue_depth(&self, name: &str, depth: usize) {
        self.running.queue_depth.with_label_values(&[name]).set(count(depth));
    }

    /// A watch of a kind, or its list, failed. It counts as failing until [`Metrics::watch_recovered`].
    pub fn watch_failed(&self, kind: &str) {
        self.running.watch_errors.with_label_values(&[kind]).inc();
        self.running.watch_failing.with_label_values(&[kind]).set(1.0);
    }

    /// A kind was listed, or an event of it came.
    pub fn watch_recovered(&self, kind: &str) {
        self.running.watch_errors.with_label_values(&[kind]);
        self.running.watch_failing.with_label_values(&[kind]).set(0.0);
    }

    /// The picture of the cluster is complete and has so many nodes.
    pub fn cluster_state_synced(&self, nodes: usize) {
        self.running.nodes.set(count(nodes));
        self.running.synced.set(1.0);
        self.running.unsynced_time.set(0.0);
    }

    /// The picture of the cluster has been incomplete for so long.
    pub fn cluster_state_unsynced(&self, since: Duration) {
        self.running.synced.set(0.0);
        self.running.unsynced_time.set(since.as_secs_f64());
    }
}
