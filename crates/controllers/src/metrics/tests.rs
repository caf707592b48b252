use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_capi_api::v1::NodeClaim;
use kube::Resource;
use prometheus::Registry;
use prometheus::proto::{MetricFamily, MetricType};
use serde_json::json;

use super::register::{DURATION_BUCKETS, RECONCILE_BUCKETS};
use super::*;

const COUNTER: MetricType = MetricType::COUNTER;
const GAUGE: MetricType = MetricType::GAUGE;
const HISTOGRAM: MetricType = MetricType::HISTOGRAM;

/// Upstream Karpenter's and controller-runtime's names, types and labels, then ours. Upstream has
/// `karpenter_nodes_termination_duration_seconds` as a summary.
const TABLE: &[(&str, MetricType, &[&str])] = &[
    ("karpenter_build_info", GAUGE, &["version", "goversion", "goarch", "commit"]),
    ("karpenter_cluster_state_node_count", GAUGE, &[]),
    ("karpenter_cluster_state_synced", GAUGE, &[]),
    ("karpenter_cluster_state_unsynced_time_seconds", GAUGE, &[]),
    ("karpenter_nodeclaims_created_total", COUNTER, &["reason", "nodepool", "min_values_relaxed"]),
    (
        "karpenter_nodeclaims_disrupted_total",
        COUNTER,
        &["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"],
    ),
    ("karpenter_nodeclaims_terminated_total", COUNTER, &["nodepool", "capacity_type", "zone"]),
    ("karpenter_nodeclaims_termination_duration_seconds", HISTOGRAM, &["nodepool"]),
    ("karpenter_nodepools_limit", GAUGE, &["resource_type", "nodepool"]),
    ("karpenter_nodepools_usage", GAUGE, &["resource_type", "nodepool"]),
    ("karpenter_nodes_created_total", COUNTER, &["nodepool", "zone"]),
    ("karpenter_nodes_drained_total", COUNTER, &["nodepool"]),
    ("karpenter_nodes_terminated_total", COUNTER, &["nodepool", "zone"]),
    ("karpenter_nodes_termination_duration_seconds", HISTOGRAM, &["nodepool"]),
    ("karpenter_pods_drained_total", COUNTER, &["reason"]),
    ("karpenter_pods_eviction_requests_total", COUNTER, &["code"]),
    ("karpenter_pods_scheduling_decision_duration_seconds", HISTOGRAM, &[]),
    ("karpenter_scheduler_ignored_pods_count", GAUGE, &[]),
    ("karpenter_scheduler_pending_pods_by_effective_zone_count", GAUGE, &["controller", "zone"]),
    ("karpenter_scheduler_queue_depth", GAUGE, &["controller", "scheduling_id"]),
    ("karpenter_scheduler_scheduling_duration_seconds", HISTOGRAM, &["controller"]),
    ("karpenter_scheduler_unfinished_work_seconds", GAUGE, &["controller", "scheduling_id"]),
    ("karpenter_scheduler_unschedulable_pods_count", GAUGE, &["controller"]),
    ("controller_runtime_reconcile_errors_total", COUNTER, &["controller"]),
    ("controller_runtime_reconcile_time_seconds", HISTOGRAM, &["controller"]),
    ("controller_runtime_reconcile_total", COUNTER, &["controller", "result"]),
    ("workqueue_depth", GAUGE, &["name"]),
    ("karpenter_capi_machine_deployment_claims", GAUGE, &["namespace", "machine_deployment"]),
    ("karpenter_capi_machine_deployment_replicas", GAUGE, &["namespace", "machine_deployment"]),
    ("karpenter_capi_machine_deployment_unavailable", GAUGE, &["namespace", "machine_deployment", "reason"]),
    ("karpenter_capi_reconcile_failing", GAUGE, &["controller"]),
    ("karpenter_capi_watch_errors_total", COUNTER, &["kind"]),
    ("karpenter_capi_watch_failing", GAUGE, &["kind"]),
    ("karpenter_capi_workload_cluster_foreign", GAUGE, &[]),
];

fn claim(pool: &str) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": format!("{pool}-abcde"),
            "labels": {
                "karpenter.sh/nodepool": pool,
                "karpenter.sh/capacity-type": "spot",
                "topology.kubernetes.io/zone": "zone-a",
            },
            "annotations": { "karpenter.sh/nodeclaim-min-values-relaxed": "true" },
        },
        "spec": {
            "nodeClassRef": { "group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default" },
            "requirements": [],
        },
    }))
    .unwrap()
}

