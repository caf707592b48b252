//! From deleted to drained.

use crate::drain::{Drain, MIN_DRAIN_TIME, PodRef, drain, must_leave};
use crate::node::{self, NodeChange};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_capi_api::capi::Machine;
use karpenter_capi_api::condition::{self, FALSE, TRUE, UNKNOWN};
use karpenter_capi_api::names::{annotations, conditions};
use karpenter_capi_api::v1::{NodeClaim, NodeClaimStatus};

/// Reason of `VolumesDetached=False`: the deadline came first.
const DEADLINE: &str = "TerminationGracePeriodElapsed";
/// Evictions are tried again after this long, as upstream does.
const AGAIN: SignedDuration = SignedDuration::from_secs(1);

/// A claim with a deletionTimestamp, with what belongs to it.
#[derive(Clone, Debug)]
pub struct Terminating<'a> {
    /// The moment.
    pub now: Timestamp,
    /// The claim.
    pub claim: &'a NodeClaim,
    /// The Machine that it is bound to.
    pub machine: Option<&'a Machine>,
    /// Its Node.
    pub node: Option<&'a Node>,
    /// Pods on that Node.
    pub pods: &'a [&'a Pod],
    /// Names of VolumeAttachments of that Node whose volume no pod uses that stays on the Node anyway.
    pub volume_attachments: &'a [String],
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub struct Termination {
    /// To be written onto the claim before anything else: when its node goes in any case.
    pub deadline: Option<Timestamp>,
    /// To be written to the Node, after the status.
    pub node: Option<NodeChange>,
    /// Pods to evict and to delete, after the Node has its taint.
    pub drain: Drain,
    /// The wanted status; equal to the present one when nothing changes.
    pub status: NodeClaimStatus,
    /// Look again after this long.
    pub look_again: Option<SignedDuration>,
}

/// The next step of a claim that is deleted.
pub fn terminate(observed: &Terminating<'_>) -> Termination {
    let mut termination = Termination {
        deadline: None,
        node: None,
        drain: Drain::default(),
        status: observed.claim.status.clone().unwrap_or_default(),
        look_again: None,
    };
    let deadline = match deadline(observed.claim) {
        Deadline::None => None,
        Deadline::Written(deadline) => Some(deadline),
        Deadline::Due(deadline) => {
            termination.deadline = Some(deadline);
            Some(deadline)
        }
    };
    if let Some(node) = observed.node {
        leave_node(observed, node, deadline, &mut termination);
    } else {
        set(observed, &mut termination, conditions::DRAINED, TRUE, "NoNode", "there is no Node to drain");
        set(observed, &mut termination, conditions::VOLUMES_DETACHED, TRUE, "NoNode", "");
    }
    if observed.machine.is_some_and(|machine| machine.metadata.deletion_timestamp.is_some()) {
        set(observed, &mut termination, conditions::INSTANCE_TERMINATING, TRUE, conditions::INSTANCE_TERMINATING, "");
    }
    termination
}

/// Whether the Machine may be deleted: drained, and volumes detached or past the deadline.
///
/// A claim may get another Machine to give back after its own is lost; the conditions then speak of the former Node. So they count
/// only together with the taint on the present one, which is written after the conditions were reset.
pub fn is_drained(claim: &NodeClaim, node: Option<&Node>) -> bool {
    let all = claim.status.iter().flat_map(|status| &status.conditions).cloned().collect::<Vec<_>>();
    let detached = condition::find(&all, conditions::VOLUMES_DETACHED)
        .is_some_and(|condition| condition.status == TRUE || condition.reason == DEADLINE);
    condition::is_true(&all, conditions::DRAINED) && detached && node.is_none_or(node::is_disrupted)
}

enum Deadline {
    None,
    Written(Timestamp),
    Due(Timestamp),
}

fn deadline(claim: &NodeClaim) -> Deadline {
    let written = claim.metadata.annotations.as_ref().and_then(|all| all.get(annotations::NODECLAIM_TERMINATION_TIMESTAMP));
    if let Some(deadline) = written.and_then(|text| text.parse().ok()) {
        return Deadline::Written(deadline);
    }
    let period = claim.spec.termination_grace_period.as_ref().and_then(|period| period.parse().ok());
    let deleted = claim.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    match (period, deleted) {
        (Some(period), Some(deleted)) => deleted.checked_add(period).map_or(Deadline::None, Deadline::Due),
        _ => Deadline::None,
    }
}

