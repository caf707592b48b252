//! Reasons of pods without a place.

use crate::support::*;
use serde_json::json;

#[test]
fn an_unreadable_pod_stays_alone() {
    let answer = world()
        .pool(pool("p"), &[md("m", "cpu=4")])
        .pod(pod("bad", "memory=16GB"))
        .pod(pod("good", "cpu=1"))
        .solve();
    assert_eq!(answer.claims(), ["p/m: good"]);
    let reasons = answer.reasons("bad");
    assert!(
        reasons[0].starts_with("Invalid: spec.containers[c].resources.requests: memory: \"16GB\""),
        "{reasons:?}"
    );
}

#[test]
fn pods_that_nobody_may_place_yet_or_that_need_dynamic_resources_are_told_apart() {
    let gated = pod("w", "").spec("schedulingGates", json!([{"name": "wait"}]));
    let claims = pod("w", "").spec("resourceClaims", json!([{"name": "gpu", "resourceClaimName": "g"}]));
    for (pod, words) in [
        (gated, "NotEvaluated: spec.schedulingGates: nobody may place it yet"),
        (claims, "DynamicResources: spec.resourceClaims: dynamic resources aren't simulated"),
    ] {
        let answer = world().pool(pool("p"), &[md("m", "cpu=4")]).node(node("n", "cpu=4")).pod(pod).solve();
        assert_eq!(answer.reasons("w"), [words]);
    }
}

#[test]
fn what_another_pod_repels_keeps_away_from_it_whether_that_one_runs_or_is_only_planned() {
    let guard = || pod("guard", "cpu=1").repels("web");
    let base = || world().pool(pool("p"), &[md("m", "cpu=4")]).node(node("n", "cpu=8"));
    let web = || pod("w", "cpu=1").label("app", "web");
    assert_eq!(base().bound("n", guard()).pod(web()).solve().claims(), ["p/m: w"]);
    let planned = base().pod(guard()).pod(web()).solve();
    assert_eq!(
        (planned.placements(), planned.claims()),
        (vec!["n: guard".to_owned()], vec!["p/m: w".to_owned()])
    );
    // Another label, or another namespace, isn't selected.
    assert_eq!(
        base().bound("n", guard()).pod(pod("w", "cpu=1").label("app", "api")).solve().placements(),
        ["n: w"]
    );
    assert_eq!(base().bound("n", guard()).pod(web().in_namespace("other")).solve().placements(), ["n: w"]);
}

#[test]
fn topology_affinity_and_ports_are_told_with_what_would_have_helped() {
    let types = [md("m1", "cpu=4").zone("z1"), md("m2", "cpu=4").zone("z2")];
    let base = || world().pool(pool("p"), &types);
    let answer = base()
        .pods(4, &pod("s", "cpu=3").label("app", "s").spreads(ZONE, 1, "s", json!({"minDomains": 3})))
        .solve();
    let refused = &answer.0.pending[0].reasons[0];
    assert_eq!(refused.code.as_str(), "Topology");
    assert!(refused.message.contains("2 domains and minDomains is 3"), "{}", refused.message);
    assert_eq!(refused.remedy.as_deref(), Some("raise maxSkew to 2"));
    let lonely = base().pod(pod("w", "cpu=1").wants_in(ZONE, "nobody")).solve();
    assert!(lonely.reasons("w")[0].starts_with("Affinity: pod affinity over topology.kubernetes.io/zone"));
    let small = base().pod(pod("w", "cpu=9")).solve();
    let reason = &small.0.pending[0].reasons[0];
    assert_eq!(reason.remedy.as_deref(), Some("request at most 4 cpu"));
}

#[test]
fn each_pool_and_type_names_the_first_constraint_that_failed_with_figures() {
    let types = [
        md("big", "cpu=8 memory=4Gi").zone("z1"),
        md("elsewhere", "cpu=16 memory=64Gi").zone("z2"),
        md("tainted", "cpu=16 memory=64Gi").zone("z1").taint("edge:NoSchedule"),
    ];
    let answer = world()
        .pool(pool("p"), &types)
        .pool(pool("broken").not_ready("ClusterAPINodeClass default isn't ready: nothing matches"), &types)
        .pool(pool("idle").paused(), &types)
        .pool(pool("dedicated").taint("dedicated=x:NoSchedule"), &types)
        .pod(pod("w", "cpu=9 memory=1Gi").selects(ZONE, "z1"))
        .solve();
    assert_eq!(
        answer.reasons("w"),
        [
            "InsufficientResources: cpu: needs 9, big has 8",
            "Requirements: elsewhere: topology.kubernetes.io/zone In [z1] is wanted, topology.kubernetes.io/zone In [z2] is offered",
            "Taints: tainted has taint edge:NoSchedule, which the pod doesn't tolerate",
            "Paused: provisioning is paused by an annotation on the NodePool",
            "Taints: NodePool dedicated has taint dedicated=x:NoSchedule, which the pod doesn't tolerate",
            "NodePoolNotReady: ClusterAPINodeClass default isn't ready: nothing matches",
        ]
    );
    let first = &answer.0.pending[0].reasons[0];
    assert_eq!(first.node_pool.as_deref(), Some("p"));
    assert_eq!(first.machine_deployment.as_ref().unwrap().to_string(), "default/big");
    assert_eq!(first.instance_type.as_deref(), Some("big"));
}

#[test]
fn the_order_of_pools_in_reasons_is_the_order_of_trial() {
    let m = [md("m", "cpu=1")];
    let answer = world()
        .pool(pool("a"), &m)
        .pool(pool("b").weight(1), &m)
        .pool(pool("c"), &m)
        .pod(pod("w", "cpu=2"))
        .solve();
    let pools: Vec<_> =
        answer.0.pending[0].reasons.iter().map(|reason| reason.node_pool.as_deref().unwrap()).collect();
    assert_eq!(pools, ["b", "c", "a"]);
}

#[test]
fn a_world_without_pools_says_so() {
    assert_eq!(
        world().pod(pod("w", "cpu=1")).solve().reasons("w"),
        ["NodePoolNotReady: there is no NodePool"]
    );
    let empty = world().pool(pool("p"), &[]).pod(pod("w", "cpu=1")).solve();
    assert_eq!(empty.reasons("w"), ["NoOffering: no MachineDeployment matches the NodePool"]);
    assert_eq!(empty.warnings(), ["NodePool/p: no MachineDeployment matches"]);
}

#[test]
fn a_pod_that_contradicts_itself_says_on_which_key() {
    let torn = pod("w", "cpu=1").selects("a", "1").requires("a", "In", &["2"]);
    let answer = world().pool(pool("p"), &[md("m", "cpu=4")]).pod(torn).solve();
    assert_eq!(
        answer.reasons("w"),
        ["Requirements: the pod's own node selector and node affinity contradict each other on a"]
    );
}

#[test]
fn a_capacity_type_that_the_machine_deployment_does_not_declare_is_told() {
    let answer = world()
        .pool(
            pool("p").requires(CAPACITY_TYPE, "In", &["on-demand"]),
            &[md("m", "cpu=4").without_label(CAPACITY_TYPE)],
        )
        .pod(pod("w", "cpu=1"))
        .solve();
    assert_eq!(
        answer.reasons("w"),
        ["Requirements: m: karpenter.sh/capacity-type In [on-demand] is wanted, but the label isn't defined"]
    );
    assert_eq!(answer.warnings(), ["NodePool/p: the requirements exclude every instance type"]);
}
