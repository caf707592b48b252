//! Pieces of the `OpenAPI` schemas that the types' own derive can't express: patterns, Kubernetes' extensions and CEL rules.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// A label's value.
pub(crate) const LABEL_VALUE_PATTERN: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// A label's or taint's key, with or without a domain.
pub(crate) const QUALIFIED_NAME_PATTERN: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?",
    r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
);
/// A duration of whole seconds, minutes and hours.
pub(crate) const DURATION_PATTERN: &str = r"^([0-9]+(s|m|h))+$";
/// As [`DURATION_PATTERN`], or `Never`.
pub(crate) const NILLABLE_DURATION_PATTERN: &str = r"^(([0-9]+(s|m|h))+|Never)$";
/// The duration of a budget: hours and minutes only, since a schedule doesn't know of seconds.
pub(crate) const BUDGET_DURATION_PATTERN: &str = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$";
/// The schedule of a budget; what is in the five fields is checked at run time.
pub(crate) const SCHEDULE_PATTERN: &str =
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$";
/// A number of nodes, or a percentage up to 100 %.
pub(crate) const BUDGET_NODES_PATTERN: &str = r"^((100|[0-9]{1,2})%|[0-9]+)$";
/// A quantity.
pub(crate) const QUANTITY_PATTERN: &str = concat!(
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
);
/// An API group: no version.
pub(crate) const GROUP_PATTERN: &str = "^[^/]*$";
/// A price of an overlay.
pub(crate) const PRICE_PATTERN: &str = r"^\d+(\.\d+)?$";
/// A change of a price: a signed number, or a signed percentage that takes off at most all of it.
pub(crate) const PRICE_ADJUSTMENT_PATTERN: &str =
    r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$";
const CONDITION_TYPE_PATTERN: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
);

// The messages of the CEL rules, so that a file is refused in the same words as an object.
pub(crate) const IN_MESSAGE: &str = "requirements with operator 'In' must have a value defined";
pub(crate) const BOUND_MESSAGE: &str =
    "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value";
/// As [`BOUND_MESSAGE`], in the words of NodeOverlay's definition.
pub(crate) const OVERLAY_BOUND_MESSAGE: &str =
    "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value";
pub(crate) const NOT_IN_MESSAGE: &str = "requirements with operator 'NotIn' must have a value defined";
pub(crate) const PRICE_PAIR_MESSAGE: &str = "cannot set both 'price' and 'priceAdjustment'";
pub(crate) const OVERLAY_CAPACITY_MESSAGE: &str = "invalid resource restricted";
pub(crate) const BUFFER_SIZE_MESSAGE: &str = "If podTemplateRef is set, replicas or limits must also be set";
pub(crate) const BUFFER_REFERENCE_MESSAGE: &str =
    "You must define either PodTemplateRef or ScalableRef, but not both";
pub(crate) const MIN_VALUES_MESSAGE: &str =
    "requirements with 'minValues' must have at least that many values specified in the 'values' field";
pub(crate) const STATIC_LIMITS_MESSAGE: &str = "only 'limits.nodes' is supported on static NodePools";
pub(crate) const STATIC_WEIGHT_MESSAGE: &str = "'weight' is not supported on static NodePools";
pub(crate) const BUDGET_PAIR_MESSAGE: &str = "'schedule' must be set with 'duration'";

fn rule(rule: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message })
}

fn typed_rule(rule: &str, message: &str) -> ValidationRule {
    ValidationRule { rule: rule.to_owned(), message: Some(message.to_owned()), ..ValidationRule::default() }
}

/// A string of the shape of a Go duration.
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": DURATION_PATTERN })
}

/// A string of the shape of a Go duration, or `Never`.
pub(crate) fn nillable_duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": NILLABLE_DURATION_PATTERN })
}

/// The duration of a budget.
pub(crate) fn budget_duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": BUDGET_DURATION_PATTERN })
}

/// A map of quantities, written as numbers or as strings.
pub(crate) fn resource_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": true,
        },
    })
}

/// `minValues` of a requirement: a plain integer, as upstream has it.
pub(crate) fn min_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 1, "maximum": 50 })
}

/// `values` of a requirement.
///
/// Upstream puts `maxLength` and `pattern` beside the array instead of on its items, where the API server ignores them. They
/// stand on the items here, so that a value that can't be a label is refused when it is written.
pub(crate) fn requirement_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE_PATTERN },
        "x-kubernetes-list-type": "atomic",
    })
}

/// The rules of the requirements of a NodePool's template and of a NodeClaim.
pub(crate) fn requirement_rules() -> Value {
    json!([
        rule("self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)", IN_MESSAGE,),
        rule(
            "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? \
             (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
            BOUND_MESSAGE,
        ),
        rule(
            "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
            MIN_VALUES_MESSAGE,
        ),
    ])
}

/// The rules of the requirements of a NodeOverlay.
pub(crate) fn overlay_requirement_rules() -> Value {
    json!([
        rule("self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)", NOT_IN_MESSAGE),
        rule("self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)", IN_MESSAGE),
        rule(
            "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? \
             (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
            OVERLAY_BOUND_MESSAGE,
        ),
    ])
}

/// The rule of a NodeOverlay's spec.
pub(crate) fn overlay_rules() -> Value {
    json!([rule("!has(self.price) || !has(self.priceAdjustment)", PRICE_PAIR_MESSAGE)])
}

/// The rules of a CapacityBuffer's spec.
pub(crate) fn buffer_rules() -> Value {
    json!([
        rule("!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)", BUFFER_SIZE_MESSAGE),
        rule("!(has(self.podTemplateRef) && has(self.scalableRef))", BUFFER_REFERENCE_MESSAGE),
    ])
}

