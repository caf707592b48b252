//! Nodes and claims in flight, joined; and what each NodePool uses.

use super::deployments::Deployment;
use super::{InputOptions, Warnings};
use crate::snapshot::{Snapshot, cluster_key};
use k8s_openapi::api::core::v1 as core;
use karpenter_capi_api::capi::Machine;
use karpenter_capi_api::condition;
use karpenter_capi_api::names::{conditions, labels, taints};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_catalog::Overlaid;
use karpenter_capi_lifecycle::ledger::{assigned, bound};
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::node::{self, Node};
use karpenter_capi_model::quantity::Rounding;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_model::taint::Taint;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Deployments = BTreeMap<NamespacedName, Deployment>;

/// What is there.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// By name.
    pub(super) views: Vec<Node>,
    /// By NodePool.
    pub(super) usage: BTreeMap<String, Usage>,
}

/// What a NodePool uses; what is going away no longer counts, as upstream does it, so that it can be replaced within the limits.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    pub(super) resources: Resources,
    pub(super) nodes: i64,
}

/// What machines are expected to be.
#[derive(Clone, Copy)]
struct Promises<'a> {
    deployments: &'a Deployments,
    overlaid: &'a Overlaid,
}

impl<'a> Promises<'a> {
    /// What the MachineDeployment's machines are for that NodePool: a claim in flight counts as what it was chosen for, else
    /// its pods would be given another one.
    fn of(self, deployment: Option<&'a Deployment>, pool: Option<String>) -> Option<&'a InstanceType> {
        let read = &deployment?.entry.instance_type;
        let overlaid = pool.and_then(|pool| self.overlaid.instance_type(&pool, &read.name));
        Some(overlaid.unwrap_or(read))
    }
}

/// Joins each claim of ours with its Node; every other Node stands for itself.
pub(super) fn read(
    snapshot: &Snapshot,
    options: &InputOptions,
    deployments: &Deployments,
    overlaid: &Overlaid,
    warnings: &mut Warnings,
) -> Nodes {
    let promises = Promises { deployments, overlaid };
    let mut found = Nodes::default();
    let by_provider_id = by_provider_id(snapshot);
    let mut joined = BTreeSet::new();
    for claim in snapshot.node_claims.values().filter(|claim| claim.spec.node_class_ref.is_ours()) {
        let node = node_of(snapshot, claim, &by_provider_id);
        if let Some(node) = node {
            joined.insert(name_of(&node.metadata).to_owned());
        }
        found.add_claim(claim, node, options, promises, warnings);
    }
    let machines = machines_by_node(snapshot);
    let of_others = provider_ids_of_others(snapshot);
    for (name, node) in snapshot.nodes.iter().filter(|(name, _)| !joined.contains(&name.name)) {
        let machine = machines.get(name.name.as_str());
        let is_of_others = provider_id(node).is_some_and(|id| of_others.contains(id));
        let deployment = machine
            .and_then(|machine| deployment_of(machine, deployments))
            // Another Karpenter's nodes may have the same instance type, but say nothing about our machines.
            .or_else(|| by_labels(node.metadata.labels.as_ref()?, deployments).filter(|_| !is_of_others));
        found.add_unclaimed(snapshot, node, deployment, options, promises, warnings);
    }
    found.views.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

impl Nodes {
    fn add_claim(
        &mut self,
        claim: &NodeClaim,
        node: Option<&core::Node>,
        options: &InputOptions,
        promises: Promises<'_>,
        warnings: &mut Warnings,
    ) {
        let deployment = promised_by(claim, promises.deployments);
        let promise = promises.of(deployment, pool_of(claim.metadata.labels.as_ref()));
        let name = name_of(&claim.metadata);
        let marked = options.marked.contains(name)
            || node.is_some_and(|node| options.marked.contains(name_of(&node.metadata)));
        let (view, problems) = node::from_api(node::Sources { node, claim: Some(claim), promise, marked });
        for problem in problems {
            warnings.add(format!("NodeClaim/{name}"), problem);
        }
        if !view.marked_for_deletion {
            self.count(pool_of(claim.metadata.labels.as_ref()), &used_by(claim, &view));
        }
        if node.is_none() && is_registered(claim) {
            let message = "it is registered, but its Node is gone; it holds no pods and will be ended";
            warnings.add(format!("NodeClaim/{name}"), message);
            return;
        }
        if !view.initialized && view.has_node && is_registered(claim) {
            warn_of_undeclared_taints(claim, &view, deployment, warnings);
        }
        self.views.push(view);
    }

    fn add_unclaimed(
        &mut self,
        snapshot: &Snapshot,
        node: &core::Node,
        deployment: Option<&Deployment>,
        options: &InputOptions,
        promises: Promises<'_>,
        warnings: &mut Warnings,
    ) {
        let name = name_of(&node.metadata);
        let promise = promises.of(deployment, pool_of(node.metadata.labels.as_ref()));
        let marked = options.marked.contains(name);
        let (mut view, problems) =
            node::from_api(node::Sources { node: Some(node), claim: None, promise, marked });
        for problem in problems {
            warnings.add(format!("Node/{name}"), problem);
        }
        // A Node of a NodePool of ours counts for its limits even while nobody has claimed it; files often show only Nodes.
        let pool = pool_of(node.metadata.labels.as_ref()).filter(|pool| {
            snapshot
                .node_pools
                .get(&cluster_key(pool))
                .is_some_and(|pool| pool.spec.template.spec.node_class_ref.is_ours())
        });
        if pool.is_some() {
            if !view.marked_for_deletion {
                self.count(pool.clone(), &view.capacity);
            }
            view.node_pool = pool;
        }
        self.views.push(view);
    }

    fn count(&mut self, pool: Option<String>, resources: &Resources) {
        if let Some(pool) = pool {
            let usage = self.usage.entry(pool).or_default();
            usage.resources.add(resources);
            usage.nodes += 1;
        }
    }
}

/// A claim counts at its type's capacity, launched or not. Only where nothing is known of that, at what it asks for.
fn used_by(claim: &NodeClaim, view: &Node) -> Resources {
    if view.capacity.is_zero() {
        return Resources::from_quantities(&claim.spec.resources.requests, Rounding::Up).unwrap_or_default();
    }
    view.capacity.clone()
}

/// The MachineDeployment by assignment; a claim of before there were assignments falls back to its labels.
fn promised_by<'a>(claim: &NodeClaim, deployments: &'a Deployments) -> Option<&'a Deployment> {
    if let Some(name) = assigned(claim) {
        return deployments.get(&name);
    }
    let requirements = Requirements::from_api(&claim.spec.requirements).unwrap_or_default();
    let mut known = requirements.single_values();
    known.extend(claim.metadata.labels.clone().unwrap_or_default());
    by_labels(&known, deployments)
}

