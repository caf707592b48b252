use super::*;
use serde_json::{Value, json};

fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn world() -> World {
    World {
        machine_deployments: vec![of(json!({
            "metadata": {"name": "m1", "namespace": "d", "annotations": {"karpenter.cluster.x-k8s.io/claims": "aaaaaaaa-aaaa"}},
            "spec": {"replicas": 2}
        }))],
        hypershift_node_pools: vec![],
        machine_sets: vec![of(json!({
            "metadata": {"name": "s", "namespace": "d", "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "m1", "uid": "x", "controller": true}]},
            "spec": {"replicas": 2}
        }))],
        machines: vec![
            of(
                json!({"metadata": {"name": "floor", "namespace": "d", "labels": {"cluster.x-k8s.io/deployment-name": "m1"}}}),
            ),
            of(json!({"metadata": {
                "name": "ours", "namespace": "d", "labels": {"cluster.x-k8s.io/deployment-name": "m1"},
                "annotations": {
                    "karpenter.cluster.x-k8s.io/nodeclaim": "c/aaaaaaaa-aaaa-aaaa",
                    "pre-terminate.delete.hook.machine.cluster.x-k8s.io/karpenter": ""
                }
            }})),
        ],
        claims: vec![of(json!({
            "metadata": {"name": "c", "uid": "aaaaaaaa-aaaa-aaaa", "finalizers": ["karpenter.sh/termination"], "annotations": {
                "karpenter.cluster.x-k8s.io/machine-deployment": "d/m1", "cluster.x-k8s.io/machine": "d/ours"}},
            "spec": {"requirements": [], "nodeClassRef":
                {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "n"}},
            "status": {"providerID": "x://1"}
        }))],
        nodes: vec![of(json!({
            "metadata": {"name": "n", "finalizers": ["karpenter.sh/termination"]}, "spec": {"providerID": "x://1"}
        }))],
    }
}

fn messages(world: &World) -> Vec<String> {
    check(world).iter().map(ToString::to_string).collect()
}

#[test]
fn exact_books_have_no_violation() {
    assert_eq!(messages(&world()), Vec::<String>::new());
}

#[test]
fn a_replica_without_machine_is_found() {
    let mut world = world();
    world.machines.remove(0);
    assert_eq!(messages(&world), ["MachineDeployment d/m1: 2 replicas, but 1 Machines that are not going"]);
}

#[test]
fn an_entry_without_claim_and_a_machine_without_claim_are_found() {
    let mut world = world();
    world.claims.clear();
    let found = messages(&world);
    assert!(
        found.contains(&"MachineDeployment d/m1: ledger entry aaaaaaaa-aaaa has 0 claims".to_owned()),
        "{found:?}"
    );
    assert!(
        found.contains(&"Machine d/ours: claim c/aaaaaaaa-aaaa-aaaa does not exist".to_owned()),
        "{found:?}"
    );
    assert!(found.contains(&"Node n: our finalizer without reason".to_owned()), "{found:?}");
}

#[test]
fn a_claim_outside_the_ledger_is_found() {
    let mut world = world();
    world.machine_deployments[0].metadata.annotations = None;
    assert_eq!(messages(&world), ["NodeClaim c: stands in no ledger"]);
}

#[test]
fn a_machine_with_two_claims_or_a_claim_with_two_machines_is_found() {
    let mut world = world();
    let annotations = world.machines[1].metadata.annotations.clone();
    world.machines[0].metadata.annotations = annotations;
    let found = messages(&world);
    assert!(found.contains(&"NodeClaim c: more than one Machine".to_owned()), "{found:?}");
}

#[test]
fn a_claim_whose_machine_carries_another_claim_or_none_is_found() {
    let mut world = world();
    let machine = world.machines[1].metadata.annotations.as_mut().unwrap();
    machine.remove(annotations::NODECLAIM);
    machine.remove(annotations::PRE_TERMINATE_HOOK);
    assert_eq!(messages(&world), ["NodeClaim c: its Machine d/ours does not carry it"]);
}

#[test]
fn a_claim_without_our_finalizer_is_found() {
    let mut world = world();
    world.claims[0].metadata.finalizers = Some(vec!["example.com/other".to_owned()]);
    assert_eq!(
        messages(&world),
        [
            "NodeClaim c: without our finalizer karpenter.sh/termination: its deletion would leave its Machine behind"
        ]
    );
}

#[test]
fn forgotten_marks_are_found() {
    let mut world = world();
    let machine = world.machines[1].metadata.annotations.as_mut().unwrap();
    machine.remove(annotations::PRE_TERMINATE_HOOK);
    machine.insert(annotations::DELETE_MACHINE.to_owned(), "yes".to_owned());
    world.nodes[0].spec.as_mut().unwrap().taints =
        Some(vec![of(json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}))]);
    world.machine_deployments[0]
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert(annotations::PAUSE_FOR.to_owned(), "x".to_owned());
    assert_eq!(
        messages(&world),
        [
            "Machine d/ours: a claim, but not our hook",
            "Machine d/ours: marked with cluster.x-k8s.io/delete-machine, but its claim stays",
            "MachineDeployment d/m1: our own pause was left behind",
            "Node n: the disruption taint without reason",
        ]
    );
}

