use serde::{Deserialize, Serialize};

use super::capi_kind;
use super::lenient::{self, NestedV1Beta2};
use super::reference::ContractReference;
use crate::condition::Condition;

capi_kind!(
    /// A workload cluster.
    Cluster,
    "clusters",
    ClusterSpec,
    ClusterStatus
);

/// What is asked of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "SpecWire")]
pub struct ClusterSpec {
    /// Nothing of the Cluster is reconciled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The infrastructure cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ContractReference>,
    /// The control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_ref: Option<ContractReference>,
    /// The topology that the Cluster is managed by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
}

impl ClusterSpec {
    /// The replicas that the topology sets for its MachineDeployment of that name; `None` leaves them to others.
    pub fn topology_replicas(&self, topology_name: &str) -> Option<i32> {
        let topology = self.topology.as_ref()?;
        topology
            .workers
            .machine_deployments
            .iter()
            .find(|deployment| deployment.name == topology_name)?
            .replicas
    }
}

/// A Cluster's topology, as far as it touches replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "TopologyWire")]
pub struct Topology {
    /// The `ClusterClass`. `v1beta1` has only its name, at `class`.
    pub class_ref: ClassReference,
    /// Version of Kubernetes.
    pub version: String,
    /// Worker machines.
    pub workers: Workers,
}

/// A reference to a `ClusterClass`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassReference {
    /// Name.
    pub name: String,
}

/// The worker machines of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Workers {
    /// MachineDeployments.
    #[serde(deserialize_with = "lenient::null_is_default")]
    pub machine_deployments: Vec<TopologyMachineDeployment>,
}

/// A MachineDeployment of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyMachineDeployment {
    /// Name within the topology.
    pub name: String,
    /// Number of Machines; where it is set, every other writer is reverted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// What was seen of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "StatusWire")]
pub struct ClusterStatus {
    /// Generation that the status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of `v1beta2`, also where the object is `v1beta1`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// `Pending`, `Provisioning`, `Provisioned`, `Deleting`, ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What is there already.
    pub initialization: ClusterInitialization,
}

/// What of a Cluster is there already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInitialization {
    /// The infrastructure. `v1beta1` calls it `infrastructureReady`.
    #[serde(deserialize_with = "lenient::null_is_default")]
    pub infrastructure_provisioned: bool,
    /// The control plane.
    #[serde(deserialize_with = "lenient::null_is_default")]
    pub control_plane_initialized: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    paused: Option<bool>,
    infrastructure_ref: Option<ContractReference>,
    control_plane_ref: Option<ContractReference>,
    #[serde(deserialize_with = "lenient::or_default")]
    topology: Option<Topology>,
}

impl From<SpecWire> for ClusterSpec {
    fn from(wire: SpecWire) -> Self {
        Self {
            paused: wire.paused.unwrap_or_default(),
            infrastructure_ref: wire.infrastructure_ref.filter(|reference| !reference.is_empty()),
            control_plane_ref: wire.control_plane_ref.filter(|reference| !reference.is_empty()),
            topology: wire.topology.filter(|topology| *topology != Topology::default()),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TopologyWire {
    class_ref: Option<ClassReference>,
    version: Option<String>,
    workers: Option<Workers>,
    // v1beta1
    class: Option<String>,
}

impl From<TopologyWire> for Topology {
    fn from(wire: TopologyWire) -> Self {
        let older_class = wire.class.map(|name| ClassReference { name });
        Self {
            class_ref: wire.class_ref.or(older_class).unwrap_or_default(),
            version: wire.version.unwrap_or_default(),
            workers: wire.workers.unwrap_or_default(),
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
    initialization: Option<ClusterInitialization>,
    // v1beta1
    infrastructure_ready: Option<bool>,
    control_plane_ready: Option<bool>,
    #[serde(deserialize_with = "lenient::or_default")]
    v1beta2: NestedV1Beta2,
}

impl From<StatusWire> for ClusterStatus {
    fn from(wire: StatusWire) -> Self {
        // v1beta1 tells "initialized" by a condition; "ready" implies it.
        let initialized = crate::condition::is_true(&wire.conditions, "ControlPlaneInitialized")
            || wire.control_plane_ready == Some(true);
        Self {
            observed_generation: wire.observed_generation,
            conditions: wire.v1beta2.conditions_or(wire.conditions),
            phase: wire.phase.filter(|phase| !phase.is_empty()),
            initialization: wire.initialization.unwrap_or(ClusterInitialization {
                infrastructure_provisioned: wire.infrastructure_ready.unwrap_or_default(),
                control_plane_initialized: initialized,
            }),
        }
    }
}
