//! A health check deletes Machines: ours are given back and never remade, those that aren't ours are remade and left alone.

use super::super::stage::{NAMESPACE, Stage, machine, pool};
use super::super::termination::{event_says, is_gone, machine_of, name, node_of};
use super::{Witness, claims_are, floor_of, staying, unowned};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// A Node condition that nothing but the test writes.
const BROKEN: &str = "example.com/Broken";

/// Makes the health check of `small` see a Node as broken.
async fn break_node(stage: &Stage<'_>, node: &str) -> Result<()> {
    let condition =
        json!({ "type": BROKEN, "status": "True", "reason": "Test", "message": "broken by a test" });
    let patch = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
    Api::<Node>::all(stage.client.clone()).patch_status(node, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test]
async fn a_health_check_replaces_machines_and_none_is_made_twice() -> Result<()> {
    ControlPlane::with(Options::complete("health-check"), async |plane| {
        let stage = Stage::set(plane).await?;
        floor_of(&stage, machine("small", "4", "16Gi").priced("0.10").in_zone("a"), 1).await?;
        let floor = unowned(&stage).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let health_check = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
            "metadata": { "name": "small", "namespace": NAMESPACE },
            "spec": {
                "clusterName": "c1",
                "selector": { "matchLabels": { "cluster.x-k8s.io/deployment-name": "small" } },
                "checks": { "unhealthyNodeConditions": [{ "type": BROKEN, "status": "True", "timeoutSeconds": 1 }] },
            },
        });
        objects::apply(&stage.management, &health_check).await?;
        let operator = stage.operator()?;
        // Only Nodes of claims take these pods, each three of four processors.
        let mut web = workload::deployment(NAMESPACE, "web", 2, &[("cpu", "3"), ("memory", "1Gi")]);
        if let Some(pod) = web.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
            pod.node_selector = Some(BTreeMap::from([("karpenter.sh/nodepool".to_owned(), "general".to_owned())]));
        }
        workload::apply(&stage.client, &web).await?;
        stage.running("web", 2, Duration::from_mins(1)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        let witness = Witness::of(&stage, "small");
        one_of_ours(&stage, &witness).await?;
        one_that_is_empty(&stage, &witness).await?;
        one_of_the_floor(&stage, &witness, floor.first().context("no floor")?).await?;
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// The Machine is given back with its claim, its pod gets a claim of its own, and that is all that is made.
async fn one_of_ours(stage: &Stage<'_>, witness: &Witness) -> Result<()> {
    let before = claims_are(stage, 2).await?;
    let broken = before.values().next().context("no claim")?.clone();
    break_node(stage, &node_of(&broken)).await?;
    event_says(stage, &name(&broken), "MachineLost", &machine_of(&broken)).await?;
    is_gone(stage, &broken, Duration::from_mins(1)).await?;
    stage.running("web", 2, Duration::from_mins(1)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    ensure!(stage.replicas("small").await? == 3, "{} replicas", stage.replicas("small").await?);
    claims_are(stage, 2).await?;
    let seen = witness.seen();
    ensure!(seen.machines.len() == 4, "one Machine in the place of one, but there were {:?}", seen.machines);
    Ok(())
}

/// Its pod is gone: the Machine is given back with its claim, and nothing is made in its place.
async fn one_that_is_empty(stage: &Stage<'_>, witness: &Witness) -> Result<()> {
    let made = witness.seen().machines.len();
    stage.scale("web", 1).await?;
    let pods = stage.running("web", 1, Duration::from_secs(30)).await?;
    let used: Vec<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
    let claims = claims_are(stage, 2).await?;
    let empty = claims.values().find(|claim| !used.contains(&node_of(claim))).context("no Node is empty")?;
    break_node(stage, &node_of(empty)).await?;
    event_says(stage, &name(empty), "MachineLost", &machine_of(empty)).await?;
    is_gone(stage, empty, Duration::from_mins(1)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    claims_are(stage, 1).await?;
    ensure!(stage.replicas("small").await? == 2, "{} replicas", stage.replicas("small").await?);
    let seen = witness.seen();
    ensure!(seen.machines.len() == made, "a Machine was remade: {:?}", seen.machines);
    Ok(())
}

/// Cluster API remakes it; neither the number nor a claim changes, and the new one is nobody's.
async fn one_of_the_floor(stage: &Stage<'_>, witness: &Witness, broken: &str) -> Result<()> {
    let (claims, replicas) = (staying(stage).await?, witness.seen().replicas);
    let machines = stage.machines().await?;
    let node = machines.iter().find(|machine| machine.metadata.name.as_deref() == Some(broken));
    let node =
        node.and_then(|machine| machine.node_name()).context("the floor's Machine has no Node")?.to_owned();
    break_node(stage, &node).await?;
    wait::eventually("the floor's Machine has been remade", Duration::from_mins(1), async || {
        let floor = unowned(stage).await?;
        ensure!(floor.len() == 1 && !floor.contains(broken), "{floor:?}");
        Ok(())
    })
    .await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    ensure!(witness.seen().replicas == replicas, "the number moved: {:?}", witness.seen().replicas);
    let now: Vec<String> = staying(stage).await?.into_keys().collect();
    ensure!(now == claims.into_keys().collect::<Vec<_>>(), "claims are now {now:?}");
    stage.running("web", 1, Duration::from_secs(10)).await.map(drop)
}
