//! A deleted claim: its Node is drained through the eviction API; what it holds is given back by the ledger.

use super::evict::evict;
use super::{machine_of, nodes_of, wait, write_status};
use crate::context::Context;
use crate::error::Error;
use crate::queue::Outcome;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_capi_api::capi::Machine;
use karpenter_capi_api::names::{annotations, conditions, finalizers, managers};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_cluster::snapshot::Snapshot;
use karpenter_capi_lifecycle::claim::{
    Notice, Terminating, Termination, blocking_attachments, terminate as decide,
};
use karpenter_capi_lifecycle::drain::{Budgets, DrainRules, UnreadableRule};
use karpenter_capi_lifecycle::ledger::{ClaimRef, assigned};
use karpenter_capi_model::name::NamespacedName;
use kube::core::Resource;
use serde_json::json;
use std::sync::Arc;

/// Follows a claim with a deletionTimestamp.
pub(super) async fn terminate(context: &Context, claim: &NodeClaim) -> Outcome {
    let has_finalizer =
        claim.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == finalizers::TERMINATION);
    if !has_finalizer {
        return Ok(None);
    }
    if assigned(claim).is_none() {
        // Nothing was ever asked for in its name.
        return release_unassigned(context, claim).await;
    }
    let machine = machine_of(context, claim);
    let node = node_of(context, claim, machine.as_deref());
    let snapshot = context.index.snapshot();
    let now = Timestamp::now();
    let pods = node.as_deref().map(|node| pods_on(&snapshot, node)).unwrap_or_default();
    let rules = drain_rules(context, &snapshot, machine.as_deref());
    let attachments = match (node.as_deref(), &rules) {
        (Some(node), Ok(rules)) => attachments(&snapshot, node, &pods, rules, now),
        (Some(node), Err(_)) => attachments(&snapshot, node, &pods, &DrainRules::default(), now),
        (None, _) => vec![],
    };
    let termination = decide(&Terminating {
        now,
        claim,
        machine: machine.as_deref(),
        node: node.as_deref(),
        pods: &pods,
        volume_attachments: &attachments,
        rules: rules.as_ref(),
        budgets: &Budgets::of(snapshot.pod_disruption_budgets.values().map(Arc::as_ref)),
    });
    if !is_known(claim) {
        // Its pods need another place from now on.
        context.trigger.anything();
    }
    apply(context, claim, node.as_deref(), termination, now).await
}

/// Writes what was decided, in this order: see `is_drained` of the pure steps.
async fn apply(
    context: &Context,
    claim: &NodeClaim,
    node: Option<&Node>,
    termination: Termination,
    now: Timestamp,
) -> Outcome {
    if let Some(deadline) = termination.deadline {
        write_deadline(context, claim, deadline).await?;
    }
    let drained_before = is_drained(claim);
    write_status(context, claim, termination.status).await?;
    if let Some(change) = &termination.node {
        crate::node::write(context, change, "taint").await?;
        // The ledger looks at the Node as well, and nobody else tells it.
        if let Some(deployment) = assigned(claim) {
            context.queues.machine_deployments.add(deployment);
        }
    }
    let deadline = termination.deadline.or_else(|| written_deadline(claim));
    let (refused, again) = evict(context, claim, &termination.drain, deadline, now).await?;
    let mut notices = termination.notices;
    add_refusals(&mut notices, &refused);
    tell(context, claim, node, notices).await;
    if let Some(node) = node
        && !drained_before
        && context
            .index
            .snapshot()
            .node_claim(&crate::context::name(claim))
            .is_some_and(|claim| is_drained(claim))
    {
        context.metrics.node_drained(node);
    }
    let again = again.filter(|_| termination.look_again.is_some());
    Ok(again.into_iter().chain(termination.look_again).min().map(wait))
}

/// The API server's words beside what was known before: events of one reason about one object become one.
fn add_refusals(notices: &mut Vec<Notice>, refused: &[String]) {
    const REASON: &str = "FailedDraining";
    if refused.is_empty() {
        return;
    }
    let words = refused.join("; ");
    match notices.iter_mut().find(|notice| notice.reason == REASON) {
        Some(notice) => notice.message = format!("{}; {words}", notice.message),
        None => notices.push(Notice {
            warning: true,
            reason: REASON,
            message: format!("Failed to drain node, {words}"),
        }),
    }
}

