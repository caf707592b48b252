//! Solve documents: API objects as the API server stores them, instance types and options in one JSON object.

mod objects;
mod types;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use karpenter_capi_api::defaults;
use karpenter_capi_api::v1::{NodeClaim, NodePool};
use karpenter_capi_cluster::snapshot::Snapshot;
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_scheduling::input::{
    Input, MinValuesPolicy, Options, PreferencePolicy, ReservedOfferingMode,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

/// The entry of `instanceTypes` for pools that have none of their own.
const ANY_POOL: &str = "*";
/// The time of documents that give none.
const NOW: &str = "2026-01-01T00:00:00Z";
/// How many instance types a claim has at most, where the document doesn't say.
const MAX_INSTANCE_TYPES: usize = 600;

/// What can't be read in a document, with its path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct DocumentError {
    path: String,
    message: String,
}

impl DocumentError {
    pub(crate) fn new(path: impl Into<String>, message: impl Display) -> Self {
        Self { path: path.into(), message: format!("{message}") }
    }

    /// The same below another path.
    fn within(self, path: &str) -> Self {
        Self { path: format!("{path}.{}", self.path), message: self.message }
    }
}

/// A document, parsed into API objects, which nothing of the model has been made of yet.
#[derive(Clone, Debug)]
pub struct Document {
    /// Free text.
    pub description: String,
    now: Timestamp,
    options: Options,
    well_known_labels: BTreeSet<String>,
    reservation_id_label: String,
    node_pools: Vec<NodePool>,
    /// By pool, or [`ANY_POOL`].
    instance_types: BTreeMap<String, Vec<Arc<InstanceType>>>,
    pods: Vec<core::Pod>,
    daemon_pods: Vec<core::Pod>,
    bound_pods: Vec<core::Pod>,
    nodes: Vec<core::Node>,
    node_claims: Vec<NodeClaim>,
    objects: Arc<Snapshot>,
}

/// The input that a document describes.
pub fn input(document: &Value) -> Result<Input, DocumentError> {
    Ok(Document::parse(document)?.into_input())
}

/// Whether the document asks for a decision about disruption, which is another question than `solve` answers. Its answer tells.
pub fn is_of_disruption(answer: &Value) -> bool {
    answer.get("methods").is_some() || answer.get("firstAction").is_some()
}

impl Document {
    /// Reads every field; one that isn't known is an error, as the answer may depend on it.
    pub fn parse(document: &Value) -> Result<Self, DocumentError> {
        let fields =
            document.as_object().ok_or_else(|| DocumentError::new("document", "must be an object"))?;
        refuse_unknown(fields)?;
        let mut node_pools: Vec<NodePool> = list(document, "nodePools")?;
        node_pools.iter_mut().for_each(defaults::node_pool);
        let mut well_known_labels: BTreeSet<String> =
            list(document, "wellKnownLabels")?.into_iter().collect();
        let reservation_id_label: String = optional(document, "reservationIDLabel")?.unwrap_or_default();
        if !reservation_id_label.is_empty() {
            well_known_labels.insert(reservation_id_label.clone());
        }
        let now: String = optional(document, "now")?.unwrap_or_else(|| NOW.to_owned());
        Ok(Self {
            description: optional(document, "description")?.unwrap_or_default(),
            now: now.parse().map_err(|error| DocumentError::new("now", error))?,
            options: options(&document["options"]).map_err(|error| error.within("options"))?,
            well_known_labels,
            reservation_id_label,
            node_pools,
            instance_types: types::by_pool(&document["instanceTypes"])?,
            pods: list(document, "pods")?,
            daemon_pods: list(document, "daemonSetPods")?,
            bound_pods: list(document, "boundPods")?,
            nodes: list(document, "nodes")?,
            node_claims: list(document, "nodeClaims")?,
            objects: objects::read(&document["objects"])?,
        })
    }

    /// How many pods want a place.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// How many Nodes there are.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The names of the NodePools.
    pub fn pool_names(&self) -> impl Iterator<Item = &str> {
        self.node_pools.iter().filter_map(|pool| pool.metadata.name.as_deref())
    }

    /// Everything of the model from the API objects: what an operator does for each object that comes in and each solve.
    pub fn into_input(self) -> Input {
        objects::input(self)
    }
}

fn refuse_unknown(fields: &Map<String, Value>) -> Result<(), DocumentError> {
    const KNOWN: [&str; 13] = [
        "boundPods",
        "daemonSetPods",
        "description",
        "instanceTypes",
        "nodeClaims",
        "nodePools",
        "nodes",
        "now",
        "objects",
        "options",
        "pods",
        "reservationIDLabel",
        "wellKnownLabels",
    ];
    match fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        Some(key) => Err(DocumentError::new(key, "isn't a field of a solve document")),
        None => Ok(()),
    }
}

fn options(value: &Value) -> Result<Options, DocumentError> {
    for (key, value) in value.as_object().into_iter().flatten() {
        let matters = match key.as_str() {
            "preferencePolicy" | "minValuesPolicy" | "reservedOfferingMode" | "maxInstanceTypes"
            // Of these the answer of a solve doesn't depend.
            | "numConcurrentReconciles" | "featureGates" => false,
            _ => value != &Value::Bool(false),
        };
        if matters {
            return Err(DocumentError::new(key, "isn't evaluated by this version"));
        }
    }
    let text = |key: &str| optional::<String>(value, key).map(Option::unwrap_or_default);
    Ok(Options {
        preference_policy: match text("preferencePolicy")?.as_str() {
            "" | "Respect" => PreferencePolicy::Respect,
            "Ignore" => PreferencePolicy::Ignore,
            other => return Err(not_one_of("preferencePolicy", other, "Respect or Ignore")),
        },
        min_values_policy: match text("minValuesPolicy")?.as_str() {
            "" | "Strict" => MinValuesPolicy::Strict,
            "BestEffort" => MinValuesPolicy::BestEffort,
            other => return Err(not_one_of("minValuesPolicy", other, "Strict or BestEffort")),
        },
        reserved_offering_mode: match text("reservedOfferingMode")?.as_str() {
            "" | "Strict" => ReservedOfferingMode::Strict,
            "Fallback" => ReservedOfferingMode::Fallback,
            other => return Err(not_one_of("reservedOfferingMode", other, "Strict or Fallback")),
        },
        max_instance_types: optional(value, "maxInstanceTypes")?.unwrap_or(MAX_INSTANCE_TYPES),
    })
}

fn not_one_of(path: &str, found: &str, choices: &str) -> DocumentError {
    DocumentError::new(path, format!("{found:?} is none of {choices}"))
}

/// A field that may be missing or null.
fn optional<T: DeserializeOwned>(value: &Value, key: &str) -> Result<Option<T>, DocumentError> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(found) => T::deserialize(found).map(Some).map_err(|error| DocumentError::new(key, error)),
    }
}

/// A list that may be missing or null.
fn list<T: DeserializeOwned>(value: &Value, key: &str) -> Result<Vec<T>, DocumentError> {
    let items = match value.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(DocumentError::new(key, "must be a list")),
    };
    let read = |(index, item): (usize, &Value)| {
        T::deserialize(item).map_err(|error| DocumentError::new(format!("{key}[{index}]"), error))
    };
    items.iter().enumerate().map(read).collect()
}
