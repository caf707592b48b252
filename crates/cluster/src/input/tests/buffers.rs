use super::*;
use crate::buffers::held;
use karpenter_capi_lifecycle::capacity_buffer::Held;
use karpenter_capi_scheduling::solve;

fn gated() -> InputOptions {
    InputOptions { gates: FeatureGates::NONE.with(Gate::CapacityBuffer), ..options(Origin::Files) }
}

/// Room for two pods of three processors; machines have four.
const SPARE: &str = "---
{apiVersion: v1, kind: PodTemplate, metadata: {name: web}, template: {spec: {containers: [{name: c, resources: {requests: {cpu: '3'}}}]}}}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare}
spec: {podTemplateRef: {name: web}, replicas: 2}
";

fn unlimited(deployments: &[&str]) -> String {
    world(deployments).replace("  limits: {cpu: '10'}\n", "")
}

fn spare() -> NamespacedName {
    NamespacedName::new("default", "spare")
}

#[test]
fn pods_of_a_buffer_want_a_place_like_others_and_are_known() {
    let made = made_with(&(unlimited(&["m1"]) + SPARE + &pod("a", "spec: {containers: []}")), &gated());
    assert_eq!(wanting(&made), ["a", "capacity-buffer-spare-1", "capacity-buffer-spare-2"]);
    let virtual_pod = NamespacedName::new("default", "capacity-buffer-spare-1");
    assert_eq!(made.buffer_of(&virtual_pod), Some(&spare()));
    assert_eq!(made.buffer_of(&NamespacedName::new("default", "a")), None);
    assert_eq!(made.uids(&[virtual_pod]).collect::<Vec<_>>(), ["default/capacity-buffer-spare-1"]);
}

#[test]
fn a_second_pass_creates_nothing_since_the_claims_of_the_first_hold_the_room() {
    let text = unlimited(&["m1"]) + SPARE;
    let first = made_with(&text, &gated());
    let plan = solve(&first.input);
    assert_eq!(plan.node_claims.len(), 2);
    assert_eq!(held(&first, &plan)[&spare()], Held { on_new: 2, ..Held::default() });
    let later = text + &claim("a", &assigned("m1"), "") + &claim("b", &assigned("m1"), "");
    let second = made_with(&later, &gated());
    let plan = solve(&second.input);
    assert_eq!((plan.node_claims.len(), plan.pending.len()), (0, 0));
    assert_eq!(held(&second, &plan)[&spare()], Held { existing: 2, ..Held::default() });
}

#[test]
fn a_real_pod_that_takes_the_room_has_it_made_anew() {
    let node = NODE.replace("allocatable: {cpu: '4'}", "allocatable: {cpu: '4', pods: '110'}");
    let ready = JOINED.to_owned()
        + "  - {type: Initialized, status: 'True', lastTransitionTime: '2026-01-05T11:00:00Z'}\n";
    let world = unlimited(&["m1"])
        + &SPARE.replace("replicas: 2", "replicas: 1")
        + &claim("nc", &assigned("m1"), &ready)
        + &node;
    assert_eq!(solve(&made_with(&world, &gated()).input).node_claims.len(), 0, "the spare node is there");
    let taken = world
        + &pod("web", "spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: '3'}}}]}");
    let plan = solve(&made_with(&taken, &gated()).input);
    assert_eq!(plan.node_claims.len(), 1);
    assert_eq!(plan.node_claims[0].pods[0].name, "capacity-buffer-spare-1");
}

#[test]
fn limits_of_pools_keep_room_from_being_made_and_are_told_apart() {
    let text = world(&["m1"]).replace("cpu: '10'", "cpu: '4'") + SPARE;
    let made = made_with(&text, &gated());
    let plan = solve(&made.input);
    assert_eq!(held(&made, &plan)[&spare()], Held { existing: 0, on_new: 1, failed: 1, limited: 1 });
}

#[test]
fn a_buffer_follows_the_replicas_of_a_deployment() {
    let text = unlimited(&["m1"])
        + "---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 10, selector: {}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, resources: {requests: {cpu: '1'}}}]}}}}
---
{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {name: spare}, spec: {scalableRef: {apiGroup: apps, kind: Deployment, name: web}, percentage: 25}}
";
    let made = made_with(&text, &gated());
    assert_eq!(made.input.pods.len(), 3);
    assert_eq!(made.input.pods[0].labels["app"], "web");
}

#[test]
fn a_buffer_that_is_not_understood_and_a_gate_that_is_off_are_told() {
    let dangling = SPARE.replace("podTemplateRef: {name: web}", "podTemplateRef: {name: gone}");
    let made = made_with(&(unlimited(&["m1"]) + &dangling), &gated());
    assert!(made.input.pods.is_empty());
    assert!(
        told(&made).contains("CapacityBuffer/default/spare: it holds no room: there is no PodTemplate"),
        "{}",
        told(&made)
    );
    let off = super::made(&(unlimited(&["m1"]) + SPARE));
    assert!(
        off.input.pods.is_empty() && told(&off).contains("the feature gate CapacityBuffer is off"),
        "{}",
        told(&off)
    );
}

#[test]
fn a_real_pod_of_the_same_name_is_not_taken_for_the_buffers() {
    let text = unlimited(&["m1"]) + SPARE + &pod("capacity-buffer-spare-1", "spec: {containers: []}");
    let made = made_with(&text, &gated());
    assert_eq!(made.buffer_pods.len(), 1);
    assert_eq!(made.buffer_of(&NamespacedName::new("default", "capacity-buffer-spare-1")), None);
}
