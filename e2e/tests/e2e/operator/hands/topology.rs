//! A topology that sets `replicas` takes back whatever anybody else writes: such a MachineDeployment isn't scaled, and says which field
//! to unset.

use super::super::stage::{CLUSTER, NAMESPACE, Stage, machine, pool, shipped_crds};
use super::super::termination::{delete_claim, is_gone};
use super::{capi, staying, unowned};
use anyhow::{Context, Result, ensure};
use karpenter_capi_api::capi::MachineDeployment;
use karpenter_capi_api::v1alpha1::MachineDeploymentStatus;
use karpenter_capi_e2e::hollow::topology::{Bootstrap, cluster_class, cluster_of_class};
use karpenter_capi_e2e::plane::{Component, ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::api::ListParams;
use serde_json::{Value, json};
use std::time::Duration;

/// The only entry of workers.
const WORKERS: &str = "/spec/topology/workers/machineDeployments/0";

/// The MachineDeployment that the topology has made, by its whole name.
async fn of_topology(stage: &Stage<'_>) -> Result<String> {
    wait::eventually("the topology has made its MachineDeployment", Duration::from_mins(1), async || {
        let owned = ListParams::default().labels("topology.cluster.x-k8s.io/owned");
        let found = capi::<MachineDeployment>(&stage.management).list(&owned).await?.items;
        let name = found.into_iter().find_map(|found| found.metadata.name);
        name.context("there is none")
    })
    .await
}

/// What the node class says about a MachineDeployment.
async fn told(stage: &Stage<'_>, deployment: &str) -> Result<MachineDeploymentStatus> {
    let status = stage.class().await?.status.context("no status")?;
    let name = format!("{NAMESPACE}/{deployment}");
    status.machine_deployments.into_iter().find(|told| told.name == name).context("nothing is told of it")
}

#[tokio::test]
async fn a_topology_that_sets_replicas_keeps_them_and_one_that_does_not_leaves_them_to_us() -> Result<()> {
    let options = Options::complete("topology")
        .with_argument(Component::CapiCore, "--feature-gates=ClusterTopology=true");
    ControlPlane::with(options, async |plane| {
        let stage = Stage::without_cluster(plane, plane, &shipped_crds()?).await?;
        let _bootstrap = Bootstrap::start(&stage.management).await?;
        let workers = machine("workers", "4", "16Gi").priced("0.10").in_zone("a");
        objects::apply_all(&stage.management, &cluster_class(&workers)?).await?;
        objects::apply(&stage.management, &cluster_of_class(&workers, 1)).await?;
        let name = of_topology(&stage).await?;
        stage.machine_deployment(&machine("dear", "4", "16Gi").priced("0.20").in_zone("a")).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        wait::eventually("the topology's Node is Ready", Duration::from_mins(1), async || {
            let nodes = workload::nodes(&stage.client).await?;
            ensure!(nodes.len() == 1 && nodes.iter().all(workload::is_ready), "{} Nodes", nodes.len());
            Ok(())
        })
        .await?;
        let operator = stage.operator()?;
        while_it_sets_them(&stage, &name).await?;
        unset_replicas(&stage, &name).await?;
        when_it_no_longer_does(&stage, &name).await?;
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// One pod finds room on the topology's Node; for the other a dearer machine is made, as the number isn't ours to move.
async fn while_it_sets_them(stage: &Stage<'_>, name: &str) -> Result<()> {
    let web = workload::deployment(NAMESPACE, "web", 2, &[("cpu", "3"), ("memory", "1Gi")]);
    workload::apply(&stage.client, &web).await?;
    stage.running("web", 2, Duration::from_mins(1)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    let replicas = (stage.replicas(name).await?, stage.replicas("dear").await?);
    ensure!(replicas == (1, 1), "{name} and dear have {replicas:?} replicas");
    let told = told(stage, name).await?;
    ensure!(told.reason.as_deref() == Some("ReplicasManaged"), "{:?}", told.reason);
    let message = told.message.context("no message")?;
    for words in
        ["sets replicas 1", "spec.topology.workers.machineDeployments[name=workers]", "remove that field"]
    {
        ensure!(message.contains(words), "{message:?} doesn't say {words:?}");
    }
    Ok(())
}

async fn patch_topology(stage: &Stage<'_>, operation: Value) -> Result<()> {
    let patch = json!([operation]).to_string();
    let command =
        ["patch", "cluster.v1beta2.cluster.x-k8s.io", CLUSTER, "-n", NAMESPACE, "--type=json", "-p", &patch];
    stage.plane.kubectl(&command).await.map(drop)
}

async fn unset_replicas(stage: &Stage<'_>, name: &str) -> Result<()> {
    patch_topology(stage, json!({ "op": "remove", "path": format!("{WORKERS}/replicas") })).await?;
    wait::eventually("the MachineDeployment can be used", Duration::from_secs(30), async || {
        let told = told(stage, name).await?;
        ensure!(told.available, "{:?}: {:?}", told.reason, told.message);
        Ok(())
    })
    .await
}

/// The cheaper machines are taken now; the topology has its work to do on the Cluster and leaves the number alone.
async fn when_it_no_longer_does(stage: &Stage<'_>, name: &str) -> Result<()> {
    let before = staying(stage).await?;
    stage.scale("web", 4).await?;
    stage.running("web", 4, Duration::from_mins(1)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    let replicas = (stage.replicas(name).await?, stage.replicas("dear").await?);
    ensure!(replicas == (3, 1), "{name} and dear have {replicas:?} replicas");
    // A label for the workers: the topology controller writes the MachineDeployment.
    let path = "metadata/labels/example.com~1touched";
    patch_topology(stage, json!({ "op": "add", "path": format!("{WORKERS}/{path}"), "value": "yes" }))
        .await?;
    wait::eventually("the topology has written the MachineDeployment", Duration::from_secs(30), async || {
        let deployment = capi::<MachineDeployment>(&stage.management).get(name).await?;
        let labels = deployment.metadata.labels.unwrap_or_default();
        ensure!(labels.contains_key("example.com/touched"), "{labels:?}");
        Ok(())
    })
    .await?;
    wait::holds("the number stays ours", Duration::from_secs(5), async || {
        ensure!(stage.replicas(name).await? == 3, "{} replicas", stage.replicas(name).await?);
        Ok(())
    })
    .await?;

    let floor = unowned(stage).await?;
    ensure!(floor.len() == 1, "not claimed are {floor:?}");
    let new = staying(stage).await?.into_iter().find(|(name, _)| !before.contains_key(name));
    let (_, going) = new.context("no new claim")?;
    stage.scale("web", 3).await?;
    stage.running("web", 3, Duration::from_secs(30)).await?;
    delete_claim(stage, &going).await?;
    is_gone(stage, &going, Duration::from_mins(1)).await?;
    stage.running("web", 3, Duration::from_mins(1)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    ensure!(unowned(stage).await? == floor, "the topology's own Machine went");
    ensure!(stage.replicas(name).await? == 2, "{} replicas", stage.replicas(name).await?);
    Ok(())
}
