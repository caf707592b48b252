//! Cluster API rolls out a new template while claims are bound and pods run. Each claim gets a successor on a new Machine, and the
//! number is not moved by it.

use super::super::stage::{NAMESPACE, Stage, machine, pool};
use super::super::termination::{apply_budget, delete_claim, event_says, is_gone, machine_of, name};
use super::{Witness, change, claims_are, floor_of, staying, unowned, use_template};
use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use karpenter_capi_api::capi::Machine;
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::hollow::MachineDeploymentOptions;
use karpenter_capi_e2e::plane::{ControlPlane, Options, Program};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use kube::runtime::watcher::{Config, Event, watcher};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

fn small() -> MachineDeploymentOptions {
    machine("small", "4", "16Gi").priced("0.10").in_zone("a")
}

/// A template whose machines take some seconds, so that there is a middle to act in.
fn slow_small() -> MachineDeploymentOptions {
    let mut slow = small();
    slow.machine.delays.provision = Some("6s".to_owned());
    slow
}

/// How many Machines Cluster API may make beyond the number: with more of them a roll-out takes less time.
async fn surge(stage: &Stage<'_>, machines: i32) -> Result<()> {
    let rolling = json!({ "maxSurge": machines, "maxUnavailable": 0 });
    change(stage, "small", json!({ "spec": { "rollout": { "strategy": { "rollingUpdate": rolling } } } }))
        .await
}

/// Pods of three processors each: one for a Node of `small`.
async fn run(stage: &Stage<'_>, name: &str, replicas: i32) -> Result<()> {
    let deployment = workload::deployment(NAMESPACE, name, replicas, &[("cpu", "3"), ("memory", "1Gi")]);
    workload::apply(&stage.client, &deployment).await?;
    stage.running(name, usize::try_from(replicas)?, Duration::from_mins(1)).await.map(drop)
}

/// An operator, and three pods on three Machines of `small`, with their claims by name.
async fn three_pods_run(stage: &Stage<'_>) -> Result<(Program, BTreeMap<String, NodeClaim>)> {
    objects::apply(&stage.client, &pool("general")).await?;
    let operator = stage.operator()?;
    run(stage, "web", 3).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    Ok((operator, claims_are(stage, 3).await?))
}

/// Cluster API has begun to make Machines of the new template.
async fn has_begun(stage: &Stage<'_>, template: &str) -> Result<()> {
    wait::eventually(&format!("a Machine is made from {template}"), Duration::from_secs(30), async || {
        ensure!(!of_template(stage, template).await?.is_empty(), "there is none");
        Ok(())
    })
    .await
}

/// Machines whose infrastructure was made from that template, by name.
async fn of_template(stage: &Stage<'_>, template: &str) -> Result<BTreeMap<String, Machine>> {
    let example = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1", "kind": "HollowMachine", "metadata": { "namespace": NAMESPACE },
    });
    let made = objects::api_of(&stage.management, &example)?.list(&kube::api::ListParams::default()).await?;
    let of: Vec<String> = made
        .items
        .into_iter()
        .filter(|made| {
            let annotations = made.metadata.annotations.as_ref();
            annotations
                .and_then(|all| all.get("cluster.x-k8s.io/cloned-from-name"))
                .is_some_and(|from| from == template)
        })
        .filter_map(|made| made.metadata.name)
        .collect();
    let machines = stage.machines().await?.into_iter();
    let machines = machines.map(|machine| (machine.metadata.name.clone().unwrap_or_default(), machine));
    Ok(machines.filter(|(name, _)| of.contains(name)).collect())
}

/// All Machines are of that template, and the books are exact.
async fn is_over(stage: &Stage<'_>, template: &str) -> Result<()> {
    wait::eventually(
        &format!("all Machines of small are of {template}"),
        Duration::from_mins(3),
        async || {
            let of_small: Vec<String> = stage
                .machines()
                .await?
                .iter()
                .filter(|machine| {
                    let labels = machine.metadata.labels.as_ref();
                    labels
                        .and_then(|all| all.get("cluster.x-k8s.io/deployment-name"))
                        .is_some_and(|name| name == "small")
                })
                .filter_map(|machine| machine.metadata.name.clone())
                .collect();
            let new = of_template(stage, template).await?;
            let old: Vec<_> = of_small.iter().filter(|name| !new.contains_key(*name)).collect();
            ensure!(old.is_empty(), "{old:?} of {} aren't", of_small.len());
            Ok(())
        },
    )
    .await?;
    stage.books_are_exact(Duration::from_mins(1)).await
}

