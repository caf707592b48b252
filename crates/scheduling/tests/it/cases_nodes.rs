//! Cases drawn from public bug reports about existing nodes, starting nodes and DaemonSets; each names the report.

use crate::support::*;
use serde_json::json;

/// kubernetes-sigs/karpenter#1749
#[test]
fn daemons_that_tolerate_everything_count_on_tainted_pools() {
    let daemon = |name: &str| pod(name, "cpu=400m memory=512Mi");
    let answer = world()
        .pool(
            pool("p").taint("dedicated=x:NoSchedule"),
            &[md("s", "cpu=2 memory=8Gi").price("0.10"), md("m", "cpu=4 memory=16Gi").price("0.20")],
        )
        .daemon_set(&daemon("a").tolerates("*"), &[])
        .daemon_set(&daemon("b").tolerates("*"), &[])
        .daemon_set(&daemon("c"), &[])
        .pod(pod("w", "cpu=1500m memory=1Gi").tolerates("dedicated=x"))
        .solve();
    assert_eq!(answer.claims(), ["p/m: w"]);
    assert_eq!(answer.0.node_claims[0].daemon_requests, resources("cpu=800m memory=1Gi pods=2"));
}

/// aws/karpenter-provider-aws#3199
#[test]
fn limit_range_defaults_count_for_daemons() {
    let range = json!({"spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1", "memory": "256Mi"}}]}});
    let with = |ranges: &[serde_json::Value]| {
        world()
            .pool(
                pool("p"),
                &[md("a", "cpu=16 memory=64Gi").price("0.8"), md("b", "cpu=32 memory=128Gi").price("1.6")],
            )
            .daemon_set(&pod("log", "").in_namespace("ops"), ranges)
            .daemon_set(&pod("net", "cpu=630m"), &[])
            .pod(pod("w", "cpu=15 memory=8Gi"))
            .solve()
    };
    assert_eq!(with(&[range]).claims(), ["p/b: w"]);
    assert_eq!(with(&[]).claims(), ["p/a: w"]);
}

/// aws/karpenter-provider-aws#1573
#[test]
fn containers_with_limits_but_no_requests_request_their_limits() {
    let limits = json!([{"name": "c", "resources": {"limits": {"cpu": "500m", "memory": "100Mi"}}}]);
    let answer = world()
        .pool(
            pool("p"),
            &[md("s", "cpu=2 memory=4Gi").price("0.1"), md("m", "cpu=4 memory=8Gi").price("0.2")],
        )
        .daemon_set(&pod("d", "").spec("containers", limits), &[])
        .pod(pod("w", "cpu=1800m memory=512Mi"))
        .solve();
    assert_eq!(answer.claims(), ["p/m: w"]);
}

fn starting(taints: &[&str], startup_taints: &[&str], conditions: &[&str]) -> Answer {
    let m = md("m", "cpu=4 memory=16Gi");
    let amounts = json!({"cpu": "4", "memory": "16Gi", "pods": "110"});
    let node = joining(&m, conditions, startup_taints, Some(node_object("n1", &amounts, taints)));
    let p = startup_taints.iter().fold(pool("p"), |pool, taint| pool.startup_taint(taint));
    world().pool(p, &[m]).node(node).pod(pod("w", "cpu=1")).solve()
}

/// aws/karpenter-provider-aws#6355
#[test]
fn no_extra_node_while_a_startup_taint_is_on() {
    const CNI: &str = "net/agent-not-ready:NoExecute";
    let usual = [
        CNI,
        "node.kubernetes.io/not-ready:NoSchedule",
        "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
    ];
    let answer = starting(&usual, &[CNI], &["Launched", "Registered"]);
    assert_eq!(answer.claims(), Vec::<String>::new());
    assert_eq!(answer.placements(), ["n1: w"]);

    let undeclared = [CNI, "sec/scan:NoSchedule"];
    let answer = starting(&undeclared, &[CNI], &["Launched", "Registered"]);
    assert_eq!(answer.claims(), ["p/m: w"]);
    let warnings = answer.warnings();
    assert!(warnings.iter().any(|one| one.starts_with("Node/n1: taint sec/scan:NoSchedule")), "{warnings:?}");
    assert!(warnings[0].contains("declare it in startupTaints of NodePool p"), "{warnings:?}");
}

/// kubernetes-sigs/cluster-api#7730
#[test]
fn cluster_apis_uninitialized_taint_needs_no_declaration() {
    let taint = ["node.cluster.x-k8s.io/uninitialized:NoSchedule"];
    assert_eq!(starting(&taint, &[], &["Launched", "Registered"]).placements(), ["n1: w"]);
    let initialized = starting(&taint, &[], &["Launched", "Registered", "Initialized"]);
    assert_eq!(initialized.claims(), ["p/m: w"], "then the same taint is a real one");
}

/// kubernetes-sigs/karpenter#343
#[test]
fn a_node_without_a_well_known_label_does_not_meet_in() {
    let answer = world()
        .pool(pool("p"), &[md("m", "cpu=4 memory=16Gi").zone("z1")])
        .node(node("n0", "cpu=8 memory=32Gi"))
        .pod(pod("a", "cpu=1").requires(ZONE, "In", &["z1"]))
        .pod(pod("b", "cpu=1").requires(ZONE, "NotIn", &["z1"]))
        .pod(pod("c", "cpu=1").requires(ZONE, "DoesNotExist", &[]))
        .solve();
    assert_eq!(answer.claims(), ["p/m: a"]);
    assert_eq!(answer.placements(), ["n0: b c"]);
}
