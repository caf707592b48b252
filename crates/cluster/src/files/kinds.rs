//! Documents to typed objects, with the API server's defaults and checks.

use super::document::Step;
use crate::object::{Object, PodRecord, template_key};
use karpenter_capi_api::capi::{CapiVersion, InfrastructureTemplate};
use karpenter_capi_api::hypershift;
use karpenter_capi_api::names::{self, labels};
use karpenter_capi_api::validation::{self, FieldError};
use karpenter_capi_api::{capacity_buffer, defaults, node_overlay, v1, v1alpha1};
use karpenter_capi_model::name::NamespacedName;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;

/// Maps from resource names to quantities, by the field that holds them. Their values may be written as numbers; Kubernetes takes them as text.
const QUANTITY_MAPS: [&str; 10] = [
    "allocatable",
    "capacity",
    "default",
    "defaultRequest",
    "limits",
    "max",
    "min",
    "overhead",
    "podFixed",
    "requests",
];
/// Kinds without a namespace.
const CLUSTER_SCOPED: [&str; 11] = [
    "CSINode",
    "ClusterAPINodeClass",
    "Namespace",
    "Node",
    "NodeClaim",
    "NodeOverlay",
    "NodePool",
    "PersistentVolume",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
];

/// A document, read.
pub(super) enum Typed {
    /// An object of a kind that is used.
    Known {
        object: Object,
        /// Object and message.
        warnings: Vec<(String, String)>,
    },
    /// An object of another kind, and itself if it may be an infrastructure template.
    Other { kind: String, template: Option<Object> },
}

/// What is wrong with a document.
pub(super) struct ReadError {
    pub(super) faults: Vec<Fault>,
}

/// One thing that is wrong.
pub(super) struct Fault {
    pub(super) path: Vec<Step>,
    pub(super) message: String,
}

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> Self {
        Self { faults: vec![fault] }
    }
}

fn fault(path: &[&str], message: impl Into<String>) -> ReadError {
    let path = path.iter().map(|key| Step::Key((*key).to_owned())).collect();
    Fault { path, message: message.into() }.into()
}

/// `Kind namespace/name`, as far as it can be read.
pub(super) fn describe(value: &Value) -> Option<String> {
    let kind = value.get("kind")?.as_str()?;
    let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("(no name)");
    Some(match value.pointer("/metadata/namespace").and_then(Value::as_str) {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    })
}

/// Reads one object.
pub(super) fn read(value: &Value) -> Result<Typed, ReadError> {
    if !value.is_object() {
        return Err(fault(&[], "a document must be an object with apiVersion, kind and metadata"));
    }
    let text = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind =
        text("kind").ok_or_else(|| fault(&["kind"], "kind is missing; write for example kind: Pod"))?;
    let api_version = text("apiVersion")
        .ok_or_else(|| fault(&["apiVersion"], "apiVersion is missing; write for example apiVersion: v1"))?;
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let Some(expected) = version_of(group, kind) else {
        return other(value, kind, api_version);
    };
    if !expected.contains(&version) {
        let right: Vec<_> = expected.iter().map(|version| join(group, version)).collect();
        return Err(fault(
            &["apiVersion"],
            format!(
                "{kind} is read as {} only, not as {api_version}; convert the manifest",
                right.join(" or ")
            ),
        ));
    }
    let mut value = value.clone();
    complete(&mut value, group, kind)?;
    known(group, kind, &value)
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The versions in which a kind is read; `None` for kinds that aren't.
fn version_of(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    const CAPI: &[&str] = &[CapiVersion::V1Beta2.as_str(), CapiVersion::V1Beta1.as_str()];
    match (group, kind) {
        (
            "",
            "Pod"
            | "Node"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "Namespace"
            | "LimitRange"
            | "PodTemplate"
            | "Service"
            | "ReplicationController",
        )
        | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("storage.k8s.io", "StorageClass" | "CSINode" | "VolumeAttachment")
        | ("policy", "PodDisruptionBudget")
        | ("scheduling.k8s.io", "PriorityClass")
        | ("node.k8s.io", "RuntimeClass")
        | (names::KARPENTER_GROUP, "NodePool" | "NodeClaim") => Some(&["v1"]),
        (names::KARPENTER_GROUP, "NodeOverlay") | (names::GROUP, names::NODE_CLASS_KIND) => {
            Some(&["v1alpha1"])
        }
        (names::AUTOSCALING_GROUP, "CapacityBuffer") => Some(&["v1beta1"]),
        (names::HYPERSHIFT_GROUP, "NodePool") => Some(hypershift::NodePool::VERSIONS),
        (names::CAPI_GROUP, "Cluster" | "MachineDeployment" | "MachineSet" | "Machine") => Some(CAPI),
        _ => None,
    }
}

fn other(value: &Value, kind: &str, api_version: &str) -> Result<Typed, ReadError> {
    let template = (kind.ends_with("Template") && api_version.contains('/')).then(|| {
        let mut value = value.clone();
        complete(&mut value, "", kind)?;
        InfrastructureTemplate::parse(&value)
            .map(Object::from)
            .map_err(|error| fault(&["metadata"], error.to_string()))
    });
    Ok(Typed::Other { kind: format!("{kind} ({api_version})"), template: template.transpose()? })
}

/// Name and namespace as the API server has them, and quantities as text.
fn complete(value: &mut Value, group: &str, kind: &str) -> Result<(), ReadError> {
    // What a CSINode calls allocatable is a number of attachments.
    if kind != "CSINode" {
        quantities_as_text(value);
    }
    let Some(Value::Object(metadata)) = value.get_mut("metadata") else {
        return Err(fault(&["metadata"], "metadata is missing; write at least metadata: {name: …}"));
    };
    if metadata.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(fault(&["metadata", "name"], "the name is missing; write it as a text that isn't empty"));
    }
    if CLUSTER_SCOPED.contains(&kind) && group != names::HYPERSHIFT_GROUP {
        metadata.remove("namespace");
    } else if metadata.get("namespace").is_none_or(|namespace| namespace.as_str() == Some("")) {
        metadata.insert("namespace".to_owned(), Value::String("default".to_owned()));
    }
    Ok(())
}

