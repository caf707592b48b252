//! People with kubectl: they scale, delete and change their minds while claims are bound and pods run.

use super::super::stage::{NAMESPACE, Stage, machine, node_class, pool};
use super::super::termination::{claims, delete_claim, event_says, is_gone, machine_of, name};
use super::{Witness, claims_are, staying, unowned};
use anyhow::{Context, Result, ensure};
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use std::collections::BTreeSet;
use std::time::Duration;

/// `small`, and `dear`, which is the same at twice the price.
async fn small_and_dear(stage: &Stage<'_>) -> Result<()> {
    stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10").in_zone("a")).await?;
    stage.machine_deployment(&machine("dear", "4", "16Gi").priced("0.20").in_zone("a")).await?;
    objects::apply(&stage.client, &pool("general")).await.map(drop)
}

/// Pods of which each takes a Node.
async fn run(stage: &Stage<'_>, replicas: i32) -> Result<()> {
    let web = workload::deployment(NAMESPACE, "web", replicas, &[("cpu", "3"), ("memory", "1Gi")]);
    workload::apply(&stage.client, &web).await?;
    all_is_well(stage, replicas).await
}

async fn all_is_well(stage: &Stage<'_>, pods: i32) -> Result<()> {
    stage.running("web", usize::try_from(pods)?, Duration::from_mins(2)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await
}

async fn replicas_are(stage: &Stage<'_>, deployment: &str, replicas: i32) -> Result<()> {
    let found = stage.replicas(deployment).await?;
    ensure!(found == replicas, "{deployment} has {found} replicas");
    Ok(())
}

/// `kubectl scale` of `small`.
async fn kubectl_scale(stage: &Stage<'_>, replicas: u32) -> Result<()> {
    let replicas = format!("--replicas={replicas}");
    let command =
        ["scale", "machinedeployments.v1beta2.cluster.x-k8s.io", "small", "-n", NAMESPACE, &replicas];
    stage.plane.kubectl(&command).await.map(drop)
}

#[tokio::test]
async fn machines_that_somebody_adds_are_never_ours() -> Result<()> {
    ControlPlane::with(Options::complete("scaled-up-by-others"), async |plane| {
        let stage = Stage::set(plane).await?;
        small_and_dear(&stage).await?;
        let operator = stage.operator()?;
        run(&stage, 2).await?;
        down_and_up_at_once(&stage).await?;
        up(&stage).await?;
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_number_that_somebody_sets_below_our_claims_is_not_fought_over() -> Result<()> {
    ControlPlane::with(Options::complete("scaled-down-by-others"), async |plane| {
        let stage = Stage::set(plane).await?;
        small_and_dear(&stage).await?;
        let operator = stage.operator()?;
        run(&stage, 4).await?;
        below_our_claims(&stage).await?;
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// A claim goes and another comes in the same moment: the Machine that goes is nobody's new one.
async fn down_and_up_at_once(stage: &Stage<'_>) -> Result<()> {
    let going = claims_are(stage, 2).await?.into_values().next().context("no claim")?;
    let witness = Witness::of(stage, "small");
    let (deleted, scaled) = tokio::join!(delete_claim(stage, &going), stage.scale("web", 3));
    deleted.and(scaled)?;
    is_gone(stage, &going, Duration::from_mins(1)).await?;
    all_is_well(stage, 3).await?;
    claims_are(stage, 3).await?;
    replicas_are(stage, "small", 3).await?;
    let machines = witness.seen().machines;
    // Two before, one for the new pod, one for the evicted one.
    ensure!(machines.len() == 4, "there were {machines:?}");
    ensure!(machines.values().all(|claims| claims.len() == 1), "a Machine had several claims: {machines:?}");
    Ok(())
}

/// What somebody adds is never bound, not by a claim that comes meanwhile either, and stays when claims of ours go.
async fn up(stage: &Stage<'_>) -> Result<()> {
    let before = claims_are(stage, 3).await?;
    kubectl_scale(stage, 5).await?;
    let surplus = wait::eventually("two more Machines run", Duration::from_mins(1), async || {
        let surplus = unowned(stage).await?;
        let machines = stage.machines().await?;
        let running = machines.iter().filter(|machine| machine.node_name().is_some()).count();
        ensure!(surplus.len() == 2 && running == 5, "{surplus:?} of {running}");
        Ok(surplus)
    })
    .await?;
    let is_nobodys = async || {
        let now = unowned(stage).await?;
        ensure!(now == surplus, "not claimed are {now:?} instead of {surplus:?}");
        Ok(())
    };

    // Only a Node of ours takes this pod, so a claim comes for it while the surplus is there.
    let mut own = workload::deployment(NAMESPACE, "own", 1, &[("cpu", "3"), ("memory", "1Gi")]);
    if let Some(pod) = own.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
        let pool = ("karpenter.sh/nodepool".to_owned(), "general".to_owned());
        pod.node_selector = Some([pool].into());
    }
    workload::apply(&stage.client, &own).await?;
    stage.running("own", 1, Duration::from_mins(1)).await?;
    all_is_well(stage, 3).await?;
    is_nobodys().await?;
    replicas_are(stage, "small", 6).await?;

    // The pods of these run on the surplus, so no claim takes their place.
    for going in before.values().take(2) {
        delete_claim(stage, going).await?;
    }
    for going in before.values().take(2) {
        is_gone(stage, going, Duration::from_mins(1)).await?;
    }
    all_is_well(stage, 3).await?;
    is_nobodys().await?;
    claims_are(stage, 2).await?;
    replicas_are(stage, "small", 4).await
}

/// Somebody sets the number below that of our claims. Cluster API chooses; these claims end; nothing is added for a while.
async fn below_our_claims(stage: &Stage<'_>) -> Result<()> {
    let before = claims_are(stage, 4).await?;
    let witness = Witness::of(stage, "small");
    kubectl_scale(stage, 1).await?;
    event_says(stage, "small", "ScaledByOthers", "1 replicas").await?;
    wait::eventually("three claims have ended", Duration::from_mins(2), async || {
        let claims = stage.claims().await?;
        let left: Vec<String> = claims.iter().map(name).filter(|name| before.contains_key(name)).collect();
        ensure!(left.len() == 1, "{left:?} are left");
        Ok(())
    })
    .await?;
    all_is_well(stage, 4).await?;
    let after = claims_are(stage, 4).await?;
    for lost in before.values().filter(|claim| !after.contains_key(&name(claim))) {
        event_says(stage, &name(lost), "MachineLost", &machine_of(lost)).await?;
    }
    // For the time of the back-off the pods' machines come from elsewhere, though that is dearer.
    replicas_are(stage, "small", 1).await?;
    replicas_are(stage, "dear", 3).await?;
    let seen = witness.seen();
    ensure!(seen.replicas == [4, 1], "the number was fought over: {:?}", seen.replicas);
    ensure!(seen.machines.len() == 4, "a Machine was made: {:?}", seen.machines);
    Ok(())
}

#[tokio::test]
async fn what_somebody_deletes_goes_in_order_and_its_pods_run_elsewhere() -> Result<()> {
    ControlPlane::with(Options::complete("deleted-objects"), async |plane| {
        let stage = Stage::set(plane).await?;
        small_and_dear(&stage).await?;
        let operator = stage.operator()?;
        run(&stage, 2).await?;
        machine_deployment_goes(&stage).await?;
        node_class_waits(&stage).await?;
        node_pool_goes(&stage).await?;

        objects::apply(&stage.client, &node_class("default")).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        all_is_well(&stage, 2).await?;
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// The MachineDeployment goes with its Machines, none held for ever, and another one serves the pods.
async fn machine_deployment_goes(stage: &Stage<'_>) -> Result<()> {
    let before = claims_are(stage, 2).await?;
    let kind = "machinedeployments.v1beta2.cluster.x-k8s.io";
    stage.plane.kubectl(&["delete", kind, "small", "-n", NAMESPACE, "--wait=false"]).await?;
    for claim in before.values() {
        is_gone(stage, claim, Duration::from_mins(2)).await?;
    }
    all_is_well(stage, 2).await?;
    wait::eventually("the MachineDeployment is gone", Duration::from_mins(1), async || {
        let left =
            stage.plane.kubectl(&["get", kind, "small", "-n", NAMESPACE, "--ignore-not-found"]).await?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })
    .await?;
    claims_are(stage, 2).await?;
    replicas_are(stage, "dear", 2).await
}

/// The class stays while claims of it exist, says so, and takes nothing away.
async fn node_class_waits(stage: &Stage<'_>) -> Result<()> {
    let before: BTreeSet<String> = staying(stage).await?.into_keys().collect();
    stage.plane.kubectl(&["delete", "clusterapinodeclass", "default", "--wait=false"]).await?;
    let claim = before.first().context("no claim")?;
    event_says(stage, "default", "WaitingOnNodeClaims", claim).await?;
    wait::holds("the class and its claims stay", Duration::from_secs(5), async || {
        stage.class().await?;
        let now: BTreeSet<String> = staying(stage).await?.into_keys().collect();
        ensure!(now == before, "claims are {now:?}");
        Ok(())
    })
    .await
}

/// The pool's claims go with it and their Nodes are drained; what waited for them may go too.
async fn node_pool_goes(stage: &Stage<'_>) -> Result<()> {
    stage.plane.kubectl(&["delete", "nodepool", "general", "--wait=false"]).await?;
    wait::eventually("claims, Machines, pool and class are gone", Duration::from_mins(1), async || {
        let (claims, machines) =
            (claims(stage).list(&kube::api::ListParams::default()).await?, stage.machines().await?);
        ensure!(
            claims.items.is_empty() && machines.is_empty(),
            "{} and {}",
            claims.items.len(),
            machines.len()
        );
        let classes: Api<ClusterAPINodeClass> = Api::all(stage.client.clone());
        ensure!(classes.get_opt("default").await?.is_none(), "the class is there");
        Ok(())
    })
    .await?;
    replicas_are(stage, "dear", 0).await?;
    stage.running("web", 0, Duration::from_secs(10)).await?;
    let pods = workload::pods(&stage.client, NAMESPACE, "web").await?;
    ensure!(pods.len() == 2, "{} pods wait", pods.len());
    Ok(())
}
