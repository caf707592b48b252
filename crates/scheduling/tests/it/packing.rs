//! How pods are packed: existing capacity first, then claims that are being filled, then new ones.

use crate::support::*;
use karpenter_capi_scheduling::input::PreferencePolicy;
use serde_json::json;

#[test]
fn existing_capacity_is_used_before_any_claim_is_made() {
    let answer = world()
        .pool(pool("p"), &[md("m", "cpu=4 memory=16Gi").price("0.2")])
        .node(node("n2", "cpu=2"))
        .node(node("n1", "cpu=2"))
        .bound("n1", pod("old", "cpu=1"))
        .pods(4, &pod("w", "cpu=1"))
        .solve();
    assert_eq!(answer.placements(), ["n1: w-0", "n2: w-1 w-2"]);
    assert_eq!(answer.claims(), ["p/m: w-3"]);
}

#[test]
fn initialized_nodes_are_filled_before_starting_ones() {
    let m = md("m", "cpu=4 memory=16Gi");
    let mut starting = joining(&m, &["Launched"], &[], None);
    starting.name = "a-starts-with-a".to_owned();
    let answer = world()
        .pool(pool("p"), &[m])
        .node(starting)
        .node(node("z", "cpu=1"))
        .pods(2, &pod("w", "cpu=1"))
        .solve();
    assert_eq!(answer.placements(), ["a-starts-with-a: w-1", "z: w-0"]);
    assert!(answer.0.placements[0].in_flight && !answer.0.placements[1].in_flight);
}

#[test]
fn a_node_that_is_going_takes_nothing() {
    let mut going = node("n1", "cpu=8");
    going.marked_for_deletion = true;
    let answer = world().pool(pool("p"), &[md("m", "cpu=4")]).node(going).pod(pod("w", "cpu=1")).solve();
    assert_eq!(answer.claims(), ["p/m: w"]);
}

#[test]
fn sixty_pods_over_three_sizes_fill_the_cheapest_that_fit() {
    let types = [
        md("large", "cpu=16 memory=64Gi").price("0.80"),
        md("medium", "cpu=8 memory=32Gi").price("0.38"),
        md("small", "cpu=4 memory=16Gi").price("0.20"),
    ];
    let answer = world().pool(pool("p"), &types).pods(60, &pod("w", "cpu=1 memory=2Gi")).solve();
    let placed: usize = answer.0.node_claims.iter().map(|claim| claim.pods.len()).sum();
    assert_eq!((placed, answer.pending().len()), (60, 0));
    // Claims are filled to what their largest type holds, before a further one is opened.
    assert_eq!(answer.types(), ["large", "large", "large", "large"]);
}

