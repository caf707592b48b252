//! Optional features, which a feature gate switches on.

use crate::common::{answer, chosen, deployment, pod, simulate, world};
use serde_json::Value;

const OVERLAYS: &str = "--feature-gates=NodeOverlay=true";

fn warnings(answer: &Value) -> String {
    let all = answer["warnings"].as_array().unwrap().iter();
    let lines: Vec<_> = all.map(|warning| format!("{}: {}", warning["object"], warning["message"])).collect();
    lines.join("\n")
}

fn of_price(name: &str, price: &str) -> String {
    deployment(name, &[("cpu", "4"), ("memory", "16Gi"), ("price", price)])
}

/// What upstream's documentation shows: a price in percent for a kind of machine, here the dear one.
fn discounted() -> String {
    world("", &[of_price("m1", "0.2"), of_price("m2", "0.3")])
        + &pod("web", "", "cpu: 1")
        + "---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: discount}
spec:
  weight: 10
  requirements:
  - {key: node.kubernetes.io/instance-type, operator: In, values: [m2]}
  priceAdjustment: -50%
"
}

#[test]
fn an_overlay_changes_which_machine_deployment_is_chosen_and_what_it_costs() {
    let (code, found) = answer(&discounted(), &[OVERLAYS]);
    assert_eq!((code, chosen(&found)), (0, vec!["m2"]));
    assert_eq!((&found["nodeClaims"][0]["price"], &found["cost"]["after"]), (&0.15.into(), &0.15.into()));
}

#[test]
fn without_the_gate_an_overlay_is_told_and_changes_nothing() {
    let (code, found) = answer(&discounted(), &[]);
    assert_eq!((code, chosen(&found)), (0, vec!["m1"]));
    assert!(warnings(&found).contains("NodeOverlay/discount"), "{}", warnings(&found));
}

#[test]
fn gates_are_spelled_as_for_the_operator() {
    let ran = simulate(&discounted(), &["--feature-gates=NodeOverlay=on"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("NodeOverlay must be true or false"), "{}", ran.stderr);
    let (_, found) = answer(&discounted(), &["--feature-gates=Telepathy=true,NodeRepair=true"]);
    let told = warnings(&found);
    assert!(told.contains("Telepathy") && told.contains("NodeRepair"), "{told}");
}

#[test]
fn an_overlay_that_the_api_server_would_refuse_is_an_error_with_its_line() {
    let ran = simulate(&discounted().replace("-50%", "-150%"), &[OVERLAYS]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("NodeOverlay discount: spec.priceAdjustment: \"-150%\""), "{}", ran.stderr);
}

fn fixed(replicas: u32, more: &str) -> String {
    world(&format!("  replicas: {replicas}\n{more}"), &[of_price("m1", "0.2"), of_price("m2", "0.3")])
}

#[test]
fn a_static_pool_gets_its_nodes_and_pods_use_them() {
    let text = fixed(2, "") + &pod("web", "", "cpu: 1");
    let (code, found) = answer(&text, &["--feature-gates=StaticCapacity=true", "--passes=3"]);
    assert_eq!((code, chosen(&found)), (0, vec!["m1", "m1"]));
    assert_eq!(found["placements"][0]["pods"][0], "default/web");
    assert_eq!(
        (&found["machineDeployments"][0]["desiredReplicas"], &found["cost"]["after"]),
        (&2.into(), &0.4.into())
    );
    let (code, found) = answer(&text, &[]);
    assert_eq!((code, chosen(&found).len()), (1, 0));
    assert!(warnings(&found).contains("the feature gate StaticCapacity is off"), "{}", warnings(&found));
}

#[test]
fn what_keeps_a_static_pool_from_its_nodes_is_told() {
    let (_, found) = answer(&fixed(3, "  limits: {nodes: '1'}\n"), &["--feature-gates=StaticCapacity=true"]);
    assert_eq!(chosen(&found), ["m1"]);
    assert!(warnings(&found).contains("keeps 2 of 3 replicas"), "{}", warnings(&found));
}

const BUFFERS: &str = "--feature-gates=CapacityBuffer=true";

/// Room for pods of three processors, on machines of four.
fn buffered(replicas: u32) -> String {
    world("  limits: {nodes: '2'}\n", &[of_price("m1", "0.2")])
        + &format!(
            "---
{{apiVersion: v1, kind: PodTemplate, metadata: {{name: web, namespace: shop}}, template: {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 3}}}}}}]}}}}}}
---
{{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {{name: spare, namespace: shop}}, spec: {{podTemplateRef: {{name: web}}, replicas: {replicas}}}}}
"
        )
}

#[test]
fn a_buffers_pods_are_told_by_their_names_and_further_passes_make_no_more() {
    let (code, found) = answer(&buffered(2), &[BUFFERS, "--passes=4"]);
    assert_eq!((code, chosen(&found)), (0, vec!["m1", "m1"]));
    assert_eq!(found["nodeClaims"][0]["pods"][0], "shop/capacity-buffer-spare-1");
    let told = simulate(&buffered(2), &[BUFFERS]);
    assert!(told.stdout.contains("0 pods on 2 new nodes"), "{}", told.stdout);
    assert!(told.stdout.contains("Room is held for 2 of 2 pods of buffers."), "{}", told.stdout);
}

#[test]
fn a_buffer_without_room_is_listed_but_no_pod_is_without_a_place() {
    let (code, found) = answer(&buffered(3), &[BUFFERS]);
    assert_eq!((code, chosen(&found).len()), (0, 2));
    assert_eq!(found["pending"][0]["pod"], "shop/capacity-buffer-spare-3");
    assert_eq!(found["pending"][0]["reasons"][0]["code"], "Limits");
}

#[test]
fn a_buffer_that_the_api_server_would_refuse_is_an_error() {
    let ran = simulate(&buffered(1).replace(", replicas: 1}", "}"), &[BUFFERS]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("If podTemplateRef is set, replicas or limits must also be set"),
        "{}",
        ran.stderr
    );
}
