//! What people and metrics are told of a pass.

use super::Solved;
use crate::context::Context;
use k8s_openapi::api::core::v1::ObjectReference;
use karpenter_capi_cluster::input::ProvisioningInput;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_scheduling::plan::PendingPod;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// Nominations told one by one in a pass, as upstream limits its events; beyond it only the claims are told.
const TOLD_PODS: usize = 100;
/// Most distinct reasons in one event.
const TOLD_REASONS: usize = 5;

/// Sets the metrics of a pass.
pub(super) fn measure(context: &Context, solved: &Solved, took: Duration) {
    let Solved { provisioning, plan, not_looked_at, zones } = solved;
    let without_place = plan.pending.iter().filter(|pending| {
        !not_looked_at.contains(&pending.pod) && provisioning.buffer_of(&pending.pod).is_none()
    });
    context.metrics.scheduling_finished("provisioner", took, without_place.count());
    context.metrics.pending_pods_by_effective_zone("provisioner", zones);
    context
        .metrics
        .ignored_pods(provisioning.input.pods.iter().filter(|pod| !pod.invalid.is_empty()).count());
    context.metrics.cluster_state_synced(provisioning.input.nodes.len());
}

/// Observes how long each pod waited for its first decision.
pub(super) fn note_first_decisions(
    context: &Context,
    solved: &Solved,
    seen: &HashMap<String, Instant>,
    decided: &mut HashSet<String>,
) {
    let pods = solved.provisioning.input.pods.iter();
    for pod in pods.filter(|pod| !solved.not_looked_at.contains(&pod.name)) {
        if decided.insert(pod.uid.clone())
            && let Some(since) = seen.get(&pod.uid)
        {
            context.metrics.pod_decided(since.elapsed());
        }
    }
}

/// Tells each pod where it is to start, or why it has no place. Of pods that weren't looked at there is nothing to tell.
pub(super) async fn tell(context: &Context, solved: &Solved) {
    let Solved { provisioning, plan, not_looked_at, .. } = solved;
    let in_flight = plan.placements.iter().filter(|placement| placement.in_flight);
    let nominations: Vec<_> = in_flight
        .flat_map(|placement| placement.pods.iter().map(|pod| (pod, placement.node.clone())))
        .collect();
    nominate(context, provisioning, &nominations).await;
    let looked_at = plan.pending.iter().filter(|pending| {
        !not_looked_at.contains(&pending.pod) && provisioning.buffer_of(&pending.pod).is_none()
    });
    for pending in looked_at.take(TOLD_PODS) {
        context
            .events
            .warning(&pod_reference(provisioning, &pending.pod), "FailedScheduling", sentence(pending))
            .await;
    }
}

/// Tells pods of the claims that are made for them. Those that stand for a buffer aren't there to be told.
pub(super) async fn nominate(
    context: &Context,
    provisioning: &ProvisioningInput,
    nominations: &[(&NamespacedName, String)],
) {
    let real = nominations.iter().filter(|(pod, _)| provisioning.buffer_of(pod).is_none());
    for (pod, claim) in real.take(TOLD_PODS) {
        let message = format!("Pod should schedule on: nodeclaim/{claim}");
        context.events.normal(&pod_reference(provisioning, pod), "Nominated", message).await;
    }
}

/// Equal reasons once, with the number of MachineDeployments that gave them.
fn sentence(pending: &PendingPod) -> String {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in &pending.reasons {
        *counted.entry(&reason.message).or_default() += 1;
    }
    let more = counted.len().saturating_sub(TOLD_REASONS);
    let mut parts: Vec<String> = counted
        .into_iter()
        .take(TOLD_REASONS)
        .map(
            |(message, count)| {
                if count > 1 { format!("{message} ({count} times)") } else { message.to_owned() }
            },
        )
        .collect();
    if more > 0 {
        parts.push(format!("and {more} further reasons"));
    }
    format!("Failed to schedule pod: {}", parts.join("; "))
}

/// With the UID, without which `kubectl describe` doesn't show the event.
fn pod_reference(provisioning: &ProvisioningInput, pod: &NamespacedName) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(pod.name.clone()),
        namespace: Some(pod.namespace.clone()),
        uid: provisioning.uids(std::slice::from_ref(pod)).next().map(str::to_owned),
        ..ObjectReference::default()
    }
}