#[test]
fn daemons_that_do_not_run_yet_keep_their_room_on_an_existing_node() {
    let with = |daemon_runs: bool| {
        let mut running = pod("d-x", "cpu=500m").spec("nodeName", json!("n1"));
        running.0["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]);
        let mut world = world()
            .node(node("n1", "cpu=2"))
            .daemon_set(&pod("d", "cpu=500m"), &[])
            .pod(pod("w", "cpu=1500m"));
        if daemon_runs {
            world = world.bound("n1", running);
        }
        world.solve().placements()
    };
    assert_eq!(with(false), ["n1: w"]);
    assert_eq!(with(true), ["n1: w"], "counted once, not twice");
    let too_much = world()
        .node(node("n1", "cpu=2"))
        .daemon_set(&pod("d", "cpu=500m"), &[])
        .pod(pod("w", "cpu=1600m"))
        .solve();
    assert_eq!(too_much.placements(), Vec::<String>::new());
}

#[test]
fn daemons_are_counted_on_each_type_that_they_run_on_whatever_the_order() {
    let arm = md("arm", "cpu=4").price("0.1").label("kubernetes.io/arch", "arm64");
    let amd = md("amd", "cpu=4").price("0.2");
    let daemon = pod("d", "cpu=1").requires("kubernetes.io/arch", "In", &["arm64"]).requires(
        "kubernetes.io/arch",
        "In",
        &["amd64"],
    );
    for types in [[arm.clone(), amd.clone()], [amd, arm]] {
        let answer =
            world().pool(pool("p"), &types).daemon_set(&daemon, &[]).pod(pod("w", "cpu=3500m")).solve();
        assert_eq!(
            answer.reasons("w"),
            [
                "InsufficientResources: cpu: needs 3500m, amd has 4, of which DaemonSets take 1",
                "InsufficientResources: cpu: needs 3500m, arm has 4, of which DaemonSets take 1"
            ]
        );
    }
}

#[test]
fn a_daemon_for_one_architecture_leaves_the_others_room() {
    let arm = md("arm", "cpu=4").price("0.1").label("kubernetes.io/arch", "arm64");
    let amd = md("amd", "cpu=4").price("0.2");
    let answer = world()
        .pool(pool("p"), &[arm, amd])
        .daemon_set(&pod("d", "cpu=1").selects("kubernetes.io/arch", "arm64"), &[])
        .pod(pod("w", "cpu=3500m"))
        .solve();
    assert_eq!(answer.claims(), ["p/amd: w"]);
}

/// kubernetes-sigs/karpenter-provider-cluster-api, 110 pods to a node
#[test]
fn the_number_of_pods_on_a_node_is_a_resource_that_daemons_use_too() {
    let answer = world()
        .pool(pool("p"), &[md("a", "cpu=64 memory=256Gi")])
        .daemon_set(&pod("d1", "cpu=100m"), &[])
        .daemon_set(&pod("d2", "cpu=100m"), &[])
        .pods(200, &pod("w", "cpu=100m memory=64Mi"))
        .solve();
    let sizes: Vec<usize> = answer.0.node_claims.iter().map(|claim| claim.pods.len()).collect();
    assert_eq!(sizes, [108, 92]);
}

#[test]
fn a_label_that_some_type_of_the_pool_defines_is_not_made_up_for_the_others() {
    let types = [md("plain", "cpu=4").price("0.1"), md("marked", "cpu=4").price("0.2").label("tier", "gold")];
    let wants =
        world().pool(pool("p").requires("tier", "Exists", &[]), &types).pod(pod("w", "cpu=1")).solve();
    assert_eq!(wants.claims(), ["p/marked: w"]);
    // Nobody defines it: the operator writes what the NodePool says.
    let written =
        world().pool(pool("p").requires("tier", "Exists", &[]), &types[..1]).pod(pod("w", "cpu=1")).solve();
    assert_eq!(written.claims(), ["p/plain: w"]);
    // The NodePool doesn't declare it, a type does: pods may ask for it.
    let asked = world().pool(pool("p"), &types).pod(pod("w", "cpu=1").selects("tier", "gold")).solve();
    assert_eq!(asked.claims(), ["p/marked: w"]);
}

#[test]
fn headroom_is_shared_by_all_pools_within_one_pass() {
    let m = [md("m1", "cpu=4").price("0.1").headroom(1), md("m2", "cpu=4").price("0.2").headroom(2)];
    let answer = world()
        .pool(pool("a").taint("only=a:NoSchedule"), &m)
        .pool(pool("b"), &m)
        .pods(2, &pod("x", "cpu=3").tolerates("only=a").selects("karpenter.sh/nodepool", "a"))
        .pods(2, &pod("y", "cpu=3"))
        .solve();
    assert_eq!(answer.claims(), ["a/m1: x-0", "a/m2: x-1", "b/m2: y-0"]);
    let reasons = answer.reasons("y-1");
    assert_eq!(
        reasons,
        [
            "MaxSize: m1 may grow by 1 before its maximum size, all taken in this pass",
            "MaxSize: m2 may grow by 2 before its maximum size, all taken in this pass",
            "Taints: NodePool a has taint only=a:NoSchedule, which the pod doesn't tolerate"
        ]
    );
}

#[test]
fn a_claim_that_grows_out_of_a_machine_deployment_gives_its_headroom_back() {
    // The first two pods share a claim, which starts on `small` and ends on `large`; `small` is then free for the third,
    // which fits nowhere else.
    let types = [
        md("small", "cpu=4").price("0.1").headroom(1).label("family", "s"),
        md("large", "cpu=8").price("0.3").label("family", "l"),
    ];
    let answer = world()
        .pool(pool("p"), &types)
        .pod(pod("a", "cpu=4"))
        .pod(pod("b", "cpu=3"))
        .pod(pod("c", "cpu=2").selects("family", "s"))
        .solve();
    assert_eq!(answer.claims(), ["p/large: a b", "p/small: c"]);
}

#[test]
fn a_claim_does_not_grow_onto_a_machine_deployment_without_headroom() {
    let types = [md("small", "cpu=4").price("0.1"), md("large", "cpu=8").price("0.3").headroom(0)];
    let answer = world().pool(pool("p"), &types).pods(2, &pod("w", "cpu=3")).solve();
    assert_eq!(answer.types(), ["small", "small"]);
    assert_eq!(answer.0.node_claims[0].options.len(), 1, "large isn't an option");
}

#[test]
fn or_ed_terms_are_alternatives_whose_order_never_matters() {
    let types = [md("m1", "cpu=4").zone("z1").price("0.3"), md("m2", "cpu=4").zone("z2").price("0.1")];
    let terms = [("z1", "z2"), ("z2", "z1")];
    let answers = terms.map(|(first, second)| {
        let both = pod("w", "cpu=1").requires(ZONE, "In", &[first]).requires(ZONE, "In", &[second]);
        world().pool(pool("p"), &types).pods(5, &both).solve().claims()
    });
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], ["p/m2: w-0 w-1 w-2 w-3", "p/m2: w-4"]);
}

