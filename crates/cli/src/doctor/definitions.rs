//! Whether an installed custom resource has what this version needs.
//!
//! Fields are compared, not versions of releases: NodePools and NodeClaims may have been installed by another Karpenter, and a
//! ClusterAPINodeClass of the same group exists elsewhere with other fields. What an installed definition has besides is its own affair.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps, JSONSchemaPropsOrArray,
    JSONSchemaPropsOrBool,
};

/// As many missing fields are named; the rest is counted.
const NAMED: usize = 4;

/// What the installed definition lacks, as a sentence; None: nothing.
pub(crate) fn lacks(
    shipped: &CustomResourceDefinition,
    installed: &CustomResourceDefinition,
) -> Option<String> {
    if shipped.spec.scope != installed.spec.scope {
        return Some(format!("its scope is {}, not {}", installed.spec.scope, shipped.spec.scope));
    }
    for wanted in &shipped.spec.versions {
        let Some(present) = installed.spec.versions.iter().find(|version| version.name == wanted.name) else {
            return Some(format!("it has no version {}", wanted.name));
        };
        if !present.served {
            return Some(format!("its version {} isn't served", wanted.name));
        }
        if has_status(wanted) && !has_status(present) {
            return Some(format!("its version {} has no status subresource", wanted.name));
        }
        let mut missing = Vec::new();
        if let (Some(wanted), Some(present)) = (root(wanted), root(present)) {
            compare(wanted, present, "", &mut missing);
        }
        if !missing.is_empty() {
            return Some(format!("its version {} lacks {}", wanted.name, some_of(&missing)));
        }
    }
    None
}

fn has_status(version: &CustomResourceDefinitionVersion) -> bool {
    version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
}

fn root(version: &CustomResourceDefinitionVersion) -> Option<&JSONSchemaProps> {
    version.schema.as_ref()?.open_api_v3_schema.as_ref()
}

/// Collects fields of `wanted` that `present` hasn't got. What keeps unknown fields has every field.
fn compare(wanted: &JSONSchemaProps, present: &JSONSchemaProps, path: &str, missing: &mut Vec<String>) {
    if present.x_kubernetes_preserve_unknown_fields == Some(true) {
        return;
    }
    for (name, wanted) in wanted.properties.iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match present.properties.as_ref().and_then(|properties| properties.get(name)) {
            None => missing.push(path),
            Some(present) => compare(wanted, present, &path, missing),
        }
    }
    if let (Some(JSONSchemaPropsOrArray::Schema(wanted)), Some(JSONSchemaPropsOrArray::Schema(present))) =
        (&wanted.items, &present.items)
    {
        compare(wanted, present, &format!("{path}[]"), missing);
    }
    if let (Some(JSONSchemaPropsOrBool::Schema(wanted)), Some(JSONSchemaPropsOrBool::Schema(present))) =
        (&wanted.additional_properties, &present.additional_properties)
    {
        compare(wanted, present, &format!("{path}{{}}"), missing);
    }
}

fn some_of(missing: &[String]) -> String {
    let named = missing.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match missing.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_capi_api::crd::{cluster_api_node_class, crds};

    fn version(crd: &mut CustomResourceDefinition) -> &mut CustomResourceDefinitionVersion {
        &mut crd.spec.versions[0]
    }

    fn spec(crd: &mut CustomResourceDefinition) -> &mut JSONSchemaProps {
        let schema = version(crd).schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
        schema.properties.as_mut().unwrap().get_mut("spec").unwrap()
    }

    #[test]
    fn what_is_shipped_lacks_nothing_and_more_is_no_harm() {
        for shipped in crds() {
            let mut installed = shipped.clone();
            spec(&mut installed)
                .properties
                .get_or_insert_default()
                .insert("new".to_owned(), JSONSchemaProps::default());
            assert_eq!(lacks(&shipped, &installed), None);
        }
    }

    #[test]
    fn a_missing_field_is_named_by_its_path() {
        let shipped = cluster_api_node_class();
        let mut installed = shipped.clone();
        spec(&mut installed).properties.as_mut().unwrap().remove("launchTimeout");
        assert_eq!(lacks(&shipped, &installed).unwrap(), "its version v1alpha1 lacks spec.launchTimeout");
        spec(&mut installed).x_kubernetes_preserve_unknown_fields = Some(true);
        assert_eq!(lacks(&shipped, &installed), None, "a schema that keeps unknown fields has it");
    }

    #[test]
    fn a_version_that_is_missing_or_not_served_is_named() {
        let shipped = cluster_api_node_class();
        let mut installed = shipped.clone();
        version(&mut installed).served = false;
        assert_eq!(lacks(&shipped, &installed).unwrap(), "its version v1alpha1 isn't served");
        version(&mut installed).name = "v1alpha0".to_owned();
        assert_eq!(lacks(&shipped, &installed).unwrap(), "it has no version v1alpha1");
    }

    #[test]
    fn a_status_that_cant_be_written_by_itself_is_named() {
        let shipped = cluster_api_node_class();
        let mut installed = shipped.clone();
        version(&mut installed).subresources = None;
        assert_eq!(lacks(&shipped, &installed).unwrap(), "its version v1alpha1 has no status subresource");
    }
}
