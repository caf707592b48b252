//! Cases drawn from public bug reports of schedulers and autoscalers; each names the report.

use crate::support::*;
use karpenter_capi_model::label;
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_scheduling::input::MinValuesPolicy;
use serde_json::json;

/// kubernetes-sigs/karpenter#2915, #2657, with pods that fill a node instead of anti-affinity
#[test]
fn a_limit_of_nodes_is_used_up_within_one_pass() {
    let answer = world()
        .pool(pool("p").limit("nodes", "3").uses("cpu=8", 2), &[md("m", "cpu=4 memory=16Gi")])
        .pods(3, &pod("w", "cpu=3"))
        .solve();
    assert_eq!(answer.claims(), ["p/m: w-0"]);
    for name in ["w-1", "w-2"] {
        assert_eq!(answer.reasons(name), ["Limits: limit nodes=3 reached (in use 3)"]);
    }
}

/// kubernetes-sigs/karpenter#2854: the claim in flight counts with its type's capacity (the snapshot's usage)
#[test]
fn claims_in_flight_count_for_limits_at_their_capacity() {
    let big = md("big", "cpu=8 memory=32Gi");
    let mut in_flight = joining(&big, &[], &[], None);
    in_flight.allocatable = resources("cpu=8 memory=32Gi pods=1");
    let answer = world()
        .pool(pool("p").limit("cpu", "10").uses("cpu=8 memory=32Gi", 1), &[big])
        .node(in_flight)
        .bound("nc1", pod("w-0", "cpu=1"))
        .pod(pod("w-1", "cpu=1"))
        .solve();
    assert_eq!(answer.claims(), Vec::<String>::new());
    assert_eq!(answer.reasons("w-1"), ["Limits: cpu: adding 8 would exceed 10 (in use 8), by NodePool p"]);
}

/// aws/karpenter-provider-aws#6328
#[test]
fn a_limit_that_the_node_size_does_not_divide_is_filled_as_far_as_it_goes() {
    let answer = world()
        .pool(pool("p").limit("cpu", "2063"), &[md("x", "cpu=32 memory=64Gi")])
        .pods(65, &pod("w", "cpu=30"))
        .solve();
    assert_eq!(answer.types().len(), 64);
    let pending = answer.pending();
    assert_eq!(pending.len(), 1);
    assert_eq!(
        answer.reasons(pending[0]),
        ["Limits: cpu: adding 32 would exceed 2063 (in use 2048), by NodePool p"]
    );
}

