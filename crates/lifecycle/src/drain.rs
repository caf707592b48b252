//! In which order pods leave a node, and when a node counts as drained (upstream's terminator).

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use karpenter_capi_api::names::{annotations, taints};
use karpenter_capi_model::taint::{Taint, TaintEffect, Toleration};

/// A pod that is terminating for this long past its deletionTimestamp is stuck (its kubelet is gone) and holds nothing up.
pub const STUCK_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// A node is drained at the earliest this long after its taint, so that pods which the scheduler was just binding are seen.
pub const MIN_DRAIN_TIME: SignedDuration = SignedDuration::from_secs(5);

/// A pod by name and UID: what an eviction must find unchanged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

/// What to do with the pods of a node that goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// Evict these, through the eviction API.
    pub evict: Vec<PodRef>,
    /// Delete these directly with that grace period in seconds: the node's deadline leaves them no more.
    pub delete: Vec<(PodRef, i64)>,
    /// Pods that must still go, the ones above included.
    pub waiting: Vec<PodRef>,
    /// Pods that may not be disrupted (`karpenter.sh/do-not-disrupt`), which hold the drain up until they end.
    pub blocking: Vec<PodRef>,
}

/// The next evictions.
///
/// Pods that tolerate the disruption taint, mirror pods and pods that have ended are left alone. The others go one priority group
/// at a time: workloads, then their daemons, then critical workloads, then critical daemons; a group starts when the one before it
/// is gone. Past the deadline (node deadline minus a pod's own grace period) a pod is deleted whatever protects it.
pub fn drain(pods: &[&Pod], deadline: Option<Timestamp>, now: Timestamp) -> Drain {
    let mut drain = Drain::default();
    let leaving: Vec<&Pod> = pods.iter().copied().filter(|pod| must_leave(pod, now)).collect();
    drain.waiting = leaving.iter().map(|pod| reference(pod)).collect();
    drain.waiting.sort();
    for pod in &leaving {
        if let Some(grace) = deadline.and_then(|deadline| forced_grace(pod, deadline, now)) {
            drain.delete.push((reference(pod), grace));
        }
    }
    let forced = |pod: &Pod| drain.delete.iter().any(|(forced, _)| *forced == reference(pod));
    let Some(group) = leaving.iter().map(|pod| group(pod)).min() else { return drain };
    let next = leaving.iter().filter(|pod| self::group(pod) == group && pod.metadata.deletion_timestamp.is_none() && !forced(pod));
    for pod in next {
        if do_not_disrupt(pod, now) {
            drain.blocking.push(reference(pod));
        } else {
            drain.evict.push(reference(pod));
        }
    }
    drain.delete.sort();
    drain.evict.sort();
    drain.blocking.sort();
    drain
}

/// The taint that a node carries while it goes.
pub fn disrupted_taint() -> Taint {
    Taint { key: taints::DISRUPTED.to_owned(), value: String::new(), effect: TaintEffect::NoSchedule }
}

/// Whether a pod must leave before the node may go.
pub fn must_leave(pod: &Pod, now: Timestamp) -> bool {
    !is_terminal(pod) && !is_mirror(pod) && !tolerates_disruption(pod) && !is_stuck(pod, now)
}

fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// A static pod, which the kubelet owns.
fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Node" && owner.api_version == "v1")
}

fn is_daemon(pod: &Pod) -> bool {
    pod.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "DaemonSet" && owner.api_version.starts_with("apps/"))
}

fn tolerates_disruption(pod: &Pod) -> bool {
    let taint = disrupted_taint();
    let tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    tolerations.filter_map(|toleration| Toleration::from_api(toleration).ok()).any(|toleration| toleration.tolerates(&taint))
}

fn is_stuck(pod: &Pod, now: Timestamp) -> bool {
    pod.metadata.deletion_timestamp.as_ref().is_some_and(|deleting| now.duration_since(deleting.0) > STUCK_AFTER)
}

fn is_critical(pod: &Pod) -> bool {
    let class = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref());
    matches!(class, Some("system-cluster-critical" | "system-node-critical"))
}

fn group(pod: &Pod) -> (bool, bool) {
    (is_critical(pod), is_daemon(pod))
}

/// `true`, or a Go duration since the pod's start; what can't be read protects nothing (upstream reports it as an event).
fn do_not_disrupt(pod: &Pod, now: Timestamp) -> bool {
    let value = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(annotations::DO_NOT_DISRUPT));
    match value.map(String::as_str) {
        None => false,
        Some("true") => true,
        Some(text) => match karpenter_capi_api::duration::parse_go(text) {
            Err(_) => false,
            Ok(length) => {
                let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
                started.is_none_or(|started| now.duration_since(started.0) < length)
            }
        },
    }
}

/// The grace period that is left to a pod past its own deadline, at least 1 second; None while it has time.
fn forced_grace(pod: &Pod, deadline: Timestamp, now: Timestamp) -> Option<i64> {
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
    let left = deadline.duration_since(now).as_secs();
    match &pod.metadata.deletion_timestamp {
        // Already leaving, and by the node's deadline at the latest: nothing to shorten.
        Some(deleting) if deleting.0 <= deadline => None,
        _ => (left <= own).then_some(left.max(1)),
    }
}

fn reference(pod: &Pod) -> PodRef {
    PodRef {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
