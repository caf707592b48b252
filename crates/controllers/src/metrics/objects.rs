//! What is told of NodeClaims, Nodes and pods.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_capi_api::names::{annotations, labels};
use karpenter_capi_api::v1::NodeClaim;
use kube::Resource;
use prometheus::{Error, HistogramVec, IntCounterVec};

use super::register::{DURATION_BUCKETS, Register, forget};
use super::{Metrics, has};

const POOL: &[&str] = &["nodepool"];

pub(super) struct ObjectSeries {
    claims_created: IntCounterVec,
    claims_disrupted: IntCounterVec,
    claims_terminated: IntCounterVec,
    claims_termination: HistogramVec,
    nodes_created: IntCounterVec,
    nodes_drained: IntCounterVec,
    nodes_terminated: IntCounterVec,
    nodes_termination: HistogramVec,
    pods_drained: IntCounterVec,
    evictions: IntCounterVec,
}

impl ObjectSeries {
    pub(super) fn new(register: Register<'_>) -> Result<Self, Error> {
        Ok(Self {
            claims_created: register.counters(
                "karpenter_nodeclaims_created_total",
                "Number of nodeclaims created in total by Karpenter. Labeled by reason the nodeclaim was created, the owning nodepool, and if min values was relaxed.",
                &["reason", "nodepool", "min_values_relaxed"],
            )?,
            claims_disrupted: register.counters(
                "karpenter_nodeclaims_disrupted_total",
                "Number of nodeclaims disrupted in total by Karpenter.",
                &["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"],
            )?,
            claims_terminated: register.counters(
                "karpenter_nodeclaims_terminated_total",
                "Number of nodeclaims terminated in total by Karpenter.",
                &["nodepool", "capacity_type", "zone"],
            )?,
            claims_termination: register.histograms(
                "karpenter_nodeclaims_termination_duration_seconds",
                "Duration of NodeClaim termination in seconds.",
                POOL,
                DURATION_BUCKETS,
            )?,
            nodes_created: register.counters(
                "karpenter_nodes_created_total",
                "Number of nodes created in total by Karpenter.",
                &["nodepool", "zone"],
            )?,
            nodes_drained: register.counters(
                "karpenter_nodes_drained_total",
                "The total number of nodes drained by Karpenter.",
                POOL,
            )?,
            nodes_terminated: register.counters(
                "karpenter_nodes_terminated_total",
                "Number of nodes terminated in total by Karpenter.",
                &["nodepool", "zone"],
            )?,
            nodes_termination: register.histograms(
                "karpenter_nodes_termination_duration_seconds",
                "The time taken between a node's deletion request and the removal of its finalizer.",
                POOL,
                DURATION_BUCKETS,
            )?,
            pods_drained: register.counters(
                "karpenter_pods_drained_total",
                "The total number of pods drained during node termination by Karpenter.",
                &["reason"],
            )?,
            evictions: register.counters(
                "karpenter_pods_eviction_requests_total",
                "The total number of eviction requests made by Karpenter, labeled by the HTTP status code of the answer.",
                &["code"],
            )?,
        })
    }

    pub(super) fn forget_node_pool(&self, node_pool: &str) {
        let counters = [
            &self.claims_created,
            &self.claims_disrupted,
            &self.claims_terminated,
            &self.nodes_created,
            &self.nodes_drained,
            &self.nodes_terminated,
        ];
        for family in counters {
            forget(family, |series| has(series, "nodepool", node_pool));
        }
        for family in [&self.claims_termination, &self.nodes_termination] {
            forget(family, |series| has(series, "nodepool", node_pool));
        }
    }
}

impl Metrics {
    /// A NodeClaim was created; `reason` is `provisioned` where pods asked for it.
    pub fn node_claim_created(&self, claim: &NodeClaim, reason: &str) {
        let relaxed = annotation(claim, annotations::NODECLAIM_MIN_VALUES_RELAXED) == "true";
        let relaxed = if relaxed { "true" } else { "false" };
        let values = [reason, label(claim, labels::NODEPOOL), relaxed];
        self.objects.claims_created.with_label_values(&values).inc();
    }