/// On the claim and on its Node: people look at either.
async fn tell(context: &Context, claim: &NodeClaim, node: Option<&Node>, notices: Vec<Notice>) {
    let about = std::iter::once(claim.object_ref(&())).chain(node.map(|node| node.object_ref(&())));
    for about in about {
        for notice in &notices {
            if notice.warning {
                context.events.warning(&about, notice.reason, notice.message.clone()).await;
            } else {
                context.events.normal(&about, notice.reason, notice.message.clone()).await;
            }
        }
    }
}

/// The rules that apply to the claim's Machine.
fn drain_rules(
    context: &Context,
    snapshot: &Snapshot,
    machine: Option<&Machine>,
) -> Result<DrainRules, UnreadableRule> {
    let rules = snapshot.machine_drain_rules.values().map(Arc::as_ref);
    let namespaces = snapshot.namespaces.values().map(Arc::as_ref);
    DrainRules::of_machine(rules, machine, context.cluster().as_deref(), namespaces)
}

/// Whether the claim's end was seen before.
fn is_known(claim: &NodeClaim) -> bool {
    let all = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    karpenter_capi_api::condition::find(all, conditions::DRAINED).is_some()
}

fn written_deadline(claim: &NodeClaim) -> Option<Timestamp> {
    claim.metadata.annotations.as_ref()?.get(annotations::NODECLAIM_TERMINATION_TIMESTAMP)?.parse().ok()
}

fn is_drained(claim: &NodeClaim) -> bool {
    let all = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    karpenter_capi_api::condition::is_true(all, conditions::DRAINED)
}

/// The Node: by the Machine's word, which also holds before the claim was registered, else by provider ID.
fn node_of(context: &Context, claim: &NodeClaim, machine: Option<&Machine>) -> Option<Arc<Node>> {
    let by_machine =
        machine.and_then(Machine::node_name).and_then(|name| context.index.snapshot().node(name).cloned());
    by_machine.or_else(|| nodes_of(context, claim, machine).into_iter().next())
}

fn pods_on<'a>(snapshot: &'a Snapshot, node: &Node) -> Vec<&'a Pod> {
    let on_node = |pod: &&Pod| {
        pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == node.metadata.name.as_ref()
    };
    snapshot.pods.values().map(|pod| &pod.object).filter(on_node).collect()
}

fn attachments(
    snapshot: &Snapshot,
    node: &Node,
    pods: &[&Pod],
    rules: &DrainRules,
    now: Timestamp,
) -> Vec<String> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let of_node: Vec<(String, String)> = snapshot
        .volume_attachments
        .values()
        .filter(|attachment| attachment.spec.node_name == name)
        .filter_map(|attachment| {
            let volume = attachment.spec.source.persistent_volume_name.clone()?;
            Some((crate::context::name(attachment.as_ref()), volume))
        })
        .collect();
    blocking_attachments(&of_node, pods, rules, |pod| volumes_of(snapshot, pod), now)
}

/// The PersistentVolumes behind a pod's claims.
fn volumes_of(snapshot: &Snapshot, pod: &Pod) -> Vec<String> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    let bound = claims.filter_map(|source| {
        let key = NamespacedName::new(namespace.clone(), source.claim_name.clone());
        snapshot.persistent_volume_claims.get(&key)?.spec.as_ref()?.volume_name.clone()
    });
    bound.collect()
}

async fn write_deadline(context: &Context, claim: &NodeClaim, deadline: Timestamp) -> Result<(), Error> {
    let name = crate::context::name(claim);
    let patch = json!({ "metadata": {
        "uid": claim.metadata.uid,
        "annotations": { annotations::NODECLAIM_TERMINATION_TIMESTAMP: deadline.to_string() },
    } });
    let action = || format!("write the termination deadline of NodeClaim {name}");
    context.merge(&context.node_claims(), &name, managers::TERMINATION, &patch, action).await.map(drop)
}

async fn release_unassigned(context: &Context, claim: &NodeClaim) -> Outcome {
    crate::machine_deployment::finish_claim(context, &ClaimRef::of(claim)).await?;
    Ok(None)
}
