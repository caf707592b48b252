use super::*;
use karpenter_capi_model::instance_type::{InstanceType, Offering};
use karpenter_capi_model::node_pool::{self, NodePool, NodePoolState};
use karpenter_capi_model::price::Price;
use karpenter_capi_model::reason::{ReasonCode, UnavailableReason};
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::resources::Resources;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: &str = "2026-01-05T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn merge(base: &mut Value, patch: &Value) {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(base.entry(key.as_str()).or_insert(Value::Null), value);
            }
        }
        (base, patch) => *base = patch.clone(),
    }
}

/// A launched claim of pool `p`, a day old, that lives for ten.
fn claim(name: &str, patch: &Value) -> NodeClaim {
    let mut whole = json!({
        "metadata": {
            "name": name, "labels": {"karpenter.sh/nodepool": "p"}, "creationTimestamp": "2026-01-04T12:00:00Z"
        },
        "spec": {
            "requirements": [], "expireAfter": "240h",
            "nodeClassRef": {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "c"}
        },
        "status": {"providerID": format!("x://{name}"), "conditions": []}
    });
    merge(&mut whole, patch);
    serde_json::from_value(whole).unwrap()
}

fn is(condition: &str) -> Value {
    json!({"status": {"conditions": [
        {"type": condition, "status": "True", "lastTransitionTime": NOW, "reason": "x", "message": ""}
    ]}})
}

fn pod(patch: &Value) -> Pod {
    let mut whole = json!({"metadata": {"name": "pod"}, "spec": {"containers": []}});
    merge(&mut whole, patch);
    serde_json::from_value(whole).unwrap()
}

fn ordinary() -> Pod {
    pod(&json!({}))
}

fn protected() -> Pod {
    pod(&json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}))
}

fn daemon() -> Value {
    json!({"metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}
    ]}})
}

/// Names of the claims that go so that `replicas` stay.
fn going(replicas: i64, all: &[(NodeClaim, Vec<Pod>)]) -> Vec<&str> {
    let holders: Vec<Holder<'_>> =
        all.iter().map(|(claim, pods)| Holder { claim, pods: pods.iter().collect() }).collect();
    let chosen = surplus(replicas, &holders, now());
    chosen.into_iter().map(|claim| claim.metadata.name.as_deref().unwrap()).collect()
}

#[test]
fn what_is_missing_is_made_up_to_the_node_limit() {
    let running = |running| Count { running, ..Count::default() };
    for (replicas, limit, count, create, held_back) in [
        (3, None, running(1), 2, 0),
        (3, Some(2), running(1), 1, 1),
        (3, Some(0), running(0), 0, 3),
        (3, None, running(3), 0, 0),
        (1, None, running(3), 0, 0),
        // What is replaced stays until its successor is there, and no third one is made.
        (2, None, Count { running: 1, pending_disruption: 1, deleting: 0 }, 0, 0),
        // What goes still takes room.
        (2, Some(2), Count { running: 1, pending_disruption: 0, deleting: 1 }, 0, 1),
        (2, None, Count { running: 1, pending_disruption: 0, deleting: 1 }, 1, 0),
    ] {
        assert_eq!(
            missing(replicas, limit, count),
            Missing { create, held_back },
            "{replicas} {limit:?} {count:?}"
        );
    }
}

#[test]
fn claims_are_counted_by_what_becomes_of_them_and_others_are_not() {
    let stranger = json!({"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"}}});
    let all = [
        claim("a", &json!({})),
        claim("b", &is("DisruptionReason")),
        claim("c", &is("InstanceTerminating")),
        claim("d", &json!({"metadata": {"deletionTimestamp": NOW}})),
        claim("e", &json!({"metadata": {"labels": {"karpenter.sh/nodepool": "q"}}})),
        claim("f", &stranger),
    ];
    assert_eq!(count("p", &all), Count { running: 1, pending_disruption: 1, deleting: 2 });
}

#[test]
fn the_least_is_lost_first() {
    let all = [
        (claim("guarded", &json!({})), vec![protected()]),
        (claim("two-pods", &json!({})), vec![ordinary(), ordinary()]),
        (claim("one-pod", &json!({})), vec![ordinary()]),
        (claim("empty", &json!({})), vec![pod(&daemon())]),
        (claim("starting", &json!({"status": {"providerID": ""}})), vec![]),
    ];
    assert_eq!(going(0, &all), ["starting", "empty", "one-pod", "two-pods", "guarded"]);
    assert_eq!(going(3, &all), ["starting", "empty"]);
    assert_eq!(going(5, &all), [""; 0]);
}

