//! What a Cluster with a topology needs besides: templates of its parts, a `ClusterClass`, and a bootstrap provider.
//!
//! Cluster API's core manager must run with `--feature-gates=ClusterTopology=true`.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use futures::StreamExt;
use kube::{
    Api, Client, CustomResource, CustomResourceExt, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        Controller,
        controller::{Action, Config},
        watcher,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tracing::debug;

use super::{
    HollowClusterSpec, HollowControlPlaneSpec, MachineDeploymentOptions, VERSION, machine_deployment,
};
use crate::objects;

/// Template of a `HollowCluster`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1",
    kind = "HollowClusterTemplate",
    namespaced,
    category = "cluster-api",
    label("cluster.x-k8s.io/provider", "infrastructure-hollow"),
    label("cluster.x-k8s.io/v1beta2", "v1")
)]
pub struct HollowClusterTemplateSpec {
    /// What each Cluster gets.
    pub template: HollowClusterTemplateResource,
}

/// The `HollowCluster` inside a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HollowClusterTemplateResource {
    /// Copied to the `HollowCluster`.
    pub spec: HollowClusterSpec,
}

/// Template of a `HollowControlPlane`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1",
    kind = "HollowControlPlaneTemplate",
    namespaced,
    category = "cluster-api",
    label("cluster.x-k8s.io/provider", "control-plane-hollow"),
    label("cluster.x-k8s.io/v1beta2", "v1")
)]
pub struct HollowControlPlaneTemplateSpec {
    /// What each Cluster gets.
    pub template: HollowControlPlaneTemplateResource,
}

/// The `HollowControlPlane` inside a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HollowControlPlaneTemplateResource {
    /// Copied to the `HollowControlPlane`; Cluster API adds the version.
    pub spec: HollowControlPlaneSpec,
}

/// The bootstrap data of a Machine: a name that nobody reads.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "bootstrap.cluster.x-k8s.io",
    version = "v1",
    kind = "HollowConfig",
    namespaced,
    status = "HollowConfigStatus",
    category = "cluster-api",
    label("cluster.x-k8s.io/provider", "bootstrap-hollow"),
    label("cluster.x-k8s.io/v1beta2", "v1")
)]
pub struct HollowConfigSpec {}

/// Status of a [`HollowConfig`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HollowConfigStatus {
    /// Name of the Secret with the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_secret_name: Option<String>,
    /// Set once the data is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ConfigInitialization>,
}

/// Whether the bootstrap provider has done its part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigInitialization {
    /// The Secret is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_secret_created: Option<bool>,
}

/// Template of a `HollowConfig`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "bootstrap.cluster.x-k8s.io",
    version = "v1",
    kind = "HollowConfigTemplate",
    namespaced,
    category = "cluster-api",
    label("cluster.x-k8s.io/provider", "bootstrap-hollow"),
    label("cluster.x-k8s.io/v1beta2", "v1")
)]
pub struct HollowConfigTemplateSpec {
    /// What each Machine gets.
    pub template: HollowConfigTemplateResource,
}

/// The `HollowConfig` inside a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HollowConfigTemplateResource {
    /// Copied to each `HollowConfig`.
    pub spec: HollowConfigSpec,
}

/// The running bootstrap provider; dropping it stops it.
#[derive(Debug)]
pub struct Bootstrap {
    _tasks: JoinSet<()>,
}

impl Bootstrap {
    /// Applies the kinds of this module, waits until they are served, and says of every `HollowConfig` that its data is there.
    pub async fn start(client: &Client) -> Result<Self> {
        let crds = [
            HollowClusterTemplate::crd(),
            HollowControlPlaneTemplate::crd(),
            HollowConfig::crd(),
            HollowConfigTemplate::crd(),
        ];
        let crds: Vec<Value> = crds.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        objects::apply_all(client, &crds).await?;
        objects::crds_established(client, &crds, Duration::from_mins(1)).await?;
        let configs = Controller::new(Api::<HollowConfig>::all(client.clone()), watcher::Config::default())
            .with_config(Config::default().concurrency(8))
            .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(client.clone()))
            .for_each(|result| {
                if let Err(error) = result {
                    debug!(%error, "hollow bootstrap provider");
                }
                std::future::ready(())
            });
        let mut tasks = JoinSet::new();
        tasks.spawn(configs);
        Ok(Self { _tasks: tasks })
    }
}

async fn reconcile(config: Arc<HollowConfig>, client: Arc<Client>) -> Result<Action, Box<kube::Error>> {
    if config.status.as_ref().is_none_or(|status| status.initialization.is_none()) {
        let configs: Api<HollowConfig> =
            Api::namespaced(client.as_ref().clone(), &config.namespace().unwrap_or_default());
        let status = json!({ "dataSecretName": "hollow", "initialization": { "dataSecretCreated": true } });
        let patch = Patch::Merge(json!({ "status": status }));
        configs.patch_status(&config.name_any(), &PatchParams::default(), &patch).await?;
    }
    Ok(Action::await_change())
}

/// A `ClusterClass` named `hollow` with its templates, whose only class of workers makes the machines of the options.
pub fn cluster_class(options: &MachineDeploymentOptions) -> Result<Vec<Value>> {
    let metadata = json!({ "name": "hollow", "namespace": options.namespace });
    let endpoint = json!({ "host": "127.0.0.1", "port": 6443 });
    let version = |group: &str| format!("{group}.cluster.x-k8s.io/v1");
    let template = |group: &str, kind: &str, name: &str| json!({ "templateRef": { "apiVersion": version(group), "kind": kind, "name": name } });
    let object = |group: &str, kind: &str, spec: Value| {
        let spec = json!({ "template": { "spec": spec } });
        json!({ "apiVersion": version(group), "kind": kind, "metadata": metadata, "spec": spec })
    };
    let (machine_template, _) = machine_deployment(options);
    Ok(vec![
        object("infrastructure", "HollowClusterTemplate", json!({ "controlPlaneEndpoint": endpoint })),
        object("controlplane", "HollowControlPlaneTemplate", json!({})),
        object("bootstrap", "HollowConfigTemplate", json!({})),
        serde_json::to_value(machine_template)?,
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": metadata,
            "spec": {
                "infrastructure": template("infrastructure", "HollowClusterTemplate", "hollow"),
                "controlPlane": template("controlplane", "HollowControlPlaneTemplate", "hollow"),
                "workers": { "machineDeployments": [{
                    "class": "workers",
                    "bootstrap": template("bootstrap", "HollowConfigTemplate", "hollow"),
                    "infrastructure": template("infrastructure", "HollowMachineTemplate", &options.name),
                }] },
            },
        }),
    ])
}

/// A Cluster of that class whose topology has one entry of workers, named as the options, with these replicas.
///
/// The sizes for an autoscaler are left out: Cluster API refuses them beside `replicas`.
pub fn cluster_of_class(options: &MachineDeploymentOptions, replicas: u32) -> Value {
    let (_, deployment) = machine_deployment(options);
    let mut annotations = deployment["metadata"]["annotations"].clone();
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.retain(|key, _| !key.starts_with("cluster.x-k8s.io/cluster-api-autoscaler-node-group-"));
    }
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": { "name": options.cluster, "namespace": options.namespace },
        "spec": { "topology": {
            "classRef": { "name": "hollow" },
            "version": VERSION,
            "workers": { "machineDeployments": [{
                "class": "workers",
                "name": options.name,
                "replicas": replicas,
                "metadata": { "labels": deployment["metadata"]["labels"], "annotations": annotations },
            }] },
        } },
    })
}
