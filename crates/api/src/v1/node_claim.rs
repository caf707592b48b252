use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DEFAULT_EXPIRE_AFTER, NodeClassReference, NodeSelectorRequirementWithMinValues, ResourceList};
use crate::condition::Condition;
use crate::duration::{GoDuration, NillableDuration};
use crate::schema;

/// What is asked of one node.
#[expect(clippy::duplicated_attributes, reason = "printer columns share their settings' names")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    category = "karpenter",
    status = "NodeClaimStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A NodeClaim asks for one node, and follows it from its launch to its end.",
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = r".metadata.labels.node\.kubernetes\.io/instance-type"
    ),
    printcolumn(
        name = "Capacity",
        type_ = "string",
        json_path = r".metadata.labels.karpenter\.sh/capacity-type"
    ),
    printcolumn(
        name = "Zone",
        type_ = "string",
        json_path = r".metadata.labels.topology\.kubernetes\.io/zone"
    ),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "ImageID", type_ = "string", json_path = ".status.imageID", priority = 1),
    printcolumn(name = "ID", type_ = "string", json_path = ".status.providerID", priority = 1),
    printcolumn(
        name = "NodePool",
        type_ = "string",
        json_path = r".metadata.labels.karpenter\.sh/nodepool",
        priority = 1
    ),
    printcolumn(name = "NodeClass", type_ = "string", json_path = ".spec.nodeClassRef.name", priority = 1),
    printcolumn(
        name = "Drifted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Drifted")].status"#,
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::immutable_spec()))]
pub struct NodeClaimSpec {
    /// Taints of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::taints")]
    pub taints: Vec<Taint>,
    /// Taints that the node starts with and that something else, typically a `DaemonSet`, takes off soon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::taints")]
    pub startup_taints: Vec<Taint>,
    /// Requirements on the node's labels.
    #[schemars(
        length(max = 100),
        extend(
            "x-kubernetes-list-type" = "atomic",
            "x-kubernetes-validations" = schema::requirement_rules()
        )
    )]
    pub requirements: Vec<NodeSelectorRequirementWithMinValues>,
    /// Resources that the node must have at least.
    #[serde(default, skip_serializing_if = "ResourceRequirements::is_empty")]
    pub resources: ResourceRequirements,
    /// The node class.
    pub node_class_ref: NodeClassReference,
    /// The longest that the node may take to drain, from its deletion on; then its pods are deleted whatever guards them.
    /// Without it the drain may take for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub termination_grace_period: Option<GoDuration>,
    /// Age at which the node is replaced, or `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::nillable_duration", extend("default" = DEFAULT_EXPIRE_AFTER))]
    pub expire_after: Option<NillableDuration>,
}

impl NodeClaimSpec {
    /// `expireAfter`, or what holds without it.
    pub fn effective_expire_after(&self) -> NillableDuration {
        self.expire_after.clone().unwrap_or_else(|| DEFAULT_EXPIRE_AFTER.into())
    }
}

/// Resources of a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequirements {
    /// What the node must have at least: the requests of its pods and of the daemons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub requests: ResourceList,
}

impl ResourceRequirements {
    fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

/// What was seen of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of the Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Provider ID of the Machine, and of the Node.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Image that the machine runs.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// All resources of the node, as expected or as seen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub capacity: ResourceList,
    /// Resources of the node that pods can have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub allocatable: ResourceList,
    /// How far the node is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::claim_conditions")]
    pub conditions: Vec<Condition>,
    /// When a pod was last bound to the node or left it. Pods of `DaemonSet`s don't count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
}