fn node(pool: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {
            "name": "node-1",
            "labels": { "karpenter.sh/nodepool": pool, "topology.kubernetes.io/zone": "zone-a" },
        },
    }))
    .unwrap()
}

fn deleted_since<K: Resource>(mut object: K, ago: SignedDuration) -> K {
    object.meta_mut().deletion_timestamp = Some(Time(Timestamp::now() - ago));
    object
}

/// Everything once.
fn exercise<'a>(
    metrics: &'a Metrics,
    pool: &str,
    deployment: &str,
    scheduling_id: &str,
) -> SchedulingRun<'a> {
    let claim = deleted_since(claim(pool), SignedDuration::from_secs(45));
    let node = deleted_since(node(pool), SignedDuration::from_secs(30));
    metrics.node_claim_created(&claim, "provisioned");
    metrics.node_claim_disrupted(&claim, "launch_timeout", "");
    metrics.node_claim_terminated(&claim);
    metrics.node_created(&node);
    metrics.node_drained(&node);
    metrics.node_terminated(&node);
    metrics.pod_drained("underutilized");
    metrics.eviction_requested(429);
    metrics.node_pool_resources(pool, [("cpu", 4.0), ("memory", 1e9)], [("cpu", 100.0)]);
    metrics.machine_deployment("capi", deployment, 3_u32, 2);
    metrics.machine_deployment_unavailable("capi", deployment, Some("MaxSize"));
    metrics.reconciled("nodeclaim.lifecycle", "success", Duration::from_millis(3));
    metrics.reconcile_failing("nodeclaim.lifecycle", 0);
    metrics.queue_depth("nodeclaim.lifecycle", 1);
    metrics.watch_failed("Machine");
    metrics.cluster_state_unsynced(Duration::from_secs(2));
    metrics.cluster_state_synced(7);
    metrics.ignored_pods(1);
    metrics.pending_pods_by_effective_zone("provisioner", &[("none".to_owned(), 1)].into());
    metrics.pod_decided(Duration::from_secs(1));
    metrics.scheduling_finished("provisioner", Duration::from_millis(20), 2);
    metrics.scheduling_started("provisioner", scheduling_id, 60)
}

fn family(registry: &Registry, name: &str) -> Option<MetricFamily> {
    registry.gather().into_iter().find(|family| family.name() == name)
}

/// The value of the one series of `name` that carries all of `labels`; the number of observations of a histogram.
fn value(registry: &Registry, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let family = family(registry, name)?;
    let mut found = family
        .get_metric()
        .iter()
        .filter(|series| labels.iter().all(|(label, value)| has(series, label, value)));
    let series = found.next()?;
    assert!(found.next().is_none(), "{name} has several series with {labels:?}");
    Some(match family.get_field_type() {
        MetricType::COUNTER => series.get_counter().get_value(),
        MetricType::GAUGE => series.get_gauge().get_value(),
        MetricType::HISTOGRAM => f64::from(u32::try_from(series.get_histogram().get_sample_count()).unwrap()),
        other => panic!("{name} is a {other:?}"),
    })
}

fn series_count(registry: &Registry) -> usize {
    registry.gather().iter().map(|family| family.get_metric().len()).sum()
}

#[test]
fn names_types_and_labels_are_those_of_the_table() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    let _run = exercise(&metrics, "default", "small", "1");
    let gathered = registry.gather();
    let names: BTreeSet<_> = gathered.iter().map(MetricFamily::name).collect();
    let wanted: BTreeSet<_> = TABLE.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, wanted);
    for (name, kind, labels) in TABLE {
        let family = gathered.iter().find(|family| family.name() == *name).unwrap();
        assert_eq!(family.get_field_type(), *kind, "{name}");
        let series = family.get_metric().first().unwrap();
        let names: BTreeSet<_> = series.get_label().iter().map(prometheus::proto::LabelPair::name).collect();
        assert_eq!(names, labels.iter().copied().collect(), "{name}");
    }
}

#[test]
fn a_second_registration_in_one_registry_is_an_error() {
    let registry = Registry::new();
    let _metrics = Metrics::new(&registry).unwrap();
    assert!(Metrics::new(&registry).is_err());
}

