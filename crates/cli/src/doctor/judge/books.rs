//! Claims, Machines and replicas: the same checker as the end-to-end tests use, on what is ours.

use super::capi;
use super::objects::{has, object};
use crate::doctor::picture::{Listed, Picture, Read};
use crate::doctor::report::{Code, Finding};
use karpenter_capi_api::capi::{MachineDeployment, StrategyType};
use karpenter_capi_api::condition;
use karpenter_capi_api::names::{annotations, conditions, labels};
use karpenter_capi_lifecycle::invariants::{Rule, Violation, World, check};
use std::collections::BTreeSet;

pub(super) fn books(picture: &Picture, found: &mut Vec<Finding>) {
    let world = match world(picture) {
        Ok(world) => world,
        Err(missing) => {
            found.push(Finding::problem(
                Code::BooksUnchecked,
                "",
                format!(
                    "the books of claims, Machines and replicas weren't checked, as {} can't be read",
                    missing.join(", ")
                ),
                "",
            ));
            return;
        }
    };
    let rolling: BTreeSet<String> =
        world.machine_deployments.iter().filter(|deployment| rolls_out(deployment)).map(object).collect();
    let in_motion =
        |violation: &Violation| violation.rule == Rule::Replicas && rolling.contains(&violation.object);
    let violations = check(&world).into_iter().filter(|violation| !in_motion(violation));
    found.extend(violations.map(|Violation { object, rule, message }| {
        Finding::problem(Code::Books(rule), object, message, remedy(rule))
    }));
    found.extend(rolling.into_iter().map(|object| {
        Finding::note(
            Code::RollingOut,
            object,
            "Cluster API is replacing its Machines: their number isn't judged meanwhile",
            "",
        )
    }));
}

/// What is ours of everything; or the kinds that can't be read.
fn world(picture: &Picture) -> Result<World, Vec<&'static str>> {
    fn read<'a, T>(
        kind: &'static str,
        read: Option<&'a Read<Listed<T>>>,
        missing: &mut Vec<&'static str>,
    ) -> &'a [T] {
        if let Some(Ok(listed)) = read {
            return &listed.objects;
        }
        missing.push(kind);
        &[]
    }
    let mut missing = Vec::new();
    let capi = capi(picture);
    let claims = read("NodeClaims", Some(&picture.workload.claims), &mut missing);
    let nodes = read("Nodes", Some(&picture.workload.nodes), &mut missing);
    let deployments = read("MachineDeployments", capi.map(|capi| &capi.machine_deployments), &mut missing);
    let sets = read("MachineSets", capi.map(|capi| &capi.machine_sets), &mut missing);
    let machines = read("Machines", capi.map(|capi| &capi.machines), &mut missing);
    if !missing.is_empty() {
        return Err(missing);
    }
    let node_pools = match capi.map(|capi| &capi.hypershift_node_pools) {
        Some(Ok(pools)) => pools.clone(),
        _ => return Err(vec!["HyperShift NodePools"]),
    };
    Ok(World {
        machine_deployments: deployments.iter().filter(|deployment| is_ours(deployment)).cloned().collect(),
        hypershift_node_pools: node_pools,
        machine_sets: sets.to_vec(),
        machines: machines.to_vec(),
        claims: claims.to_vec(),
        nodes: nodes.to_vec(),
    })
}

/// Opted in, or with something of ours on it. The figures of others are not our business.
fn is_ours(deployment: &MachineDeployment) -> bool {
    let member = deployment.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::MEMBER));
    member || has(deployment, annotations::CLAIMS) || has(deployment, annotations::PAUSE_FOR)
}

/// Under `OnDelete` outdated Machines may stay for as long as one likes, and the figures hold.
fn rolls_out(deployment: &MachineDeployment) -> bool {
    deployment.spec.strategy() != StrategyType::OnDelete
        && condition::is_true(&deployment.status.conditions, conditions::CAPI_ROLLING_OUT)
}

fn remedy(rule: Rule) -> &'static str {
    match rule {
        Rule::Replicas => {
            "look at the MachineDeployment's conditions: Cluster API may be unable to make or to remove Machines"
        }
        Rule::Ledger => {
            "let the operator run: claims enter, and entries without a claim leave after ten minutes; see its log if it stays"
        }
        Rule::Binding => "let the operator run, and see its log if it stays",
        Rule::Orphan => {
            "let the operator run: it gives the Machine back after ten minutes, unless no claim is visible at all; docs/doctor.md tells how to keep it"
        }
        Rule::Hook => {
            "let the operator run: it puts a missing hook back; without an operator `karpenter-capi doctor --release-hooks` takes hooks off"
        }
        Rule::Finalizer => "let the operator run: it puts the finalizer back; don't delete the claim before",
        Rule::Leftover => {
            "let the operator run; without an operator docs/uninstall.md tells how to take it off"
        }
    }
}