/// The only MachineDeployment whose nodes have this instance type, and this zone and capacity type where they are known.
fn by_labels<'a>(known: &BTreeMap<String, String>, deployments: &'a Deployments) -> Option<&'a Deployment> {
    let instance_type = known.get(labels::INSTANCE_TYPE)?;
    let mut candidates = deployments.values().filter(|deployment| {
        let own = &deployment.entry.labels;
        let agrees =
            |key: &str| known.get(key).is_none_or(|value| own.get(key).is_none_or(|own| own == value));
        deployment.entry.instance_type_label() == instance_type
            && agrees(labels::TOPOLOGY_ZONE)
            && agrees(labels::CAPACITY_TYPE)
    });
    let first = candidates.next()?;
    candidates.next().is_none().then_some(first)
}

/// By Cluster API's label, which every Machine of a MachineDeployment carries.
fn deployment_of<'a>(machine: &Machine, deployments: &'a Deployments) -> Option<&'a Deployment> {
    let name = machine.metadata.labels.as_ref()?.get(labels::DEPLOYMENT_NAME)?;
    deployments
        .get(&NamespacedName::new(machine.metadata.namespace.clone().unwrap_or_default(), name.clone()))
}

fn machines_by_node(snapshot: &Snapshot) -> BTreeMap<&str, &Machine> {
    snapshot.machines.values().filter_map(|machine| Some((machine.node_name()?, machine.as_ref()))).collect()
}

fn by_provider_id(snapshot: &Snapshot) -> BTreeMap<&str, &Arc<core::Node>> {
    let mut found = BTreeMap::new();
    for node in snapshot.nodes.values() {
        if let Some(id) = provider_id(node) {
            found.entry(id).or_insert(node);
        }
    }
    found
}

fn provider_id(node: &core::Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}

/// Of claims that other Karpenters have launched.
fn provider_ids_of_others(snapshot: &Snapshot) -> BTreeSet<&str> {
    let claims = snapshot.node_claims.values().filter(|claim| !claim.spec.node_class_ref.is_ours());
    claims.filter_map(|claim| claim.status.as_ref()?.provider_id.as_deref()).collect()
}

/// By the claim's status; until that is written, by the Machine that it is bound to, so that one machine isn't counted as two.
fn node_of<'a>(
    snapshot: &'a Snapshot,
    claim: &NodeClaim,
    by_provider_id: &BTreeMap<&str, &'a Arc<core::Node>>,
) -> Option<&'a core::Node> {
    let by_name = |name: Option<&str>| name.and_then(|name| snapshot.node(name));
    let by_id = |id: Option<&str>| id.and_then(|id| by_provider_id.get(id).copied());
    let status = claim.status.as_ref();
    let machine = bound(claim).and_then(|name| snapshot.machines.get(&name));
    by_name(status.and_then(|status| status.node_name.as_deref()))
        .or_else(|| by_id(status.and_then(|status| status.provider_id.as_deref())))
        .or_else(|| by_name(machine.and_then(|machine| machine.node_name())))
        .or_else(|| by_id(machine.and_then(|machine| machine.spec.provider_id.as_deref())))
        .map(Arc::as_ref)
}

fn is_registered(claim: &NodeClaim) -> bool {
    claim.status.as_ref().is_some_and(|status| condition::is_true(&status.conditions, conditions::REGISTERED))
}

fn name_of(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

fn pool_of(labels: Option<&BTreeMap<String, String>>) -> Option<String> {
    labels?.get(labels::NODEPOOL).filter(|pool| !pool.is_empty()).cloned()
}

/// A taint that nobody declared makes a starting node look unusable, so that another one is made for its pods.
fn warn_of_undeclared_taints(
    claim: &NodeClaim,
    view: &Node,
    deployment: Option<&Deployment>,
    warnings: &mut Warnings,
) {
    let declared: Vec<Taint> =
        claim.spec.taints.iter().filter_map(|taint| Taint::from_api(taint).ok()).collect();
    let promised =
        deployment.map(|deployment| deployment.entry.instance_type.taints.as_slice()).unwrap_or_default();
    for taint in &view.taints {
        let known = declared.iter().chain(promised).any(|own| own.matches(taint))
            || [taints::DISRUPTED, taints::UNSCHEDULABLE].contains(&taint.key.as_str());
        if !known {
            let pool = pool_of(claim.metadata.labels.as_ref()).unwrap_or_default();
            warnings.add(
                format!("NodeClaim/{}", name_of(&claim.metadata)),
                format!(
                    "taint {taint} of the starting Node {} isn't declared and may cost another node; if it goes away by itself, list it in spec.template.spec.startupTaints of NodePool {pool}",
                    view.name
                ),
            );
        }
    }
}
