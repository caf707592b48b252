use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};

use super::capi_kind;
use super::lenient::{self, NestedV1Beta2};
use super::machine::MachineSpec;
use super::machine_set::ReplicaDeletion;
use crate::condition::Condition;

capi_kind!(
    /// A set of equal Machines, with roll-outs.
    MachineDeployment,
    "machinedeployments",
    MachineDeploymentSpec,
    MachineDeploymentStatus
);

/// What is asked of a MachineDeployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "SpecWire")]
pub struct MachineDeploymentSpec {
    /// Name of the Cluster.
    pub cluster_name: String,
    /// Number of Machines; Cluster API's webhook always sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The MachineDeployment isn't reconciled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Labels of its MachineSets and Machines.
    pub selector: LabelSelector,
    /// How Machines are replaced when the template changes.
    #[serde(skip_serializing_if = "Rollout::is_empty")]
    pub rollout: Rollout,
    /// Which Machine goes first when there are too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<ReplicaDeletion>,
    /// What every Machine is made from.
    pub template: MachineTemplate,
}

impl MachineDeploymentSpec {
    /// How Machines are replaced when the template changes; `RollingUpdate` where it isn't set.
    pub fn strategy(&self) -> StrategyType {
        let strategy = self.rollout.strategy.as_ref();
        strategy.and_then(|strategy| strategy.type_.clone()).unwrap_or(StrategyType::RollingUpdate)
    }
}

/// How Machines are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    /// The strategy. `v1beta1` has it at `spec.strategy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RolloutStrategy>,
}

impl Rollout {
    fn is_empty(&self) -> bool {
        self.strategy.is_none()
    }
}

open_enum! {
    /// How Machines are replaced when the template changes.
    pub enum StrategyType {
        /// By Cluster API, at once.
        RollingUpdate = "RollingUpdate",
        /// When somebody deletes them.
        OnDelete = "OnDelete",
    }
}

/// The strategy of a roll-out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStrategy {
    /// Which one.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<StrategyType>,
    /// Settings of `RollingUpdate`.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

/// Settings of the strategy `RollingUpdate`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many Machines more than `replicas` there may be; 1 where it isn't set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
    /// How many Machines fewer than `replicas` there may be; 0 where it isn't set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// `v1beta1`: which Machine goes first.
    #[serde(skip_serializing)]
    delete_policy: Option<String>,
}

/// What Machines are made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineTemplate {
    /// Labels and annotations that the Machines get.
    #[serde(
        deserialize_with = "lenient::null_is_default",
        skip_serializing_if = "ObjectMetaTemplate::is_empty"
    )]
    pub metadata: ObjectMetaTemplate,
    /// Spec of the Machines.
    pub spec: MachineSpec,
}

/// Metadata that a template may set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectMetaTemplate {
    /// Labels.
    #[serde(deserialize_with = "lenient::null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(deserialize_with = "lenient::null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl ObjectMetaTemplate {
    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

/// What was seen of a MachineDeployment. Its counters lag; decisions are made from Machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "ReplicaStatusWire")]
pub struct MachineDeploymentStatus {
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
    /// Machines that are what the template asks for. `v1beta1` calls them `updatedReplicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,
    /// Conditions of `v1beta2`, also where the object is `v1beta1`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// `ScalingUp`, `ScalingDown`, `Running`, ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    cluster_name: Option<String>,
    replicas: Option<i32>,
    paused: Option<bool>,
    selector: Option<LabelSelector>,
    rollout: Option<Rollout>,
    #[serde(deserialize_with = "lenient::or_default")]
    deletion: Option<ReplicaDeletion>,
    template: Option<MachineTemplate>,
    // v1beta1
    strategy: Option<RolloutStrategy>,
}

impl From<SpecWire> for MachineDeploymentSpec {
    fn from(wire: SpecWire) -> Self {
        let strategy = wire.rollout.and_then(|rollout| rollout.strategy).or(wire.strategy);
        let older_order = strategy
            .as_ref()
            .and_then(|strategy| strategy.rolling_update.as_ref())
            .and_then(|rolling_update| rolling_update.delete_policy.clone())
            .map(|order| ReplicaDeletion { order: Some(order) });
        let strategy = strategy.map(|mut strategy| {
            if let Some(rolling_update) = &mut strategy.rolling_update {
                rolling_update.delete_policy = None;
            }
            strategy
        });
        Self {
            cluster_name: wire.cluster_name.unwrap_or_default(),
            replicas: wire.replicas,
            paused: wire.paused.unwrap_or_default(),
            selector: wire.selector.unwrap_or_default(),
            rollout: Rollout { strategy },
            deletion: wire.deletion.or(older_order),
            template: wire.template.unwrap_or_default(),
        }
    }
}

/// The status of a MachineDeployment or MachineSet in either version.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReplicaStatusWire {
    pub(super) observed_generation: Option<i64>,
    pub(super) replicas: Option<i32>,
    ready_replicas: Option<i32>,
    available_replicas: Option<i32>,
    up_to_date_replicas: Option<i32>,
    #[serde(deserialize_with = "lenient::conditions")]
    conditions: Vec<Condition>,
    phase: Option<String>,
    // v1beta1
    updated_replicas: Option<i32>,
    #[serde(deserialize_with = "lenient::or_default")]
    v1beta2: NestedV1Beta2,
}

impl From<ReplicaStatusWire> for MachineDeploymentStatus {
    fn from(wire: ReplicaStatusWire) -> Self {
        Self {
            observed_generation: wire.observed_generation,
            replicas: wire.replicas,
            ready_replicas: wire.v1beta2.ready_replicas.or(wire.ready_replicas),
            available_replicas: wire.v1beta2.available_replicas.or(wire.available_replicas),
            up_to_date_replicas: wire
                .up_to_date_replicas
                .or(wire.v1beta2.up_to_date_replicas)
                .or(wire.updated_replicas),
            conditions: wire.v1beta2.conditions_or(wire.conditions),
            phase: wire.phase.filter(|phase| !phase.is_empty()),
        }
    }
}
