//! What is written onto Nodes, as merge patches under the resourceVersion that they were decided on: taints are one atomic list, which
//! other controllers change, too.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use karpenter_capi_api::names::{GROUP, KARPENTER_GROUP, annotations, finalizers, labels, taints};
use karpenter_capi_api::v1::NodeClaim;
use serde_json::{Map, Value, json};

/// A patch of one Node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeChange {
    /// The Node's name.
    pub node: String,
    /// A JSON merge patch that carries the resourceVersion.
    pub patch: Value,
}

/// Annotations of a claim that speak of the claim itself and stay off its Node. `cluster.x-k8s.io/machine` is Cluster API's own there.
const OF_THE_CLAIM: &[&str] = &[
    annotations::MACHINE,
    annotations::MACHINE_DEPLOYMENT,
    annotations::ADOPT,
    annotations::REPLACES,
    annotations::RELEASE,
    annotations::NODECLAIM_TERMINATION_TIMESTAMP,
    annotations::NODECLAIM_MIN_VALUES_RELAXED,
];
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What makes a Node a registered one: labels, annotations and taints of its claim, the finalizer, and no unregistered taint. None
/// when all of it is there. Where the Node has another value for a label, the claim's holds, as in upstream: the scheduler must see
/// what the simulation promised.
pub fn registered(claim: &NodeClaim, node: &Node) -> Option<NodeChange> {
    let mut wanted_labels = claim.metadata.labels.clone().unwrap_or_default();
    wanted_labels.insert(labels::REGISTERED.to_owned(), "true".to_owned());
    // A claim that a person made may lack it, and [`is_managed`] goes by it once the claim is gone.
    wanted_labels.insert(labels::NODECLASS.to_owned(), claim.spec.node_class_ref.name.clone());
    let wanted_annotations = claim.metadata.annotations.clone().unwrap_or_default();
    let wanted_annotations = wanted_annotations
        .into_iter()
        .filter(|(key, _)| !OF_THE_CLAIM.contains(&key.as_str()) && key != LAST_APPLIED);

    let mut metadata = Map::new();
    changed(&mut metadata, "labels", node.metadata.labels.as_ref(), wanted_labels);
    changed(&mut metadata, "annotations", node.metadata.annotations.as_ref(), wanted_annotations);
    let mut finalizers = node.metadata.finalizers.clone().unwrap_or_default();
    if node.metadata.deletion_timestamp.is_none()
        && !finalizers.iter().any(|finalizer| finalizer == finalizers::TERMINATION)
    {
        finalizers.push(finalizers::TERMINATION.to_owned());
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    change(node, metadata, with_claim_taints(claim, node))
}

/// Labels the Node as initialized.
pub fn initialized(node: &Node) -> Option<NodeChange> {
    let mut metadata = Map::new();
    let wanted = [(labels::INITIALIZED.to_owned(), "true".to_owned())];
    changed(&mut metadata, "labels", node.metadata.labels.as_ref(), wanted);
    change(node, metadata, None)
}

/// Keeps new pods and load balancers away from a Node that goes.
pub fn disrupted(node: &Node) -> Option<NodeChange> {
    let mut metadata = Map::new();
    let wanted = [(labels::EXCLUDE_BALANCERS.to_owned(), "karpenter".to_owned())];
    changed(&mut metadata, "labels", node.metadata.labels.as_ref(), wanted);
    let taints = (!is_disrupted(node)).then(|| {
        let mut taints = taints_of(node);
        taints.push(taint(taints::DISRUPTED, taints::NO_SCHEDULE));
        taints
    });
    change(node, metadata, taints)
}

/// Takes our finalizer off.
pub fn released(node: &Node) -> Option<NodeChange> {
    let mut finalizers = node.metadata.finalizers.clone().unwrap_or_default();
    let before = finalizers.len();
    finalizers.retain(|finalizer| finalizer != finalizers::TERMINATION);
    let mut metadata = Map::new();
    if finalizers.len() != before {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    change(node, metadata, None)
}

/// Takes everything of ours off a Node that stays: labels, annotations and taints under Karpenter's and our own prefix, and the
/// finalizer. What the pool's template gave it otherwise (labels, taints) stays, since pods may rely on it. None when all is off.
pub fn left_behind(node: &Node) -> Option<NodeChange> {
    let mut metadata = Map::new();
    let mut labels = ours(node.metadata.labels.as_ref());
    if node.metadata.labels.as_ref().and_then(|all| all.get(labels::EXCLUDE_BALANCERS)).map(String::as_str)
        == Some("karpenter")
    {
        labels.insert(labels::EXCLUDE_BALANCERS.to_owned(), Value::Null);
    }
    for (field, keys) in [("labels", labels), ("annotations", ours(node.metadata.annotations.as_ref()))] {
        if !keys.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(keys));
        }
    }
    let mut finalizers = node.metadata.finalizers.clone().unwrap_or_default();
    let before = finalizers.len();
    finalizers.retain(|finalizer| finalizer != finalizers::TERMINATION);
    if finalizers.len() != before {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    let present = taints_of(node);
    let mut taints = present.clone();
    taints.retain(|taint| !is_ours(&taint.key));
    change(node, metadata, (taints != present).then_some(taints))
}

/// The keys that are ours, each to be removed.
fn ours(keys: Option<&std::collections::BTreeMap<String, String>>) -> Map<String, Value> {
    let keys = keys.into_iter().flat_map(|all| all.keys());
    // A person puts this one on a Node.
    keys.filter(|key| is_ours(key) && *key != annotations::DO_NOT_DISRUPT)
        .map(|key| (key.clone(), Value::Null))
        .collect()
}

fn is_ours(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    [KARPENTER_GROUP, GROUP].iter().any(|group| prefix == *group || prefix.ends_with(&format!(".{group}")))
}

/// Whether the Node carries the disruption taint.
pub fn is_disrupted(node: &Node) -> bool {
    taints_of(node).iter().any(|taint| taint.key == taints::DISRUPTED)
}

/// Since when nobody hears from the Node's kubelet: its condition Ready is Unknown.
pub fn unreachable_since(node: &Node) -> Option<Timestamp> {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.find(|condition| condition.type_ == "Ready" && condition.status == "Unknown")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// Whether the Node's end is our business: its claim is ours or, where it has none any more, it carries the label that registration
/// gives to Nodes of ours. Finalizer and taints don't tell, as every Karpenter uses the same.
pub fn is_managed(node: &Node, claim: Option<&NodeClaim>) -> bool {
    claim.map_or_else(
        || node.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::NODECLASS)),
        |claim| claim.spec.node_class_ref.is_ours(),
    )
}

