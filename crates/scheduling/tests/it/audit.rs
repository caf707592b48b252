//! `audit` finds what it is there to find: good plans are spoilt one by one.

mod claims;
mod pending;
mod plans;
mod pods;
mod spread;

use crate::support::*;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_scheduling::audit;
use karpenter_capi_scheduling::plan::{InstanceOption, InstanceOptions, Plan};

fn sample() -> World {
    let types = [
        md("m1", "cpu=4 memory=16Gi").zone("z1").price("0.1").headroom(1),
        md("m2", "cpu=8 memory=32Gi").zone("z2").price("0.3"),
    ];
    world()
        .pool(pool("p").limit("cpu", "8").limit("nodes", "1"), &types)
        .node(node("n1", "cpu=2"))
        .pod(pod("a", "cpu=3").selects(ZONE, "z1"))
        .pod(pod("b", "cpu=1"))
        .pod(pod("c", "cpu=64"))
}

/// The complaints about the sample's plan after it was spoilt.
fn complaints(spoil: impl FnOnce(&mut World, &mut Plan)) -> String {
    let mut world = sample();
    let mut plan = solved(&world.0);
    assert_eq!((plan.node_claims.len(), plan.placements.len(), plan.pending.len()), (1, 1, 1));
    spoil(&mut world, &mut plan);
    let violations = audit(&world.0, &plan);
    let lines: Vec<String> =
        violations.iter().map(|one| format!("{}: {}", one.subject, one.message)).collect();
    lines.join("\n")
}

#[test]
fn each_kind_of_wrong_is_found() {
    let name = |name: &str| NamespacedName::new("default", name);
    let found = complaints(|_, plan| plan.placements[0].pods.push(name("a")));
    assert!(found.contains("Pod/default/a: stands 2 times"), "{found}");
    assert!(found.contains("is on n1, whose labels don't meet its affinity"), "{found}");
    assert!(found.contains("Node/n1: cpu: 0 in use and 4000 placed are more than 2000"), "{found}");

    let found = complaints(|_, plan| plan.pending.clear());
    assert!(found.contains("Pod/default/c: stands 0 times"), "{found}");

    let found = complaints(|_, plan| plan.node_claims[0].pods.push(name("nobody")));
    assert!(found.contains("Pod/default/nobody: stands in the plan but not in the input"), "{found}");

    let found = complaints(|_, plan| plan.pending[0].reasons.clear());
    assert!(found.contains("Pod/default/c: is pending without a reason"), "{found}");

    let found = complaints(|world, _| world.0.node_pools[0].taints.push(taint("x:NoSchedule")));
    assert!(found.contains("in spite of taint x:NoSchedule"), "{found}");

    let found = complaints(|world, _| world.0.nodes[0].taints.push(taint("x:NoExecute")));
    assert!(found.contains("is on n1 in spite of taint x:NoExecute"), "{found}");

    let found = complaints(|_, plan| {
        let claim = plan.node_claims[0].clone();
        plan.node_claims.push(claim);
    });
    assert!(found.contains("NodePool/p: 2 more nodes pass the limit of 1"), "{found}");
    assert!(found.contains("MachineDeployment/default/m1: 2 machines asked, 1 may be added"), "{found}");

    let found = complaints(|world, _| world.0.node_pools[0].usage = resources("cpu=5"));
    assert!(found.contains("NodePool/p: cpu: adding 4 would exceed 8 (in use 5)"), "{found}");
}

#[test]
fn an_option_that_does_not_serve_is_found() {
    let found = complaints(|world, plan| {
        let m2 = world.0.instance_types["p"][1].clone();
        let offering = m2.offerings[0].clone();
        plan.node_claims[0].options = [InstanceOption { instance_type: m2, offering }].into_iter().collect();
    });
    assert!(found.contains("as m2: doesn't meet topology.kubernetes.io/zone In [z1]"), "{found}");
    assert!(found.contains("Pod/default/a: isn't sure to have its affinity met"), "{found}");

    let found = complaints(|_, plan| plan.node_claims[0].options = InstanceOptions::default());
    assert!(found.contains("no way to be launched"), "{found}");

    let found = complaints(|world, _| {
        *world = sample().daemon_set(&pod("d", "cpu=2"), &[]);
    });
    assert!(found.contains("as m1: cpu=5,pods=2 are more than cpu=4"), "{found}");
}

#[test]
fn a_pod_that_nobody_may_place_and_has_a_place_is_found() {
    let found = complaints(|world, _| {
        let gated = pod("b", "cpu=1").spec("schedulingGates", serde_json::json!([{"name": "g"}]));
        world.0.pods[1] = std::sync::Arc::new(gated.build());
    });
    assert_eq!(found, "Pod/default/b: has a place though it is gated");
}
