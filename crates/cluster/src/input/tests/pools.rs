use super::*;

#[test]
fn a_pool_gets_the_machine_deployments_that_its_node_class_takes() {
    let text = world(&["m1", "m2"]).replacen("node.cluster.x-k8s.io/karpenter-member: ''", "other: x", 1);
    let made = made(&text);
    let names: Vec<_> = made.input.instance_types["p"].iter().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["default/m2"]);
    assert_eq!(made.catalog.len(), 1);
    assert_eq!(made.input.node_pools.len(), 1);
    assert_eq!(made.input.node_pools[0].not_ready, None);
    assert!(made.input.well_known_labels.contains("topology.kubernetes.io/zone"));
}

#[test]
fn other_clusters_are_out_of_scope() {
    let text = world(&["m1", "m2"]).replacen("clusterName: k", "clusterName: other", 1);
    let mut scoped = options(Origin::Files);
    scoped.scope.cluster_name = Some("k".to_owned());
    let made = made_with(&text, &scoped);
    assert_eq!(made.catalog.keys().map(ToString::to_string).collect::<Vec<_>>(), ["default/m2"]);
}

#[test]
fn a_pool_of_another_karpenter_is_left_alone() {
    let text = world(&["m1"]).replace(
        "{group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass",
        "{group: karpenter.k8s.aws, kind: EC2NodeClass",
    );
    let made = made(&text);
    assert!(made.input.node_pools.is_empty());
    assert!(
        told(&made).contains("NodePool/p: its nodeClassRef is a EC2NodeClass of group karpenter.k8s.aws"),
        "{}",
        told(&made)
    );
}

#[test]
fn a_missing_node_class_makes_the_pool_unready() {
    let text = world(&["m1"]).replace("ClusterAPINodeClass, name: c}", "ClusterAPINodeClass, name: gone}");
    let made = made(&text);
    let reason = made.input.node_pools[0].not_ready.clone().unwrap();
    assert!(reason.starts_with("ClusterAPINodeClass gone isn't there"), "{reason}");
}

#[test]
fn a_budget_that_cannot_be_read_makes_the_pool_unready() {
    let text = world(&["m1"]).replace(
        "  limits: {cpu: '10'}",
        "  disruption: {budgets: [{nodes: '0', schedule: '0 0 * * sat-sun', duration: 24h}]}",
    );
    let reason = made(&text).input.node_pools[0].not_ready.clone().unwrap();
    assert!(reason.contains("0 0 * * sat-sun"), "{reason}");
}

#[test]
fn a_node_class_that_takes_nothing_is_told_with_a_hint() {
    let text = world(&["m1"]).replace("node.cluster.x-k8s.io/karpenter-member: ''", "other: x");
    let made = made(&text);
    assert!(told(&made).contains("NodePool/p: its node class c takes no MachineDeployment; 1 of 1 MachineDeployments lack the label node.cluster.x-k8s.io/karpenter-member"), "{}", told(&made));
}

#[test]
fn a_pool_whose_requirements_nothing_meets_is_told() {
    let text = world(&["m1"]).replace(
        "requirements: []",
        "requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [z9]}]",
    );
    let made = made(&text);
    assert!(
        told(&made).contains(
            "NodePool/p: no MachineDeployment meets its requirements; for m1: topology.kubernetes.io/zone"
        ),
        "{}",
        told(&made)
    );
}

#[test]
fn in_a_cluster_a_pool_is_ready_when_its_conditions_say_so() {
    let made = made_with(&world(&["m1"]), &options(Origin::Cluster));
    assert!(made.input.node_pools[0].not_ready.as_ref().unwrap().contains("hasn't been checked yet"));
}

#[test]
fn a_pool_above_its_limit_is_told() {
    let three = ["a", "b", "c"].map(|name| claim(name, &assigned("m1"), "")).concat();
    assert!(told(&made(&(world(&["m1"]) + &three))).contains("NodePool/p: it is above its limit: cpu"));
}

#[test]
fn warnings_of_annotations_name_the_machine_deployment() {
    let made = made(&world(&["m1"]).replace("price: '0.2'", "price: abc"));
    assert!(
        told(&made).contains("MachineDeployment/default/m1: karpenter.cluster.x-k8s.io/price: \"abc\""),
        "{}",
        told(&made)
    );
}
