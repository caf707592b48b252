//! Pending pods scale MachineDeployments, and deleted claims give back exactly their Machines.

use super::stage::{CLUSTER, NAMESPACE, Stage, machine, pool};
use anyhow::{Result, ensure};
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use kube::api::DeleteParams;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Three machines: `small` and `large` for their sizes, and `dear`, which is `small` at twice the price.
pub(super) async fn three_machine_deployments(stage: &Stage<'_>) -> Result<()> {
    stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10").in_zone("a")).await?;
    stage.machine_deployment(&machine("dear", "4", "16Gi").priced("0.20").in_zone("a")).await?;
    stage.machine_deployment(&machine("large", "16", "64Gi").priced("0.50").in_zone("b")).await
}

/// 36 pods that only `small` and `dear` can take, and 24 that only `large` can.
pub(super) async fn sixty_pods(stage: &Stage<'_>) -> Result<()> {
    let mut web = workload::deployment(NAMESPACE, "web", 36, &[("cpu", "1"), ("memory", "1Gi")]);
    if let Some(pod) = web.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
        pod.node_selector =
            Some(BTreeMap::from([("topology.kubernetes.io/zone".to_owned(), "a".to_owned())]));
    }
    workload::apply(&stage.client, &web).await?;
    let batch = workload::deployment(NAMESPACE, "batch", 24, &[("cpu", "5"), ("memory", "1Gi")]);
    workload::apply(&stage.client, &batch).await
}

/// 36 pods of one processor on machines of four: 9 `small`. 24 pods of five processors on machines of sixteen, three on each: 8 `large`.
pub(super) async fn sixty_pods_run_on_the_cheapest(stage: &Stage<'_>) -> Result<()> {
    stage.running("web", 36, Duration::from_mins(3)).await?;
    stage.running("batch", 24, Duration::from_mins(3)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    let mut replicas = BTreeMap::new();
    for name in ["small", "dear", "large"] {
        replicas.insert(name, stage.replicas(name).await?);
    }
    ensure!(replicas == BTreeMap::from([("small", 9), ("dear", 0), ("large", 8)]), "replicas: {replicas:?}");
    Ok(())
}

/// Takes the sixty pods away, and then every claim. Without pods nothing is made anew.
pub(super) async fn sixty_pods_go(stage: &Stage<'_>) -> Result<()> {
    for deployment in ["web", "batch"] {
        stage.scale(deployment, 0).await?;
    }
    // A pod that still is there when its node is taken away gets a new one, rightly.
    for deployment in ["web", "batch"] {
        stage.running(deployment, 0, Duration::from_mins(1)).await?;
    }
    for claim in stage.claims().await? {
        let api: Api<NodeClaim> = Api::all(stage.client.clone());
        api.delete(claim.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default()).await?;
    }
    Ok(())
}

/// The end of scaling down: no claim, no Machine, no replica.
pub(super) async fn nothing_is_left(stage: &Stage<'_>) -> Result<()> {
    wait::eventually("all claims and Machines are gone", Duration::from_mins(3), async || {
        let (claims, machines) = (stage.claims().await?.len(), stage.machines().await?.len());
        ensure!(claims == 0 && machines == 0, "{claims} claims and {machines} Machines are left");
        Ok(())
    })
    .await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    for name in ["small", "dear", "large"] {
        ensure!(stage.replicas(name).await? == 0, "{name} has {} replicas", stage.replicas(name).await?);
    }
    Ok(())
}

#[tokio::test]
async fn sixty_pending_pods_scale_the_cheapest_fitting_machine_deployments() -> Result<()> {
    ControlPlane::with(Options::complete("sixty-pods"), async |plane| {
        let stage = Stage::set(plane).await?;
        three_machine_deployments(&stage).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let operator = stage.operator()?;
        sixty_pods(&stage).await?;
        sixty_pods_run_on_the_cheapest(&stage).await?;
        let claims = stage.claims().await?;
        ensure!(claims.len() == 17, "{} claims: a second round of nodes was made", claims.len());
        claims_are_given_back(&stage, 3).await?;
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// Claims in the middle, by age, of `small` that are deleted at once: exactly their Machines go, and their pods run again.
pub(super) async fn claims_are_given_back(stage: &Stage<'_>, count: usize) -> Result<()> {
    let mut claims: Vec<NodeClaim> =
        stage.claims().await?.into_iter().filter(|claim| assigned(claim) == "default/small").collect();
    claims.sort_by_key(|claim| claim.metadata.creation_timestamp.clone().map(|time| time.0));
    let going: Vec<&NodeClaim> = claims.iter().skip(3).take(count).collect();
    let theirs: BTreeSet<String> =
        going.iter().map(|claim| annotation(claim, annotations::MACHINE)).collect();
    let before = machine_names(stage).await?;
    ensure!(theirs.len() == count && theirs.is_subset(&before), "{theirs:?} of {before:?}");
    let api: Api<NodeClaim> = Api::all(stage.client.clone());
    for claim in &going {
        api.delete(claim.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default()).await?;
    }
    wait::eventually("their Machines are gone", Duration::from_mins(2), async || {
        let now = machine_names(stage).await?;
        let left: Vec<_> = theirs.intersection(&now).collect();
        ensure!(left.is_empty(), "{left:?} are left");
        Ok(())
    })
    .await?;
    stage.running("web", 36, Duration::from_mins(2)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    let after = machine_names(stage).await?;
    let lost: Vec<_> = before.difference(&after).filter(|name| !theirs.contains(*name)).collect();
    ensure!(lost.is_empty(), "Machines that nobody gave up are gone: {lost:?}");
    // The evicted pods were pending again, so as many claims took their place; nothing was remade behind our back.
    ensure!(stage.replicas("small").await? == 9, "{} replicas", stage.replicas("small").await?);
    Ok(())
}

/// Machines of our Cluster, as annotations name them.
async fn machine_names(stage: &Stage<'_>) -> Result<BTreeSet<String>> {
    let machines = stage.machines().await?;
    Ok(machines
        .iter()
        .filter(|machine| machine.spec.cluster_name == CLUSTER)
        .map(|machine| format!("{NAMESPACE}/{}", machine.metadata.name.as_deref().unwrap_or_default()))
        .collect())
}

fn annotation(claim: &NodeClaim, key: &str) -> String {
    claim.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default()
}

fn assigned(claim: &NodeClaim) -> String {
    annotation(claim, annotations::MACHINE_DEPLOYMENT)
}