/// Each of the old claims has ended as replaced, and each has one successor, on a Machine of its own.
async fn all_were_replaced(
    stage: &Stage<'_>,
    old: &BTreeMap<String, NodeClaim>,
    new: &BTreeMap<String, NodeClaim>,
) -> Result<()> {
    for claim in old.values() {
        event_says(stage, &name(claim), "ReplacedByRollOut", &machine_of(claim)).await?;
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let successors = new.values().filter(|successor| replaces(successor) == Some(uid)).count();
        ensure!(successors == 1, "{} has {successors} successors", name(claim));
    }
    let mut machines: Vec<String> = new.values().map(machine_of).collect();
    machines.sort();
    machines.dedup();
    ensure!(machines.len() == old.len() && new.len() == old.len(), "{} claims on {machines:?}", new.len());
    Ok(())
}

fn replaces(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(annotations::REPLACES).map(String::as_str)
}

#[tokio::test]
async fn each_claim_of_a_roll_out_gets_a_successor_and_other_machines_serve_new_pods() -> Result<()> {
    ControlPlane::with(Options::complete("roll-out"), async |plane| {
        let stage = Stage::set(plane).await?;
        floor_of(&stage, small(), 1).await?;
        surge(&stage, 2).await?;
        stage.machine_deployment(&machine("dear", "4", "16Gi").priced("0.20").in_zone("a")).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let operator = stage.operator()?;
        // One pod finds room on the floor's Node.
        run(&stage, "web", 4).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        let old = claims_are(&stage, 3).await?;
        let witness = Witness::of(&stage, "small");
        use_template(&stage, "small", "small-2", &slow_small()).await?;
        has_begun(&stage, "small-2").await?;

        stage.scale("web", 5).await?;
        let told = wait::eventually(
            "another MachineDeployment serves the new pod",
            Duration::from_secs(30),
            async || {
                ensure!(stage.replicas("dear").await? == 1, "{} replicas", stage.replicas("dear").await?);
                let status = stage.class().await?.status.context("no status")?;
                let told = status.machine_deployments.into_iter().find(|told| told.name == "default/small");
                told.and_then(|told| told.reason).context("small is available")
            },
        )
        .await?;
        ensure!(told == "RollingOut", "{told}");

        is_over(&stage, "small-2").await?;
        stage.running("web", 5, Duration::from_mins(1)).await?;
        ensure!(stage.replicas("dear").await? == 1, "dear has {} replicas", stage.replicas("dear").await?);
        let mut new = claims_are(&stage, 4).await?;
        new.retain(|_, claim| replaces(claim).is_some());
        all_were_replaced(&stage, &old, &new).await?;
        ensure!(witness.seen().replicas == [4], "the number moved: {:?}", witness.seen().replicas);
        ensure!(unowned(&stage).await?.len() == 1, "not claimed are {:?}", unowned(&stage).await?);
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// The fewest pods of `web` that ran at once, until it is dropped.
struct Fewest {
    seen: tokio::sync::watch::Receiver<usize>,
    _watch: tokio::task::JoinSet<()>,
}

impl Fewest {
    fn of(stage: &Stage<'_>) -> Self {
        let (fewest, seen) = tokio::sync::watch::channel(usize::MAX);
        let api: Api<Pod> = Api::namespaced(stage.client.clone(), NAMESPACE);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move {
            let mut events = std::pin::pin!(watcher(api, Config::default().labels("app=web")));
            let mut pods = BTreeMap::new();
            let mut listed = false;
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                        let runs = workload::is_running(&pod) && pod.metadata.deletion_timestamp.is_none();
                        pods.insert(pod.metadata.name.unwrap_or_default(), runs);
                    }
                    Ok(Event::Delete(pod)) => drop(pods.remove(&pod.metadata.name.unwrap_or_default())),
                    Ok(Event::InitDone) => listed = true,
                    Ok(Event::Init) | Err(_) => {}
                }
                if listed {
                    let running = pods.values().filter(|runs| **runs).count();
                    fewest.send_if_modified(|fewest| {
                        let fewer = running < *fewest;
                        *fewest = running.min(*fewest);
                        fewer
                    });
                }
            }
        });
        Self { seen, _watch: tasks }
    }
}

