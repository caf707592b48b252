//! The wrong workload cluster, and the right one without its claims: neither may cost Machines.

use super::super::process::Operator;
use super::super::stage::{CLUSTER, NAMESPACE, Stage, apply_crds, machine, node_class, pool};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use karpenter_capi_api::capi::{CapiVersion, Cluster, MachineDeployment};
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

#[tokio::test]
async fn a_foreign_or_emptied_workload_cluster_costs_no_machines() -> Result<()> {
    ControlPlane::with(Options::workload_only("right-workload"), async |workload| {
        let inner = ControlPlane::with(Options::management_only("foreign-management"), async |management| {
            let wrong = ControlPlane::with(Options::workload_only("wrong-workload"), async |wrong| {
                the_right_cluster_the_emptied_one_and_the_wrong_one(workload, management, wrong).await
            });
            Box::pin(wrong).await
        });
        Box::pin(inner).await
    })
    .await
}

async fn the_right_cluster_the_emptied_one_and_the_wrong_one(
    workload: &ControlPlane,
    management: &ControlPlane,
    wrong: &ControlPlane,
) -> Result<()> {
    let stage = Stage::across(workload, management).await?;
    stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10").in_zone("a")).await?;
    objects::apply(&stage.client, &pool("general")).await?;
    let path = management.kubeconfig().display().to_string();
    let arguments = ["--cluster-api-kubeconfig", path.as_str()];
    let operator = Operator::start(workload, "operator", workload.kubeconfig(), &arguments)?;
    let web = workload::deployment(NAMESPACE, "web", 3, &[("cpu", "3"), ("memory", "1Gi")]);
    workload::apply(&stage.client, &web).await?;
    stage.running("web", 3, Duration::from_mins(1)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    let recorded = recorded(&stage).await?;
    ensure!(recorded == cluster_uid(&stage.client).await?, "{recorded:?} is recorded");
    operator.terminate().await?;
    let before = Picture::taken(&stage).await?;
    ensure!(before.machines.len() == 3 && before.replicas == 3, "{before:?}");

    strip_all_claims(&stage).await?;
    without_any_claim_nothing_is_given_back(&stage, &arguments, &before).await?;
    in_a_foreign_cluster_nothing_is_done(&stage, wrong, &arguments, &before).await
}

/// What a wrong workload cluster must not change.
#[derive(Debug, PartialEq, Eq)]
struct Picture {
    /// Names, and whether each is going.
    machines: BTreeMap<String, bool>,
    replicas: i32,
    ledger: Option<String>,
}

impl Picture {
    async fn taken(stage: &Stage<'_>) -> Result<Self> {
        let api: Api<MachineDeployment> =
            Api::namespaced_with(stage.management.clone(), NAMESPACE, &CapiVersion::V1Beta2);
        let deployment = api.get("small").await?;
        let machines = stage.machines().await?.into_iter().map(|machine| {
            (machine.metadata.name.unwrap_or_default(), machine.metadata.deletion_timestamp.is_some())
        });
        Ok(Self {
            machines: machines.collect(),
            replicas: deployment.spec.replicas.unwrap_or_default(),
            ledger: deployment.metadata.annotations.unwrap_or_default().remove(annotations::CLAIMS),
        })
    }

    async fn stays(&self, stage: &Stage<'_>, during: Duration) -> Result<()> {
        wait::holds("Machines, replicas and ledger stay", during, async || {
            let now = Self::taken(stage).await?;
            ensure!(now == *self, "{self:?} became {now:?}");
            Ok(())
        })
        .await
    }
}

/// As a restored backup of the workload cluster would show it: Machines with claims, and none of the claims.
async fn strip_all_claims(stage: &Stage<'_>) -> Result<()> {
    let api: Api<NodeClaim> = Api::all(stage.client.clone());
    for claim in stage.claims().await? {
        let name = claim.metadata.name.unwrap_or_default();
        api.delete(&name, &DeleteParams::default()).await?;
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        api.patch(&name, &PatchParams::default(), &patch).await?;
    }
    ensure!(stage.claims().await?.is_empty(), "claims are left");
    Ok(())
}

async fn without_any_claim_nothing_is_given_back(
    stage: &Stage<'_>,
    arguments: &[&str],
    before: &Picture,
) -> Result<()> {
    let operator =
        Operator::start(stage.plane, "operator-without-claims", stage.plane.kubeconfig(), arguments)?;
    wait::eventually("the operator says that it holds back", Duration::from_secs(30), async || {
        let told = operator.said().contains("nothing is given back while no claim is visible");
        ensure!(told, "it doesn't");
        Ok(())
    })
    .await?;
    before.stays(stage, Duration::from_secs(10)).await?;
    let foreign = operator.metric("karpenter_capi_workload_cluster_foreign").await?;
    ensure!(foreign == 0, "the right cluster is called foreign");
    operator.terminate().await?;
    Ok(())
}

async fn in_a_foreign_cluster_nothing_is_done(
    stage: &Stage<'_>,
    wrong: &ControlPlane,
    arguments: &[&str],
    before: &Picture,
) -> Result<()> {
    let client = wrong.client()?;
    apply_crds(&client).await?;
    objects::apply(&client, &node_class("default")).await?;
    objects::apply(&client, &pool("general")).await?;
    // Pods that wait are a temptation to scale up.
    let web = workload::deployment(NAMESPACE, "web", 2, &[("cpu", "3"), ("memory", "1Gi")]);
    workload::apply(&client, &web).await?;
    let right = recorded(stage).await?;
    let operator = Operator::start(wrong, "operator", wrong.kubeconfig(), arguments)?;
    wait::eventually("the cluster is told to be foreign", Duration::from_secs(30), async || {
        let foreign = operator.metric("karpenter_capi_workload_cluster_foreign").await?;
        ensure!(foreign == 1, "the metric is {foreign}");
        let events: Api<Event> = Api::namespaced(stage.management.clone(), NAMESPACE);
        let events = events.list(&ListParams::default()).await?.items;
        let told = events.iter().find(|event| event.reason.as_deref() == Some("ForeignWorkloadCluster"));
        let about = told.context("no Event")?.regarding.clone().unwrap_or_default();
        ensure!(
            about.kind.as_deref() == Some("Cluster") && about.name.as_deref() == Some(CLUSTER),
            "about {about:?}"
        );
        Ok(())
    })
    .await?;
    before.stays(stage, Duration::from_mins(1)).await?;
    ensure!(recorded(stage).await? == right, "another cluster was recorded unasked");

    let cluster: Api<Cluster> =
        Api::namespaced_with(stage.management.clone(), NAMESPACE, &CapiVersion::V1Beta2);
    let accept = Patch::Merge(
        json!({ "metadata": { "annotations": { annotations::WORKLOAD_UID: annotations::WORKLOAD_UID_ACCEPT } } }),
    );
    cluster.patch(CLUSTER, &PatchParams::default(), &accept).await?;
    let uid = cluster_uid(&client).await?;
    wait::eventually(
        "the accepted cluster is recorded and work goes on",
        Duration::from_mins(1),
        async || {
            let recorded = recorded(stage).await?;
            ensure!(recorded == uid, "{recorded} is recorded");
            let replicas = stage.replicas("small").await?;
            ensure!(replicas == 5, "{replicas} replicas");
            let foreign = operator.metric("karpenter_capi_workload_cluster_foreign").await?;
            ensure!(foreign == 0, "it is still called foreign");
            Ok(())
        },
    )
    .await?;
    // The three Machines whose claims are in the other cluster wait for their ten minutes.
    let now = Picture::taken(stage).await?;
    let staying = before.machines.keys().all(|name| now.machines.get(name) == Some(&false));
    ensure!(staying, "{before:?} became {now:?}");
    operator.terminate().await?;
    Ok(())
}

async fn recorded(stage: &Stage<'_>) -> Result<String> {
    let api: Api<Cluster> = Api::namespaced_with(stage.management.clone(), NAMESPACE, &CapiVersion::V1Beta2);
    let annotations = api.get(CLUSTER).await?.metadata.annotations.unwrap_or_default();
    Ok(annotations.get(annotations::WORKLOAD_UID).cloned().unwrap_or_default())
}

async fn cluster_uid(client: &Client) -> Result<String> {
    let api: Api<Namespace> = Api::all(client.clone());
    api.get("kube-system").await?.metadata.uid.context("a namespace without UID")
}
