//! Pods without a place: reasons that aren't true, and places that were overlooked.

use super::plans::by_hand;
use crate::support::*;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::reason::ReasonCode::{self, *};
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_scheduling::input::VolumeClaim;
use serde_json::json;

/// The one pod `a` of a world is pending for that reason of pool `p` (and perhaps one of its types).
#[track_caller]
fn assert_reason(world: &World, code: ReasonCode, of_type: Option<&str>, is_true: bool) {
    let plan = by_hand(world).pending("a", code, of_type);
    let found = plan.audit();
    let blamed = found.iter().any(|line| line.contains(&format!("reason {code} isn't true of it")));
    assert_eq!(blamed, !is_true, "{code} {of_type:?}: {found:#?}");
}

#[test]
fn a_reason_that_is_not_true_is_found() {
    let plain = world().pool(pool("p"), &[md("m1", "cpu=4")]).pod(pod("a", "cpu=1"));
    for code in [
        Taints,
        Requirements,
        InsufficientResources,
        Limits,
        MaxSize,
        HostPorts,
        Volumes,
        VolumeMissing,
        Topology,
        Affinity,
        MinValues,
        Reserved,
        NodePoolNotReady,
        Paused,
        NoOffering,
        DynamicResources,
        OutOfCapacity,
        RollingOut,
    ] {
        assert_reason(&plain, code, None, false);
        assert_reason(&plain, code, Some("m1"), false);
    }
    assert_reason(&plain, NotEvaluated, None, true);
}

#[test]
fn a_reason_that_is_true_is_left_alone() {
    let one = |pool: Pool, of_type: Md, pod: PodOf| world().pool(pool, &[of_type]).pod(pod);
    let (m1, a) = (|| md("m1", "cpu=4"), || pod("a", "cpu=1"));
    assert_reason(&one(pool("p").taint("x:NoSchedule"), m1(), a()), Taints, None, true);
    assert_reason(&one(pool("p").taint("x:PreferNoSchedule"), m1(), a()), Taints, None, false);
    assert_reason(&one(pool("p"), m1().taint("x:NoExecute"), a()), Taints, Some("m1"), true);
    assert_reason(&one(pool("p"), m1().zone("z1"), a().selects(ZONE, "z2")), Requirements, Some("m1"), true);
    assert_reason(&one(pool("p"), m1(), pod("a", "cpu=5")), InsufficientResources, Some("m1"), true);
    assert_reason(&one(pool("p").limit("cpu", "7").uses("cpu=4", 1), m1(), a()), Limits, None, true);
    assert_reason(&one(pool("p").limit("nodes", "1").uses("cpu=4", 1), m1(), a()), Limits, None, true);
    assert_reason(&one(pool("p"), m1().headroom(0), a()), MaxSize, Some("m1"), true);
    assert_reason(&one(pool("p").not_ready("no class"), m1(), a()), NodePoolNotReady, None, true);
    assert_reason(&one(pool("p").paused(), m1(), a()), Paused, None, true);
    assert_reason(&one(pool("p").min_values(ZONE, 2), m1().zone("z1"), a()), MinValues, None, true);
    assert_reason(
        &one(pool("p"), m1().unavailable(OutOfCapacity, "none"), a()),
        OutOfCapacity,
        Some("m1"),
        true,
    );
    assert_reason(
        &one(pool("p"), m1().unavailable(OutOfCapacity, "none"), a()),
        NoOffering,
        Some("m1"),
        true,
    );
    assert_reason(&one(pool("p"), m1(), a().spreads(ZONE, 1, "x", json!({}))), Topology, None, true);
    assert_reason(&one(pool("p"), m1(), a().wants_in(ZONE, "x")), Affinity, None, true);
    let repelled = one(pool("p"), m1(), a().label("app", "x")).pod(pod("b", "cpu=1").repels("x"));
    assert_reason(&repelled, Affinity, None, true);
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]);
    assert_reason(&one(pool("p"), m1(), a().spec("volumes", volumes)), VolumeMissing, None, true);
    let ports = json!([{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]);
    let ported = || a().spec("containers", ports.clone());
    assert_reason(&one(pool("p"), m1(), ported()), HostPorts, Some("m1"), false);
    let mut daemon = ported();
    daemon.0["metadata"]["name"] = json!("d");
    assert_reason(&one(pool("p"), m1(), ported()).daemon_set(&daemon, &[]), HostPorts, Some("m1"), true);
}

