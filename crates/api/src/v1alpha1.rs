//! `karpenter.cluster.x-k8s.io/v1alpha1`: `ClusterAPINodeClass`.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::duration::{DurationError, GoDuration};
use crate::schema;

/// `launchTimeout` and `registrationTimeout` where they aren't set.
pub const DEFAULT_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

open_enum! {
    /// Who replaces Machines whose MachineDeployment has changed.
    pub enum DriftPolicy {
        /// Karpenter, within the budgets of the NodePool; for MachineDeployments with strategy `OnDelete`.
        Karpenter = "Karpenter",
        /// Cluster API, by its roll-out; Karpenter only keeps the books.
        ClusterApi = "ClusterAPI",
        /// Nobody.
        Ignore = "Ignore",
    }
}

/// Which MachineDeployments a NodePool may scale, and how they are treated.
#[expect(clippy::duplicated_attributes, reason = "printer columns share their settings' names")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "ClusterAPINodeClass",
    plural = "clusterapinodeclasses",
    singular = "clusterapinodeclass",
    shortname = "capinc",
    shortname = "capincs",
    category = "karpenter",
    status = "ClusterAPINodeClassStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A ClusterAPINodeClass says which of Cluster API's MachineDeployments NodePools may scale, and how.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "MachineDeployments",
        type_ = "string",
        json_path = ".status.machineDeployments[*].name",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAPINodeClassSpec {
    /// Narrows the MachineDeployments by their labels. Whatever it says, a MachineDeployment must also carry the label
    /// `node.cluster.x-k8s.io/karpenter-member`. Without it, all of those are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub scalable_resource_selector: Option<LabelSelector>,
    /// How long a Machine may take to get its infrastructure; 15m where it isn't set. A MachineDeployment's annotation
    /// `cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime` is stronger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub launch_timeout: Option<GoDuration>,
    /// How long a launched Machine may take to become a Node; 15m where it isn't set. A MachineDeployment's annotation
    /// `cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime` is stronger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub registration_timeout: Option<GoDuration>,
    /// Who replaces Machines whose MachineDeployment has changed. Where it isn't set: Karpenter if the MachineDeployment's
    /// strategy is `OnDelete`, else Cluster API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DriftPolicy")]
    pub drift_policy: Option<DriftPolicy>,
}

impl ClusterAPINodeClassSpec {
    /// `launchTimeout`, or what holds without it.
    pub fn effective_launch_timeout(&self) -> Result<SignedDuration, DurationError> {
        self.launch_timeout.as_ref().map_or(Ok(DEFAULT_TIMEOUT), GoDuration::parse)
    }

    /// `registrationTimeout`, or what holds without it.
    pub fn effective_registration_timeout(&self) -> Result<SignedDuration, DurationError> {
        self.registration_timeout.as_ref().map_or(Ok(DEFAULT_TIMEOUT), GoDuration::parse)
    }
}

/// What was seen of a node class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAPINodeClassStatus {
    /// Generation of the node class that the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether the node class is usable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The MachineDeployments that are selected, and what they offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub machine_deployments: Vec<MachineDeploymentStatus>,
    /// What couldn't be read, each with what would be right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub warnings: Vec<Warning>,
}

/// What one MachineDeployment offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentStatus {
    /// Namespace and name, `namespace/name`.
    pub name: String,
    /// Name of the instance type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// `on-demand`, `spot` or `reserved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<String>,
    /// US dollars an hour, decimal; missing if nothing names a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// `spec.replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Whether a Machine could be asked for now.
    #[serde(default)]
    pub available: bool,
    /// Why it isn't available, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it isn't available, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Something that couldn't be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// The object, `Kind namespace/name`.
    pub object: String,
    /// Key, value and what would be right.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_class_is_written_back_as_it_was_read() {
        let object = serde_json::json!({
            "apiVersion": "karpenter.cluster.x-k8s.io/v1alpha1",
            "kind": "ClusterAPINodeClass",
            "metadata": { "name": "default" },
            "spec": {
                "scalableResourceSelector": { "matchLabels": { "example.com/team": "a" } },
                "launchTimeout": "10m",
                "registrationTimeout": "20m",
                "driftPolicy": "ClusterAPI",
            },
            "status": {
                "observedGeneration": 3,
                "machineDeployments": [{
                    "name": "default/small", "instanceType": "small", "zone": "a", "capacityType": "on-demand",
                    "price": "0.096", "replicas": 2, "available": false, "reason": "Paused", "message": "it is paused",
                }],
                "warnings": [{ "object": "MachineDeployment default/small", "message": "a price is missing" }],
            },
        });
        let class: ClusterAPINodeClass = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(class.spec.drift_policy, Some(DriftPolicy::ClusterApi));
        assert_eq!(serde_json::to_value(class).unwrap(), object);
    }

    #[test]
    fn the_label_of_the_class_follows_upstreams_rule() {
        use kube::Resource;
        let kind = ClusterAPINodeClass::kind(&()).to_lowercase();
        assert_eq!(crate::names::NODE_CLASS_KIND.to_lowercase(), kind);
        assert_eq!(crate::names::labels::NODECLASS, format!("{}/{kind}", ClusterAPINodeClass::group(&())));
        assert_eq!(crate::names::GROUP, ClusterAPINodeClass::group(&()));
    }
}
