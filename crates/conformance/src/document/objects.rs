//! From API objects to the input. Volumes and namespaces are read by the same code as in the operator.

use super::{ANY_POOL, Document, DocumentError};
use karpenter_capi_api::names::labels;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_cluster::files::{Source, load};
use karpenter_capi_cluster::index::Index;
use karpenter_capi_cluster::input::{namespaces, volumes};
use karpenter_capi_cluster::object::PodRecord;
use karpenter_capi_cluster::snapshot::Snapshot;
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::node::{self, Node, Sources};
use karpenter_capi_model::node_pool::{self, NodePool, NodePoolState};
use karpenter_capi_model::pod::{self, Pod};
use karpenter_capi_model::resources::Resources;
use karpenter_capi_scheduling::input::Input;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The further objects, as manifests in a file are read.
pub(super) fn read(objects: &Value) -> Result<Arc<Snapshot>, DocumentError> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let loaded = load([Source { name: "objects", text: &list.to_string() }])
        .map_err(|error| DocumentError::new("objects", error))?;
    Ok(loaded.objects.into_iter().collect::<Index>().snapshot())
}

pub(super) fn input(document: Document) -> Input {
    let mut pods: Vec<Arc<Pod>> = Vec::with_capacity(document.pods.len());
    let mut mounting: Vec<Arc<PodRecord>> = Vec::new();
    for object in document.pods {
        let model = Arc::new(pod::from_api(&object));
        // Volumes are the only thing for which an object is looked at again; it is much larger than what is made of it.
        if !model.volume_claims.is_empty() {
            mounting.push(Arc::new(PodRecord { object, model: Arc::clone(&model) }));
        }
        pods.push(model);
    }
    let bound = models(&document.bound_pods);
    let all = pods.iter().chain(&bound);
    let namespaces = namespaces(&document.objects, all.map(|pod| pod.name.namespace.as_str()));
    let volumes = volumes(&document.objects, &mounting, &bound);
    let mut bound_pods: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in bound.into_iter().filter(|pod| !pod.is_terminal()) {
        if let Some(node) = pod.node_name.clone() {
            bound_pods.entry(node).or_default().push(pod);
        }
    }
    let mut nodes = joined(&document.nodes, &document.node_claims);
    let names: Vec<&str> =
        document.node_pools.iter().filter_map(|pool| pool.metadata.name.as_deref()).collect();
    for node in &mut nodes {
        take_into_pool(node, &names);
    }
    let now = document.now;
    let node_pools: Vec<NodePool> = document
        .node_pools
        .iter()
        .map(|pool| {
            node_pool::from_api(pool, state(pool.metadata.name.as_deref().unwrap_or_default(), &nodes, now))
        })
        .collect();
    Input {
        now,
        options: document.options,
        pods,
        nominations: BTreeMap::new(),
        bound_pods,
        daemon_pods: models(&document.daemon_pods),
        nodes,
        instance_types: instance_types(&document.instance_types, &node_pools),
        node_pools,
        namespaces,
        volumes,
        well_known_labels: document.well_known_labels,
        reservation_id_label: document.reservation_id_label,
    }
}

fn models(pods: &[k8s_openapi::api::core::v1::Pod]) -> Vec<Arc<Pod>> {
    pods.iter().map(|pod| Arc::new(pod::from_api(pod))).collect()
}

fn instance_types(
    by_pool: &BTreeMap<String, Vec<Arc<InstanceType>>>,
    pools: &[NodePool],
) -> BTreeMap<String, Vec<Arc<InstanceType>>> {
    let of = |pool: &NodePool| by_pool.get(&pool.name).or_else(|| by_pool.get(ANY_POOL)).cloned();
    pools.iter().map(|pool| (pool.name.clone(), of(pool).unwrap_or_default())).collect()
}

/// Each Node with the claim of its provider ID; claims without a Node stand for themselves once they are launched.
fn joined(nodes: &[k8s_openapi::api::core::v1::Node], claims: &[NodeClaim]) -> Vec<Node> {
    let id = |claim: &NodeClaim| claim.status.as_ref().and_then(|status| status.provider_id.clone());
    let mut claims: BTreeMap<String, &NodeClaim> =
        claims.iter().filter_map(|claim| Some((id(claim).filter(|id| !id.is_empty())?, claim))).collect();
    let mut views = Vec::new();
    for node in nodes {
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
        views.push(view(Sources { node: Some(node), claim: claims.remove(id), ..Sources::default() }));
    }
    views
        .extend(claims.into_values().map(|claim| view(Sources { claim: Some(claim), ..Sources::default() })));
    views.sort_by(|a, b| a.name.cmp(&b.name));
    views
}

/// What can't be read of a node counts as absent, as in the operator.
fn view(sources: Sources<'_>) -> Node {
    node::from_api(sources).0
}

/// A Node with the label of a NodePool counts for its limits, with and without a claim.
fn take_into_pool(node: &mut Node, pools: &[&str]) {
    if node.node_pool.is_none() {
        node.node_pool =
            node.labels.get(labels::NODEPOOL).filter(|pool| pools.contains(&pool.as_str())).cloned();
    }
}

/// What is going away no longer counts.
fn state(pool: &str, nodes: &[Node], now: jiff::Timestamp) -> NodePoolState {
    let own =
        nodes.iter().filter(|node| node.node_pool.as_deref() == Some(pool) && !node.marked_for_deletion);
    let mut state = NodePoolState { not_ready: None, usage: Resources::ZERO, node_count: 0, now };
    for node in own {
        state.usage.add(&node.capacity);
        state.node_count += 1;
    }
    state
}
