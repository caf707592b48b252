//! Host ports, volumes, affinity and anti-affinity.

use super::plans::by_hand;
use crate::support::*;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_scheduling::input::VolumeClaim;
use serde_json::json;

const HOST: &str = "kubernetes.io/hostname";

fn zones() -> [Md; 2] {
    [md("m1", "cpu=4").zone("z1"), md("m2", "cpu=4").zone("z2")]
}

fn in_zone(name: &str, zone: &str) -> karpenter_capi_model::node::Node {
    let mut one = node(name, "cpu=4");
    one.labels.insert(ZONE.to_owned(), zone.to_owned());
    one
}

/// A pod with a host port, `port`, `ip:port` or `ip:port/protocol`.
fn with_port(name: &str, text: &str) -> PodOf {
    let (rest, protocol) = text.split_once('/').unwrap_or((text, "TCP"));
    let (ip, number) = rest.split_once(':').unwrap_or(("", rest));
    let number: i32 = number.parse().unwrap();
    let mut one = pod(name, "cpu=100m");
    one.0["spec"]["containers"][0]["ports"] =
        json!([{"containerPort": 80, "hostPort": number, "hostIP": ip, "protocol": protocol}]);
    one
}

fn mounts(name: &str, claims: &[&str]) -> PodOf {
    let volumes: Vec<_> = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}))
        .collect();
    pod(name, "cpu=100m").spec("volumes", json!(volumes))
}

fn usable(world: &mut World, name: &str, zone: Option<&str>) {
    let alternatives =
        zone.map(|zone| [Requirement::one_of(ZONE, &[zone])].into_iter().collect()).into_iter().collect();
    let claim = VolumeClaim::Usable { alternatives, driver: Some("csi.example".to_owned()) };
    world.0.volumes.claims.insert(NamespacedName::new("default", name), claim);
}

#[test]
fn a_host_port_is_given_once_for_each_node_address_and_protocol() {
    for (one, other, clash) in [
        ("80", "80", true),
        ("10.0.0.1:80", "10.0.0.2:80", false),
        ("10.0.0.1:80", "0.0.0.0:80", true),
        ("80", "80/UDP", false),
        ("80", "81", false),
    ] {
        let world = world()
            .pool(pool("p"), &zones())
            .node(node("n1", "cpu=4"))
            .pod(with_port("a", one))
            .bound("n1", with_port("b", other));
        let plan = by_hand(&world).on("n1", &["a"]);
        let taken: Vec<bool> =
            plan.audit().iter().map(|line| line.contains("wants host port 80/TCP on Node/n1")).collect();
        assert_eq!(taken, vec![true; usize::from(clash)], "{one} {other}");
        by_hand(&world).claim(&["m1"], &["a"]).is_right();

        let world =
            self::world().pool(pool("p"), &zones()).pod(with_port("a", one)).pod(with_port("b", other));
        let plan = by_hand(&world).claim(&["m1"], &["a", "b"]);
        let taken: Vec<bool> = plan.audit().iter().map(|line| line.contains("which default/b has")).collect();
        assert_eq!(taken, vec![true; usize::from(clash)], "{one} {other}");
    }
}

#[test]
fn the_port_of_a_daemon_that_will_run_is_taken() {
    let daemon = with_port("d", "80").selects(ZONE, "z1");
    let world = world()
        .pool(pool("p"), &zones())
        .node(in_zone("n1", "z1"))
        .node(in_zone("n2", "z2"))
        .pod(with_port("a", "80"))
        .daemon_set(&daemon, &[]);
    by_hand(&world).on("n1", &["a"]).is_wrong("wants host port 80/TCP on Node/n1, which default/d has");
    by_hand(&world).on("n2", &["a"]).is_right();
    let claim = by_hand(&world).claim(&["m1"], &["a"]).asking(ZONE, "z1").with_daemons("cpu=100m pods=1");
    claim.is_wrong("wants host port 80/TCP on NodeClaim/p-0 as m1, which default/d has");
    by_hand(&world).claim(&["m2"], &["a"]).asking(ZONE, "z2").is_right();
}

