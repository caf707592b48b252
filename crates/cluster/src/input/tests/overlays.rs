use super::*;
use karpenter_capi_scheduling::solve;

fn overlay(name: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {{name: {name}}}, spec: {spec}}}\n"
    )
}

fn gated() -> InputOptions {
    InputOptions { gates: FeatureGates::NONE.with(Gate::NodeOverlay), ..options(Origin::Files) }
}

fn prices(made: &ProvisioningInput) -> Vec<String> {
    let types = made.input.instance_types["p"].iter();
    types.map(|each| each.offerings[0].price.unwrap().to_string()).collect()
}

const PRICE: &str =
    "{requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m2]}], price: '0.05'}";

#[test]
fn a_pool_sees_prices_as_overlays_say_and_its_machine_deployments_as_they_are() {
    let made = made_with(&(world(&["m1", "m2"]) + &overlay("o", PRICE)), &gated());
    assert_eq!(prices(&made), ["0.2", "0.05"]);
    let read = made.catalog[&NamespacedName::new("default", "m2")].price.unwrap();
    assert_eq!(read.to_string(), "0.2");
    assert_eq!(told(&made), "");
}

#[test]
fn without_the_feature_gate_overlays_say_nothing_and_a_person_is_told() {
    let made = made(&(world(&["m1", "m2"]) + &overlay("o", PRICE)));
    assert_eq!(prices(&made), ["0.2", "0.2"]);
    assert!(
        told(&made).contains("NodeOverlay/o: NodeOverlays don't count: the feature gate"),
        "{}",
        told(&made)
    );
}

#[test]
fn overlays_that_do_not_count_are_told() {
    let text = world(&["m1"])
        + &overlay("a", "{requirements: [], price: '1'}")
        + &overlay("b", "{requirements: [], price: '2'}")
        + &overlay("c", "{requirements: [], price: '99999999999', weight: 3}");
    let made = made_with(&text, &gated());
    assert_eq!(prices(&made), ["2"]);
    assert!(
        told(&made).contains("NodeOverlay/a: it doesn't count: conflict with another overlay: b"),
        "{}",
        told(&made)
    );
    assert!(told(&made).contains("NodeOverlay/c: it doesn't count: spec.price"), "{}", told(&made));
}

#[test]
fn a_claim_in_flight_has_what_an_overlay_promised_so_that_a_second_pass_makes_none() {
    let text = world(&["m1"])
        + &overlay("o", "{requirements: [], capacity: {example.com/fuse: '2'}}")
        + &pod(
            "fuse",
            "spec: {containers: [{name: c, resources: {requests: {example.com/fuse: '1'}, limits: {example.com/fuse: '1'}}}]}",
        );
    let plan = solve(&made_with(&text, &gated()).input);
    assert_eq!((plan.node_claims.len(), plan.pending.len()), (1, 0));
    let later = text + &claim("nc", &assigned("m1"), "");
    let made = made_with(&later, &gated());
    assert_eq!(made.input.nodes[0].capacity.get("example.com/fuse"), 2);
    let plan = solve(&made.input);
    assert_eq!((plan.node_claims.len(), plan.placements.len(), plan.pending.len()), (0, 1, 0));
}