/// kubernetes-sigs/karpenter#2976
#[test]
fn of_equal_pools_the_last_name_wins_whatever_the_order_of_input() {
    for order in [["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]] {
        let m = [md("m", "cpu=4 memory=16Gi")];
        let answer = order
            .iter()
            .fold(world(), |world, name| world.pool(pool(name), &m))
            .pod(pod("w", "cpu=1"))
            .solve();
        assert_eq!(answer.claims(), ["c/m: w"]);
    }
}

#[test]
fn a_heavier_pool_is_tried_first_even_where_it_is_dearer() {
    let answer = world()
        .pool(pool("cheap"), &[md("m1", "cpu=4").price("0.1")])
        .pool(pool("a-heavy").weight(10), &[md("m2", "cpu=4").price("0.9")])
        .pod(pod("w", "cpu=1"))
        .solve();
    assert_eq!(answer.claims(), ["a-heavy/m2: w"]);
}

/// kubernetes-sigs/karpenter#1265, #1204
#[test]
fn a_preference_that_no_node_can_meet_does_not_hide_the_pod() {
    let answer = world()
        .pool(pool("p"), &[md("m", "cpu=4 memory=16Gi")])
        .pod(pod("a", "cpu=1").prefers(1, "karpenter.sh/nodepool", "DoesNotExist", &[]))
        .pod(pod("b", "cpu=1").prefers(1, "node-role.kubernetes.io/control-plane", "Exists", &[]))
        .pod(pod("c", "cpu=1").requires("karpenter.sh/nodepool", "DoesNotExist", &[]))
        .solve();
    assert_eq!(answer.claims(), ["p/m: a b"]);
    let reasons = answer.reasons("c");
    assert_eq!(reasons.len(), 1);
    assert!(
        reasons[0].starts_with("Requirements: excluded from Karpenter nodes by its own affinity"),
        "{reasons:?}"
    );
    assert_eq!(
        answer.warnings(),
        [
            "Pod/default/a: gave up preferred node affinity karpenter.sh/nodepool DoesNotExist (weight 1)",
            "Pod/default/b: gave up preferred node affinity node-role.kubernetes.io/control-plane Exists (weight 1)"
        ]
    );
}

/// aws/karpenter-provider-aws#5537, #3075
#[test]
fn a_custom_requirement_widens_what_pods_may_ask_for_and_repels_nobody() {
    let m = [md("m", "cpu=4 memory=16Gi")];
    let answer = world()
        .pool(pool("gpu").weight(10).requires("accel", "Exists", &[]), &m)
        .pool(pool("gen"), &m)
        .pod(pod("p1", "cpu=1"))
        .pod(pod("p2", "cpu=1").selects("accel", "a1"))
        .pod(pod("p3", "cpu=1").selects("team", "blue"))
        .solve();
    assert_eq!(answer.claims(), ["gpu/m: p1 p2"]);
    assert_eq!(answer.0.node_claims[0].requirements.labels().get("accel").map(String::as_str), Some("a1"));
    assert_eq!(
        answer.reasons("p3"),
        [
            "Requirements: NodePool gpu: team In [blue] is wanted, but the label isn't defined",
            "Requirements: NodePool gen: team In [blue] is wanted, but the label isn't defined"
        ]
    );
}

/// aws/karpenter-provider-aws#4392
#[test]
fn runtime_class_overhead_counts() {
    let answer = world()
        .pool(
            pool("p"),
            &[md("s", "cpu=2 memory=4Gi").price("0.1"), md("m", "cpu=4 memory=8Gi").price("0.2")],
        )
        .pod(pod("w", "cpu=1800m memory=1Gi").spec("overhead", json!({"cpu": "250m", "memory": "120Mi"})))
        .solve();
    assert_eq!(answer.claims(), ["p/m: w"]);
}

/// aws/karpenter-provider-aws#3355
#[test]
fn a_preference_that_contradicts_the_selector_is_dropped_and_the_selector_never_is() {
    let m = [md("m", "cpu=4 memory=16Gi")];
    let answer = world()
        .pool(pool("foobar").label("fn", "foobar").taint("fn=foobar:NoSchedule"), &m)
        .pool(pool("default").weight(5), &m)
        .pod(
            pod("w", "cpu=1")
                .selects("fn", "foobar")
                .requires("fn", "In", &["foo", "bar", "foobar"])
                .prefers(1, "fn", "In", &["foo"])
                .tolerates("fn=foobar"),
        )
        .solve();
    assert_eq!(answer.claims(), ["foobar/m: w"]);
}

/// aws/karpenter-provider-aws#2289
#[test]
fn old_beta_label_keys_are_read_as_the_stable_ones() {
    let x = md("x", "cpu=4 memory=16Gi").price("0.2");
    let y = md("y", "cpu=4 memory=16Gi").price("0.01").label(label::ARCH, "arm64");
    let answer = world()
        .pool(pool("p"), &[x, y])
        .pod(
            pod("w", "cpu=1")
                .selects("beta.kubernetes.io/os", "linux")
                .selects("beta.kubernetes.io/arch", "amd64"),
        )
        .solve();
    assert_eq!(answer.claims(), ["p/x: w"]);
}

/// aws/karpenter-provider-aws#6844
#[test]
fn avoiding_a_host_by_name_gives_a_new_node_and_asking_for_one_gives_a_reason() {
    let answer = world()
        .pool(pool("p"), &[md("m", "cpu=4 memory=16Gi")])
        .node(node("old", "cpu=8 memory=32Gi"))
        .pod(pod("away", "cpu=1").requires(label::HOSTNAME, "NotIn", &["old"]))
        .pod(pod("to", "cpu=1").requires(label::HOSTNAME, "In", &["older"]))
        .solve();
    assert_eq!(answer.claims(), ["p/m: away"]);
    assert!(
        answer.0.node_claims[0].requirements.get(label::HOSTNAME).is_none(),
        "the claim can't require it"
    );
    assert_eq!(
        answer.reasons("to"),
        [
            "Requirements: kubernetes.io/hostname In [older] is wanted, but kubernetes.io/hostname is unknown before the node exists"
        ]
    );
}

fn families(types: &[(&str, &str, &str)]) -> Vec<Md> {
    types
        .iter()
        .map(|(name, price, family)| md(name, "cpu=4 memory=16Gi").price(price).label("family", family))
        .collect()
}

/// Azure/karpenter-provider-azure#1867, kubernetes-sigs/karpenter#963, aws/karpenter-provider-aws#6182
#[test]
fn cutting_the_list_of_types_keeps_min_values() {
    let types = families(&[("a1", "1", "a"), ("a2", "2", "a"), ("a3", "3", "a"), ("b1", "4", "b")]);
    let answer = world()
        .options(|options| options.max_instance_types = 3)
        .pool(pool("p").min_values("family", 2), &types)
        .pod(pod("w", "cpu=1"))
        .solve();
    let listed: Vec<&str> =
        answer.0.node_claims[0].options.iter().map(|option| option.instance_type.name.as_str()).collect();
    assert_eq!(listed, ["a1", "a2", "b1"]);
}

#[test]
fn min_values_that_can_not_be_met_refuse_or_are_lowered_by_policy() {
    let types = families(&[("a1", "1", "a"), ("a2", "2", "a")]);
    let with = |policy| {
        world()
            .options(|options| options.min_values_policy = policy)
            .pool(pool("p").min_values("family", 2), &types)
            .pod(pod("w", "cpu=1"))
            .solve()
    };
    let strict = with(MinValuesPolicy::Strict);
    assert_eq!(strict.claims(), Vec::<String>::new());
    assert_eq!(strict.reasons("w"), ["MinValues: family: minValues is 2, 1 left (a)"]);
    let best_effort = with(MinValuesPolicy::BestEffort);
    assert_eq!(best_effort.claims(), ["p/a1: w"]);
    assert!(best_effort.0.node_claims[0].min_values_relaxed);
    assert_eq!(best_effort.warnings(), ["NodePool/p: family: minValues lowered from 2 to 1 for a claim"]);
}

/// kubernetes-sigs/karpenter#1208 and others
#[test]
fn a_key_that_only_a_controller_sets_keeps_one_pod_pending_and_stays_out_of_claims() {
    let answer = world()
        .pool(pool("p"), &[md("m", "cpu=8 memory=16Gi")])
        .pod(pod("a", "cpu=1").selects("karpenter.sh/registered", "true"))
        .pod(pod("c", "cpu=1"))
        .solve();
    assert_eq!(answer.claims(), ["p/m: c"]);
    assert_eq!(
        answer.reasons("a"),
        [
            "Requirements: karpenter.sh/registered In [true] is wanted, but karpenter.sh/registered is set by the controller, \
         use karpenter.sh/nodepool"
        ]
    );
    let keys: Vec<&str> = answer.0.node_claims[0]
        .requirements
        .iter()
        .map(karpenter_capi_model::requirement::Requirement::key)
        .collect();
    assert_eq!(keys, ["karpenter.cluster.x-k8s.io/clusterapinodeclass", "karpenter.sh/nodepool"]);
}

/// Azure/karpenter-provider-azure#1384, for plain requirements: no zone is not a zone.
#[test]
fn a_type_without_the_label_does_not_meet_a_requirement_on_it() {
    let types = [md("m1", "cpu=4").zone("z1").price("0.2"), md("m9", "cpu=4").price("0.01")];
    let answer = world().pool(pool("p"), &types).pod(pod("w", "cpu=1").requires(ZONE, "In", &["z1"])).solve();
    assert_eq!(answer.claims(), ["p/m1: w"]);
    let only =
        world().pool(pool("p"), &types[1..]).pod(pod("w", "cpu=1").requires(ZONE, "Exists", &[])).solve();
    assert_eq!(
        only.reasons("w"),
        ["Requirements: m9: topology.kubernetes.io/zone Exists is wanted, but the label isn't defined"]
    );
}

#[test]
fn what_is_not_available_is_left_alone_with_its_reason_while_others_work() {
    let types = [
        md("paused", "cpu=4")
            .price("0.1")
            .unavailable(ReasonCode::Paused, "default/paused: spec.paused is true"),
        md("ready", "cpu=4").price("0.2"),
    ];
    let answer = world().pool(pool("p"), &types).pod(pod("w", "cpu=1")).solve();
    assert_eq!(answer.claims(), ["p/ready: w"]);
    let answer = world().pool(pool("p"), &types).pod(pod("w", "cpu=5")).solve();
    assert_eq!(
        answer.reasons("w"),
        ["Paused: default/paused: spec.paused is true", "InsufficientResources: cpu: needs 5, ready has 4"]
    );
}