#[test]
fn a_volume_is_reached_from_its_zone_only() {
    let mut world = world()
        .pool(pool("p"), &zones())
        .node(in_zone("n1", "z1"))
        .node(in_zone("n2", "z2"))
        .pod(mounts("a", &["v"]));
    by_hand(&world).on("n1", &["a"]).is_wrong("nothing is known of PersistentVolumeClaim default/v");
    usable(&mut world, "v", Some("z1"));
    by_hand(&world).on("n1", &["a"]).is_right();
    by_hand(&world).on("n2", &["a"]).is_wrong("can't reach its volume default/v from n2");
    by_hand(&world).claim(&["m1"], &["a"]).is_right();
    by_hand(&world)
        .claim(&["m1", "m2"], &["a"])
        .is_wrong("isn't sure to reach its volume default/v from NodeClaim/p-0 as m2");
    usable(&mut world, "v", None);
    by_hand(&world).claim(&["m1", "m2"], &["a"]).is_right();
    let gone = VolumeClaim::Unusable("PersistentVolumeClaim default/v not found".to_owned());
    world.0.volumes.claims.insert(NamespacedName::new("default", "v"), gone);
    by_hand(&world).on("n1", &["a"]).is_wrong("can't be mounted: PersistentVolumeClaim default/v not found");
}

#[test]
fn a_node_attaches_no_more_than_its_driver_can_and_a_claim_counts_once() {
    let build = |limit: i64| {
        let mut world = world()
            .node(node("n1", "cpu=4"))
            .bound("n1", mounts("there", &["v1", "v2"]))
            .pod(mounts("a", &["v2", "v3"]))
            .pod(mounts("b", &["v3"]));
        for name in ["v1", "v2", "v3"] {
            usable(&mut world, name, None);
        }
        world.0.volumes.attach_limits.insert("n1".to_owned(), [("csi.example".to_owned(), limit)].into());
        world
    };
    by_hand(&build(3)).on("n1", &["a", "b"]).is_right();
    by_hand(&build(2))
        .on("n1", &["a", "b"])
        .is_wrong("Node/n1: csi.example: 2 volumes attached and 1 placed are more than 2");
}

#[test]
fn anti_affinity_repels_in_both_directions() {
    let shy = || pod("shy", "cpu=100m").label("app", "x").repels_in(ZONE, "web");
    let web = || pod("web", "cpu=100m").label("app", "web");
    let base = || world().pool(pool("p"), &zones()).node(in_zone("n1", "z1")).node(in_zone("n2", "z2"));

    let own_term = base().bound("n1", web()).pod(shy());
    by_hand(&own_term)
        .on("n1", &["shy"])
        .is_wrong("may share topology.kubernetes.io/zone with default/web (on n1)");
    by_hand(&own_term).claim(&["m1"], &["shy"]).is_wrong("anti-affinity of default/shy forbids");
    by_hand(&own_term).claim(&["m2"], &["shy"]).is_right();

    let others_term = base().bound("n1", shy()).pod(web());
    by_hand(&others_term).on("n1", &["web"]).is_wrong("Pod/default/web: may share");
    by_hand(&others_term).on("n2", &["web"]).is_right();

    let both_placed = base().pod(shy()).pod(web());
    by_hand(&both_placed)
        .on("n1", &["shy"])
        .claim(&["m1"], &["web"])
        .is_wrong("anti-affinity of default/shy");
    by_hand(&both_placed).on("n1", &["shy"]).claim(&["m2"], &["web"]).is_right();
}

#[test]
fn claims_that_may_land_in_one_zone_conflict_whatever_is_launched() {
    let alone = pod("a", "cpu=100m").label("app", "a").repels_in(ZONE, "a");
    let world = world().pool(pool("p"), &zones()).pods(2, &alone);
    by_hand(&world).claim(&["m1"], &["a-0"]).claim(&["m2"], &["a-1"]).is_right();
    let open = by_hand(&world).claim(&["m1", "m2"], &["a-0"]).claim(&["m2"], &["a-1"]).audit();
    assert_eq!(open.len(), 2, "{open:#?}");
    assert!(open[0].contains("may share topology.kubernetes.io/zone"), "{open:#?}");
}

#[test]
fn a_node_without_the_key_is_no_domain_to_be_kept_out_of() {
    let alone = pod("a", "cpu=100m").label("app", "a").repels_in(ZONE, "a");
    let world = world().node(node("n1", "cpu=4")).pods(2, &alone);
    by_hand(&world).on("n1", &["a-0", "a-1"]).is_right();
}

#[test]
fn pods_in_other_namespaces_are_selected_only_where_the_term_says_so() {
    let shy = |scope: serde_json::Value| {
        let mut one = pod("shy", "cpu=100m").repels_in(HOST, "web");
        let term = &mut one.0["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            [0];
        for (key, value) in scope.as_object().unwrap() {
            term[key] = value.clone();
        }
        one
    };
    for (scope, selected) in [
        (json!({}), false),
        (json!({"namespaces": ["other"]}), true),
        (json!({"namespaces": ["third"]}), false),
        (json!({"namespaceSelector": {}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "red"}}}), false),
        (json!({"namespaceSelector": {}, "labelSelector": null}), false),
    ] {
        let web = pod("web", "cpu=100m").label("app", "web").in_namespace("other");
        let mut world = world().node(node("n1", "cpu=4")).bound("n1", web).pod(shy(scope.clone()));
        world.0.namespaces.insert("other".to_owned(), [("team".to_owned(), "blue".to_owned())].into());
        let plan = by_hand(&world).on("n1", &["shy"]);
        assert_eq!(plan.audit().len(), usize::from(selected), "{scope}: {:?}", plan.audit());
    }
}