#[test]
fn buckets_are_upstreams() {
    // 0.1 to 0.5 in steps of 0.05 and 0.6 to 1.0 in steps of 0.1, then ever wider up to ten minutes.
    assert_eq!(DURATION_BUCKETS.len(), 45);
    assert!(DURATION_BUCKETS.is_sorted());
    assert_eq!((DURATION_BUCKETS[0], DURATION_BUCKETS[44]), (0.005, 600.0));
    assert_eq!(RECONCILE_BUCKETS, &DURATION_BUCKETS[..40]);
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    metrics.node_terminated(&deleted_since(node("default"), SignedDuration::from_secs(30)));
    let family = family(&registry, "karpenter_nodes_termination_duration_seconds").unwrap();
    let histogram = family.get_metric()[0].get_histogram();
    let below = |bound: f64| {
        let bucket = histogram.get_bucket().iter().find(|bucket| bucket.upper_bound() >= bound);
        bucket.unwrap().cumulative_count()
    };
    assert_eq!((below(25.0), below(40.0)), (0, 1));
}

#[test]
fn labels_come_from_the_object() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    let _run = exercise(&metrics, "default", "small", "1");
    let seen = |name: &str, labels: &[(&str, &str)]| value(&registry, name, labels);
    assert_eq!(
        seen(
            "karpenter_nodeclaims_created_total",
            &[("reason", "provisioned"), ("nodepool", "default"), ("min_values_relaxed", "true")]
        ),
        Some(1.0)
    );
    assert_eq!(
        seen(
            "karpenter_nodeclaims_terminated_total",
            &[("nodepool", "default"), ("capacity_type", "spot"), ("zone", "zone-a")]
        ),
        Some(1.0)
    );
    assert_eq!(
        seen("karpenter_nodes_terminated_total", &[("nodepool", "default"), ("zone", "zone-a")]),
        Some(1.0)
    );
}

#[test]
fn the_grace_period_gives_the_termination_mode() {
    for (period, mode) in [(None, "graceful"), (Some("1h"), "eventual"), (Some("0s"), "forceful")] {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        let mut claim = claim("default");
        claim.spec.termination_grace_period = period.map(Into::into);
        metrics.node_claim_disrupted(&claim, "expired", "WhenEmpty");
        let labels =
            [("termination_mode", mode), ("consolidation_policy", "WhenEmpty"), ("capacity_type", "spot")];
        assert_eq!(value(&registry, "karpenter_nodeclaims_disrupted_total", &labels), Some(1.0));
    }
}

#[test]
fn series_of_objects_that_come_and_go_do_not_pile_up() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    drop(exercise(&metrics, "stays", "stays", "0"));
    let before = series_count(&registry);
    for number in 0..500 {
        let name = format!("passes-{number}");
        let run = exercise(&metrics, &name, &name, &name);
        run.progress(1, Duration::from_secs(1));
        drop(run);
        metrics.forget_node_pool(&name);
        metrics.forget_machine_deployment("capi", &name);
    }
    assert_eq!(series_count(&registry), before);
    assert_eq!(value(&registry, "karpenter_nodepools_limit", &[("nodepool", "stays")]), Some(100.0));
}

#[test]
fn a_limit_that_is_taken_away_ends() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    metrics.node_pool_resources("a", [("cpu", 1.0)], [("cpu", 10.0), ("memory", 20.0)]);
    metrics.node_pool_resources("b", [("cpu", 1.0)], [("memory", 30.0)]);
    metrics.node_pool_resources("a", [("cpu", 2.0)], [("cpu", 11.0)]);
    let limit = |pool, resource| {
        value(&registry, "karpenter_nodepools_limit", &[("nodepool", pool), ("resource_type", resource)])
    };
    assert_eq!(
        (limit("a", "cpu"), limit("a", "memory"), limit("b", "memory")),
        (Some(11.0), None, Some(30.0))
    );
    assert_eq!(value(&registry, "karpenter_nodepools_usage", &[("nodepool", "a")]), Some(2.0));
}

