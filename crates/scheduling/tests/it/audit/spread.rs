//! Topology spread constraints.

use super::plans::by_hand;
use crate::support::*;
use karpenter_capi_model::node::Node;
use karpenter_capi_model::reason::ReasonCode;
use serde_json::{Value, json};

const HOST: &str = "kubernetes.io/hostname";
const ROLE: &str = "node-role.kubernetes.io/worker";

fn three_zones() -> [Md; 3] {
    [("m1", "z1"), ("m2", "z2"), ("m3", "z3")].map(|(name, zone)| md(name, "cpu=4").zone(zone))
}

fn in_zone(name: &str, zone: &str) -> Node {
    let mut one = node(name, "cpu=4");
    one.labels.insert(ZONE.to_owned(), zone.to_owned());
    one
}

fn web(name: &str) -> PodOf {
    pod(name, "cpu=100m").label("app", "web")
}

fn spread(more: Value) -> PodOf {
    web("w").spreads(ZONE, 1, "web", more)
}

#[test]
fn zones_that_a_pool_could_provide_count_before_there_is_a_node() {
    // Case 1.
    let pods = spread(json!({"minDomains": 3})).selects("karpenter.sh/nodepool", "p");
    let tainted = || pool("p").taint("ci=true:NoSchedule");
    let world = world().pool(tainted(), &three_zones()).pods(3, &pods.clone().tolerates("ci=true"));
    let each = by_hand(&world).claim(&["m1"], &["w-0"]).claim(&["m2"], &["w-1"]);
    each.claim(&["m3"], &["w-2"]).is_right();
    let two = by_hand(&world).claim(&["m1"], &["w-0", "w-1"]).claim(&["m2"], &["w-2"]);
    two.is_wrong("1 like it are in topology.kubernetes.io/zone \"z1\" against maxSkew 1");
}

#[test]
fn fewer_domains_than_min_domains_leave_one_place_in_each() {
    // Case 1, variant.
    let world = world().pool(pool("p"), &three_zones()).pods(4, &spread(json!({"minDomains": 4})));
    let three = || by_hand(&world).claim(&["m1"], &["w-0"]).claim(&["m2"], &["w-1"]);
    three().claim(&["m3"], &["w-2"]).pending("w-3", ReasonCode::Topology, None).is_right();
    three().claim(&["m3"], &["w-2", "w-3"]).is_wrong("\"z3\" against maxSkew 1");
    let enough = self::world().pool(pool("p"), &three_zones()).pods(4, &spread(json!({"minDomains": 3})));
    let plan = by_hand(&enough).claim(&["m1"], &["w-0"]).claim(&["m2"], &["w-1"]);
    plan.claim(&["m3"], &["w-2", "w-3"]).is_right();
}

#[test]
fn a_node_without_the_key_is_no_domain_and_takes_no_such_pod() {
    // Case 3.
    let mut types = three_zones().to_vec();
    types.push(md("m9", "cpu=4"));
    let mut world = world().pool(pool("p"), &types);
    for (name, zone) in [("n1", "z1"), ("n2", "z2"), ("n3", "z3")] {
        world = world.node(in_zone(name, zone)).bound(name, web(name));
    }
    let world = world.pods(5, &spread(json!({})));
    let plan = || {
        by_hand(&world)
            .claim(&["m1"], &["w-0"])
            .claim(&["m1"], &["w-1"])
            .claim(&["m2"], &["w-2"])
            .claim(&["m2"], &["w-3"])
    };
    plan().claim(&["m3"], &["w-4"]).is_right();
    plan()
        .claim(&["m9"], &["w-4"])
        .is_wrong("Pod/default/w-4: isn't sure of its topology.kubernetes.io/zone");
}

#[test]
fn an_empty_value_is_a_domain() {
    // Case 4.
    let types = [md("m1", "cpu=4").label(ROLE, "")];
    let pods = web("w").spreads(ROLE, 1, "web", json!({}));
    let world = world().pool(pool("p"), &types).pods(3, &pods);
    by_hand(&world).claim(&["m1"], &["w-0", "w-1", "w-2"]).is_right();
    let with_other =
        self::world().pool(pool("p"), &[types[0].clone(), md("m2", "cpu=4").label(ROLE, "x")]).pods(3, &pods);
    by_hand(&with_other).claim(&["m1"], &["w-0", "w-1", "w-2"]).is_wrong("2 like it are in");
}

#[test]
fn what_only_another_pool_offers_is_no_domain_unless_affinity_is_ignored() {
    // Case 5.
    let build = |more: Value| {
        let pods = web("w").selects("workload", "app").tolerates("workload=app");
        let a = pool("a").label("workload", "app").taint("workload=app:NoSchedule").requires(
            "spread",
            "In",
            &["1"],
        );
        world()
            .pool(a, &[md("m1", "cpu=4")])
            .pool(pool("b").requires("spread", "In", &["2", "3"]), &[md("m1", "cpu=4")])
            .pods(2, &pods.spreads("spread", 1, "web", more))
    };
    let world = build(json!({}));
    by_hand(&world).claim_of("a", &["m1"], &["w-0"]).claim_of("a", &["m1"], &["w-1"]).is_right();
    let world = build(json!({"nodeAffinityPolicy": "Ignore"}));
    let plan = by_hand(&world).claim_of("a", &["m1"], &["w-0"]).claim_of("a", &["m1"], &["w-1"]);
    plan.is_wrong("spread \"1\" against maxSkew 1");
}

