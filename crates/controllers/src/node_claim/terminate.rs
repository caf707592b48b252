//! A deleted claim: its Node is drained through the eviction API; what it holds is given back by the ledger.

use super::{machine_of, nodes_of, wait, write_status};
use crate::context::Context;
use crate::error::{Attempt, Error, is_not_found};
use crate::queue::Outcome;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_capi_api::capi::Machine;
use karpenter_capi_api::names::{annotations, finalizers, managers};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_cluster::snapshot::Snapshot;
use karpenter_capi_lifecycle::claim::{Terminating, blocking_attachments, terminate as decide};
use karpenter_capi_lifecycle::drain::{Drain, PodRef};
use karpenter_capi_lifecycle::ledger::{ClaimRef, assigned};
use karpenter_capi_model::name::NamespacedName;
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, Preconditions};
use kube::core::Resource;
use serde_json::json;
use std::sync::Arc;

/// Follows a claim with a deletionTimestamp.
pub(super) async fn terminate(context: &Context, claim: &NodeClaim) -> Outcome {
    let has_finalizer = claim.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == finalizers::TERMINATION);
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
    let pods = node.as_deref().map(|node| pods_on(&snapshot, node)).unwrap_or_default();
    let now = Timestamp::now();
    let attachments = node.as_deref().map(|node| attachments(&snapshot, node, &pods, now)).unwrap_or_default();
    let termination = decide(&Terminating {
        now,
        claim,
        machine: machine.as_deref(),
        node: node.as_deref(),
        pods: &pods,
        volume_attachments: &attachments,
    });
    if let Some(deadline) = termination.deadline {
        write_deadline(context, claim, deadline).await?;
    }
    let drained_before = is_drained(claim);
    write_status(context, claim, termination.status).await?;
    if let Some(change) = &termination.node {
        match crate::node::patch(context, change).await {
            Ok(_) => {}
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error).attempt(|| format!("taint Node {}", change.node)),
        }
    }
    evict(context, claim, &termination.drain, now).await?;
    if let Some(node) = node.filter(|_| !drained_before && context.index.snapshot().node_claim(&crate::context::name(claim)).is_some_and(|claim| is_drained(claim))) {
        context.metrics.node_drained(&node);
    }
    Ok(termination.look_again.map(wait))
}

fn is_drained(claim: &NodeClaim) -> bool {
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    karpenter_capi_api::condition::is_true(conditions, karpenter_capi_api::names::conditions::DRAINED)
}

/// The Node: by the Machine's word, which also holds before the claim was registered, else by provider ID.
fn node_of(context: &Context, claim: &NodeClaim, machine: Option<&Machine>) -> Option<Arc<Node>> {
    let by_machine = machine.and_then(Machine::node_name).and_then(|name| context.index.snapshot().node(name).cloned());
    by_machine.or_else(|| nodes_of(context, claim, machine).into_iter().next())
}

fn pods_on<'a>(snapshot: &'a Snapshot, node: &Node) -> Vec<&'a Pod> {
    let on_node = |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == node.metadata.name.as_ref();
    snapshot.pods.values().map(|pod| &pod.object).filter(on_node).collect()
}

fn attachments(snapshot: &Snapshot, node: &Node, pods: &[&Pod], now: Timestamp) -> Vec<String> {
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
    blocking_attachments(&of_node, pods, |pod| volumes_of(snapshot, pod), now)
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
    let params = PatchParams { field_manager: Some(managers::TERMINATION.to_owned()), ..PatchParams::default() };
    let patched = context.node_claims().patch(&name, &params, &Patch::Merge(&patch)).await;
    let patched = patched.attempt(|| format!("write the termination deadline of NodeClaim {name}"))?;
    context.index.assume(patched, Timestamp::now());
    Ok(())
}

async fn evict(context: &Context, claim: &NodeClaim, drain: &Drain, now: Timestamp) -> Result<(), Error> {
    for (pod, grace) in &drain.delete {
        delete_pod(context, pod, *grace).await?;
    }
    let mut refused = Vec::new();
    for pod in &drain.evict {
        refused.extend(evict_pod(context, pod).await?.map(|why| format!("{}/{}: {why}", pod.namespace, pod.name)));
    }
    let blocked = drain.blocking.iter().map(|pod| format!("{}/{}: may not be disrupted (karpenter.sh/do-not-disrupt)", pod.namespace, pod.name));
    refused.extend(blocked);
    if !refused.is_empty() {
        let message = format!("Failed to drain node: {}", refused.join("; "));
        context.events.warning(&claim.object_ref(&()), "FailedDraining", message).await;
    }
    if !drain.delete.is_empty() {
        tracing::info!(claim = crate::context::name(claim), pods = drain.delete.len(), at = %now, "deleted pods past their deadline");
    }
    Ok(())
}

/// Returns the API server's words where a budget refuses it for now.
async fn evict_pod(context: &Context, pod: &PodRef) -> Result<Option<String>, Error> {
    let pods: Api<Pod> = Api::namespaced(context.workload.clone(), &pod.namespace);
    let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
    let delete_options = Some(DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() });
    let params = EvictParams { delete_options, ..EvictParams::default() };
    match pods.evict(&pod.name, &params).await {
        Ok(_) => {
            context.metrics.eviction_requested(200);
            tracing::info!(pod = %format!("{}/{}", pod.namespace, pod.name), "evicted pod");
            Ok(None)
        }
        Err(kube::Error::Api(status)) => {
            context.metrics.eviction_requested(status.code);
            match status.code {
                // Gone, or another pod of that name by now.
                404 | 409 => Ok(None),
                // A budget; 500 is what two budgets over one pod give.
                429 | 500 => Ok(Some(status.message.clone())),
                _ => Err(kube::Error::Api(status)).attempt(|| format!("evict Pod {}/{}", pod.namespace, pod.name)),
            }
        }
        Err(error) => Err(error).attempt(|| format!("evict Pod {}/{}", pod.namespace, pod.name)),
    }
}

async fn delete_pod(context: &Context, pod: &PodRef, grace: i64) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(context.workload.clone(), &pod.namespace);
    let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
    let params = DeleteParams {
        grace_period_seconds: Some(u32::try_from(grace).unwrap_or(1)),
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    match pods.delete(&pod.name, &params).await {
        Err(error) if is_not_found(&error) => Ok(()),
        result => result.attempt(|| format!("delete Pod {}/{}", pod.namespace, pod.name)).map(drop),
    }
}

async fn release_unassigned(context: &Context, claim: &NodeClaim) -> Outcome {
    crate::machine_deployment::finish_claim(context, &ClaimRef::of(claim)).await?;
    Ok(None)
}
