//! Pods that want a place, and pods that hold one.

use super::{InputOptions, Origin, Warnings};
use crate::object::PodRecord;
use crate::snapshot::Snapshot;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_capi_api::names::annotations;
use karpenter_capi_model::node::Node;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::selector::LabelSelector;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Label that the API server puts on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

#[derive(Debug, Default)]
pub(super) struct Pods {
    /// By namespace and name.
    pub(super) wanting: Vec<Arc<PodRecord>>,
    /// By node.
    pub(super) bound: BTreeMap<String, Vec<Arc<Pod>>>,
    /// Labels by namespace.
    pub(super) namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

pub(super) fn read(
    snapshot: &Snapshot,
    options: &InputOptions,
    nodes: &[Node],
    warnings: &mut Warnings,
) -> Pods {
    let going: BTreeSet<&str> =
        nodes.iter().filter(|node| node.marked_for_deletion).map(|node| node.name.as_str()).collect();
    let budgets = Budgets::read(snapshot);
    let needs_mark = options.origin == Origin::Cluster;
    let mut found = Pods::default();
    for record in snapshot.pods.values() {
        let pod = &record.model;
        if let Some(node) = &pod.node_name {
            if !pod.is_terminal() {
                found.bound.entry(node.clone()).or_default().push(Arc::clone(pod));
                if going.contains(node.as_str()) && moves(record, &budgets) {
                    found.wanting.push(Arc::clone(record));
                }
            }
        } else if pod.is_provisionable(needs_mark) {
            found.wanting.push(Arc::clone(record));
        } else if options.origin == Origin::Files {
            warn_of_waiting(pod, warnings);
        }
    }
    found.namespaces = namespaces(snapshot, snapshot.pods.keys().map(|name| name.namespace.as_str()));
    found
}

/// Labels of the namespaces that are in the picture and of those that pods are in, whose objects a file may lack.
pub fn namespaces<'n>(
    snapshot: &Snapshot,
    of_pods: impl IntoIterator<Item = &'n str>,
) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut found: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for name in of_pods {
        // There are many pods to a namespace: no copy of its name for each of them.
        if !found.contains_key(name) {
            found.insert(name.to_owned(), BTreeMap::new());
        }
    }
    for (name, namespace) in snapshot.namespaces.iter() {
        found.insert(name.name.clone(), namespace.metadata.labels.clone().unwrap_or_default());
    }
    for (name, labels) in &mut found {
        labels.entry(NAMESPACE_NAME.to_owned()).or_insert_with(|| name.clone());
    }
    found
}

/// Pods without a node that are nobody's business yet; told where a person looks at files.
fn warn_of_waiting(pod: &Pod, warnings: &mut Warnings) {
    if pod.is_terminal() || pod.deleting.is_some() || pod.is_daemon() || pod.is_mirror() {
        return;
    }
    let object = format!("Pod/{}", pod.name);
    if pod.gated {
        warnings.add(object, "it has scheduling gates, so nobody may place it yet; it is left out");
    } else if let Some(node) = &pod.nominated_node_name {
        warnings.add(
            object,
            format!("kube-scheduler has nominated it to node {node} and makes room there; it is left out"),
        );
    }
}

/// Whether a pod of a node that goes away will need another place, and can leave its present one.
fn moves(record: &PodRecord, budgets: &Budgets) -> bool {
    let pod = &record.model;
    let stateful = pod.owner.as_ref().is_some_and(|owner| owner.kind == "StatefulSet");
    let stays = record
        .object
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotations::DO_NOT_DISRUPT))
        .is_some_and(|value| value == "true");
    let replaced = pod.deleting.is_none() || stateful;
    replaced && !pod.is_daemon() && !pod.is_mirror() && !stays && !budgets.never_allow(pod)
}

/// Disruption budgets of pods that allow no eviction whatever happens. New nodes for pods behind them would stay empty.
#[derive(Debug, Default)]
struct Budgets(Vec<(String, LabelSelector)>);

impl Budgets {
    fn read(snapshot: &Snapshot) -> Self {
        let closed = snapshot.pod_disruption_budgets.iter().filter(|(_, budget)| is_closed(budget));
        Self(closed.filter_map(|(name, budget)| Some((name.namespace.clone(), selector(budget)?))).collect())
    }

    fn never_allow(&self, pod: &Pod) -> bool {
        self.0
            .iter()
            .any(|(namespace, selector)| *namespace == pod.name.namespace && selector.matches(&pod.labels))
    }
}

fn selector(budget: &PodDisruptionBudget) -> Option<LabelSelector> {
    LabelSelector::from_api(budget.spec.as_ref()?.selector.as_ref()?).ok()
}

/// `maxUnavailable` of nothing, `minAvailable` of everything, or as many wanted healthy as there are.
fn is_closed(budget: &PodDisruptionBudget) -> bool {
    let Some(spec) = &budget.spec else { return false };
    let by_spec = is(spec.max_unavailable.as_ref(), &["0%", "0"], Some(0))
        || is(spec.min_available.as_ref(), &["100%"], None);
    let by_status = budget.status.as_ref().is_some_and(|status| {
        // As many wanted healthy as there are: no eviction will ever be allowed. A hand-written file may lack these figures.
        status.disruptions_allowed == Some(0) && status.desired_healthy >= status.expected_pods
    });
    by_spec || by_status
}

fn is(value: Option<&IntOrString>, texts: &[&str], number: Option<i32>) -> bool {
    match value {
        Some(IntOrString::Int(value)) => Some(*value) == number,
        Some(IntOrString::String(text)) => texts.contains(&text.as_str()),
        None => false,
    }
}
