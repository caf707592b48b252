//! In which order pods leave a node, what holds them, and when a node counts as drained (upstream's terminator, with Cluster API's
//! drain rules).

mod budgets;
mod rules;

pub use budgets::Budgets;
pub use rules::{DrainRules, Treatment, UnreadableRule};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use karpenter_capi_api::names::{annotations, taints};
use karpenter_capi_model::taint::{Taint, TaintEffect, Toleration};
use std::collections::BTreeMap;
use std::fmt;

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

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
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
    /// Pods that have been told to go and haven't gone.
    pub terminating: Vec<PodRef>,
    /// Pods whose turn it is and that something protects, each with that as a sentence's end: "may not be disrupted (…)".
    pub held: Vec<(PodRef, String)>,
}

/// The next evictions.
///
/// Pods that tolerate the disruption taint, mirror pods, pods that have ended and those that a drain rule skips are left alone. The
/// others go one group at a time: workloads, then their daemons, then critical workloads, then critical daemons, and within that
/// pods of a lower order of their drain rule first; a group starts when the one before it is gone. Past the deadline (node deadline
/// minus a pod's own grace period) a pod is deleted whatever protects it and whatever its group.
pub fn drain(
    pods: &[&Pod],
    rules: &DrainRules,
    budgets: &Budgets<'_>,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Drain {
    let mut drain = Drain::default();
    let leaving: Vec<Leaving<'_>> = pods
        .iter()
        .filter(|pod| must_leave(pod, rules, now))
        .map(|pod| Leaving { pod, treatment: rules.of(pod), reference: reference(pod) })
        .collect();
    let mut graceful = Vec::new();
    for one in &leaving {
        drain.waiting.push(one.reference.clone());
        match deadline.and_then(|deadline| forced_grace(one.pod, deadline, now)) {
            Some(grace) => drain.delete.push((one.reference.clone(), grace)),
            None => graceful.push(one),
        }
        if is_terminating(one.pod) {
            drain.terminating.push(one.reference.clone());
        }
    }
    let groups = Groups::of(&leaving);
    let next = graceful.iter().map(|one| groups.of_pod(one)).min();
    for one in graceful.iter().filter(|one| Some(groups.of_pod(one)) == next && !is_terminating(one.pod)) {
        let protection = protection(one, now);
        let held = protection.clone().or_else(|| budgets.refusal(one.pod));
        drain.held.extend(held.map(|why| (one.reference.clone(), why)));
        // Whether a budget allows it is the API server's to say: its status may be behind.
        if protection.is_none() {
            drain.evict.push(one.reference.clone());
        }
    }
    drain.delete.sort();
    drain.evict.sort();
    drain.waiting.sort();
    drain.terminating.sort();
    drain.held.sort();
    drain
}

/// How long a pod is left alone whose eviction was refused that many times in a row: 100 ms, doubling up to 10 s, as upstream.
pub fn eviction_back_off(refusals: u32) -> SignedDuration {
    let doublings = refusals.saturating_sub(1).min(7);
    SignedDuration::from_millis(100_i64 << doublings).min(SignedDuration::from_secs(10))
}

/// The taint that a node carries while it goes.
pub fn disrupted_taint() -> Taint {
    Taint { key: taints::DISRUPTED.to_owned(), value: String::new(), effect: TaintEffect::NoSchedule }
}

/// Whether a pod must leave before the node may go.
pub fn must_leave(pod: &Pod, rules: &DrainRules, now: Timestamp) -> bool {
    !is_terminal(pod)
        && !is_mirror(pod)
        && !tolerates_disruption(pod)
        && !is_stuck(pod, now)
        && rules.of(pod) != Treatment::Skip
}

/// Whether a pod stays on the node until its end, so that its volumes do as well. A pod that has ended doesn't: its volumes are
/// detached.
pub fn stays(pod: &Pod, rules: &DrainRules, now: Timestamp) -> bool {
    !is_terminal(pod) && !must_leave(pod, rules, now)
}

struct Leaving<'a> {
    pod: &'a Pod,
    treatment: Treatment,
    reference: PodRef,
}

/// Order of a drain rule, whether critical, whether a daemon: pods of the least go first.
type Group = (i32, bool, bool);

/// Daemons never go before the workloads that they may serve, so they have the greatest order of the workloads of their kind.
struct Groups(BTreeMap<bool, i32>);

impl Groups {
    fn of(leaving: &[Leaving<'_>]) -> Self {
        let mut greatest: BTreeMap<bool, i32> = BTreeMap::new();
        for one in leaving.iter().filter(|one| !is_daemon(one.pod)) {
            let order = greatest.entry(is_critical(one.pod)).or_insert(i32::MIN);
            *order = one.treatment.order().max(*order);
        }
        Self(greatest)
    }

    fn of_pod(&self, leaving: &Leaving<'_>) -> Group {
        let (critical, daemon) = (is_critical(leaving.pod), is_daemon(leaving.pod));
        let own = leaving.treatment.order();
        let order =
            if daemon { self.0.get(&critical).map_or(own, |greatest| own.max(*greatest)) } else { own };
        (order, critical, daemon)
    }
}

/// What keeps a pod from being evicted at all.
fn protection(leaving: &Leaving<'_>, now: Timestamp) -> Option<String> {
    if leaving.treatment == Treatment::WaitCompleted {
        return Some("is waited for until it ends (drain rule or label: WaitCompleted)".to_owned());
    }
    do_not_disrupt(leaving.pod, now)
        .then(|| format!("may not be disrupted ({})", annotations::DO_NOT_DISRUPT))
}

fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

pub(crate) fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// A static pod, which the kubelet owns.
pub(crate) fn is_mirror(pod: &Pod) -> bool {
    pod.metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.kind == "Node" && owner.api_version == "v1")
}

pub(crate) fn is_daemon(pod: &Pod) -> bool {
    pod.metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.kind == "DaemonSet" && owner.api_version.starts_with("apps/"))
}

fn tolerates_disruption(pod: &Pod) -> bool {
    let taint = disrupted_taint();
    let tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    tolerations
        .filter_map(|toleration| Toleration::from_api(toleration).ok())
        .any(|toleration| toleration.tolerates(&taint))
}

fn is_stuck(pod: &Pod, now: Timestamp) -> bool {
    pod.metadata
        .deletion_timestamp
        .as_ref()
        .is_some_and(|deleting| now.duration_since(deleting.0) > STUCK_AFTER)
}

fn is_critical(pod: &Pod) -> bool {
    let class = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref());
    matches!(class, Some("system-cluster-critical" | "system-node-critical"))
}

/// `true`, or a Go duration since the pod's start; what can't be read protects nothing (upstream reports it as an event).
pub(crate) fn do_not_disrupt(pod: &Pod, now: Timestamp) -> bool {
    let value = pod
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(annotations::DO_NOT_DISRUPT));
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
        // Deleted with the shortest grace period that there is.
        Some(_) if pod.metadata.deletion_grace_period_seconds.is_some_and(|grace| grace <= 1) => None,
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
