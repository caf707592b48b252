//! `karpenter.sh/v1alpha1`: NodeOverlay, wire-compatible with upstream Karpenter. Alpha upstream.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::schema;
use crate::v1::{NodeSelectorRequirementWithMinValues, Operator, ResourceList};

/// Resources that an overlay can't set: a MachineDeployment declares them.
pub const RESTRICTED_RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// What is assumed of instance types, instead of what was read of them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    shortname = "overlays",
    category = "karpenter",
    status = "NodeOverlayStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A NodeOverlay changes what scheduling assumes of instance types: their price, and resources that they have besides.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::overlay_rules()))]
pub struct NodeOverlaySpec {
    /// Which instance types and offerings it is about, by their labels: those of the instance type, `karpenter.sh/nodepool`,
    /// and the labels of the NodePool's template.
    #[schemars(
        length(max = 100),
        extend(
            "x-kubernetes-list-type" = "atomic",
            "x-kubernetes-validations" = schema::overlay_requirement_rules()
        )
    )]
    pub requirements: Vec<NodeSelectorRequirement>,
    /// The price in US dollars an hour, such as `0.096`. Not together with `priceAdjustment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::overlay_price")]
    pub price: Option<String>,
    /// What the price changes by: US dollars an hour, such as `-0.5`, or a percentage, such as `+10%`. It never falls below 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::overlay_price_adjustment")]
    pub price_adjustment: Option<String>,
    /// Extended resources that machines have besides. `cpu`, `memory`, `ephemeral-storage` and `pods` can't be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::overlay_capacity")]
    pub capacity: Option<ResourceList>,
    /// Of several overlays of one instance type the one with the greatest weight counts; without a weight it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub weight: Option<i32>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorRequirement {
    /// Key of the label.
    #[schemars(
        length(max = 316),
        regex(pattern = schema::QUALIFIED_NAME_PATTERN),
        extend("x-kubernetes-validations" = schema::claim_key_rules())
    )]
    pub key: String,
    /// How the values relate to the label. `In` and `NotIn` take values, `Exists` and `DoesNotExist` none, `Gt`, `Lt`,
    /// `Gte` and `Lte` exactly one, a whole number.
    pub operator: Operator,
    /// The values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::requirement_values")]
    pub values: Vec<String>,
}

impl From<&NodeSelectorRequirement> for NodeSelectorRequirementWithMinValues {
    fn from(requirement: &NodeSelectorRequirement) -> Self {
        let NodeSelectorRequirement { key, operator, values } = requirement.clone();
        Self { key, operator, values, min_values: None }
    }
}

/// What was seen of an overlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlayStatus {
    /// Whether the overlay counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl NodeOverlaySpec {
    /// `weight`, or what holds without it.
    pub fn effective_weight(&self) -> i32 {
        self.weight.unwrap_or(0)
    }

    /// `requirements` in the form that NodePools have.
    pub fn requirements_without_min_values(&self) -> Vec<NodeSelectorRequirementWithMinValues> {
        self.requirements.iter().map(NodeSelectorRequirementWithMinValues::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_is_written_back_as_it_was_read() {
        let object = serde_json::json!({
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": { "name": "fuse" },
            "spec": {
                "requirements": [
                    { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
                    { "key": "example.com/gen", "operator": "Exists" },
                ],
                "priceAdjustment": "-10%",
                "capacity": { "smarter-devices/fuse": "1" },
                "weight": 10,
            },
            "status": { "conditions": [{
                "type": "ValidationSucceeded", "status": "False", "reason": "Conflict",
                "message": "conflict with another overlay", "lastTransitionTime": "2026-01-05T12:00:00Z",
            }] },
        });
        let overlay: NodeOverlay = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(overlay).unwrap(), object);
    }
}
