//! `autoscaling.x-k8s.io/v1beta1`: CapacityBuffer, which the Cluster Autoscaler and upstream Karpenter share. Alpha upstream.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::schema;
use crate::v1::ResourceList;

/// `provisioningStrategy` where it isn't set, and the only one that is served: nodes are held ready.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";

/// How much room is held, and for what kind of pod.
#[expect(clippy::duplicated_attributes, reason = "printer columns share their settings' names")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    namespaced,
    shortname = "cb",
    category = "autoscaling",
    status = "CapacityBufferStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A CapacityBuffer holds room in the cluster for pods that don't exist yet, so that they start at once.",
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.provisioningStrategy"),
    printcolumn(name = "PodTemplate", type_ = "string", json_path = ".status.podTemplateRef.name"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "ConditionsType", type_ = "string", json_path = ".status.conditions[*].type"),
    printcolumn(name = "ConditionsStatus", type_ = "string", json_path = ".status.conditions[*].status"),
    printcolumn(name = "ConditionsReason", type_ = "string", json_path = ".status.conditions[*].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::buffer_rules()))]
pub struct CapacityBufferSpec {
    /// How the room is held. Only `buffer.x-k8s.io/active-capacity` is served here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("default" = ACTIVE_CAPACITY))]
    pub provisioning_strategy: Option<String>,
    /// The PodTemplate in the same namespace that says what one pod of the buffer is like. Needs `replicas` or `limits`, and
    /// can't be set together with `scalableRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LocalObjectRef")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// The Deployment, StatefulSet or ReplicaSet in the same namespace whose pods those of the buffer are like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ScalableRef")]
    pub scalable_ref: Option<ScalableRef>,
    /// For so many pods. With `percentage`, the greater of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// For so many percent of the replicas of `scalableRef`, rounded up, at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub percentage: Option<i32>,
    /// The most that the buffer's pods may ask for together. Without `replicas` and `percentage`: as many as fit in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resource_list")]
    pub limits: Option<ResourceList>,
}

/// An object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectRef {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Something with replicas in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// Its API group; `apps` where it isn't set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// `Deployment`, `StatefulSet` or `ReplicaSet`.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// What was seen of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// The PodTemplate that is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LocalObjectRef")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// For how many pods room is held, or is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Generation of the PodTemplate that the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// Whether the buffer is understood, and whether its room is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How the room is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
}

impl CapacityBufferSpec {
    /// `provisioningStrategy`, or what holds without it.
    pub fn effective_strategy(&self) -> &str {
        self.provisioning_strategy.as_deref().unwrap_or(ACTIVE_CAPACITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_written_back_as_it_was_read() {
        for reference in [
            serde_json::json!({ "podTemplateRef": { "name": "web" } }),
            serde_json::json!({ "scalableRef": { "apiGroup": "apps", "kind": "Deployment", "name": "web" } }),
        ] {
            let mut object = serde_json::json!({
                "apiVersion": "autoscaling.x-k8s.io/v1beta1",
                "kind": "CapacityBuffer",
                "metadata": { "name": "spare", "namespace": "shop" },
                "spec": {
                    "provisioningStrategy": ACTIVE_CAPACITY, "replicas": 2, "percentage": 10, "limits": { "cpu": "4" },
                },
                "status": {
                    "podTemplateRef": { "name": "web" }, "replicas": 2, "podTemplateGeneration": 3,
                    "conditions": [{
                        "type": "Provisioning", "status": "True", "reason": "FitsExistingCapacity", "message": "",
                        "lastTransitionTime": "2026-01-05T12:00:00Z",
                    }],
                    "provisioningStrategy": ACTIVE_CAPACITY,
                },
            });
            for (key, value) in reference.as_object().unwrap() {
                object["spec"][key] = value.clone();
            }
            let buffer: CapacityBuffer = serde_json::from_value(object.clone()).unwrap();
            assert_eq!(serde_json::to_value(buffer).unwrap(), object);
        }
    }
}
