//! A Node and its NodeClaim to one view of capacity.

use super::Node;
use crate::instance_type::InstanceType;
use crate::name::NamespacedName;
use crate::quantity::Rounding;
use crate::resources::{Resources, read_amount};
use crate::taint::{Taint, TaintEffect};
use k8s_openapi::api::core::v1 as core;
use karpenter_capi_api::condition;
use karpenter_capi_api::names::{annotations, conditions, labels, taints};
use karpenter_capi_api::v1::{NodeClaim, ResourceList};
use std::collections::BTreeMap;

/// What a view is made from; at least one of `node` and `claim`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// The Node, once it has joined.
    pub node: Option<&'a core::Node>,
    /// The NodeClaim; None for nodes that we don't manage.
    pub claim: Option<&'a NodeClaim>,
    /// What the claim's MachineDeployment promises; None where it is gone or unreadable.
    pub promise: Option<&'a InstanceType>,
    /// Marked by the caller: a command is under way that takes it away.
    pub marked: bool,
}

/// Joins Node and NodeClaim into one view. What can't be read counts as absent and is named in the second result.
///
/// * Labels and taints come from the claim (and what its MachineDeployment promises) until it is Registered.
/// * Capacity: what the Node reports, with the claim's or the MachineDeployment's amounts where it reports zero, until the
///   claim is Initialized; so a GPU whose device plugin isn't up yet counts.
/// * Ephemeral taints and the claim's startup taints don't count until it is Initialized; then the same taints do.
/// * A Node without a claim is Initialized.
pub fn from_api(sources: Sources<'_>) -> (Node, Vec<String>) {
    let Sources { node, claim, promise, marked } = sources;
    let mut problems = Vec::new();
    let stage = Stage::of(node, claim);
    let metadata = node.map(|node| &node.metadata).or(claim.map(|claim| &claim.metadata));
    let claim_name = claim.and_then(|claim| claim.metadata.name.clone());
    let labels = node_labels(sources, stage);
    let (capacity, allocatable) = amounts(sources, stage, &mut problems);
    let deleting = node.is_some_and(|node| node.metadata.deletion_timestamp.is_some())
        || claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some() || is_terminating(claim));
    let view = Node {
        name: node
            .and_then(|node| node.metadata.name.clone())
            .or_else(|| claim_name.clone())
            .unwrap_or_default(),
        node_claim: claim_name,
        has_node: node.is_some(),
        node_pool: claim.and_then(|claim| node_pool(claim).or_else(|| labels.get(labels::NODEPOOL).cloned())),
        machine_deployment: machine_deployment(sources),
        provider_id: node
            .and_then(|node| node.spec.as_ref()?.provider_id.clone())
            .or_else(|| claim.and_then(|claim| claim.status.as_ref()?.provider_id.clone()))
            .filter(|id| !id.is_empty()),
        taints: node_taints(sources, stage, &mut problems),
        capacity,
        allocatable,
        initialized: stage == Stage::Initialized,
        marked_for_deletion: marked || deleting,
        ready: node.is_some_and(is_ready),
        price: promise.and_then(|promise| price(promise, &labels)),
        created: metadata.and_then(|metadata| metadata.creation_timestamp.as_ref()).map(|time| time.0),
        labels,
    };
    let object = format!("{}/{}", if view.has_node { "Node" } else { "NodeClaim" }, view.name);
    (view, problems.into_iter().map(|problem| format!("{object}: {problem}")).collect())
}

/// How far a claim's node has come; a Node without a claim counts as Initialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Launching,
    Registered,
    Initialized,
}

impl Stage {
    fn of(node: Option<&core::Node>, claim: Option<&NodeClaim>) -> Self {
        let (Some(node), Some(claim)) = (node, claim) else {
            return if claim.is_none() { Self::Initialized } else { Self::Launching };
        };
        let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let labelled = |key| {
            node.metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(key))
                .is_some_and(|value| value == "true")
        };
        if condition::is_true(conditions, conditions::INITIALIZED) || labelled(labels::INITIALIZED) {
            Self::Initialized
        } else if condition::is_true(conditions, conditions::REGISTERED) || labelled(labels::REGISTERED) {
            Self::Registered
        } else {
            Self::Launching
        }
    }
}

fn is_terminating(claim: &NodeClaim) -> bool {
    claim
        .status
        .as_ref()
        .is_some_and(|status| condition::is_true(&status.conditions, conditions::INSTANCE_TERMINATING))
}