#[test]
fn tainted_nodes_are_domains_unless_taints_are_honored() {
    let build = |policy: &str| {
        let mut tainted = in_zone("n2", "z2");
        tainted.taints.push(taint("x:NoSchedule"));
        world().node(in_zone("n1", "z1")).node(tainted).pods(2, &spread(json!({"nodeTaintsPolicy": policy})))
    };
    by_hand(&build("Honor")).on("n1", &["w-0", "w-1"]).is_right();
    by_hand(&build("Ignore")).on("n1", &["w-0", "w-1"]).is_wrong("\"z1\" against maxSkew 1");
}

#[test]
fn zones_that_can_not_be_had_now_hold_nobody_up() {
    let build = |spoil: fn(Md) -> Md| {
        let types = [md("m1", "cpu=4").zone("z1"), spoil(md("m2", "cpu=4").zone("z2"))];
        world().pool(pool("p"), &types).pods(2, &spread(json!({})))
    };
    by_hand(&build(|md| md)).claim(&["m1"], &["w-0", "w-1"]).is_wrong("\"z1\" against maxSkew 1");
    by_hand(&build(|md| md.headroom(0))).claim(&["m1"], &["w-0", "w-1"]).is_right();
    by_hand(&build(|md| md.unavailable(ReasonCode::OutOfCapacity, "none")))
        .claim(&["m1"], &["w-0", "w-1"])
        .is_right();
}

#[test]
fn each_new_host_takes_no_more_than_max_skew() {
    // Case 7: four are right with a skew of four.
    let pods = |skew| web("w").spreads(HOST, skew, "web", json!({}));
    let world = world().pool(pool("p"), &[md("m1", "cpu=8")]).pods(4, &pods(4));
    by_hand(&world).claim(&["m1"], &["w-0", "w-1", "w-2", "w-3"]).is_right();
    let world =
        self::world().pool(pool("p"), &[md("m1", "cpu=8")]).node(node("n1", "cpu=1")).pods(4, &pods(2));
    by_hand(&world).claim(&["m1"], &["w-0", "w-1"]).claim(&["m1"], &["w-2", "w-3"]).is_right();
    by_hand(&world).claim(&["m1"], &["w-0", "w-1", "w-2"]).on("n1", &["w-3"]).is_wrong("1 like it are in");
}

#[test]
fn pods_that_match_without_the_constraint_may_raise_the_skew_and_excuse_nothing() {
    let base = || world().node(in_zone("n1", "z1")).node(in_zone("n2", "z2"));
    // They may come last.
    let world = base().pod(spread(json!({}))).pods(3, &web("free"));
    by_hand(&world).on("n1", &["w", "free-0", "free-1", "free-2"]).is_right();
    // They may come first where that helps.
    let world = base().pods(3, &spread(json!({}))).pods(2, &web("free"));
    by_hand(&world).on("n1", &["w-0", "w-1", "w-2"]).on("n2", &["free-0", "free-1"]).is_right();
    by_hand(&world)
        .on("n1", &["w-0", "w-1", "w-2", "free-0"])
        .on("n2", &["free-1"])
        .is_wrong("1 like it are in");
    // Bound ones were there before.
    let world = base().bound("n1", web("old")).pod(spread(json!({})));
    by_hand(&world).on("n1", &["w"]).is_wrong("\"z1\": 1 there, 1 placed, 0 of others");
    by_hand(&world).on("n2", &["w"]).is_right();
}

#[test]
fn a_pod_that_its_own_constraint_does_not_count_goes_where_there_are_few() {
    let watcher = pod("w", "cpu=100m").spreads(ZONE, 1, "web", json!({}));
    let base = || world().node(in_zone("n1", "z1")).node(in_zone("n2", "z2")).pod(watcher.clone());
    let world = base().bound("n1", web("a"));
    by_hand(&world).on("n1", &["w"]).is_right();
    let world = base().bound("n1", web("a")).bound("n1", web("b"));
    by_hand(&world).on("n1", &["w"]).is_wrong("is in topology.kubernetes.io/zone \"z1\" against maxSkew 1");
    by_hand(&world).on("n2", &["w"]).is_right();
}

#[test]
fn pods_elsewhere_going_or_moved_do_not_count() {
    let mut going = web("going");
    going.0["metadata"]["deletionTimestamp"] = json!("2026-01-05T12:00:00Z");
    let mut leaving = in_zone("n3", "z1");
    leaving.marked_for_deletion = true;
    let world = world()
        .node(in_zone("n1", "z1"))
        .node(in_zone("n2", "z2"))
        .node(leaving)
        .bound("n1", going)
        .bound("n1", web("other").in_namespace("other"))
        .bound("n3", web("w"))
        .pod(spread(json!({})));
    by_hand(&world).on("n1", &["w"]).is_right();
}

#[test]
fn a_pod_that_spreads_must_know_its_domain() {
    let world = world().pool(pool("p"), &three_zones()).pods(1, &spread(json!({})));
    by_hand(&world).claim(&["m1", "m2"], &["w-0"]).is_wrong("isn't sure of its topology.kubernetes.io/zone");
}

#[test]
fn a_constraint_that_is_only_a_wish_forbids_nothing() {
    let pods = spread(json!({"whenUnsatisfiable": "ScheduleAnyway"}));
    let world = world().pool(pool("p"), &three_zones()).pods(2, &pods);
    by_hand(&world).claim(&["m1", "m2"], &["w-0", "w-1"]).is_right();
}
