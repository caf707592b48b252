use super::*;
use karpenter_capi_model::reason::ReasonCode;

#[test]
fn case_14_a_claim_counts_at_its_types_capacity_before_it_is_launched() {
    let made = made(&(world(&["big"]) + &claim("nc1", &assigned("big"), "")));
    let pool = &made.input.node_pools[0];
    assert_eq!(
        (pool.usage.cpu(), pool.node_count),
        (4000, 1),
        "4 processors of the type, not 1 that is asked for"
    );
    let node = &made.input.nodes[0];
    assert_eq!((node.name.as_str(), node.has_node, node.initialized), ("nc1", false, false));
    assert_eq!((node.allocatable.cpu(), node.allocatable.pods()), (4000, 110));
    assert_eq!(node.labels["topology.kubernetes.io/zone"], "z1");
    assert_eq!(node.price.unwrap().to_string(), "0.2");
}

#[test]
fn a_claim_from_before_assignments_is_known_by_its_labels() {
    let labelled = claim("old", "", "").replace(
        "{karpenter.sh/nodepool: p}",
        "{karpenter.sh/nodepool: p, node.kubernetes.io/instance-type: m2}",
    );
    let made = made(&(world(&["m1", "m2"]) + &labelled));
    assert_eq!(made.input.nodes[0].machine_deployment.as_ref().unwrap().name, "m2");
    assert_eq!(made.input.nodes[0].capacity.cpu(), 4000);
}

#[test]
fn claims_on_their_way_take_room_below_the_maximum_size() {
    let limited = world(&["m1"]).replace(
        "    karpenter.cluster.x-k8s.io/price",
        "    cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: '2'\n    karpenter.cluster.x-k8s.io/price",
    );
    let one = made(&(limited.clone() + &claim("a", &assigned("m1"), "")));
    let name = NamespacedName::new("default", "m1");
    assert_eq!(one.books[&name], Books { to_enter: 1, to_leave: 0 });
    assert_eq!(one.catalog[&name].instance_type.headroom, Some(1));
    let two = made(&(limited.clone() + &claim("a", &assigned("m1"), "") + &claim("b", &assigned("m1"), "")));
    assert_eq!(two.catalog[&name].reason().unwrap().code, ReasonCode::MaxSize);
    let counted = limited.replace(
        "    karpenter.cluster.x-k8s.io/price",
        "    karpenter.cluster.x-k8s.io/claims: 0123456789abc\n    karpenter.cluster.x-k8s.io/price",
    );
    let counted = counted.replace("replicas: 0", "replicas: 1");
    let entered = claim("a", &(assigned("m1") + "\n  uid: 0123456789abcdef"), "");
    let made = made(&(counted + &entered));
    assert_eq!(made.books[&name], Books::default(), "it is in the ledger");
    assert_eq!(made.catalog[&name].instance_type.headroom, Some(1));
}

#[test]
fn a_node_and_its_claim_are_one() {
    let node = "---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {karpenter.sh/nodepool: p, a: b}}
spec:
  providerID: x://1
  taints:
  - {key: node.cluster.x-k8s.io/uninitialized, effect: NoSchedule}
  - {key: sec/scan, effect: NoSchedule}
status: {capacity: {cpu: '4', memory: 15Gi, pods: '110'}, allocatable: {cpu: 3900m, memory: 14Gi, pods: '110'}}
";
    let made = made(&(world(&["m1"]) + &claim("nc", &assigned("m1"), JOINED) + node));
    let [found] = made.input.nodes.as_slice() else { panic!("{:?}", made.input.nodes) };
    assert_eq!(
        (found.name.as_str(), found.node_claim.as_deref(), found.initialized),
        ("n1", Some("nc"), false)
    );
    assert_eq!(found.allocatable.cpu(), 3900);
    let taints: Vec<_> = found.taints.iter().map(ToString::to_string).collect();
    assert_eq!(taints, ["sec/scan:NoSchedule"], "Cluster API's own taint goes away by itself");
    assert!(
        told(&made)
            .contains("NodeClaim/nc: taint sec/scan:NoSchedule of the starting Node n1 isn't declared"),
        "{}",
        told(&made)
    );
    assert_eq!(made.input.node_pools[0].node_count, 1);
}

#[test]
fn a_node_is_joined_by_its_machine_before_the_claims_status_is_written() {
    let bound = "  annotations: {karpenter.cluster.x-k8s.io/machine-deployment: default/m1, cluster.x-k8s.io/machine: default/mm}";
    let machine = "---\n{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: mm}, spec: {clusterName: k, providerID: 'x://1'}}\n";
    let made = made(&(world(&["m1"]) + &claim("nc", bound, "") + machine + NODE));
    let found: Vec<_> = made
        .input
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.node_claim.as_deref(), node.initialized))
        .collect();
    assert_eq!(found, [("n1", Some("nc"), false)]);
    assert_eq!(made.input.nodes[0].taints, [], "what a starting node reports of itself doesn't count yet");
}

#[test]
fn a_node_that_goes_no_longer_counts_for_the_limits() {
    let made = made(&(world(&["m1"]) + &claim("nc", &deleting(), JOINED) + NODE));
    assert_eq!((made.input.node_pools[0].usage.cpu(), made.input.node_pools[0].node_count), (0, 0));
}

#[test]
fn case_110_a_registered_claim_without_its_node_is_no_capacity() {
    let made = made(&(world(&["m1"]) + &claim("ghost", &assigned("m1"), JOINED)));
    assert!(made.input.nodes.is_empty());
    assert_eq!(made.input.node_pools[0].node_count, 1, "it still counts for the limits");
    assert!(
        told(&made).contains("NodeClaim/ghost: it is registered, but its Node is gone"),
        "{}",
        told(&made)
    );
}

#[test]
fn nodes_without_a_claim_count_for_the_pool_that_they_name() {
    let node = "---\n{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {karpenter.sh/nodepool: p, node.kubernetes.io/instance-type: m1}}, status: {capacity: {cpu: '4'}, allocatable: {cpu: '4'}}}\n";
    let other = "---\n{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: '8'}, capacity: {cpu: '8'}}}\n";
    let made = made(&(world(&["m1"]) + node + other));
    let pool = &made.input.node_pools[0];
    assert_eq!((pool.usage.cpu(), pool.node_count), (4000, 1));
    let views: Vec<_> = made
        .input
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.node_pool.as_deref(), node.price.is_some()))
        .collect();
    assert_eq!(views, [("n1", Some("p"), true), ("n2", None, false)]);
}

#[test]
fn a_node_of_another_karpenter_is_room_but_tells_nothing_of_our_machines() {
    let node = "---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {karpenter.sh/nodepool: other, node.kubernetes.io/instance-type: m1}}
spec: {providerID: 'kwok://1'}
status: {capacity: {cpu: '4', memory: 16Gi, pods: '110'}, allocatable: {cpu: '1', memory: 1Gi, pods: '110'}}
";
    let status = "status: {providerID: 'kwok://1'}\n";
    let ours = "group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass";
    let theirs = claim("nc", "", status).replace(ours, "group: karpenter.kwok.sh, kind: KWOKNodeClass");
    let made = made(&(world(&["m1"]) + &theirs + node));
    let [found] = made.input.nodes.as_slice() else { panic!("{:?}", made.input.nodes) };
    assert_eq!((found.name.as_str(), &found.node_claim, &found.node_pool), ("n1", &None, &None));
    assert_eq!(found.allocatable.cpu(), 1000);
    assert_eq!((&found.machine_deployment, &found.price), (&None, &None));
}
