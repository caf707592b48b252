use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};

use super::capi_kind;
use super::lenient;
use super::machine_deployment::{MachineDeploymentStatus, MachineTemplate, ReplicaStatusWire};
use crate::condition::Condition;

capi_kind!(
    /// The Machines of one revision of a MachineDeployment.
    MachineSet,
    "machinesets",
    MachineSetSpec,
    MachineSetStatus
);

/// What is asked of a MachineSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "SpecWire")]
pub struct MachineSetSpec {
    /// Name of the Cluster.
    pub cluster_name: String,
    /// Number of Machines; Cluster API's webhook always sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Labels of its Machines.
    pub selector: LabelSelector,
    /// Which Machine goes first when there are too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<ReplicaDeletion>,
    /// What every Machine is made from.
    pub template: MachineTemplate,
}

/// Which Machine goes first when there are too many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaDeletion {
    /// `Random` (in fact by name), `Newest` or `Oldest`. `v1beta1` calls it `deletePolicy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
}

/// What was seen of a MachineSet. Its counters lag; decisions are made from Machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "ReplicaStatusWire")]
pub struct MachineSetStatus {
    /// Generation that the status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Machines, deleting ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Machines that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Machines that are available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Machines that are what the template asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,
    /// Conditions of `v1beta2`, also where the object is `v1beta1`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    cluster_name: Option<String>,
    replicas: Option<i32>,
    selector: Option<LabelSelector>,
    #[serde(deserialize_with = "lenient::or_default")]
    deletion: Option<ReplicaDeletion>,
    template: Option<MachineTemplate>,
    // v1beta1
    #[serde(deserialize_with = "lenient::or_default")]
    delete_policy: Option<String>,
}

impl From<SpecWire> for MachineSetSpec {
    fn from(wire: SpecWire) -> Self {
        let older_order = wire.delete_policy.map(|order| ReplicaDeletion { order: Some(order) });
        Self {
            cluster_name: wire.cluster_name.unwrap_or_default(),
            replicas: wire.replicas,
            selector: wire.selector.unwrap_or_default(),
            deletion: wire.deletion.or(older_order),
            template: wire.template.unwrap_or_default(),
        }
    }
}

impl From<ReplicaStatusWire> for MachineSetStatus {
    fn from(wire: ReplicaStatusWire) -> Self {
        let shared = MachineDeploymentStatus::from(wire);
        Self {
            observed_generation: shared.observed_generation,
            replicas: shared.replicas,
            ready_replicas: shared.ready_replicas,
            available_replicas: shared.available_replicas,
            up_to_date_replicas: shared.up_to_date_replicas,
            conditions: shared.conditions,
        }
    }
}
