//! The zone that is left to a pod.

use crate::support::*;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_scheduling::effective_zones;
use karpenter_capi_scheduling::input::VolumeClaim;
use serde_json::json;

fn base() -> World {
    let types = [md("m1", "cpu=4").zone("z1"), md("m2", "cpu=4").zone("z2")];
    let mut there = node("n1", "cpu=4");
    there.labels.insert(ZONE.to_owned(), "z1".to_owned());
    world().pool(pool("p"), &types).node(there).bound("n1", pod("old", "cpu=1").label("app", "web"))
}

#[track_caller]
fn assert_zone(world: World, pod: PodOf, zone: &str) {
    assert_eq!(effective_zones(&world.pod(pod).0), [(zone.to_owned(), 1)].into());
}

#[test]
fn node_constraints_leave_a_zone() {
    let a = || pod("a", "cpu=1");
    assert_zone(base(), a(), "flexible");
    assert_zone(base(), a().selects(ZONE, "z2"), "z2");
    assert_zone(base(), a().requires(ZONE, "In", &["z1"]), "z1");
    assert_zone(base(), a().requires(ZONE, "In", &["z1"]).requires(ZONE, "In", &["z2"]), "flexible");
    assert_zone(base(), a().requires(ZONE, "NotIn", &["z1"]), "flexible");
    assert_zone(base(), a().selects(ZONE, "z1").requires(ZONE, "NotIn", &["z1"]), "none");
}

#[test]
fn volumes_leave_a_zone() {
    let mounting = pod("a", "cpu=1")
        .spec("volumes", json!([{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]));
    let with = |zones: &[&str]| {
        let mut world = base();
        let place = |zone: &&str| [Requirement::one_of(ZONE, &[zone])].into_iter().collect();
        let claim = VolumeClaim::Usable { alternatives: zones.iter().map(place).collect(), driver: None };
        world.0.volumes.claims.insert(NamespacedName::new("default", "v"), claim);
        world
    };
    assert_zone(with(&[]), mounting.clone(), "flexible");
    assert_zone(with(&["z2"]), mounting.clone(), "z2");
    assert_zone(with(&["z1", "z2"]), mounting.clone(), "flexible");
    assert_zone(with(&["z2"]), mounting.selects(ZONE, "z1"), "none");
}

#[test]
fn required_spread_leaves_the_zones_that_have_fewest() {
    let web = |more| pod("a", "cpu=1").label("app", "web").spreads(ZONE, 1, "web", more);
    assert_zone(base(), web(json!({})), "z2");
    assert_zone(base(), web(json!({"whenUnsatisfiable": "ScheduleAnyway"})), "flexible");
    assert_zone(base(), web(json!({})).selects(ZONE, "z1"), "z1");
    assert_zone(base(), web(json!({"nodeAffinityPolicy": "Ignore"})).selects(ZONE, "z1"), "none");
    assert_zone(base(), pod("a", "cpu=1").spreads(ZONE, 1, "web", json!({})), "flexible");
}

#[test]
fn pods_are_counted_by_zone() {
    let world = base().pods(2, &pod("a", "cpu=1").selects(ZONE, "z1")).pod(pod("b", "cpu=1"));
    assert_eq!(effective_zones(&world.0), [("flexible".to_owned(), 1), ("z1".to_owned(), 2)].into());
}
