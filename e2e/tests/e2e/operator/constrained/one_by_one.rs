//! Every pod anew, held by a scheduling gate until it is its turn, and then nominated to the Node that it was promised.

use super::super::stage::{NAMESPACE, Stage};
use super::promises::{Promise, Promises, pods, told_by_scheduler};
use super::workloads::Workload;
use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, PodSchedulingGate};
use karpenter_capi_e2e::wait;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use std::time::Duration;

/// Puts in the place of each pod one like it, that is held.
pub(super) async fn start_anew(stage: &Stage<'_>, workload: &Workload, promises: &Promises) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(stage.client.clone(), NAMESPACE);
    for app in &workload.apps {
        deployments.delete(app.name, &DeleteParams::background()).await?;
    }
    wait::eventually("the pods are gone", Duration::from_mins(1), async || {
        let left = pods(&stage.client).await?.len();
        ensure!(left == 0, "{left} are there");
        Ok(())
    })
    .await?;
    let api = api(stage);
    for promise in &promises.pods {
        api.create(&PostParams::default(), &held(promise)).await?;
    }
    Ok(())
}

fn api(stage: &Stage<'_>) -> Api<Pod> {
    Api::namespaced(stage.client.clone(), NAMESPACE)
}

fn held(promise: &Promise) -> Pod {
    let mut spec = promise.pod.spec.clone();
    if let Some(spec) = &mut spec {
        spec.scheduling_gates = Some(vec![PodSchedulingGate { name: "example.com/turn".to_owned() }]);
    }
    let metadata = ObjectMeta {
        name: Some(promise.name().to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        labels: promise.pod.metadata.labels.clone(),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec, status: None }
}

/// Waits until kube-scheduler, which was stopped while the Nodes came up, knows that each of them takes pods: one pod that asks for
/// nothing gets a place on each. Its watches of Nodes and of pods catch up each for itself.
pub(super) async fn every_node_is_known(stage: &Stage<'_>, promises: &Promises) -> Result<()> {
    let api = api(stage);
    for claim in promises.claims.values() {
        let there =
            json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [claim.node] }] });
        let probe = serde_json::from_value(json!({
            "metadata": { "name": format!("probe-{}", claim.node) },
            "spec": {
                "containers": [{ "name": "main", "image": "registry.invalid/nothing" }],
                "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [there],
                } } },
            },
        }))?;
        api.create(&PostParams::default(), &probe).await?;
    }
    for claim in promises.claims.values() {
        let name = format!("probe-{}", claim.node);
        wait::eventually(&format!("{name} has its Node"), Duration::from_secs(30), async || {
            let node = api.get(&name).await?.spec.and_then(|spec| spec.node_name);
            ensure!(node.is_some(), "it has none");
            Ok(())
        })
        .await?;
        api.delete(&name, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await?;
    }
    Ok(())
}

/// Lets the pods go one after the other, and tells which of them kube-scheduler didn't put where they were promised a place.
pub(super) async fn released(stage: &Stage<'_>, promises: &Promises) -> Result<Vec<String>> {
    let api = api(stage);
    let mut refused = Vec::new();
    for promise in promises.in_turns() {
        let (name, node) = (promise.name(), promises.promised(promise)?);
        let nominated = Patch::Merge(json!({ "status": { "nominatedNodeName": node } }));
        api.patch_status(name, &PatchParams::default(), &nominated).await?;
        let go = Patch::Merge(json!({ "spec": { "schedulingGates": null } }));
        api.patch(name, &PatchParams::default(), &go).await?;
        let bound = wait::eventually("it has a Node", Duration::from_secs(10), async || {
            let node = api.get(name).await?.spec.and_then(|spec| spec.node_name).unwrap_or_default();
            ensure!(!node.is_empty(), "it has none");
            Ok(node)
        });
        match bound.await {
            Ok(found) if found == node => {}
            Ok(found) => refused.push(format!("{name} is on {found}, was promised {node}")),
            Err(_) => {
                let told = told_by_scheduler(&stage.client).await?;
                let told = told.lines().rfind(|line| line.starts_with(name)).unwrap_or_default();
                refused.push(format!("{name} is nowhere, was promised {node}: {told}"));
            }
        }
    }
    Ok(refused)
}
