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
fn pods_that_need_what_this_version_does_not_evaluate_are_never_misplaced() {
    let selector = json!({"matchLabels": {"app": "x"}});
    let term = json!([{"topologyKey": ZONE, "labelSelector": selector}]);
    let spread = |when: &str| json!([{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}]);
    let port = json!([{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}]);
    let soft_term =
        json!([{"weight": 1, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": selector}}]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (field, value, words) in [
        ("topologySpreadConstraints", spread("DoNotSchedule"), "topologySpreadConstraints"),
        ("topologySpreadConstraints", spread("ScheduleAnyway"), "topologySpreadConstraints"),
        ("affinity", json!({"podAffinity": {required: term}}), "spec.affinity.podAffinity"),
        ("affinity", json!({"podAffinity": {preferred: soft_term}}), "preferred spec.affinity.podAffinity"),
        ("affinity", json!({"podAntiAffinity": {required: term}}), "spec.affinity.podAntiAffinity"),
        (
            "affinity",
            json!({"podAntiAffinity": {preferred: soft_term}}),
            "preferred spec.affinity.podAntiAffinity",
        ),
        ("volumes", json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]), "volumes"),
        ("containers", port, "host ports"),
        ("schedulingGates", json!([{"name": "wait"}]), "schedulingGates"),
    ] {
        let answer = world()
            .pool(pool("p"), &[md("m", "cpu=4")])
            .node(node("n", "cpu=4"))
            .pod(pod("w", "").spec(field, value))
            .solve();
        let reasons = answer.reasons("w");
        assert!(reasons[0].starts_with("NotEvaluated: ") && reasons[0].contains(words), "{reasons:?}");
    }
    let claims = pod("w", "").spec("resourceClaims", json!([{"name": "gpu", "resourceClaimName": "g"}]));
    let answer = world().pool(pool("p"), &[md("m", "cpu=4")]).pod(claims).solve();
    assert_eq!(
        answer.reasons("w"),
        ["DynamicResources: spec.resourceClaims: dynamic resources aren't simulated"]
    );
}

#[test]
fn a_plain_pod_that_another_pod_repels_is_not_evaluated() {
    let guard = || pod("guard", "cpu=1").repels("web");
    let base = || world().pool(pool("p"), &[md("m", "cpu=4")]).node(node("n", "cpu=8"));
    let web = || pod("w", "cpu=1").label("app", "web");
    let words = "NotEvaluated: required anti-affinity of another pod that selects this one: not evaluated by this version";
    assert_eq!(base().bound("n", guard()).pod(web()).solve().reasons("w"), [words]);
    assert_eq!(base().pod(guard()).pod(web()).solve().reasons("w"), [words]);
    // Another label, or another namespace, isn't selected.
    assert_eq!(
        base().bound("n", guard()).pod(pod("w", "cpu=1").label("app", "api")).solve().placements(),
        ["n: w"]
    );
    assert_eq!(base().bound("n", guard()).pod(web().in_namespace("other")).solve().placements(), ["n: w"]);
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