/// The price of an overlay.
pub(crate) fn overlay_price(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": PRICE_PATTERN })
}

/// The price adjustment of an overlay.
pub(crate) fn overlay_price_adjustment(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": PRICE_ADJUSTMENT_PATTERN })
}

/// The capacity of an overlay.
pub(crate) fn overlay_capacity(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = resource_list(generator);
    schema.insert(
        "x-kubernetes-validations".to_owned(),
        json!([rule(
            "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
            OVERLAY_CAPACITY_MESSAGE
        )]),
    );
    schema
}

pub(crate) const NODEPOOL_KEY_MESSAGE: &str = r#"label "karpenter.sh/nodepool" is restricted"#;
pub(crate) const HOSTNAME_KEY_MESSAGE: &str = r#"label "kubernetes.io/hostname" is restricted"#;
pub(crate) const DOMAIN_MESSAGE: &str = r#"label domain "karpenter.sh" is restricted"#;

/// The rules of a requirement's key on a NodeClaim, where the pool's own label is allowed.
pub(crate) fn claim_key_rules() -> Value {
    json!([
        rule(
            r#"self in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !self.find("^([^/]+)").endsWith("karpenter.sh")"#,
            DOMAIN_MESSAGE,
        ),
        rule(r#"self != "kubernetes.io/hostname""#, HOSTNAME_KEY_MESSAGE),
    ])
}

/// The rule of a requirement's key on a NodePool, on top of [`claim_key_rules`].
pub(crate) fn pool_key_rule() -> ValidationRule {
    typed_rule(r#"self != "karpenter.sh/nodepool""#, NODEPOOL_KEY_MESSAGE)
}

/// The labels of a NodePool's template.
pub(crate) fn template_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE_PATTERN },
        "maxProperties": 100,
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [
            rule(
                r#"self.all(x, x in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !x.find("^([^/]+)").endsWith("karpenter.sh"))"#,
                DOMAIN_MESSAGE,
            ),
            rule(r#"self.all(x, x != "karpenter.sh/nodepool")"#, NODEPOOL_KEY_MESSAGE),
            rule(r#"self.all(x, x != "kubernetes.io/hostname")"#, HOSTNAME_KEY_MESSAGE),
        ],
    })
}

/// A list of taints.
pub(crate) fn taints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "description": "A taint keeps pods that don't tolerate it away from the node.",
            "required": ["effect", "key"],
            "properties": {
                "effect": {
                    "type": "string",
                    "description": "What happens to pods that don't tolerate the taint.",
                    "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
                },
                "key": {
                    "type": "string",
                    "description": "Key of the taint, with or without a domain.",
                    "minLength": 1,
                    "pattern": QUALIFIED_NAME_PATTERN,
                },
                "timeAdded": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the taint was added.",
                },
                "value": {
                    "type": "string",
                    "description": "Value of the taint.",
                    "pattern": QUALIFIED_NAME_PATTERN,
                },
            },
        },
    })
}

/// Conditions of a NodePool or node class.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    conditions_with(
        &["lastTransitionTime", "message", "reason", "status", "type"],
        &json!({
            "type": "string",
            "description": "Why, in one word.",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        }),
    )
}

/// Conditions of a NodeClaim, whose reason and message may be missing or empty.
pub(crate) fn claim_conditions(_: &mut SchemaGenerator) -> Schema {
    conditions_with(
        &["lastTransitionTime", "status", "type"],
        &json!({
            "type": "string",
            "description": "Why, in one word.",
            "maxLength": 1024,
            "pattern": "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$",
        }),
    )
}

fn conditions_with(required: &[&str], reason: &Value) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the object's state.",
            "required": required,
            "properties": {
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed.",
                },
                "message": { "type": "string", "description": "Why, for people.", "maxLength": 32768 },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "Generation of the object that the condition speaks of.",
                },
                "reason": reason,
                "status": {
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                    "description": "Whether the condition holds.",
                },
                "type": {
                    "type": "string",
                    "description": "What the condition is about, in CamelCase.",
                    "maxLength": 316,
                    "pattern": CONDITION_TYPE_PATTERN,
                },
            },
        },
    })
}

/// The rules of a NodePool's spec.
pub(crate) fn node_pool_rules() -> Value {
    json!([
        rule(
            "has(self.replicas) == has(oldSelf.replicas)",
            "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
        ),
        rule(
            "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || \
             (size(self.limits) == 1 && 'nodes' in self.limits))",
            STATIC_LIMITS_MESSAGE,
        ),
        rule("!has(self.replicas) || !has(self.weight)", STATIC_WEIGHT_MESSAGE),
    ])
}

/// The rules of a NodePool's reference to its node class: the name may change, group and kind may not.
pub(crate) fn pool_class_reference_rules() -> Vec<ValidationRule> {
    vec![
        typed_rule("self.group == oldSelf.group", "nodeClassRef.group is immutable"),
        typed_rule("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable"),
    ]
}

/// A field that may not be empty.
pub(crate) fn not_empty(field: &str) -> Value {
    json!([rule("self != ''", &format!("{field} may not be empty"))])
}

/// The rule of a budget list.
pub(crate) fn budget_rules() -> Value {
    json!([rule("self.all(x, has(x.schedule) == has(x.duration))", BUDGET_PAIR_MESSAGE)])
}

/// The rule of a NodeClaim's spec.
pub(crate) fn immutable_spec() -> Value {
    json!([rule("self == oldSelf", "spec is immutable")])
}