/// Three old Machines go at once, and a budget lets only one pod at a time; meanwhile a claim is deleted, and the operator dies.
#[tokio::test]
async fn a_budget_a_deleted_claim_and_a_kill_in_a_roll_out_change_nothing_about_its_end() -> Result<()> {
    ControlPlane::with(Options::complete("roll-out-budget"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&small()).await?;
        surge(&stage, 4).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let operator = stage.operator()?;
        run(&stage, "solo", 1).await?;
        let deleted = claims_are(&stage, 1).await?.into_values().next().context("no claim")?;
        run(&stage, "web", 3).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        let mut old = claims_are(&stage, 4).await?;
        old.remove(&name(&deleted));
        apply_budget(&stage, "guard", "web", 2).await?;
        stage.scale("solo", 0).await?;
        stage.running("solo", 0, Duration::from_secs(30)).await?;
        let (witness, fewest) = (Witness::of(&stage, "small"), Fewest::of(&stage));
        use_template(&stage, "small", "small-2", &slow_small()).await?;
        has_begun(&stage, "small-2").await?;

        delete_claim(&stage, &deleted).await?;
        event_says(
            &stage,
            &name(&deleted),
            "AwaitingMachineDeployment",
            "a roll-out of MachineDeployment default/small",
        )
        .await?;
        wait::eventually("the first successor has its place", Duration::from_mins(1), async || {
            ensure!(staying(&stage).await?.values().any(|claim| replaces(claim).is_some()), "there is none");
            Ok(())
        })
        .await?;
        operator.kill();
        let operator = stage.operator()?;

        is_over(&stage, "small-2").await?;
        is_gone(&stage, &deleted, Duration::from_mins(1)).await?;
        stage.running("web", 3, Duration::from_mins(1)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        all_were_replaced(&stage, &old, &claims_are(&stage, 3).await?).await?;
        // Not before the roll-out was over, when lowering no longer takes a Machine that runs pods.
        ensure!(witness.seen().replicas == [4, 3], "the number moved: {:?}", witness.seen().replicas);
        let fewest = *fewest.seen.borrow();
        ensure!(fewest >= 2, "only {fewest} of three pods ran at once");
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// The template goes back to the old one after the first claim was replaced: that one is replaced once more, the others stay.
#[tokio::test]
async fn a_roll_out_that_is_undone_in_the_middle_ends_with_as_many_claims_and_machines() -> Result<()> {
    ControlPlane::with(Options::complete("roll-back"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&small()).await?;
        let (operator, old) = three_pods_run(&stage).await?;
        let witness = Witness::of(&stage, "small");
        use_template(&stage, "small", "small-2", &small()).await?;
        is_bound_in(&stage, "small-2").await?;
        use_template(&stage, "small", "small", &small()).await?;
        is_over(&stage, "small").await?;
        stage.running("web", 3, Duration::from_mins(1)).await?;
        let new = claims_are(&stage, 3).await?;
        let kept = new.keys().filter(|name| old.contains_key(*name)).count();
        ensure!(kept > 0, "nobody asked for the end of all claims: {:?}", new.keys());
        ensure!(unowned(&stage).await?.is_empty(), "not claimed are {:?}", unowned(&stage).await?);
        ensure!(witness.seen().replicas == [3], "the number moved: {:?}", witness.seen().replicas);
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// Somebody deletes the MachineSet: Cluster API makes another one, and all Machines are replaced at once.
#[tokio::test]
async fn a_machine_set_that_somebody_deletes_is_replaced_with_all_its_machines() -> Result<()> {
    ControlPlane::with(Options::complete("machine-set"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&small()).await?;
        let (operator, old) = three_pods_run(&stage).await?;
        let kind = "machinesets.v1beta2.cluster.x-k8s.io";
        stage.plane.kubectl(&["delete", kind, "-n", NAMESPACE, "--all", "--wait=false"]).await?;
        for claim in old.values() {
            is_gone(&stage, claim, Duration::from_mins(2)).await?;
        }
        stage.running("web", 3, Duration::from_mins(1)).await?;
        stage.books_are_exact(Duration::from_mins(2)).await?;
        let replicas = stage.replicas("small").await?;
        ensure!(claims_are(&stage, 3).await?.len() == 3 && replicas == 3, "{replicas} replicas");
        ensure!(unowned(&stage).await?.is_empty(), "not claimed are {:?}", unowned(&stage).await?);
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// A third template comes before the second one is everywhere: Machines of all three stand side by side.
#[tokio::test]
async fn a_template_that_changes_again_in_the_middle_replaces_what_was_just_made() -> Result<()> {
    ControlPlane::with(Options::complete("roll-on"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&small()).await?;
        surge(&stage, 2).await?;
        let (operator, _) = three_pods_run(&stage).await?;
        let witness = Witness::of(&stage, "small");
        use_template(&stage, "small", "small-2", &small()).await?;
        is_bound_in(&stage, "small-2").await?;
        use_template(&stage, "small", "small-3", &small()).await?;
        is_over(&stage, "small-3").await?;
        stage.running("web", 3, Duration::from_mins(1)).await?;
        claims_are(&stage, 3).await?;
        ensure!(unowned(&stage).await?.is_empty(), "not claimed are {:?}", unowned(&stage).await?);
        ensure!(witness.seen().replicas == [3], "the number moved: {:?}", witness.seen().replicas);
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// A claim has a Machine of that template.
async fn is_bound_in(stage: &Stage<'_>, template: &str) -> Result<()> {
    wait::eventually(&format!("a claim has a Machine of {template}"), Duration::from_mins(1), async || {
        let new = of_template(stage, template).await?;
        let claims = staying(stage).await?;
        ensure!(claims.values().any(|claim| new.contains_key(&machine_of(claim))), "none has");
        Ok(())
    })
    .await
}
