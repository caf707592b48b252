//! The `CustomResourceDefinition`s of NodePool, NodeClaim and `ClusterAPINodeClass`, generated from the types.
//!
//! They accept whatever upstream's accept and fill in the same defaults, so that manifests written for upstream apply
//! unchanged. `crds/` at the root of the repository holds them as YAML.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::json;

use crate::schema;
use crate::v1::{NodeClaim, NodePool};
use crate::v1alpha1::ClusterAPINodeClass;

/// All definitions, in the order in which they are listed in `crds/`.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![cluster_api_node_class(), node_claim(), node_pool()]
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
    for version in crd.spec.versions.iter_mut().take(1) {
        if let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            clean(root);
            adjust(root);
            break;
        }
    }
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
