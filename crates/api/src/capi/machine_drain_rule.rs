use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};

use super::{capi_kind, lenient};

capi_kind!(
    /// How pods are drained from the Machines of its namespace.
    MachineDrainRule,
    "machinedrainrules",
    MachineDrainRuleSpec,
    MachineDrainRuleStatus
);

/// Which pods on which Machines are drained how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDrainRuleSpec {
    /// How.
    pub drain: DrainBehavior,
    /// The Machines: one of these must match; none of them means all Machines.
    #[serde(deserialize_with = "lenient::null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<DrainMachineSelector>,
    /// The pods: one of these must match; none of them means all pods.
    #[serde(deserialize_with = "lenient::null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<DrainPodSelector>,
}

/// How pods are drained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DrainBehavior {
    /// `Drain`, `Skip` or `WaitCompleted`.
    pub behavior: String,
    /// With `Drain`: pods of a lower order go first; 0 where it isn't given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<i32>,
}

/// Machines; a selector that isn't given matches all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainMachineSelector {
    /// By the Machine's labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// By the labels of its Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<LabelSelector>,
}

/// Pods; a selector that isn't given matches all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainPodSelector {
    /// By the pod's labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// By the labels of its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

/// A rule has no status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineDrainRuleStatus {}
