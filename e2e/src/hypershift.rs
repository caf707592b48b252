//! A stand-in for HyperShift's operator: it makes of a HyperShift NodePool what that does to a MachineDeployment, again and again.
//!
//! It owns `spec.replicas` and the bootstrap Secret's name of every MachineDeployment that is annotated with a NodePool, writes the
//! pair of "0" sizes that keeps the Cluster Autoscaler away, and takes off every pause. With `spec.autoScaling` it leaves the number
//! alone within its bounds, and writes these as sizes.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tracing::warn;

use crate::objects;

/// The annotation on a MachineDeployment: `namespace/name` of its NodePool.
pub const NODE_POOL: &str = "hypershift.openshift.io/nodePool";
const SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group";
const PAUSED: &str = "cluster.x-k8s.io/paused";
/// The real one is woken by watches and works through a queue; this one looks around.
const PERIOD: Duration = Duration::from_millis(300);

/// The running stand-in; dropping it stops it where it is.
#[derive(Debug)]
pub struct HyperShift {
    _tasks: JoinSet<()>,
}

impl HyperShift {
    /// Plays HyperShift's operator. Must be called within a tokio runtime, after [`install`].
    pub fn start(client: &Client) -> Self {
        let client = client.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                if let Err(error) = reconcile_all(&client).await {
                    warn!("HyperShift's stand-in: {error:#}");
                }
                tokio::time::sleep(PERIOD).await;
            }
        });
        Self { _tasks: tasks }
    }
}

/// Applies the NodePool's CRD, in the shape of the fields that matter here, and waits until it is served.
pub async fn install(client: &Client) -> Result<()> {
    let replicas = json!({ "type": "integer", "format": "int32", "minimum": 0 });
    let spec = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "clusterName": { "type": "string" },
            "replicas": replicas,
            "autoScaling": { "type": "object", "properties": { "min": replicas, "max": replicas } },
        },
        "x-kubernetes-validations": [{
            "rule": "!(has(self.replicas) && has(self.autoScaling))",
            "message": "Both replicas or autoScaling should not be set",
        }],
    });
    let status = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "nodepools.hypershift.openshift.io" },
        "spec": {
            "group": "hypershift.openshift.io", "scope": "Namespaced",
            "names": { "kind": "NodePool", "listKind": "NodePoolList", "plural": "nodepools", "singular": "nodepool" },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec, "status": status } } },
            }],
        },
    });
    objects::apply(client, &crd).await?;
    objects::crds_established(client, &[crd], Duration::from_mins(1)).await
}

/// A NodePool with so many replicas, whose machines boot from that Secret.
pub fn node_pool(namespace: &str, name: &str, replicas: u32, user_data: &str) -> Value {
    json!({
        "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "NodePool",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "clusterName": "hosted", "replicas": replicas, "userData": user_data },
    })
}

async fn reconcile_all(client: &Client) -> Result<()> {
    let kind = |group, version, kind| ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let of_pools = kind("hypershift.openshift.io", "v1beta1", "NodePool");
    let of_deployments = kind("cluster.x-k8s.io", "v1beta2", "MachineDeployment");
    let params =
        PatchParams { field_manager: Some("hypershift-operator".to_owned()), ..PatchParams::default() };
    let deployments: Api<DynamicObject> = Api::all_with(client.clone(), &of_deployments);
    for deployment in deployments.list(&ListParams::default()).await?.items {
        let Some((namespace, name)) =
            deployment.annotations().get(NODE_POOL).and_then(|owner| owner.split_once('/'))
        else {
            continue;
        };
        let pools: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &of_pools);
        let Some(pool) = pools.get_opt(name).await? else { continue };
        let Some(patch) = patch(&pool.data["spec"], &deployment) else { continue };
        let namespace = deployment.namespace().context("a MachineDeployment without namespace")?;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &of_deployments);
        api.patch(&deployment.name_any(), &params, &Patch::Merge(patch)).await?;
    }
    Ok(())
}

/// What the MachineDeployment is changed by, if it isn't as its NodePool says.
fn patch(pool: &Value, deployment: &DynamicObject) -> Option<Value> {
    let spec = &deployment.data["spec"];
    let present = spec["replicas"].as_i64().unwrap_or_default();
    let bounds = pool.get("autoScaling").map(|bounds| (bounds["min"].as_i64(), bounds["max"].as_i64()));
    let (replicas, min, max) = match bounds {
        Some((min, max)) => {
            let (min, max) = (min.unwrap_or_default(), max.unwrap_or(i64::MAX));
            (present.clamp(min, max), min, max)
        }
        None => (pool["replicas"].as_i64().unwrap_or_default(), 0, 0),
    };
    let sizes =
        [(format!("{SIZE}-min-size"), min.to_string()), (format!("{SIZE}-max-size"), max.to_string())];
    let annotations = deployment.annotations();
    let user_data = &pool["userData"];
    let as_wanted = replicas == present
        && sizes.iter().all(|(key, size)| annotations.get(key) == Some(size))
        && !annotations.contains_key(PAUSED)
        && spec.pointer("/template/spec/bootstrap/dataSecretName") == Some(user_data);
    if as_wanted {
        return None;
    }
    let [min, max] = sizes;
    Some(json!({
        "metadata": { "annotations": { min.0: min.1, max.0: max.1, PAUSED: null } },
        "spec": { "replicas": replicas, "template": { "spec": { "bootstrap": { "dataSecretName": user_data } } } },
    }))
}