fn set(observed: &Terminating<'_>, termination: &mut Termination, kind: &str, status: &str, reason: &str, message: &str) {
    let generation = observed.claim.metadata.generation;
    condition::set(&mut termination.status.conditions, kind, status, reason, message, observed.now, generation);
}

fn leave_node(observed: &Terminating<'_>, node: &Node, deadline: Option<Timestamp>, termination: &mut Termination) {
    termination.look_again = Some(AGAIN);
    if !node::is_disrupted(node) {
        // The conditions first: see `is_drained`.
        set(observed, termination, conditions::DRAINED, UNKNOWN, "Draining", "the Node is being tainted");
        set(observed, termination, conditions::VOLUMES_DETACHED, UNKNOWN, "Draining", "");
        termination.node = node::disrupted(node);
        return;
    }
    termination.node = node::disrupted(node);
    if !condition::is_true(&termination.status.conditions, conditions::DRAINED) {
        drain_pods(observed, deadline, termination);
    }
    if condition::is_true(&termination.status.conditions, conditions::DRAINED) {
        detach_volumes(observed, deadline, termination);
    }
}

fn drain_pods(observed: &Terminating<'_>, deadline: Option<Timestamp>, termination: &mut Termination) {
    let drain = drain(observed.pods, deadline, observed.now);
    let since = condition::find(&termination.status.conditions, conditions::DRAINED)
        .map_or(observed.now, |condition| condition.last_transition_time.0);
    if !drain.waiting.is_empty() {
        let message = format!("waiting for {}", listed(&drain.waiting));
        set(observed, termination, conditions::DRAINED, UNKNOWN, "Draining", &message);
    } else if observed.now.duration_since(since) < MIN_DRAIN_TIME {
        set(observed, termination, conditions::DRAINED, UNKNOWN, "Draining", "the Node has just been tainted");
    } else {
        set(observed, termination, conditions::DRAINED, TRUE, conditions::DRAINED, "");
    }
    termination.drain = drain;
}

fn detach_volumes(observed: &Terminating<'_>, deadline: Option<Timestamp>, termination: &mut Termination) {
    if observed.volume_attachments.is_empty() {
        set(observed, termination, conditions::VOLUMES_DETACHED, TRUE, conditions::VOLUMES_DETACHED, "");
        termination.look_again = None;
    } else if deadline.is_some_and(|deadline| observed.now >= deadline) {
        let message = format!("still attached: {}", observed.volume_attachments.join(", "));
        set(observed, termination, conditions::VOLUMES_DETACHED, FALSE, DEADLINE, &message);
        termination.look_again = None;
    } else {
        let message = format!("waiting for VolumeAttachments {}", observed.volume_attachments.join(", "));
        set(observed, termination, conditions::VOLUMES_DETACHED, UNKNOWN, "AwaitingVolumeDetachment", &message);
    }
}

/// At most ten names; a condition isn't the place for more.
fn listed(pods: &[PodRef]) -> String {
    const SHOWN: usize = 10;
    let names: Vec<String> = pods.iter().take(SHOWN).map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    let more = pods.len().saturating_sub(SHOWN);
    if more > 0 { format!("{} pods: {} and {more} more", pods.len(), names.join(", ")) } else { names.join(", ") }
}

/// VolumeAttachments of a Node that must be gone before its Machine is deleted: all but those whose volume belongs to a pod that stays
/// on the Node until its end.
///
/// `attachments` are (name, PersistentVolume) of the Node; `volume_of` gives the PersistentVolumes that a pod uses.
pub fn blocking_attachments(
    attachments: &[(String, String)],
    pods: &[&Pod],
    volume_of: impl Fn(&Pod) -> Vec<String>,
    now: Timestamp,
) -> Vec<String> {
    let staying: Vec<String> = pods.iter().filter(|pod| !must_leave(pod, now)).flat_map(|pod| volume_of(pod)).collect();
    let mut blocking: Vec<String> =
        attachments.iter().filter(|(_, volume)| !staying.contains(volume)).map(|(name, _)| name.clone()).collect();
    blocking.sort();
    blocking
}
