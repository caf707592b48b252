//! Cases drawn from public bug reports about capacity, taints and prices; each names the report.

use crate::support::*;
use serde_json::json;

/// kubernetes/autoscaler#9239, #9298
#[test]
fn taints_of_the_machine_deployment_count() {
    let answer = world()
        .pool(
            pool("p"),
            &[md("a", "cpu=4 memory=16Gi").taint("gpu=yes:NoSchedule").taint("zone=edge:NoSchedule")],
        )
        .pod(pod("a", "cpu=1"))
        .pod(pod("b", "cpu=1").tolerates("gpu=yes").tolerates("zone=edge"))
        .pod(pod("c", "cpu=1").tolerates("gpu=true").tolerates("zone=edge"))
        .solve();
    assert_eq!(answer.claims(), ["p/a: b"]);
    for name in ["a", "c"] {
        assert_eq!(
            answer.reasons(name),
            ["Taints: a has taint gpu=yes:NoSchedule, which the pod doesn't tolerate"]
        );
    }
}

#[test]
fn a_taint_of_the_machine_deployment_that_is_declared_as_startup_taint_repels_nobody() {
    let answer = world()
        .pool(
            pool("p").startup_taint("cni:NoExecute"),
            &[md("a", "cpu=4 memory=16Gi").taint("cni:NoExecute")],
        )
        .pod(pod("w", "cpu=1"))
        .solve();
    assert_eq!(answer.claims(), ["p/a: w"]);
}

/// kubernetes/autoscaler#5278, #929
#[test]
fn gpus_of_a_group_at_zero_are_packed() {
    let g = md("g", "cpu=16 memory=64Gi nvidia.com/gpu=2");
    let answer = world()
        .pool(pool("p"), &[g])
        .pods(3, &pod("w", "cpu=1 nvidia.com/gpu=1"))
        .pod(pod("other", "cpu=1 amd.com/gpu=1"))
        .solve();
    assert_eq!(answer.types(), ["g", "g"]);
    assert_eq!(answer.reasons("other"), ["InsufficientResources: amd.com/gpu: needs 1, g has 0"]);
}

/// openshift/cluster-autoscaler-operator#223
#[test]
fn gpus_that_the_device_plugin_has_not_listed_yet_count_until_initialized() {
    let g = md("g", "cpu=16 memory=64Gi nvidia.com/gpu=2");
    let amounts = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
    let registered = |name: &str| {
        let mut node = joining(&g, &["Launched", "Registered"], &[], Some(node_object(name, &amounts, &[])));
        node.node_claim = Some(format!("nc-{name}"));
        node
    };
    let answer = world()
        .pool(pool("p"), std::slice::from_ref(&g))
        .node(registered("n1"))
        .node(registered("n2"))
        .pods(3, &pod("w", "cpu=1 nvidia.com/gpu=1"))
        .solve();
    assert_eq!(answer.placements(), ["n1: w-0 w-1", "n2: w-2"]);
    assert_eq!(answer.claims(), Vec::<String>::new());
}

/// aws/karpenter-provider-aws#1959, kubernetes-sigs/karpenter#1185
#[test]
fn a_promise_that_real_machines_do_not_keep_makes_no_further_nodes() {
    let t = md("t", "cpu=4 memory=16Gi");
    let real = json!({"cpu": "3900m", "memory": "14848Mi", "pods": "110"});
    let mut object = node_object("n1", &real, &[]);
    object["status"]["capacity"] = json!({"cpu": "4", "memory": "15Gi", "pods": "110"});
    let node = joining(&t, &["Launched", "Registered", "Initialized"], &[], Some(object));
    let answer = world()
        .pool(pool("p"), std::slice::from_ref(&t))
        .node(node.clone())
        .pod(pod("w", "cpu=1 memory=15Gi"))
        .solve();
    assert_eq!(answer.claims(), Vec::<String>::new());
    assert_eq!(
        answer.reasons("w"),
        ["InsufficientResources: memory: needs 15Gi, the largest allocatable seen for t is 14848Mi"]
    );
    // A node of an older template, of half the size, says nothing of the machines to come.
    let mut older = node;
    older.capacity = resources("cpu=2 memory=8Gi pods=110");
    older.allocatable = older.capacity.clone();
    let answer = world().pool(pool("p"), &[t]).node(older).pod(pod("w", "cpu=1 memory=15Gi")).solve();
    assert_eq!(answer.claims(), ["p/t: w"]);
}

/// kubernetes-sigs/karpenter-provider-cluster-api#57
#[test]
fn price_decides_and_an_unknown_price_is_not_free() {
    let types = [
        md("alpha", "cpu=8 memory=32Gi").price("0.40"),
        md("beta", "cpu=8 memory=32Gi").price("0.30"),
        md("gamma", "cpu=4 memory=16Gi"),
    ];
    for cpu in ["cpu=6 memory=4Gi", "cpu=2 memory=4Gi"] {
        assert_eq!(world().pool(pool("p"), &types).pod(pod("w", cpu)).solve().claims(), ["p/beta: w"]);
    }
}

/// Two pods of three processors would fit together on the larger type, whose price nobody knows.
#[test]
fn packing_does_not_leave_a_claim_with_an_unknown_price_while_a_known_one_serves() {
    let types = [md("priced", "cpu=4 memory=16Gi").price("0.50"), md("unpriced", "cpu=8 memory=32Gi")];
    let two = |types: &[_]| world().pool(pool("p"), types).pods(2, &pod("w", "cpu=3")).solve();
    assert_eq!(two(&types).claims(), ["p/priced: w-0", "p/priced: w-1"]);
    assert_eq!(two(&types[1..]).claims(), ["p/unpriced: w-0 w-1"]);
    // What only the unpriced type can take still goes there.
    let answer = world().pool(pool("p"), &types).pod(pod("big", "cpu=6")).pod(pod("w", "cpu=3")).solve();
    assert_eq!(answer.claims(), ["p/unpriced: big", "p/priced: w"]);
}

#[test]
fn among_equal_prices_priority_and_then_the_name_decides() {
    let of = |name: &str, priority| md(name, "cpu=4").price("0.2").priority(priority);
    let types = [of("c", 0), of("b", 5), of("a", 5), md("d", "cpu=4").price("0.3").priority(99)];
    let answer = world().pool(pool("p"), &types).pod(pod("w", "cpu=1")).solve();
    let options: Vec<&str> =
        answer.0.node_claims[0].options.iter().map(|option| option.instance_type.name.as_str()).collect();
    assert_eq!(options, ["a", "b", "c", "d"]);
}
