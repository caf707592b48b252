//! The `CustomResourceDefinition`s of our kinds, generated from the types.
//!
//! They accept whatever upstream's accept and fill in the same defaults, so that manifests written for upstream apply
//! unchanged. `crds/` at the root of the repository holds them as YAML.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::json;

use crate::capacity_buffer::CapacityBuffer;
use crate::node_overlay::NodeOverlay;
use crate::schema;
use crate::v1::{NodeClaim, NodePool};
use crate::v1alpha1::ClusterAPINodeClass;

/// All definitions, in the order in which they are listed in `crds/`.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![cluster_api_node_class(), node_claim(), node_overlay(), node_pool(), capacity_buffer()]
}

/// Whether only an optional feature needs the definition: a cluster may be without it.
pub fn is_optional(definition: &CustomResourceDefinition) -> bool {
    matches!(definition.spec.names.kind.as_str(), "CapacityBuffer" | "NodeOverlay")
}

/// The definition of NodePool.
pub fn node_pool() -> CustomResourceDefinition {
    finished(NodePool::crd(), |root| {
        if let Some(key) = descend(root, &["spec", "template", "spec", "requirements", "[]", "key"]) {
            key.x_kubernetes_validations.get_or_insert_default().insert(1, schema::pool_key_rule());
        }
        if let Some(reference) = descend(root, &["spec", "template", "spec", "nodeClassRef"]) {
            reference.x_kubernetes_validations = Some(schema::pool_class_reference_rules());
        }
    })
}

/// The definition of NodeClaim.
pub fn node_claim() -> CustomResourceDefinition {
    finished(NodeClaim::crd(), |_| {})
}

/// The definition of NodeOverlay.
pub fn node_overlay() -> CustomResourceDefinition {
    finished(NodeOverlay::crd(), |_| {})
}

/// The definition of CapacityBuffer.
pub fn capacity_buffer() -> CustomResourceDefinition {
    finished(CapacityBuffer::crd(), |_| {})
}

/// The definition of `ClusterAPINodeClass`.
pub fn cluster_api_node_class() -> CustomResourceDefinition {
    finished(ClusterAPINodeClass::crd(), |root| {
        // A node class without any setting is useful; the default lets its whole spec be left out.
        root.required = None;
        if let Some(spec) = descend(root, &["spec"]) {
            spec.default = Some(JSON(json!({})));
        }
    })
}

/// The schema of the only version of a definition.
pub(crate) fn root_schema(crd: &CustomResourceDefinition) -> Option<&JSONSchemaProps> {
    crd.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()
}

fn finished(
    mut crd: CustomResourceDefinition,
    adjust: impl FnOnce(&mut JSONSchemaProps),
) -> CustomResourceDefinition {
    let schema = crd.spec.versions.first_mut().and_then(|version| version.schema.as_mut());
    if let Some(root) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) {
        clean(root);
        adjust(root);
    }
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    if crd.spec.names.short_names.as_ref().is_some_and(Vec::is_empty) {
        crd.spec.names.short_names = None;
    }
    crd
}

/// Takes off what Rust's types bring along and an API server shouldn't see: `nullable` would keep an explicit `null` where
/// upstream's schema prunes it.
fn clean(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.title = None;
    if let Some(description) = &mut schema.description {
        *description = description.replace("\n\n", "\u{0}").replace('\n', " ").replace('\u{0}', "\n\n");
    }
    if schema.x_kubernetes_int_or_string == Some(true) {
        // kube's own rewriting empties these two, which would let any value pass the type check of older clients.
        let of_type =
            |name: &str| JSONSchemaProps { type_: Some(name.to_owned()), ..JSONSchemaProps::default() };
        schema.any_of = Some(vec![of_type("integer"), of_type("string")]);
    }
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        clean(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        clean(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        clean(values);
    }
}

/// The schema at that path of properties; `[]` is an array's items.
pub(crate) fn descend<'a>(schema: &'a mut JSONSchemaProps, path: &[&str]) -> Option<&'a mut JSONSchemaProps> {
    path.iter().try_fold(schema, |schema, step| match *step {
        "[]" => match &mut schema.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) => Some(items.as_mut()),
            _ => None,
        },
        property => schema.properties.as_mut()?.get_mut(property),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `visit` with every schema of a definition and its path.
    fn walk(schema: &JSONSchemaProps, path: &str, visit: &mut impl FnMut(&str, &JSONSchemaProps)) {
        visit(path, schema);
        for (name, property) in schema.properties.iter().flatten() {
            walk(property, &format!("{path}.{name}"), visit);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            walk(items, &format!("{path}[]"), visit);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            walk(values, &format!("{path}{{}}"), visit);
        }
    }

    fn walk_all(mut visit: impl FnMut(&str, &JSONSchemaProps)) {
        for crd in crds() {
            walk(root_schema(&crd).unwrap(), &crd.spec.names.kind.clone(), &mut visit);
        }
    }

    #[test]
    fn nothing_is_nullable() {
        walk_all(|path, schema| assert_eq!(schema.nullable, None, "{path}"));
    }

    #[test]
    fn every_field_is_described() {
        walk_all(|path, schema| {
            for (name, property) in schema.properties.iter().flatten() {
                assert!(property.description.is_some(), "{path}.{name}");
            }
        });
    }

    #[test]
    fn every_pattern_compiles() {
        walk_all(|path, schema| {
            if let Some(pattern) = &schema.pattern {
                regex::Regex::new(pattern).unwrap_or_else(|error| panic!("{path}: {error}"));
            }
        });
    }

    #[test]
    fn every_schema_is_structural() {
        walk_all(|path, schema| {
            let typed = schema.type_.is_some() || schema.x_kubernetes_int_or_string == Some(true);
            assert!(typed, "{path} has no type");
            assert!(schema.properties.is_none() || schema.additional_properties.is_none(), "{path} has both");
            assert!(
                schema.one_of.is_none() && schema.all_of.is_none() && schema.not.is_none(),
                "{path} has a choice"
            );
        });
    }

    #[test]
    fn quantities_may_be_numbers_or_strings() {
        let mut found = 0;
        walk_all(|path, schema| {
            if schema.pattern.as_deref() == Some(schema::QUANTITY_PATTERN) {
                found += 1;
                assert_eq!(schema.x_kubernetes_int_or_string, Some(true), "{path}");
                assert_eq!(schema.type_, None, "{path}");
            }
        });
        assert_eq!(
            found, 7,
            "limits and resources of pools; requests, capacity and allocatable of claims; capacity of overlays; limits of buffers"
        );
    }

    #[test]
    fn lists_that_rules_go_through_are_bounded() {
        // Upstream has no bound there, and an API server takes the rule without one.
        let as_upstream = "NodeOverlay.spec.capacity";
        walk_all(|path, schema| {
            if path == as_upstream {
                return;
            }
            let rules = schema.x_kubernetes_validations.iter().flatten();
            if rules.into_iter().any(|rule| rule.rule.contains("self.all")) {
                assert!(schema.max_items.is_some() || schema.max_properties.is_some(), "{path} has no bound");
            }
        });
    }
}