#[test]
fn a_machine_deployment_has_one_reason_at_a_time() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    let name = "karpenter_capi_machine_deployment_unavailable";
    let reason = |reason| value(&registry, name, &[("reason", reason), ("machine_deployment", "small")]);
    metrics.machine_deployment_unavailable("capi", "other", Some("Paused"));
    metrics.machine_deployment_unavailable("capi", "small", Some("MaxSize"));
    assert_eq!((reason("MaxSize"), reason("Paused")), (Some(1.0), None));
    metrics.machine_deployment_unavailable("capi", "small", Some("Paused"));
    assert_eq!((reason("MaxSize"), reason("Paused")), (None, Some(1.0)));
    metrics.machine_deployment_unavailable("capi", "small", None);
    assert_eq!((reason("MaxSize"), reason("Paused")), (None, None));
    assert_eq!(value(&registry, name, &[("machine_deployment", "other")]), Some(1.0));
}

#[test]
fn a_lasting_failure_keeps_its_gauge_up_however_rarely_it_is_tried() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    let kind = [("kind", "Machine")];
    metrics.watch_recovered("Machine");
    assert_eq!(value(&registry, "karpenter_capi_watch_errors_total", &kind), Some(0.0));
    metrics.watch_failed("Machine");
    metrics.reconcile_failing("node", 3);
    assert_eq!(value(&registry, "karpenter_capi_watch_failing", &kind), Some(1.0));
    assert_eq!(value(&registry, "karpenter_capi_reconcile_failing", &[("controller", "node")]), Some(3.0));
    metrics.watch_recovered("Machine");
    metrics.reconcile_failing("node", 0);
    assert_eq!(value(&registry, "karpenter_capi_watch_failing", &kind), Some(0.0));
    assert_eq!(value(&registry, "karpenter_capi_watch_errors_total", &kind), Some(1.0));
    assert_eq!(value(&registry, "karpenter_capi_reconcile_failing", &[("controller", "node")]), Some(0.0));
}

#[test]
fn errors_count_as_reconciles_too() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    metrics.reconciled("node", "success", Duration::ZERO);
    assert_eq!(value(&registry, "controller_runtime_reconcile_errors_total", &[]), Some(0.0));
    metrics.reconciled("node", "error", Duration::ZERO);
    assert_eq!(value(&registry, "controller_runtime_reconcile_errors_total", &[]), Some(1.0));
    assert_eq!(value(&registry, "controller_runtime_reconcile_total", &[("result", "error")]), Some(1.0));
    assert_eq!(value(&registry, "controller_runtime_reconcile_time_seconds", &[]), Some(2.0));
}

#[test]
fn gauges_that_mirror_objects_can_be_hidden() {
    let registry = Registry::new();
    let metrics = Metrics::with_state_series(&registry, StateSeries::Hidden).unwrap();
    let _run = exercise(&metrics, "default", "small", "1");
    let names: BTreeSet<_> = registry.gather().iter().map(|family| family.name().to_owned()).collect();
    assert!(!names.iter().any(|name| name.contains("nodepools_") || name.contains("machine_deployment_")));
    assert!(names.contains("karpenter_nodeclaims_created_total"));
}

#[test]
fn the_documentation_names_every_metric_with_its_type_and_labels() {
    let page = include_str!("../../../../docs/metrics.md");
    for (name, kind, labels) in TABLE {
        let kind = format!("{kind:?}").to_lowercase();
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        let row = format!("| `{name}` | {kind} | {}", labels.join(", "));
        assert!(
            page.lines().any(|line| line.starts_with(&row)),
            "docs/metrics.md has no row that begins with {row}"
        );
    }
}

#[test]
fn a_zone_for_which_nobody_waits_any_more_has_no_series() {
    const NAME: &str = "karpenter_scheduler_pending_pods_by_effective_zone_count";
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    metrics.pending_pods_by_effective_zone("disruption", &[("z1".to_owned(), 9)].into());
    metrics.pending_pods_by_effective_zone(
        "provisioner",
        &[("z1".to_owned(), 2), ("flexible".to_owned(), 1)].into(),
    );
    let of = |zone: &str| value(&registry, NAME, &[("controller", "provisioner"), ("zone", zone)]);
    assert_eq!((of("z1"), of("flexible")), (Some(2.0), Some(1.0)));
    metrics.pending_pods_by_effective_zone("provisioner", &[("flexible".to_owned(), 3)].into());
    assert_eq!((of("z1"), of("flexible")), (None, Some(3.0)));
    assert_eq!(value(&registry, NAME, &[("controller", "disruption"), ("zone", "z1")]), Some(9.0));
}