#[test]
fn a_daemon_that_may_not_be_disrupted_keeps_its_node_from_being_empty() {
    let mut guarded = daemon();
    merge(&mut guarded, &json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    let all = [
        (claim("daemon-guarded", &json!({})), vec![pod(&guarded)]),
        (claim("one-pod", &json!({})), vec![ordinary()]),
        (claim("ended", &json!({})), vec![pod(&json!({"status": {"phase": "Succeeded"}}))]),
    ];
    assert_eq!(going(0, &all), ["ended", "one-pod", "daemon-guarded"]);
}

#[test]
fn moving_counts_less_the_shorter_a_node_has_to_live() {
    let old = json!({"metadata": {"creationTimestamp": "2025-12-27T12:00:00Z"}});
    let all = [
        (claim("young", &json!({})), vec![ordinary()]),
        // A tenth of its life is left: two pods of it count as a fifth of one.
        (claim("old", &old), vec![ordinary(), ordinary()]),
        (claim("for-ever", &json!({"spec": {"expireAfter": "Never"}})), vec![ordinary()]),
    ];
    assert_eq!(going(0, &all), ["old", "young", "for-ever"]);
}

#[test]
fn what_goes_already_is_neither_counted_nor_chosen() {
    let all = [
        (claim("going", &json!({"metadata": {"deletionTimestamp": NOW}})), vec![]),
        (claim("replaced", &is("DisruptionReason")), vec![]),
        (claim("b", &json!({})), vec![]),
        (claim("a", &json!({"metadata": {"creationTimestamp": "2026-01-04T13:00:00Z"}})), vec![]),
    ];
    assert_eq!(going(2, &all), [""; 0]);
    assert_eq!(going(1, &all), ["a"], "the younger of equals");
}

fn of_type(name: &str, cents: Option<i64>, zone: &str) -> InstanceType {
    InstanceType {
        name: name.to_owned(),
        machine_deployment: None,
        requirements: [Requirement::one_of("topology.kubernetes.io/zone", &[zone])].into_iter().collect(),
        taints: Vec::new(),
        capacity: Resources::ZERO,
        overhead: Resources::ZERO,
        offerings: vec![Offering {
            requirements: [Requirement::one_of("topology.kubernetes.io/zone", &[zone])].into_iter().collect(),
            price: cents.map(|cents| Price(cents * 10_000_000_000)),
            unavailable: None,
            reservation_capacity: None,
            capacity_override: None,
            overhead_override: None,
        }],
        headroom: None,
        priority: 0,
    }
}

fn pool(requirements: &Value) -> NodePool {
    let pool = serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "spec": {"replicas": 2, "template": {
            "metadata": {"labels": {"team": "blue"}},
            "spec": {"requirements": requirements, "nodeClassRef": {
                "group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "c"}}
        }}
    }))
    .unwrap();
    let state = NodePoolState { not_ready: None, usage: Resources::ZERO, node_count: 0, now: now() };
    node_pool::from_api(&pool, state)
}

fn names(pool: &NodePool, types: &[InstanceType], taken: &[(&str, i64)]) -> Vec<String> {
    let types: Vec<Arc<InstanceType>> = types.iter().cloned().map(Arc::new).collect();
    let taken: BTreeMap<String, i64> =
        taken.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    choose(pool, &types, &taken).iter().map(|chosen| chosen.instance_type.name.clone()).collect()
}

#[test]
fn the_cheapest_that_meets_the_pool_is_chosen() {
    let mut gone = of_type("gone", Some(1), "z1");
    gone.offerings[0].unavailable = Some(UnavailableReason::new(ReasonCode::Paused, "paused"));
    let mut preferred = of_type("preferred", Some(30), "z1");
    preferred.priority = 5;
    let types = [
        of_type("unknown", None, "z1"),
        of_type("dear", Some(30), "z1"),
        preferred,
        of_type("cheap", Some(20), "z1"),
        of_type("elsewhere", Some(10), "z2"),
        gone,
    ];
    let zone = json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}]);
    assert_eq!(names(&pool(&zone), &types, &[]), ["cheap", "preferred", "dear", "unknown"]);
    assert_eq!(names(&pool(&json!([])), &types, &[])[0], "elsewhere");
}

#[test]
fn a_maximum_size_holds_with_what_is_planned_already() {
    let mut small = of_type("small", Some(10), "z1");
    small.headroom = Some(2);
    let types = [small, of_type("other", Some(20), "z1")];
    assert_eq!(names(&pool(&json!([])), &types, &[("small", 1)])[0], "small");
    assert_eq!(names(&pool(&json!([])), &types, &[("small", 2)]), ["other"]);
}

#[test]
fn labels_that_the_pool_writes_need_not_be_the_machines() {
    let gpu = json!([{"key": "example.com/gpu", "operator": "In", "values": ["a100"]}]);
    assert_eq!(names(&pool(&gpu), &[of_type("a", Some(1), "z1")], &[]), ["a"]);
    let arch = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]);
    assert_eq!(
        names(&pool(&arch), &[of_type("a", Some(1), "z1")], &[]),
        [""; 0],
        "its nodes have no such label"
    );
}