#[test]
fn a_pod_that_is_going_or_is_moved_repels_nobody() {
    let alone = || pod("a", "cpu=100m").label("app", "a").repels_in(HOST, "a");
    let mut going = alone();
    going.0["metadata"]["name"] = json!("going");
    going.0["metadata"]["deletionTimestamp"] = json!("2026-01-05T12:00:00Z");
    let world = world().node(node("n1", "cpu=4")).bound("n1", going).pod(alone());
    by_hand(&world).on("n1", &["a"]).is_right();

    let mut leaving = node("n2", "cpu=4");
    leaving.marked_for_deletion = true;
    let mut zoned = self::world().node(leaving).node(node("n1", "cpu=4")).bound("n2", alone()).pod(alone());
    for node in &mut zoned.0.nodes {
        node.labels.insert(ZONE.to_owned(), "z1".to_owned());
    }
    by_hand(&zoned).on("n1", &["a"]).is_right();
}

#[test]
fn affinity_needs_a_pod_in_the_domain() {
    let world = world()
        .pool(pool("p"), &zones())
        .node(in_zone("n1", "z1"))
        .node(in_zone("n2", "z2"))
        .bound("n1", pod("db", "cpu=100m").label("app", "db"))
        .pod(pod("a", "cpu=100m").wants_in(ZONE, "db"));
    by_hand(&world).on("n1", &["a"]).is_right();
    by_hand(&world).claim(&["m1"], &["a"]).is_right();
    by_hand(&world).on("n2", &["a"]).is_wrong("isn't sure to find a pod that its affinity wants");
    by_hand(&world).claim(&["m1", "m2"], &["a"]).is_wrong("isn't sure to find a pod");
}

#[test]
fn a_pod_of_the_plan_serves_affinity_and_two_that_wait_for_each_other_do_not() {
    let a = pod("a", "cpu=100m").label("app", "a").wants_in(HOST, "b");
    let b = pod("b", "cpu=100m").label("app", "b");
    let world = world().pool(pool("p"), &zones()).pod(a.clone()).pod(b.clone());
    by_hand(&world).claim(&["m1", "m2"], &["a", "b"]).is_right();
    by_hand(&world).claim(&["m1"], &["a"]).claim(&["m1"], &["b"]).is_wrong("Pod/default/a");

    let world = self::world().pool(pool("p"), &zones()).pod(a).pod(b.wants_in(HOST, "a"));
    let found = by_hand(&world).claim(&["m1"], &["a", "b"]).audit();
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[test]
fn only_the_first_of_a_group_may_find_nobody() {
    let herd = pod("h", "cpu=100m").label("app", "h").wants_in(ZONE, "h");
    let base = || world().pool(pool("p"), &zones()).node(in_zone("n1", "z1")).pods(2, &herd);
    by_hand(&base()).claim(&["m2"], &["h-0", "h-1"]).is_right();
    by_hand(&base()).claim(&["m2"], &["h-0"]).claim(&["m2"], &["h-1"]).is_right();
    by_hand(&base()).claim(&["m1"], &["h-0"]).claim(&["m2"], &["h-1"]).is_wrong("isn't sure to find a pod");
    let there = base().bound("n1", pod("old", "cpu=100m").label("app", "h"));
    by_hand(&there).claim(&["m1"], &["h-0", "h-1"]).is_right();
    let found = by_hand(&there).claim(&["m2"], &["h-0", "h-1"]).audit();
    assert_eq!(found.len(), 2, "{found:#?}");
    // A pod that doesn't carry the term may come later, in another zone.
    let with_free = base().pod(pod("free", "cpu=100m").label("app", "h"));
    by_hand(&with_free).claim(&["m2"], &["h-0", "h-1"]).claim(&["m1"], &["free"]).is_right();
}

#[test]
fn being_first_in_one_group_waits_for_another_group_that_it_would_spoil() {
    let both = pod("both", "cpu=100m").label("app", "a").label("tier", "b").wants_in(ZONE, "a");
    let mut tier = pod("tier", "cpu=100m").label("tier", "b").wants_in(ZONE, "x");
    tier.0["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"] =
        json!({"matchLabels": {"tier": "b"}});
    let world = world().pool(pool("p"), &zones()).pod(both).pod(tier);
    by_hand(&world).claim(&["m1"], &["both"]).claim(&["m2"], &["tier"]).is_right();
}