#[test]
fn the_heaviest_preference_counts_and_is_given_up_last() {
    let types = [md("m1", "cpu=4").zone("z1").price("0.1"), md("m2", "cpu=4").zone("z2").price("0.3")];
    let wish = pod("w", "cpu=1").prefers(1, ZONE, "In", &["z1"]).prefers(9, ZONE, "In", &["z2"]);
    assert_eq!(world().pool(pool("p"), &types).pod(wish.clone()).solve().claims(), ["p/m2: w"]);
    let impossible = pod("w", "cpu=1").prefers(9, ZONE, "In", &["z3"]).prefers(1, ZONE, "In", &["z2"]);
    let answer = world().pool(pool("p"), &types).pod(impossible).solve();
    assert_eq!(answer.claims(), ["p/m2: w"], "the lighter wish still counts");
    assert_eq!(
        answer.warnings(),
        ["Pod/default/w: gave up preferred node affinity topology.kubernetes.io/zone In [z3] (weight 9)"]
    );
    let ignored = world().options(|options| options.preference_policy = PreferencePolicy::Ignore);
    assert_eq!(ignored.pool(pool("p"), &types).pod(wish).solve().claims(), ["p/m1: w"]);
}

#[test]
fn prefer_no_schedule_is_avoided_while_there_is_something_else() {
    let m = [md("m", "cpu=4")];
    let soft = || pool("soft").weight(9).taint("a:PreferNoSchedule");
    let answer = world().pool(soft(), &m).pool(pool("plain"), &m).pod(pod("w", "cpu=1")).solve();
    assert_eq!(answer.claims(), ["plain/m: w"]);
    let alone = world().pool(soft(), &m).pod(pod("w", "cpu=1")).solve();
    assert_eq!(alone.claims(), ["soft/m: w"]);
    assert_eq!(alone.warnings(), ["Pod/default/w: gave up avoiding PreferNoSchedule taints"]);
    // Upstream relaxes this for existing nodes only if some NodePool has such a taint.
    let mut tainted = node("n1", "cpu=4");
    tainted.taints.push(taint("a:PreferNoSchedule"));
    assert_eq!(world().node(tainted).pod(pod("w", "cpu=1")).solve().placements(), ["n1: w"]);
}