fn quantities_as_text(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(quantities_as_text),
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match value {
                    Value::Object(quantities) if QUANTITY_MAPS.contains(&key.as_str()) => {
                        for quantity in quantities.values_mut() {
                            if let Value::Number(number) = quantity {
                                *quantity = Value::String(number.to_string());
                            }
                        }
                    }
                    _ => quantities_as_text(value),
                }
            }
        }
        _ => {}
    }
}

fn known(group: &str, kind: &str, value: &Value) -> Result<Typed, ReadError> {
    use k8s_openapi::api::{apps, core, node, policy, scheduling, storage};
    use karpenter_capi_api::capi;
    let object: Object = match (group, kind) {
        ("", "Pod") => PodRecord::from(typed::<core::v1::Pod>(value)?).into(),
        ("", "Node") => typed::<core::v1::Node>(value)?.into(),
        ("", "PersistentVolume") => typed::<core::v1::PersistentVolume>(value)?.into(),
        ("", "PersistentVolumeClaim") => typed::<core::v1::PersistentVolumeClaim>(value)?.into(),
        ("", "Namespace") => typed::<core::v1::Namespace>(value)?.into(),
        ("", "LimitRange") => typed::<core::v1::LimitRange>(value)?.into(),
        ("", "ReplicationController") => typed::<core::v1::ReplicationController>(value)?.into(),
        ("", "PodTemplate") => typed::<core::v1::PodTemplate>(value)?.into(),
        ("", "Service") => typed::<core::v1::Service>(value)?.into(),
        ("apps", "DaemonSet") => typed::<apps::v1::DaemonSet>(value)?.into(),
        ("apps", "Deployment") => typed::<apps::v1::Deployment>(value)?.into(),
        ("apps", "ReplicaSet") => typed::<apps::v1::ReplicaSet>(value)?.into(),
        ("apps", "StatefulSet") => typed::<apps::v1::StatefulSet>(value)?.into(),
        (_, "StorageClass") => typed::<storage::v1::StorageClass>(value)?.into(),
        (_, "CSINode") => typed::<storage::v1::CSINode>(value)?.into(),
        (_, "VolumeAttachment") => typed::<storage::v1::VolumeAttachment>(value)?.into(),
        (_, "PodDisruptionBudget") => typed::<policy::v1::PodDisruptionBudget>(value)?.into(),
        (_, "PriorityClass") => typed::<scheduling::v1::PriorityClass>(value)?.into(),
        (_, "RuntimeClass") => typed::<node::v1::RuntimeClass>(value)?.into(),
        (names::HYPERSHIFT_GROUP, _) => typed::<hypershift::NodePool>(value)?.into(),
        (_, "NodePool") => return node_pool(value),
        (_, "NodeClaim") => {
            let mut claim = typed::<v1::NodeClaim>(value)?;
            defaults::node_claim(&mut claim);
            checked(&validation::validate_node_claim(&claim))?;
            claim.into()
        }
        (_, "CapacityBuffer") => {
            let mut buffer = typed::<capacity_buffer::CapacityBuffer>(value)?;
            defaults::capacity_buffer(&mut buffer);
            checked(&validation::refused_capacity_buffer(&buffer))?;
            buffer.into()
        }
        (_, "NodeOverlay") => {
            let overlay = typed::<node_overlay::NodeOverlay>(value)?;
            checked(&validation::refused_node_overlay(&overlay))?;
            overlay.into()
        }
        (_, names::NODE_CLASS_KIND) => {
            let class = typed::<v1alpha1::ClusterAPINodeClass>(value)?;
            checked(&validation::validate_node_class(&class))?;
            class.into()
        }
        (_, "Cluster") => typed::<capi::Cluster>(value)?.into(),
        (_, "MachineDeployment") => typed::<capi::MachineDeployment>(value)?.into(),
        (_, "MachineSet") => typed::<capi::MachineSet>(value)?.into(),
        _ => typed::<capi::Machine>(value)?.into(),
    };
    Ok(Typed::Known { object, warnings: Vec::new() })
}