/// Whether registration has been written to this Node. A Node that was deleted and made anew by its kubelet has lost it.
pub fn is_registered(node: &Node) -> bool {
    node.metadata.labels.as_ref().and_then(|all| all.get(labels::REGISTERED)).map(String::as_str)
        == Some("true")
}

/// Whether the Node reports Ready.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The Node's taints.
pub(crate) fn taints_of(node: &Node) -> Vec<Taint> {
    node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default()
}

/// The list with the claim's taints and without the unregistered one; None when it is as wanted.
fn with_claim_taints(claim: &NodeClaim, node: &Node) -> Option<Vec<Taint>> {
    let present = taints_of(node);
    let mut wanted: Vec<Taint> =
        present.iter().filter(|taint| taint.key != taints::UNREGISTERED).cloned().collect();
    let synced = node.metadata.labels.as_ref().and_then(|labels| labels.get(labels::DO_NOT_SYNC_TAINTS));
    if synced.map(String::as_str) != Some("true") {
        for taint in claim.spec.taints.iter().chain(&claim.spec.startup_taints) {
            if !wanted.iter().any(|other| other.key == taint.key && other.effect == taint.effect) {
                wanted.push(taint.clone());
            }
        }
    }
    (wanted != present).then_some(wanted)
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
}

/// Adds to `metadata` what of `wanted` isn't there.
fn changed(
    metadata: &mut Map<String, Value>,
    field: &str,
    present: Option<&std::collections::BTreeMap<String, String>>,
    wanted: impl IntoIterator<Item = (String, String)>,
) {
    let missing: Map<String, Value> = wanted
        .into_iter()
        .filter(|(key, value)| present.and_then(|present| present.get(key)) != Some(value))
        .map(|(key, value)| (key, Value::String(value)))
        .collect();
    if !missing.is_empty() {
        metadata.insert(field.to_owned(), Value::Object(missing));
    }
}

fn change(node: &Node, mut metadata: Map<String, Value>, taints: Option<Vec<Taint>>) -> Option<NodeChange> {
    if metadata.is_empty() && taints.is_none() {
        return None;
    }
    metadata.insert("resourceVersion".to_owned(), json!(node.metadata.resource_version));
    let mut patch = json!({ "metadata": metadata });
    if let Some(taints) = taints {
        patch["spec"] = json!({ "taints": taints });
    }
    Some(NodeChange { node: node.metadata.name.clone().unwrap_or_default(), patch })
}

#[cfg(test)]
mod tests;
