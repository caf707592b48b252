//! `karpenter.sh/v1`: NodePool and NodeClaim, wire-compatible with upstream Karpenter.

mod node_claim;
mod node_pool;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

pub use node_claim::{NodeClaim, NodeClaimSpec, NodeClaimStatus, ResourceRequirements};
pub use node_pool::{
    Budget, ConsolidationPolicy, Disruption, DisruptionReason, NodeClaimTemplate, NodeClaimTemplateSpec,
    NodePool, NodePoolSpec, NodePoolStatus, ObjectMetaTemplate,
};

/// Quantities by resource name.
pub type ResourceList = BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

/// `expireAfter` where it isn't set.
pub const DEFAULT_EXPIRE_AFTER: &str = "720h";
/// `disruption.consolidateAfter` where it isn't set.
pub const DEFAULT_CONSOLIDATE_AFTER: &str = "0s";
/// `disruption.consolidationPolicy` where it isn't set.
pub const DEFAULT_CONSOLIDATION_POLICY: ConsolidationPolicy = ConsolidationPolicy::WhenEmptyOrUnderutilized;
/// `nodes` of the one budget that holds where no budget is set.
pub const DEFAULT_BUDGET_NODES: &str = "10%";

open_enum! {
    /// How a requirement's values relate to a label.
    pub enum Operator {
        /// The label has one of the values.
        In = "In",
        /// The label has none of the values, or is missing.
        NotIn = "NotIn",
        /// The label is there.
        Exists = "Exists",
        /// The label is missing.
        DoesNotExist = "DoesNotExist",
        /// The label is an integer greater than the value.
        Gt = "Gt",
        /// The label is an integer less than the value.
        Lt = "Lt",
        /// The label is an integer greater than the value or equal to it.
        Gte = "Gte",
        /// The label is an integer less than the value or equal to it.
        Lte = "Lte",
    }
}

/// A requirement on one label of a node, and how many values of it must stay possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorRequirementWithMinValues {
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
    /// At least that many values must be offered by the instance types that a node is chosen from. Alpha upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::min_values")]
    pub min_values: Option<i32>,
}

/// A reference to the node class, the provider's part of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassReference {
    /// API group of the node class, without a version.
    #[schemars(
        regex(pattern = schema::GROUP_PATTERN),
        extend("x-kubernetes-validations" = schema::not_empty("group"))
    )]
    pub group: String,
    /// Kind of the node class.
    #[schemars(extend("x-kubernetes-validations" = schema::not_empty("kind")))]
    pub kind: String,
    /// Name of the node class.
    #[schemars(extend("x-kubernetes-validations" = schema::not_empty("name")))]
    pub name: String,
}

impl NodeClassReference {
    /// Whether it names a `ClusterAPINodeClass`, so that the object is ours.
    pub fn is_ours(&self) -> bool {
        self.group == crate::names::GROUP && self.kind == crate::names::NODE_CLASS_KIND
    }
}

#[cfg(test)]
mod tests;