fn node_pool(value: &Value) -> Result<Typed, ReadError> {
    let mut pool = typed::<v1::NodePool>(value)?;
    defaults::node_pool(&mut pool);
    // What only a controller refuses is stored by the API server: the pool is there then, and not ready.
    let mut errors = validation::validate_node_pool(&pool);
    errors.retain(|error| !found_at_run_time(error, &pool));
    checked(&errors)?;
    let name = format!("NodePool/{}", pool.metadata.name.as_deref().unwrap_or_default());
    let warnings =
        validation::warn_node_pool(&pool).iter().map(|warning| (name.clone(), warning.to_string())).collect();
    Ok(Typed::Known { object: pool.into(), warnings })
}

/// Schedules that have five fields (or an `@` name) and can't be read, taints that are given twice, capacity types that don't exist.
fn found_at_run_time(error: &FieldError, pool: &v1::NodePool) -> bool {
    let requirement = error
        .field
        .strip_prefix("spec.template.spec.requirements[")
        .and_then(|rest| rest.strip_suffix("].values"));
    let requirement =
        requirement.and_then(|index| pool.spec.template.spec.requirements.get(index.parse::<usize>().ok()?));
    let twice = error.field.ends_with(']') && error.field.to_lowercase().contains("taints[");
    let schedule = error.field.ends_with(".schedule")
        && (error.value.starts_with('@') || error.value.split_whitespace().count() >= 5);
    schedule
        || twice
        || requirement.is_some_and(|found| found.key == labels::CAPACITY_TYPE && !found.values.is_empty())
}

/// A NodePool of another Karpenter is read by the same rules: the definition is the same.
fn checked(errors: &[FieldError]) -> Result<(), ReadError> {
    if errors.is_empty() {
        return Ok(());
    }
    let fault = |error: &FieldError| Fault {
        path: parse_path(&error.field),
        message: format!("{:?}: {}; {}", error.value, error.message, error.remedy),
    };
    Err(ReadError { faults: errors.iter().map(fault).collect() })
}

/// `spec.budgets[1].nodes` and `spec.labels[a.b/c]` to steps.
fn parse_path(field: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (key, tail) = inner.split_once(']').unwrap_or((inner, ""));
            let key = key.trim_matches(['"', '\'']);
            steps.push(key.parse().map_or_else(|_| Step::Key(key.to_owned()), Step::Index));
            rest = tail.strip_prefix('.').unwrap_or(tail);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (key, tail) = rest.split_at(end);
            steps.push(Step::Key(key.to_owned()));
            rest = tail.strip_prefix('.').unwrap_or(tail);
        }
    }
    steps
}

/// Reads an object of one type; the error carries the field's path.
fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, ReadError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path: Vec<Step> = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                serde_path_to_error::Segment::Seq { index } => Some(Step::Index(*index)),
                serde_path_to_error::Segment::Map { key } => Some(Step::Key(key.clone())),
                serde_path_to_error::Segment::Enum { variant } => Some(Step::Key(variant.clone())),
                serde_path_to_error::Segment::Unknown => None,
            })
            .collect();
        let message = error.inner().to_string();
        let quoted = ["boolean", "integer", "floating point"].iter().any(|kind| message.contains(kind))
            && message.contains("expected a string");
        let remedy = if quoted { "; put it in quotes" } else { "" };
        Fault { path, message: format!("{message}{remedy}") }.into()
    })
}

/// Keys of the infrastructure templates that MachineDeployments name.
pub(super) fn named_templates(objects: &[Object]) -> BTreeSet<NamespacedName> {
    let deployments = objects.iter().filter_map(|object| match object {
        Object::MachineDeployment(deployment) => Some(deployment),
        _ => None,
    });
    deployments
        .map(|deployment| {
            let reference = &deployment.spec.template.spec.infrastructure_ref;
            let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
            template_key(namespace, &reference.api_group, &reference.kind, &reference.name)
        })
        .collect()
}