#[test]
fn a_pod_that_a_new_node_would_take_is_not_pending() {
    let stranded = |world: &World| {
        let found = by_hand(world).pending("a", Topology, None).audit();
        found.iter().any(|line| line.contains("is pending, and a new m1 of NodePool p would take it"))
    };
    let one = |pool: Pool, of_type: Md, pod: PodOf| world().pool(pool, &[of_type]).pod(pod);
    let (m1, a) = (|| md("m1", "cpu=4"), || pod("a", "cpu=1"));
    by_hand(&one(pool("p"), m1(), a())).pending("a", NotEvaluated, None).is_right();
    assert!(stranded(&one(pool("p"), m1(), a())));
    assert!(stranded(&one(
        pool("p"),
        m1(),
        a().spreads(ZONE, 1, "x", json!({"whenUnsatisfiable": "ScheduleAnyway"}))
    )));
    assert!(stranded(&one(pool("p").taint("x:PreferNoSchedule"), m1(), a())));
    // Between hosts an empty one is always right.
    assert!(stranded(&one(
        pool("p"),
        m1(),
        a().label("app", "x").spreads("kubernetes.io/hostname", 1, "x", json!({}))
    )));
    assert!(stranded(&one(pool("p"), m1(), a().repels("x"))));
    assert!(stranded(&one(pool("p"), m1(), a().label("app", "x")).pod(pod("b", "cpu=5").repels("x"))));
    let ported = || {
        let ports = json!([{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]);
        a().spec("containers", ports)
    };
    let mut daemon = ported();
    daemon.0["metadata"]["name"] = json!("d");
    assert!(stranded(&one(pool("p"), m1(), ported())));
    let mounting =
        || a().spec("volumes", json!([{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]));
    let with_volume = |zone: &str| {
        let mut world = one(pool("p"), m1().zone("z1"), mounting());
        let place = [Requirement::one_of(ZONE, &[zone])].into_iter().collect();
        let claim = VolumeClaim::Usable { alternatives: vec![place], driver: None };
        world.0.volumes.claims.insert(NamespacedName::new("default", "v"), claim);
        world
    };
    assert!(stranded(&with_volume("z1")));
    for world in [
        with_volume("z2"),
        one(pool("p"), m1(), mounting()),
        one(pool("p"), m1(), ported()).daemon_set(&daemon, &[]),
        one(pool("p"), m1(), a().repels_in(ZONE, "x")),
        one(pool("p"), m1(), a().label("app", "x")).pod(pod("b", "cpu=5").repels_in(ZONE, "x")),
        one(pool("p"), m1(), a().wants_in("kubernetes.io/hostname", "x")),
        one(pool("p").taint("x:NoSchedule"), m1(), a()),
        one(pool("p").paused(), m1(), a()),
        one(pool("p").limit("cpu", "3"), m1(), a()),
        one(pool("p").min_values(ZONE, 2), m1(), a()),
        one(pool("p"), m1().headroom(0), a()),
        one(pool("p"), m1(), a().selects("team", "blue")),
        one(pool("p"), m1(), pod("a", "cpu=5")),
        one(pool("p"), m1(), a().spreads(ZONE, 1, "x", json!({}))),
        one(pool("p"), m1(), pod("a", "cpu=3500m")).daemon_set(&pod("d", "cpu=1"), &[]),
    ] {
        assert!(!stranded(&world));
    }
}

#[test]
fn limits_and_maximum_sizes_that_others_of_the_plan_use_up_are_an_excuse() {
    let build = |pool: Pool, of_type: Md| {
        world().pool(pool, &[of_type]).pod(pod("a", "cpu=4")).pod(pod("b", "cpu=4"))
    };
    let world = build(pool("p").limit("cpu", "4"), md("m1", "cpu=4"));
    by_hand(&world).claim(&["m1"], &["b"]).pending("a", Limits, None).is_right();
    let world = build(pool("p"), md("m1", "cpu=4").headroom(1));
    by_hand(&world).claim(&["m1"], &["b"]).pending("a", MaxSize, Some("m1")).is_right();
    let world = build(pool("p"), md("m1", "cpu=4").headroom(2));
    let found = by_hand(&world).claim(&["m1"], &["b"]).pending("a", MaxSize, Some("m1")).audit();
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[test]
fn a_pod_that_an_existing_node_has_room_for_is_not_pending() {
    let build = |free: &str| {
        world().pool(pool("p"), &[]).node(node("n1", free)).pod(pod("a", "cpu=2")).pod(pod("b", "cpu=1"))
    };
    by_hand(&build("cpu=3"))
        .on("n1", &["b"])
        .pending("a", Topology, None)
        .audit()
        .iter()
        .find(|line| line.contains("node n1 has room for it"))
        .unwrap();
    let tight = build("cpu=2");
    let found = by_hand(&tight).on("n1", &["b"]).pending("a", NoOffering, None).audit();
    assert_eq!(found, Vec::<String>::new());
}
