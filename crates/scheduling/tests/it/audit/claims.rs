//! Reservations, minValues, DaemonSets and what machines turned out to give.

use super::plans::by_hand;
use crate::support::*;
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_scheduling::input::MinValuesPolicy;
use serde_json::json;

const ID: &str = "example.com/reservation-id";

fn reserved(name: &str, id: &str, places: i64) -> Md {
    let mut one = md(name, "cpu=4").label(CAPACITY_TYPE, "reserved");
    one.0.offerings[0].reservation_capacity = Some(places);
    one.0.offerings[0].requirements.add(Requirement::one_of(ID, &[id]));
    one
}

#[test]
fn a_reservation_is_promised_to_no_more_claims_than_it_has_places() {
    let build = |places: i64| {
        let types = [reserved("m1", "r", places), reserved("m2", "r", places), md("m3", "cpu=4")];
        let mut world = world().pool(pool("p"), &types).pods(2, &pod("a", "cpu=1"));
        world.0.reservation_id_label = ID.to_owned();
        world
    };
    for second in ["m1", "m2"] {
        by_hand(&build(2)).claim(&["m1"], &["a-0"]).claim(&[second], &["a-1"]).is_right();
        let found = by_hand(&build(1)).claim(&["m1"], &["a-0"]).claim(&[second], &["a-1"]).audit();
        assert_eq!(found, ["Reservation/r: is promised to 2 claims, 1 places are left"]);
    }
    by_hand(&build(1)).claim(&["m1", "m2"], &["a-0"]).claim(&["m3"], &["a-1"]).is_right();
    by_hand(&build(1)).claim(&["m1"], &["a-0"]).claim(&["m1", "m3"], &["a-1"]).is_wrong("2 claims, 1 places");
}

#[test]
fn a_reservation_that_is_used_up_is_no_offering_any_more() {
    let build = |places: i64| {
        let mut world = world().pool(pool("p"), &[reserved("m1", "r", places)]).pods(2, &pod("a", "cpu=3"));
        world.0.reservation_id_label = ID.to_owned();
        world
    };
    let used_up = build(1);
    by_hand(&used_up).claim(&["m1"], &["a-0"]).pending("a-1", ReasonCode::NoOffering, Some("m1")).is_right();
    let left = build(2);
    by_hand(&left)
        .claim(&["m1"], &["a-0"])
        .pending("a-1", ReasonCode::NoOffering, Some("m1"))
        .is_wrong("reason NoOffering isn't true of it [p/m1]");
}

#[test]
fn min_values_hold_over_the_options_unless_they_are_said_to_be_relaxed() {
    let types = [md("m1", "cpu=4"), md("m2", "cpu=4")];
    let world = world()
        .pool(pool("p").min_values("node.kubernetes.io/instance-type", 2), &types)
        .pod(pod("a", "cpu=1"))
        .options(|options| options.min_values_policy = MinValuesPolicy::BestEffort);
    by_hand(&world).claim(&["m1", "m2"], &["a"]).is_right();
    by_hand(&world).claim(&["m1"], &["a"]).is_wrong("1 values, minValues is 2");

    let mut lowered = by_hand(&world).claim(&["m1"], &["a"]);
    let claim = &mut lowered.plan.node_claims[0];
    let asked = claim.requirements.get("node.kubernetes.io/instance-type").unwrap().clone();
    claim.requirements.replace(asked.with_min_values(Some(1)));
    lowered.is_wrong("minValues was changed and isn't said to be");
    lowered.plan.node_claims[0].min_values_relaxed = true;
    lowered.is_right();
}

#[test]
fn the_part_of_daemons_in_a_claim_is_what_they_take() {
    let daemon = pod("d", "cpu=1").selects(ZONE, "z1");
    let types = [md("m1", "cpu=4").zone("z1"), md("m2", "cpu=4").zone("z2")];
    let world = world().pool(pool("p"), &types).daemon_set(&daemon, &[]).pod(pod("a", "cpu=1"));
    by_hand(&world).claim(&["m1"], &["a"]).with_daemons("cpu=1 pods=1").is_right();
    by_hand(&world).claim(&["m1", "m2"], &["a"]).is_right();
    by_hand(&world).claim(&["m1"], &["a"]).is_wrong("says that DaemonSets take");
    by_hand(&world).claim(&["m2"], &["a"]).with_daemons("cpu=1 pods=1").is_wrong("says that DaemonSets take");
}

#[test]
fn a_claim_is_no_fuller_than_such_machines_turned_out_to_be() {
    let of_type = md("m1", "cpu=4 memory=16Gi");
    let amounts = json!({"cpu": "4", "memory": "15Gi", "pods": "110"});
    let like = joining(
        &of_type,
        &["Launched", "Registered", "Initialized"],
        &[],
        Some(node_object("n1", &amounts, &[])),
    );
    let world = world()
        .pool(pool("p"), std::slice::from_ref(&of_type))
        .node(like)
        .pod(pod("a", "cpu=1 memory=15Gi"))
        .pod(pod("b", "cpu=1 memory=1Gi"));
    by_hand(&world).claim(&["m1"], &["a"]).claim(&["m1"], &["b"]).is_right();
    by_hand(&world).claim(&["m1"], &["a", "b"]).is_wrong("the most that such machines gave");
}

#[test]
fn an_option_that_can_not_be_had_is_found() {
    let types = [md("m1", "cpu=4").headroom(1), md("m2", "cpu=4").headroom(0)];
    let world = world().pool(pool("p"), &types).pod(pod("a", "cpu=1"));
    by_hand(&world).claim(&["m1"], &["a"]).is_right();
    by_hand(&world).claim(&["m1", "m2"], &["a"]).is_wrong("NodeClaim/p-0 as m2: can't be had now");
}
