use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::capi_kind;
use super::lenient::{self, Deprecated, NestedV1Beta2};
use super::reference::ContractReference;
use crate::condition::Condition;
use crate::duration::parse_go;

capi_kind!(
    /// One machine of a cluster.
    Machine,
    "machines",
    MachineSpec,
    MachineStatus
);

impl Machine {
    /// Whether the deletion was acknowledged by Cluster API: `Deleting=True`, or `status.deletion`.
    pub fn deletion_is_acknowledged(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
            && (self.status.deletion.is_some()
                || crate::condition::is_true(
                    &self.status.conditions,
                    crate::names::conditions::CAPI_DELETING,
                ))
    }

    /// Name of the Machine's Node, once it is known.
    pub fn node_name(&self) -> Option<&str> {
        self.status.node_ref.as_ref().map(|node| node.name.as_str())
    }
}

/// What is asked of a Machine, and of a template's Machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "SpecWire")]
pub struct MachineSpec {
    /// Name of the Cluster.
    pub cluster_name: String,
    /// Where the bootstrap data comes from.
    pub bootstrap: Bootstrap,
    /// The infrastructure machine; in a template, its template.
    pub infrastructure_ref: ContractReference,
    /// Version of Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Identity that cloud and Node share; set by the infrastructure provider.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Failure domain that the Machine is to be made in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// Taints of the Node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<MachineTaint>,
    /// How long the steps of the deletion may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<MachineDeletionSpec>,
}

/// Where bootstrap data comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bootstrap {
    /// The bootstrap configuration; in a template, its template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_ref: Option<ContractReference>,
    /// Name of the Secret with the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_secret_name: Option<String>,
}

/// A taint that Cluster API puts on the Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineTaint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(deserialize_with = "lenient::null_is_default", skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// `Always`, or `OnInitialization`: then it is put on once and may be taken off.
    #[serde(deserialize_with = "lenient::null_is_default", skip_serializing_if = "String::is_empty")]
    pub propagation: String,
}

/// How long the steps of a Machine's deletion may take, in seconds; 0 is without end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeletionSpec {
    /// The drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_timeout_seconds: Option<i64>,
    /// The wait for volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_volume_detach_timeout_seconds: Option<i64>,
    /// Deleting the Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_deletion_timeout_seconds: Option<i64>,
}

/// What was seen of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "StatusWire")]
pub struct MachineStatus {
    /// Generation that the status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of `v1beta2`, also where the object is `v1beta1`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// `Pending`, `Provisioning`, `Provisioned`, `Running`, `Deleting`, ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<NodeRef>,
    /// What the Node says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
    /// What is there already.
    pub initialization: Initialization,
    /// How far the deletion is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<MachineDeletionStatus>,
    /// Failure domain that the Machine was made in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// What went wrong for good, in one word. Cluster API is giving this up; it never counts as the only sign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// What went wrong for good, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
}

/// A Machine's Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRef {
    /// Name.
    pub name: String,
}

/// What a Node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeInfo {
    /// Processor architecture, in Go's words.
    pub architecture: String,
    /// Operating system, in Go's words.
    pub operating_system: String,
    /// Version of the kubelet.
    pub kubelet_version: String,
    /// Name of the operating system's image.
    pub os_image: String,
}

/// What of a Machine is there already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Initialization {
    /// The infrastructure. `v1beta1` calls it `infrastructureReady`.
    #[serde(deserialize_with = "lenient::null_is_default")]
    pub infrastructure_provisioned: bool,
    /// The bootstrap data. `v1beta1` calls it `bootstrapReady`.
    #[serde(deserialize_with = "lenient::null_is_default")]
    pub bootstrap_data_secret_created: bool,
}

/// How far a Machine's deletion is. Being there at all means that Cluster API has seen the deletion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeletionStatus {
    /// When the drain began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_start_time: Option<Time>,
    /// When the wait for volumes began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_node_volume_detach_start_time: Option<Time>,
    /// When the wait for hooks before the drain began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_pre_drain_hook_start_time: Option<Time>,
    /// When the wait for hooks before the end began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_pre_terminate_hook_start_time: Option<Time>,
}