#[test]
fn with_a_hypershift_node_pool_number_and_ledger_are_looked_for_there() {
    let mut world = world();
    let claims = "karpenter.cluster.x-k8s.io/claims";
    let annotations = world.machine_deployments[0].metadata.annotations.as_mut().unwrap();
    annotations.insert("hypershift.openshift.io/nodePool".into(), "clusters/np".into());
    let ledger = annotations.remove(claims).unwrap();
    world.hypershift_node_pools = vec![of(json!({
        "metadata": {"name": "np", "namespace": "clusters", "annotations": {claims: ledger}}, "spec": {"replicas": 2}
    }))];
    assert_eq!(messages(&world), Vec::<String>::new());
    world.hypershift_node_pools[0].spec.replicas = Some(3);
    assert_eq!(
        messages(&world),
        ["MachineDeployment d/m1: 2 replicas, but HyperShift NodePool clusters/np wants 3"]
    );
    world.hypershift_node_pools[0].spec.replicas = Some(2);
    world.machine_deployments[0].metadata.annotations.as_mut().unwrap().insert(claims.into(), "x".into());
    assert_eq!(
        messages(&world),
        ["MachineDeployment d/m1: a ledger, but HyperShift NodePool clusters/np has one, too"]
    );
}
/// A claim of another Karpenter that is going, and its Node.
fn with_others(mut world: World) -> World {
    world.claims.push(of(json!({
        "metadata": {"name": "theirs", "uid": "bbbbbbbb-bbbb-bbbb", "deletionTimestamp": "2026-01-05T12:00:00Z"},
        "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}},
        "status": {"providerID": "y://1"}
    })));
    world.nodes.push(of(json!({
        "metadata": {"name": "theirs", "finalizers": ["karpenter.sh/termination"], "labels": {}},
        "spec": {"providerID": "y://1", "taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}
    })));
    world
}

#[test]
fn claims_and_nodes_of_another_karpenter_keep_books_of_their_own() {
    assert_eq!(messages(&with_others(world())), Vec::<String>::new());
}

#[test]
fn what_was_written_to_another_karpenters_objects_is_found() {
    let mut world = with_others(world());
    world.claims[1]
        .metadata
        .annotations
        .get_or_insert_default()
        .insert("cluster.x-k8s.io/machine".to_owned(), "d/ours".to_owned());
    world.nodes[1]
        .metadata
        .labels
        .get_or_insert_default()
        .insert("karpenter.cluster.x-k8s.io/clusterapinodeclass".to_owned(), "n".to_owned());
    assert_eq!(
        messages(&world),
        [
            "Node theirs: it is another Karpenter's, but our label is on it",
            "NodeClaim theirs: it is another Karpenter's, but Machine d/ours is written on it",
        ]
    );
}

#[test]
fn an_entry_of_another_karpenters_claim_is_found() {
    let mut world = with_others(world());
    world.machine_deployments[0]
        .metadata
        .annotations
        .get_or_insert_default()
        .insert("karpenter.cluster.x-k8s.io/claims".to_owned(), "aaaaaaaa-aaaa,bbbbbbbb-bbbb".to_owned());
    assert_eq!(messages(&world), ["MachineDeployment d/m1: ledger entry bbbbbbbb-bbbb has 0 claims"]);
}
