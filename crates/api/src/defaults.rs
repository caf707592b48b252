//! What the API server fills in, for objects that come from files.

use crate::capacity_buffer::{ACTIVE_CAPACITY, CapacityBuffer};
use crate::v1::{
    Budget, DEFAULT_CONSOLIDATE_AFTER, DEFAULT_CONSOLIDATION_POLICY, DEFAULT_EXPIRE_AFTER, NodeClaim,
    NodePool,
};

/// Fills in what the definition of NodePool would fill in.
pub fn node_pool(pool: &mut NodePool) {
    let disruption = &mut pool.spec.disruption;
    disruption.consolidate_after.get_or_insert_with(|| DEFAULT_CONSOLIDATE_AFTER.into());
    disruption.consolidation_policy.get_or_insert(DEFAULT_CONSOLIDATION_POLICY);
    disruption.budgets.get_or_insert_with(|| vec![Budget::default()]);
    pool.spec.template.spec.expire_after.get_or_insert_with(|| DEFAULT_EXPIRE_AFTER.into());
    if let Some(status) = &mut pool.status {
        status.nodes.get_or_insert(0);
    }
}

/// Fills in what the definition of NodeClaim would fill in.
pub fn node_claim(claim: &mut NodeClaim) {
    claim.spec.expire_after.get_or_insert_with(|| DEFAULT_EXPIRE_AFTER.into());
}

/// Fills in what the definition of CapacityBuffer would fill in.
pub fn capacity_buffer(buffer: &mut CapacityBuffer) {
    buffer.spec.provisioning_strategy.get_or_insert_with(|| ACTIVE_CAPACITY.to_owned());
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSONSchemaProps, JSONSchemaPropsOrArray,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::crd;

    /// Fills in the defaults of a schema as the API server does it: outer ones first, then those within.
    fn fill(schema: &JSONSchemaProps, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, property) in schema.properties.iter().flatten() {
                    if let (Some(default), false) = (&property.default, fields.contains_key(name)) {
                        fields.insert(name.clone(), default.0.clone());
                    }
                    if let Some(value) = fields.get_mut(name) {
                        fill(property, value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items {
                    for value in items {
                        fill(item, value);
                    }
                }
            }
            _ => {}
        }
    }

    fn pool(spec: &Value) -> Value {
        json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": { "name": "general" },
            "spec": {
                "template": { "spec": {
                    "nodeClassRef": { "group": "g", "kind": "k", "name": "n" },
                    "requirements": [],
                    "expireAfter": spec["expireAfter"],
                } },
                "disruption": spec["disruption"],
            },
        })
    }

    /// Takes off the fields that `pool` made `null`.
    fn without_nulls(value: &mut Value) {
        if let Value::Object(fields) = value {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
    }

    #[test]
    fn pools_get_what_their_definition_fills_in() {
        let definition = crd::node_pool();
        for spec in [
            json!({}),
            json!({ "disruption": {} }),
            json!({ "disruption": { "consolidateAfter": "Never" }, "expireAfter": "Never" }),
            json!({ "disruption": { "budgets": [] } }),
            json!({ "disruption": { "budgets": [{}, { "nodes": "1" }], "consolidationPolicy": "WhenEmpty" } }),
        ] {
            let mut by_schema = pool(&spec);
            without_nulls(&mut by_schema);
            let mut typed: NodePool = serde_json::from_value(by_schema.clone()).unwrap();
            fill(crd::root_schema(&definition).unwrap(), &mut by_schema);
            node_pool(&mut typed);
            assert_eq!(serde_json::to_value(typed).unwrap(), by_schema, "{spec}");
        }
    }

    #[test]
    fn claims_get_what_their_definition_fills_in() {
        let mut by_schema = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": { "name": "general-1" },
            "spec": { "nodeClassRef": { "group": "g", "kind": "k", "name": "n" }, "requirements": [] },
        });
        let mut typed: NodeClaim = serde_json::from_value(by_schema.clone()).unwrap();
        fill(crd::root_schema(&crd::node_claim()).unwrap(), &mut by_schema);
        node_claim(&mut typed);
        assert_eq!(by_schema["spec"]["expireAfter"], "720h");
        assert_eq!(serde_json::to_value(typed).unwrap(), by_schema);
    }
}