#[test]
fn a_claim_carries_what_its_pods_require_and_request() {
    let types = [
        md("m1", "cpu=4 memory=8Gi").zone("z1").price("0.1"),
        md("m2", "cpu=4 memory=8Gi").zone("z2").price("0.2"),
    ];
    let answer = world()
        .pool(pool("p").requires(ZONE, "In", &["z1", "z2"]), &types)
        .daemon_set(&pod("d", "cpu=100m"), &[])
        .pod(pod("a", "cpu=2 memory=1Gi").selects(ZONE, "z2"))
        .pod(pod("b", "cpu=1 memory=1Gi"))
        .solve();
    assert_eq!(answer.claims(), ["p/m2: a b"]);
    let claim = &answer.0.node_claims[0];
    assert_eq!(claim.requests, resources("cpu=3100m memory=2Gi pods=3"));
    assert_eq!(claim.requirements.get(ZONE).unwrap().single_value(), Some("z2"));
    assert_eq!(claim.chosen().unwrap().offering.zone(), "z2");
}

#[test]
fn a_pod_may_share_a_claim_only_where_types_remain_that_serve_both() {
    let types = [
        md("amd", "cpu=8").price("0.2"),
        md("arm", "cpu=8").price("0.1").label("kubernetes.io/arch", "arm64"),
    ];
    let answer = world()
        .pool(pool("p"), &types)
        .pod(pod("a", "cpu=2").selects("kubernetes.io/arch", "amd64"))
        .pod(pod("b", "cpu=1").selects("kubernetes.io/arch", "arm64"))
        .pod(pod("c", "cpu=500m"))
        .solve();
    assert_eq!(answer.claims(), ["p/amd: a c", "p/arm: b"]);
}

/// Two claims in flight, made for pods that the zone binds and pods that it doesn't. Packed anew, first come first served, the free
/// pods take the room of the bound ones, which then need a third node.
#[test]
fn pods_keep_the_claims_that_were_made_for_them() {
    let (near, far) =
        (md("near", "cpu=4").price("0.2").zone("z1"), md("far", "cpu=4").price("0.2").zone("z2"));
    let in_flight = |of: &Md, name: &str| {
        let mut claim = joining(of, &["Launched"], &[], None);
        claim.name = name.to_owned();
        claim.node_claim = Some(name.to_owned());
        claim
    };
    let pods = || {
        world()
            .pool(pool("p"), &[near.clone(), far.clone()])
            .node(in_flight(&near, "a-near"))
            .node(in_flight(&far, "b-far"))
            .pods(2, &pod("a-free", "cpu=2"))
            .pods(2, &pod("z-bound", "cpu=2").selects(ZONE, "z1"))
    };
    assert_eq!(
        pods().solve().claims(),
        ["p/near: z-bound-0 z-bound-1"],
        "the case is not the one that is meant"
    );
    let kept = pods()
        .nominated("z-bound-0", "a-near")
        .nominated("z-bound-1", "a-near")
        .nominated("a-free-0", "b-far")
        .nominated("a-free-1", "b-far")
        .solve();
    assert_eq!(kept.placements(), ["a-near: z-bound-0 z-bound-1", "b-far: a-free-0 a-free-1"]);
    assert!(kept.0.node_claims.is_empty());
}

#[test]
fn a_nomination_that_does_not_hold_any_more_is_no_place() {
    let m = md("m", "cpu=4").price("0.2");
    let mut claim = joining(&m, &["Launched"], &[], None);
    claim.name = "c".to_owned();
    claim.node_claim = Some("c".to_owned());
    let answer = world()
        .pool(pool("p"), &[m])
        .node(claim)
        .pods(3, &pod("w", "cpu=2"))
        .pod(pod("x", "cpu=1"))
        .nominated("w-0", "c")
        .nominated("w-1", "c")
        .nominated("w-2", "c")
        .nominated("x", "gone")
        .solve();
    assert_eq!(answer.placements(), ["c: w-0 w-1"]);
    assert_eq!(answer.claims(), ["p/m: w-2 x"]);
}
