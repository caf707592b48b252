//! The provider's kinds, under Cluster API's contract `v1beta2`.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Taint,
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{Condition, MicroTime},
    },
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the provider has done its part for the first time; Cluster API waits for this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Initialization {
    /// The infrastructure stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
    /// The control plane answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}

/// The infrastructure of a Cluster: nothing at all.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1",
    kind = "HollowCluster",
    namespaced,
    status = "HollowClusterStatus",
    category = "cluster-api",
    label("cluster.x-k8s.io/provider", "infrastructure-hollow"),
    label("cluster.x-k8s.io/v1beta2", "v1")
)]
#[serde(rename_all = "camelCase")]
pub struct HollowClusterSpec {
    /// Where the control plane answers; copied to the Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<Endpoint>,
}

/// Host and port of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: i32,
}

/// Status of a [`HollowCluster`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HollowClusterStatus {
    /// Set once the provider has seen the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
}

/// A control plane that somebody else manages: without one, Cluster API never deletes Nodes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1",
    kind = "HollowControlPlane",
    namespaced,
    status = "HollowControlPlaneStatus",
    category = "cluster-api",
    label("cluster.x-k8s.io/provider", "control-plane-hollow"),
    label("cluster.x-k8s.io/v1beta2", "v1")
)]
#[serde(rename_all = "camelCase")]
pub struct HollowControlPlaneSpec {
    /// The Kubernetes version, which a MachineSet's preflight checks compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Status of a [`HollowControlPlane`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HollowControlPlaneStatus {
    /// Always true: there are no control plane Machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_managed_control_plane: Option<bool>,
    /// The running version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Set once the workload cluster's kubeconfig Secret is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
}

/// How long the cloud takes; a time that isn't given is the provider's default. Durations are written as `500ms` or `2s`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delays {
    /// From the `HollowMachine`'s creation to its provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provision: Option<String>,
    /// From the provider ID to the Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
    /// From the `HollowMachine`'s deletion to the end of the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<String>,
}

/// A taint of a new Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeTaint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl NodeTaint {
    /// A taint without value.
    pub fn new(key: &str, effect: &str) -> Self {
        Self { key: key.to_owned(), value: None, effect: effect.to_owned() }
    }
}

impl From<&NodeTaint> for Taint {
    fn from(taint: &NodeTaint) -> Self {
        Self {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.clone(),
            time_added: None,
        }
    }
}

/// A machine of the hollow cloud: what Node it becomes, and what goes wrong with it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1",
    kind = "HollowMachine",
    namespaced,
    status = "HollowMachineStatus",
    category = "cluster-api",
    label("cluster.x-k8s.io/provider", "infrastructure-hollow"),
    label("cluster.x-k8s.io/v1beta2", "v1"),
    printcolumn = r#"{"name": "ProviderID", "type": "string", "jsonPath": ".spec.providerID"}"#,
    printcolumn = r#"{"name": "Instance", "type": "string", "jsonPath": ".status.instanceState"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct HollowMachineSpec {
    /// Set by the provider: `hollow://<namespace>/<name>`.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The Node's capacity: cpu, memory, ephemeral-storage, pods and any extended resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// The Node's allocatable resources where they differ from its capacity.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// Labels of the Node beside hostname, architecture and operating system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Taints of the Node; if not given, the one that Cluster API removes once it has synced the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<NodeTaint>>,
    /// Whether the Node also joins with `karpenter.sh/unregistered:NoExecute`, as a bootstrap for Karpenter makes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unregistered_taint: bool,
    /// The kubelet's version; Cluster API wants it to be that of the Machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_version: Option<String>,
    /// How long the cloud takes.
    #[serde(default)]
    pub delays: Delays,
    /// The cloud is out of capacity: no provider ID ever, and condition Ready is False with reason `InsufficientCapacity`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_capacity: bool,
    /// The instance runs, but never becomes a Node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_joins: bool,
    /// The instance and its Node disappear this long after joining, as a reclaimed spot instance does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vanishes_after: Option<String>,
    /// Added to the delay before the provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_by: Option<String>,
}

/// What an instance is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstanceState {
    /// Runs, without a Node so far.
    Running,
    /// Runs and has become a Node.
    Joined,
    /// Gone without having been asked to go.
    Vanished,
}

/// An address of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineAddress {
    /// `InternalIP` or another type of Cluster API.
    #[serde(rename = "type")]
    pub type_: String,
    /// The address.
    pub address: String,
}

/// Status of a [`HollowMachine`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HollowMachineStatus {
    /// Set with the provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// Addresses, copied to the Machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// Condition Ready, which Cluster API copies to the Machine's `InfrastructureReady`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What the instance is doing; nothing as long as there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_state: Option<InstanceState>,
    /// When the instance began to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_since: Option<MicroTime>,
    /// When the instance became a Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined_at: Option<MicroTime>,
}

/// A template of machines.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1",
    kind = "HollowMachineTemplate",
    namespaced,
    status = "HollowMachineTemplateStatus",
    category = "cluster-api",
    label("cluster.x-k8s.io/provider", "infrastructure-hollow"),
    label("cluster.x-k8s.io/v1beta2", "v1")
)]
#[serde(rename_all = "camelCase")]
pub struct HollowMachineTemplateSpec {
    /// What each machine gets.
    pub template: HollowMachineTemplateResource,
    /// Whether the provider reports capacity and node info in the template's status, as some providers do and some don't.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub report_capacity: bool,
}

/// The machine inside a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HollowMachineTemplateResource {
    /// Copied to each `HollowMachine`.
    pub spec: HollowMachineSpec,
}

/// Status of a [`HollowMachineTemplate`], as the contract for scaling from zero describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HollowMachineTemplateStatus {
    /// Capacity of one machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Architecture and operating system of one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
}

/// Architecture and operating system of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// Such as `amd64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Such as `linux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<String>,
}