    /// Karpenter has decided that a NodeClaim goes: `underutilized`, `empty`, `drifted`, `expired`, `unhealthy`, `insufficient_capacity`,
    /// `nodeclass_not_ready`, `launch_timeout`, `registration_timeout`, `garbage_collected`. `consolidation_policy` is that
    /// of the NodePool, empty where it has no part in it.
    pub fn node_claim_disrupted(&self, claim: &NodeClaim, reason: &str, consolidation_policy: &str) {
        let values = [
            reason,
            label(claim, labels::NODEPOOL),
            label(claim, labels::CAPACITY_TYPE),
            consolidation_policy,
            termination_mode(claim),
        ];
        self.objects.claims_disrupted.with_label_values(&values).inc();
    }

    /// A NodeClaim is gone: its finalizer was taken off. Observes how long that took since its deletion was asked for.
    pub fn node_claim_terminated(&self, claim: &NodeClaim) {
        let pool = label(claim, labels::NODEPOOL);
        let values = [pool, label(claim, labels::CAPACITY_TYPE), label(claim, labels::TOPOLOGY_ZONE)];
        self.objects.claims_terminated.with_label_values(&values).inc();
        if let Some(seconds) = seconds_since_deletion(claim, Timestamp::now()) {
            self.objects.claims_termination.with_label_values(&[pool]).observe(seconds);
        }
    }

    /// A Node of ours has registered.
    pub fn node_created(&self, node: &Node) {
        let values = [label(node, labels::NODEPOOL), label(node, labels::TOPOLOGY_ZONE)];
        self.objects.nodes_created.with_label_values(&values).inc();
    }

    /// A Node has no pod left that has to be waited for.
    pub fn node_drained(&self, node: &Node) {
        let values = [label(node, labels::NODEPOOL)];
        self.objects.nodes_drained.with_label_values(&values).inc();
    }

    /// A Node is gone: its finalizer was taken off. Observes how long that took since its deletion was asked for.
    pub fn node_terminated(&self, node: &Node) {
        let pool = label(node, labels::NODEPOOL);
        let values = [pool, label(node, labels::TOPOLOGY_ZONE)];
        self.objects.nodes_terminated.with_label_values(&values).inc();
        if let Some(seconds) = seconds_since_deletion(node, Timestamp::now()) {
            self.objects.nodes_termination.with_label_values(&[pool]).observe(seconds);
        }
    }

    /// A pod has left a Node that is drained; `reason` is why the Node goes.
    pub fn pod_drained(&self, reason: &str) {
        self.objects.pods_drained.with_label_values(&[reason]).inc();
    }

    /// An eviction was asked for and answered with this HTTP status code.
    pub fn eviction_requested(&self, code: u16) {
        let code = code.to_string();
        self.objects.evictions.with_label_values(&[code.as_str()]).inc();
    }
}

fn label<'a>(object: &'a impl Resource, key: &str) -> &'a str {
    let labels = object.meta().labels.as_ref();
    labels.and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

fn annotation<'a>(object: &'a impl Resource, key: &str) -> &'a str {
    let annotations = object.meta().annotations.as_ref();
    annotations.and_then(|all| all.get(key)).map_or("", String::as_str)
}

/// Upstream's word for what a `terminationGracePeriod` means: none waits for the pods (`graceful`), a positive one for so long
/// (`eventual`), zero doesn't wait (`forceful`).
fn termination_mode(claim: &NodeClaim) -> &'static str {
    let period = claim.spec.termination_grace_period.as_ref();
    match period.and_then(|period| period.parse().ok()) {
        None => "graceful",
        Some(length) if length.is_positive() => "eventual",
        Some(_) => "forceful",
    }
}

/// Seconds since the deletion was asked for; none if it wasn't. A clock that runs behind the API server's gives 0.
fn seconds_since_deletion(object: &impl Resource, now: Timestamp) -> Option<f64> {
    let deleted = object.meta().deletion_timestamp.as_ref()?.0;
    Some(now.duration_since(deleted).as_secs_f64().max(0.0))
}
