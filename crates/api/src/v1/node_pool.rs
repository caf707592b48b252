use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    DEFAULT_BUDGET_NODES, DEFAULT_CONSOLIDATE_AFTER, DEFAULT_CONSOLIDATION_POLICY, DEFAULT_EXPIRE_AFTER,
    NodeClassReference, NodeSelectorRequirementWithMinValues, ResourceList,
};
use crate::condition::Condition;
use crate::duration::{GoDuration, NillableDuration};
use crate::schema;

/// What capacity a pool may add, and when its nodes may be taken away again.
#[expect(clippy::duplicated_attributes, reason = "printer columns share their settings' names")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    category = "karpenter",
    status = "NodePoolStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A NodePool says what capacity a cluster may have: which nodes pods may be given, how many, and when they go.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn(name = "NodeClass", type_ = "string", json_path = ".spec.template.spec.nodeClassRef.name"),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodes"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.resources.cpu", priority = 1),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.resources.memory", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::node_pool_rules()))]
pub struct NodePoolSpec {
    /// What every NodeClaim of the pool is made from. A NodeClaim is often narrower than the template.
    pub template: NodeClaimTemplate,
    /// When nodes of the pool may be disrupted.
    #[serde(default, skip_serializing_if = "Disruption::is_unset")]
    #[schemars(extend("default" = json!({ "consolidateAfter": DEFAULT_CONSOLIDATE_AFTER })))]
    pub disruption: Disruption,
    /// The most that the pool may hold, by resource; `nodes` counts nodes. A static pool takes `nodes` only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub limits: ResourceList,
    /// Pools with a greater weight are tried first; a pool without one has weight 0. Not for static pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
    /// Makes the pool static: it holds this many nodes, whatever pods there are. Alpha upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i64>,
}

/// Template of a pool's NodeClaims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplate {
    /// Labels and annotations that NodeClaims and Nodes get.
    #[serde(default, skip_serializing_if = "ObjectMetaTemplate::is_empty")]
    pub metadata: ObjectMetaTemplate,
    /// What the NodeClaims ask for.
    pub spec: NodeClaimTemplateSpec,
}

/// Metadata that a template may set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMetaTemplate {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::template_labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    pub annotations: BTreeMap<String, String>,
}

impl ObjectMetaTemplate {
    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

/// A NodeClaim's spec without resource requests, which a pool can't set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::taints")]
    pub taints: Vec<Taint>,
    /// Taints that the nodes start with and that something else, typically a `DaemonSet`, takes off soon. Pods needn't
    /// tolerate them to have nodes made for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::taints")]
    pub startup_taints: Vec<Taint>,
    /// Requirements on the nodes' labels.
    #[schemars(
        length(max = 100),
        extend(
            "x-kubernetes-list-type" = "atomic",
            "x-kubernetes-validations" = schema::requirement_rules()
        )
    )]
    pub requirements: Vec<NodeSelectorRequirementWithMinValues>,
    /// The node class.
    pub node_class_ref: NodeClassReference,
    /// The longest that a node may take to drain, from its deletion on; then its pods are deleted whatever guards them.
    /// Without it the drain may take for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub termination_grace_period: Option<GoDuration>,
    /// Age at which a node is replaced, or `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::nillable_duration", extend("default" = DEFAULT_EXPIRE_AFTER))]
    pub expire_after: Option<NillableDuration>,
}

open_enum! {
    /// Which nodes consolidation looks at.
    pub enum ConsolidationPolicy {
        /// Only nodes without pods that would have to move.
        WhenEmpty = "WhenEmpty",
        /// Empty nodes, and nodes whose pods fit elsewhere or on something cheaper.
        WhenEmptyOrUnderutilized = "WhenEmptyOrUnderutilized",
        /// As `WhenEmptyOrUnderutilized`, but weighing what is saved against what is disturbed.
        Balanced = "Balanced",
    }
}

open_enum! {
    /// Why a node is disrupted of our own accord.
    pub enum DisruptionReason {
        /// Its pods fit elsewhere or on something cheaper.
        Underutilized = "Underutilized",
        /// It has no pods that would have to move.
        Empty = "Empty",
        /// It is no longer what its pool asks for.
        Drifted = "Drifted",
    }
}

/// When nodes may be disrupted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long a node must have been quiet before it is consolidated, or `Never`. Ignored by static pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::nillable_duration", extend("default" = DEFAULT_CONSOLIDATE_AFTER))]
    pub consolidate_after: Option<NillableDuration>,
    /// Which nodes consolidation looks at. Ignored by static pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "ConsolidationPolicy",
        extend("default" = DEFAULT_CONSOLIDATION_POLICY)
    )]
    pub consolidation_policy: Option<ConsolidationPolicy>,
    /// How many nodes may be disrupted at one time; of several active budgets the strictest holds. An empty list is no
    /// budget at all, whereas no list means one budget of 10 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Vec<Budget>",
        length(max = 50),
        extend(
            "default" = json!([{ "nodes": DEFAULT_BUDGET_NODES }]),
            "x-kubernetes-list-type" = "atomic",
            "x-kubernetes-validations" = schema::budget_rules()
        )
    )]
    pub budgets: Option<Vec<Budget>>,
}

impl Disruption {
    fn is_unset(&self) -> bool {
        *self == Self::default()
    }

    /// `consolidateAfter`, or what holds without it.
    pub fn effective_consolidate_after(&self) -> NillableDuration {
        self.consolidate_after.clone().unwrap_or_else(|| DEFAULT_CONSOLIDATE_AFTER.into())
    }

    /// `consolidationPolicy`, or what holds without it.
    pub fn effective_consolidation_policy(&self) -> ConsolidationPolicy {
        self.consolidation_policy.clone().unwrap_or(DEFAULT_CONSOLIDATION_POLICY)
    }

    /// `budgets`, or the one budget that holds without them.
    pub fn effective_budgets(&self) -> Vec<Budget> {
        self.budgets.clone().unwrap_or_else(|| vec![Budget::default()])
    }
}

impl NodeClaimTemplateSpec {
    /// `expireAfter`, or what holds without it.
    pub fn effective_expire_after(&self) -> NillableDuration {
        self.expire_after.clone().unwrap_or_else(|| DEFAULT_EXPIRE_AFTER.into())
    }
}

/// How many nodes may be disrupted at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// The reasons that the budget counts for; without them, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Vec<DisruptionReason>",
        length(max = 50),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// The most nodes of the pool that may be terminating: a number, or a percentage of its nodes.
    #[serde(default = "default_budget_nodes")]
    #[schemars(regex(pattern = schema::BUDGET_NODES_PATTERN))]
    pub nodes: String,
    /// When the budget begins to hold, as a cron line in UTC; always, without it. Needs `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = schema::SCHEDULE_PATTERN))]
    pub schedule: Option<String>,
    /// How long the budget holds from each hit of `schedule`: hours and minutes. Needs `schedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::budget_duration")]
    pub duration: Option<GoDuration>,
}

fn default_budget_nodes() -> String {
    DEFAULT_BUDGET_NODES.to_owned()
}

impl Default for Budget {
    fn default() -> Self {
        Self { reasons: None, nodes: default_budget_nodes(), schedule: None, duration: None }
    }
}

/// What was seen of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Resources of the pool's nodes, added up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub resources: ResourceList,
    /// Number of the pool's nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub nodes: Option<i64>,
    /// Generation of the node class when the registration health was last judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// Whether the pool is usable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
