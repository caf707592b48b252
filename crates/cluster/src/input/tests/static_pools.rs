use super::*;
use crate::claim::draft;
use crate::static_claims::plan;
use karpenter_capi_api::validation::validate_node_claim;
use karpenter_capi_scheduling::solve;

fn gated() -> InputOptions {
    InputOptions { gates: FeatureGates::NONE.with(Gate::StaticCapacity), ..options(Origin::Files) }
}

/// The pool of `world`, holding so many nodes.
fn fixed(replicas: i64, limits: &str, deployments: &[&str]) -> String {
    world(deployments)
        .replace("  limits: {cpu: '10'}", &format!("  replicas: {replicas}\n  limits: {limits}"))
}

fn planned(text: &str) -> (Vec<String>, String) {
    let plan = plan(&made_with(text, &gated()));
    let chosen = plan.node_claims.iter().map(|claim| claim.chosen().unwrap().instance_type.name.clone());
    let told: Vec<_> = plan.warnings.iter().map(|warning| warning.message.as_str()).collect();
    (chosen.collect(), told.join("; "))
}

#[test]
fn a_static_pool_gets_the_claims_that_it_lacks_and_the_definition_takes_them() {
    let text = fixed(3, "{}", &["m1"]) + &claim("nc", &assigned("m1"), "");
    let made = made_with(&text, &gated());
    assert!(made.input.node_pools.is_empty(), "pods make no nodes of it");
    let plan = plan(&made);
    assert_eq!(plan.node_claims.len(), 2);
    let index: Index = load([Source { name: "t", text: &text }])
        .unwrap_or_else(|error| panic!("{error}"))
        .objects
        .into_iter()
        .collect();
    let mut drafted = draft(&plan.node_claims[0], index.snapshot().node_pool("p").unwrap(), &made).unwrap();
    drafted.metadata.name = Some("p-1".to_owned());
    assert_eq!(validate_node_claim(&drafted), []);
    let annotations = drafted.metadata.annotations.unwrap();
    assert_eq!(annotations["karpenter.cluster.x-k8s.io/machine-deployment"], "default/m1");
}

#[test]
fn a_second_pass_makes_none_and_a_claim_that_goes_is_replaced() {
    let two = claim("a", &assigned("m1"), "") + &claim("b", &assigned("m1"), "");
    assert_eq!(planned(&(fixed(2, "{}", &["m1"]) + &two)).0, [""; 0]);
    let one_goes = claim("a", &assigned("m1"), "") + &claim("b", &deleting(), "");
    assert_eq!(planned(&(fixed(2, "{}", &["m1"]) + &one_goes)).0, ["default/m1"]);
}

#[test]
fn the_node_limit_and_maximum_sizes_hold_and_are_told() {
    let (chosen, told) = planned(&fixed(3, "{nodes: '2'}", &["m1"]));
    assert_eq!((chosen.len(), told.as_str()), (2, "spec.limits.nodes keeps 1 of 3 replicas from being made"));
    let small = "    cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: '1'\n    karpenter.cluster.x-k8s.io/price: '0.2'";
    let text =
        fixed(3, "{}", &["m1", "m2"]).replacen("    karpenter.cluster.x-k8s.io/price: '0.2'", small, 1);
    assert_eq!(planned(&text).0, ["default/m1", "default/m2", "default/m2"]);
    let (chosen, told) =
        planned(&fixed(3, "{}", &["m1"]).replacen("    karpenter.cluster.x-k8s.io/price: '0.2'", small, 1));
    assert_eq!((chosen.len(), told.as_str()), (1, "no available MachineDeployment serves 2 of 3 replicas"));
}

#[test]
fn pods_use_a_static_pools_nodes_and_make_none_of_it() {
    let text = fixed(1, "{}", &["m1"])
        + &claim("nc", &assigned("m1"), "")
        + &pod("fits", "spec: {containers: [{name: c, resources: {requests: {cpu: '3'}}}]}")
        + &pod("rest", "spec: {containers: [{name: c, resources: {requests: {cpu: '3'}}}]}");
    let plan = solve(&made_with(&text, &gated()).input);
    assert_eq!((plan.node_claims.len(), plan.placements.len(), plan.pending.len()), (0, 1, 1));
}

#[test]
fn without_the_feature_gate_a_static_pool_makes_nothing_and_is_told() {
    let made = made(&fixed(2, "{}", &["m1"]));
    assert!(made.static_pools.is_empty() && plan(&made).node_claims.is_empty());
    assert!(told(&made).contains("the feature gate StaticCapacity is off"), "{}", told(&made));
}

#[test]
fn a_paused_pool_and_one_that_is_not_ready_make_nothing() {
    let paused = fixed(2, "{}", &["m1"]).replace(
        "metadata: {name: p}",
        "metadata: {name: p, annotations: {karpenter.cluster.x-k8s.io/paused: all}}",
    );
    assert_eq!(planned(&paused).0, [""; 0]);
    let unready = made_with(&fixed(2, "{}", &["m1"]), &InputOptions { origin: Origin::Cluster, ..gated() });
    assert_eq!((unready.static_pools.len(), plan(&unready).node_claims.len()), (1, 0));
}