impl MachineDeletionStatus {
    /// When the first of the steps began.
    pub fn started_at(&self) -> Option<Timestamp> {
        [
            &self.wait_for_pre_drain_hook_start_time,
            &self.node_drain_start_time,
            &self.wait_for_node_volume_detach_start_time,
            &self.wait_for_pre_terminate_hook_start_time,
        ]
        .into_iter()
        .filter_map(|time| time.as_ref().map(|time| time.0))
        .min()
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    cluster_name: Option<String>,
    bootstrap: Option<Bootstrap>,
    infrastructure_ref: Option<ContractReference>,
    version: Option<String>,
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    failure_domain: Option<String>,
    taints: Option<Vec<MachineTaint>>,
    #[serde(deserialize_with = "lenient::or_default")]
    deletion: Option<MachineDeletionSpec>,
    // v1beta1
    #[serde(deserialize_with = "lenient::or_default")]
    node_drain_timeout: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    node_volume_detach_timeout: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    node_deletion_timeout: Option<String>,
}

impl From<SpecWire> for MachineSpec {
    fn from(wire: SpecWire) -> Self {
        let seconds = |text: &Option<String>| Some(parse_go(text.as_deref()?).ok()?.as_secs());
        let older = MachineDeletionSpec {
            node_drain_timeout_seconds: seconds(&wire.node_drain_timeout),
            node_volume_detach_timeout_seconds: seconds(&wire.node_volume_detach_timeout),
            node_deletion_timeout_seconds: seconds(&wire.node_deletion_timeout),
        };
        let older = (older != MachineDeletionSpec::default()).then_some(older);
        Self {
            cluster_name: wire.cluster_name.unwrap_or_default(),
            bootstrap: Bootstrap {
                config_ref: wire
                    .bootstrap
                    .as_ref()
                    .and_then(|bootstrap| bootstrap.config_ref.clone())
                    .filter(|config| !config.is_empty()),
                data_secret_name: wire.bootstrap.and_then(|bootstrap| bootstrap.data_secret_name),
            },
            infrastructure_ref: wire.infrastructure_ref.unwrap_or_default(),
            version: wire.version.filter(|version| !version.is_empty()),
            provider_id: wire.provider_id.filter(|provider_id| !provider_id.is_empty()),
            failure_domain: wire.failure_domain.filter(|domain| !domain.is_empty()),
            taints: wire.taints.unwrap_or_default(),
            deletion: wire.deletion.or(older),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    observed_generation: Option<i64>,
    #[serde(deserialize_with = "lenient::conditions")]
    conditions: Vec<Condition>,
    phase: Option<String>,
    node_ref: Option<NodeRef>,
    #[serde(deserialize_with = "lenient::or_default")]
    node_info: Option<NodeInfo>,
    initialization: Option<Initialization>,
    deletion: Option<MachineDeletionStatus>,
    failure_domain: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    failure_reason: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    failure_message: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    deprecated: Deprecated,
    // v1beta1
    infrastructure_ready: Option<bool>,
    bootstrap_ready: Option<bool>,
    #[serde(deserialize_with = "lenient::or_default")]
    v1beta2: NestedV1Beta2,
}

impl From<StatusWire> for MachineStatus {
    fn from(wire: StatusWire) -> Self {
        Self {
            observed_generation: wire.observed_generation,
            conditions: wire.v1beta2.conditions_or(wire.conditions),
            phase: wire.phase.filter(|phase| !phase.is_empty()),
            node_ref: wire.node_ref.filter(|node| !node.name.is_empty()),
            node_info: wire.node_info,
            initialization: wire.initialization.unwrap_or(Initialization {
                infrastructure_provisioned: wire.infrastructure_ready.unwrap_or_default(),
                bootstrap_data_secret_created: wire.bootstrap_ready.unwrap_or_default(),
            }),
            deletion: wire.deletion,
            failure_domain: wire.failure_domain.filter(|domain| !domain.is_empty()),
            failure_reason: wire.failure_reason.or(wire.deprecated.v1beta1.failure_reason),
            failure_message: wire.failure_message.or(wire.deprecated.v1beta1.failure_message),
        }
    }
}