fn is_ready(node: &core::Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn node_pool(claim: &NodeClaim) -> Option<String> {
    claim.metadata.labels.as_ref().and_then(|labels| labels.get(labels::NODEPOOL)).cloned()
}

fn machine_deployment(sources: Sources<'_>) -> Option<NamespacedName> {
    let annotated = sources.claim.and_then(|claim| {
        claim.metadata.annotations.as_ref()?.get(annotations::MACHINE_DEPLOYMENT)?.parse().ok()
    });
    annotated.or_else(|| sources.promise.and_then(|promise| promise.machine_deployment.clone()))
}

/// Until Registered: what the MachineDeployment promises for certain, overlaid by the claim's own labels.
fn node_labels(sources: Sources<'_>, stage: Stage) -> BTreeMap<String, String> {
    let own = sources.node.and_then(|node| node.metadata.labels.clone());
    if stage >= Stage::Registered {
        return own.unwrap_or_default();
    }
    let mut promised = BTreeMap::new();
    if let Some(promise) = sources.promise {
        promised = promise.requirements.single_values();
        if let [offering] = promise.offerings.as_slice() {
            promised.extend(offering.requirements.single_values());
        }
    }
    if let Some(claim) = sources.claim {
        promised.extend(claim.metadata.labels.clone().unwrap_or_default());
    }
    if let Some(hostname) = own.as_ref().and_then(|own| own.get(labels::HOSTNAME)) {
        promised.insert(labels::HOSTNAME.to_owned(), hostname.clone());
    }
    promised
}

fn node_taints(sources: Sources<'_>, stage: Stage, problems: &mut Vec<String>) -> Vec<Taint> {
    let read = |list: &[core::Taint], problems: &mut Vec<String>| {
        let mut read = Vec::new();
        for taint in list {
            match Taint::from_api(taint) {
                Ok(taint) => read.push(taint),
                Err(error) => problems.push(format!("taints: {error}")),
            }
        }
        read
    };
    let spec = sources.claim.map(|claim| &claim.spec);
    let startup = spec.map(|spec| read(&spec.startup_taints, problems)).unwrap_or_default();
    let of_node = sources.node.and_then(|node| node.spec.as_ref()).and_then(|spec| spec.taints.as_deref());
    let mut taints = if stage >= Stage::Registered {
        read(of_node.unwrap_or_default(), problems)
    } else {
        let mut promised = spec.map(|spec| read(&spec.taints, problems)).unwrap_or_default();
        for taint in sources.promise.iter().flat_map(|promise| &promise.taints) {
            if !promised.iter().any(|own| own.matches(taint)) {
                promised.push(taint.clone());
            }
        }
        // Being disrupted doesn't wait for registration.
        let own = read(of_node.unwrap_or_default(), problems);
        promised.extend(own.into_iter().filter(|taint| taint.key == taints::DISRUPTED));
        promised
    };
    if stage < Stage::Initialized {
        taints.retain(|taint| !taint.is_ephemeral() && !startup.iter().any(|own| own.matches(taint)));
    }
    // The taint follows from the field; a file, or a moment, may have the one without the other.
    if sources.node.and_then(|node| node.spec.as_ref()).and_then(|spec| spec.unschedulable) == Some(true) {
        taints.push(Taint::new(taints::UNSCHEDULABLE, "", TaintEffect::NoSchedule));
    }
    taints.sort_unstable();
    taints.dedup();
    taints
}

fn amounts(sources: Sources<'_>, stage: Stage, problems: &mut Vec<String>) -> (Resources, Resources) {
    let status = sources.node.and_then(|node| node.status.as_ref());
    let capacity =
        status.and_then(|status| status.capacity.as_ref()).map(|list| read_list(list, "capacity", problems));
    let allocatable = status
        .and_then(|status| status.allocatable.as_ref())
        .map(|list| read_list(list, "allocatable", problems));
    let capacity = capacity.unwrap_or_default();
    // The API server's own default: what is allocatable is the capacity where nothing is said.
    let allocatable = allocatable.unwrap_or_else(|| capacity.clone());
    if stage == Stage::Initialized {
        return (capacity, allocatable);
    }
    let claimed = sources.claim.and_then(|claim| claim.status.as_ref());
    let mut promised_capacity = sources.promise.map(|promise| promise.capacity.clone()).unwrap_or_default();
    let mut promised_allocatable = sources.promise.map(InstanceType::allocatable).unwrap_or_default();
    if let Some(status) = claimed {
        promised_capacity =
            filled(read_list(&status.capacity, "status.capacity", problems), &promised_capacity);
        promised_allocatable =
            filled(read_list(&status.allocatable, "status.allocatable", problems), &promised_allocatable);
    }
    (filled(capacity, &promised_capacity), filled(allocatable, &promised_allocatable))
}

/// Zeros filled from another list.
fn filled(mut own: Resources, other: &Resources) -> Resources {
    for (name, amount) in other.iter() {
        if own.get(name) == 0 {
            own.set(name, amount);
        }
    }
    own
}

fn read_list(list: &ResourceList, field: &str, problems: &mut Vec<String>) -> Resources {
    let mut resources = Resources::ZERO;
    for (name, quantity) in list {
        match read_amount(name, &quantity.0, Rounding::Down) {
            Ok(amount) => resources.set(name, amount),
            Err(error) => problems.push(format!("{field}: {error}")),
        }
    }
    resources
}

/// The price of the cheapest offering that the labels agree with, available or not.
fn price(promise: &InstanceType, labels: &BTreeMap<String, String>) -> Option<crate::price::Price> {
    let agrees = |offering: &&crate::instance_type::Offering| {
        offering
            .requirements
            .iter()
            .all(|requirement| labels.get(requirement.key()).is_none_or(|value| requirement.has(value)))
    };
    promise.offerings.iter().filter(agrees).filter_map(|offering| offering.price).min()
}
