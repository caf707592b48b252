//! From deleted to drained.

use super::words::{held, waited_for};
use crate::drain::{Budgets, Drain, DrainRules, MIN_DRAIN_TIME, UnreadableRule, drain, stays};
use crate::node::{self, NodeChange};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_capi_api::capi::Machine;
use karpenter_capi_api::condition::{self, Condition, FALSE, TRUE, UNKNOWN};
use karpenter_capi_api::names::{annotations, conditions};
use karpenter_capi_api::v1::{NodeClaim, NodeClaimStatus};

/// Reason of `Drained=False` and `VolumesDetached=False`: the deadline came first.
const DEADLINE: &str = "TerminationGracePeriodElapsed";
/// Reason of `VolumesDetached=False`: nobody on the Node can detach them.
const UNREACHABLE: &str = "NodeUnreachable";
/// Pods are looked at again after this long, as upstream does.
const AGAIN: SignedDuration = SignedDuration::from_secs(1);
/// How long volumes of a Node that nobody hears from are waited for. After as long Kubernetes itself no longer waits for a kubelet
/// to unmount; then only the end of the machine lets its volumes go.
pub const UNREACHABLE_VOLUME_WAIT: SignedDuration = SignedDuration::from_mins(6);

/// A claim with a deletionTimestamp, with what belongs to it. Nothing of its NodePool: that may be gone by now.
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
    /// VolumeAttachments of that Node, see [`blocking_attachments`].
    pub volume_attachments: &'a [String],
    /// The drain rules of its Machine.
    pub rules: Result<&'a DrainRules, &'a UnreadableRule>,
    /// The budgets of the cluster.
    pub budgets: &'a Budgets<'a>,
}

/// What is told about the claim and about its Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether a person may have to do something.
    pub warning: bool,
    /// The event's reason, as upstream's.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
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
    /// Events.
    pub notices: Vec<Notice>,
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
        notices: vec![],
        status: observed.claim.status.clone().unwrap_or_default(),
        look_again: None,
    };
    let keeps = super::keeps_machine(observed.claim);
    let deadline = match deadline(observed.claim) {
        _ if keeps => None,
        Deadline::None => None,
        Deadline::Written(deadline) => Some(deadline),
        Deadline::Due(deadline) => {
            termination.deadline = Some(deadline);
            Some(deadline)
        }
    };
    match observed.node {
        Some(node) if keeps => leave_behind(observed, node, &mut termination),
        Some(node) => leave_node(observed, node, deadline, &mut termination),
        None => {
            set(observed, &mut termination, conditions::DRAINED, TRUE, "NoNode", "there is no Node to drain");
            set(observed, &mut termination, conditions::VOLUMES_DETACHED, TRUE, "NoNode", "");
        }
    }
    if let Some(machine) = observed.machine.filter(|machine| machine.metadata.deletion_timestamp.is_some()) {
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        let message = format!("waiting for Cluster API to end Machine {name}");
        let kind = conditions::INSTANCE_TERMINATING;
        set(observed, &mut termination, kind, TRUE, kind, &message);
    }
    termination
}

/// Whether the Machine may be deleted: drained, and volumes detached or past the deadline. Of a claim that leaves its Machine behind:
/// whether nothing of ours is on the Node.
///
/// A claim may get another Machine to give back after its own is lost; the conditions then speak of the former Node. So they count
/// only together with the taint on the present one, which is written after the conditions were reset.
pub fn is_drained(claim: &NodeClaim, node: Option<&Node>) -> bool {
    if super::keeps_machine(claim) {
        return node.is_none_or(|node| node::left_behind(node).is_none());
    }
    let all = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    is_over(all, conditions::DRAINED)
        && is_over(all, conditions::VOLUMES_DETACHED)
        && node.is_none_or(node::is_disrupted)
}

/// Done, or given up for a reason that ends the wait.
fn is_over(all: &[Condition], kind: &str) -> bool {
    condition::find(all, kind).is_some_and(|condition| {
        condition.status == TRUE || [DEADLINE, UNREACHABLE].contains(&condition.reason.as_str())
    })
}

enum Deadline {
    None,
    Written(Timestamp),
    Due(Timestamp),
}

fn deadline(claim: &NodeClaim) -> Deadline {
    let written = claim
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotations::NODECLAIM_TERMINATION_TIMESTAMP));
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

fn set(
    observed: &Terminating<'_>,
    termination: &mut Termination,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
) {
    let generation = observed.claim.metadata.generation;
    condition::set(
        &mut termination.status.conditions,
        kind,
        status,
        reason,
        message,
        observed.now,
        generation,
    );
}

/// The Node stays with its Machine: no drain, only everything of ours off it.
fn leave_behind(observed: &Terminating<'_>, node: &Node, termination: &mut Termination) {
    termination.node = node::left_behind(node);
    if termination.node.is_some() {
        termination.look_again = Some(AGAIN);
        return;
    }
    set(
        observed,
        termination,
        conditions::DRAINED,
        TRUE,
        "Released",
        "the Node stays, and nothing of its claim is on it any more",
    );
    set(observed, termination, conditions::VOLUMES_DETACHED, TRUE, "Released", "");
}

fn leave_node(
    observed: &Terminating<'_>,
    node: &Node,
    deadline: Option<Timestamp>,
    termination: &mut Termination,
) {
    termination.look_again = Some(AGAIN);
    if !node::is_disrupted(node) {
        // The conditions first: see `is_drained`.
        set(observed, termination, conditions::DRAINED, UNKNOWN, "Draining", "the Node is being tainted");
        set(observed, termination, conditions::VOLUMES_DETACHED, UNKNOWN, "Draining", "");
        termination.node = node::disrupted(node);
        return;
    }
    termination.node = node::disrupted(node);
    if let Some(deadline) = deadline {
        let message = format!("All pods will be deleted by {deadline}");
        termination.notices.push(Notice { warning: true, reason: "TerminationGracePeriodExpiring", message });
    }
    if !is_over(&termination.status.conditions, conditions::DRAINED) {
        drain_pods(observed, deadline, termination);
    }
    if is_over(&termination.status.conditions, conditions::DRAINED) {
        detach_volumes(observed, node, deadline, termination);
    }
}

fn drain_pods(observed: &Terminating<'_>, deadline: Option<Timestamp>, termination: &mut Termination) {
    let no_rules = DrainRules::default();
    let rules = observed.rules.unwrap_or(&no_rules);
    let mut drain = drain(observed.pods, rules, observed.budgets, deadline, observed.now);
    if let Err(unreadable) = observed.rules {
        // Past their deadline pods go all the same.
        drain.evict.clear();
        drain.held = drain
            .waiting
            .iter()
            .map(|pod| (pod.clone(), format!("is not evicted: {unreadable}")))
            .take(1)
            .collect();
    }
    tell_drained(observed, &drain, deadline, termination);
    if !drain.held.is_empty() {
        let message = format!(
            "Failed to drain node, {} pods are waiting to be evicted: {}",
            drain.waiting.len(),
            held(&drain)
        );
        termination.notices.push(Notice { warning: true, reason: "FailedDraining", message });
    }
    termination.drain = drain;
}

fn tell_drained(
    observed: &Terminating<'_>,
    drain: &Drain,
    deadline: Option<Timestamp>,
    termination: &mut Termination,
) {
    let since = condition::find(&termination.status.conditions, conditions::DRAINED)
        .map_or(observed.now, |condition| condition.last_transition_time.0);
    let over = deadline.is_some_and(|deadline| observed.now >= deadline);
    if drain.waiting.is_empty() && observed.now.duration_since(since) >= MIN_DRAIN_TIME {
        set(observed, termination, conditions::DRAINED, TRUE, conditions::DRAINED, "");
    } else if over && drain.terminating.len() == drain.waiting.len() {
        // Each has been told to go, with all the time that the deadline left it.
        let message = if drain.waiting.is_empty() {
            String::new()
        } else {
            format!("still there: {}", waited_for(drain))
        };
        set(observed, termination, conditions::DRAINED, FALSE, DEADLINE, &message);
    } else if drain.waiting.is_empty() {
        set(
            observed,
            termination,
            conditions::DRAINED,
            UNKNOWN,
            "Draining",
            "the Node has just been tainted",
        );
    } else {
        let message = format!("waiting for {}", waited_for(drain));
        set(observed, termination, conditions::DRAINED, UNKNOWN, "Draining", &message);
    }
}

fn detach_volumes(
    observed: &Terminating<'_>,
    node: &Node,
    deadline: Option<Timestamp>,
    termination: &mut Termination,
) {
    let names = observed.volume_attachments.join(", ");
    let unreachable = node::unreachable_since(node)
        .is_some_and(|since| observed.now.duration_since(since) >= UNREACHABLE_VOLUME_WAIT);
    termination.look_again = None;
    if observed.volume_attachments.is_empty() {
        set(observed, termination, conditions::VOLUMES_DETACHED, TRUE, conditions::VOLUMES_DETACHED, "");
    } else if deadline.is_some_and(|deadline| observed.now >= deadline) {
        let message = format!("still attached: {names}");
        set(observed, termination, conditions::VOLUMES_DETACHED, FALSE, DEADLINE, &message);
    } else if unreachable {
        let message = format!("still attached to a Node that nobody hears from: {names}");
        set(observed, termination, conditions::VOLUMES_DETACHED, FALSE, UNREACHABLE, &message);
    } else {
        let message = format!("waiting for VolumeAttachments {names}");
        set(
            observed,
            termination,
            conditions::VOLUMES_DETACHED,
            UNKNOWN,
            "AwaitingVolumeDetachment",
            &message,
        );
        let message = format!("Awaiting deletion of bound volumeattachments ({names})");
        termination.notices.push(Notice { warning: false, reason: "AwaitingVolumeDetachment", message });
        termination.look_again = Some(AGAIN);
    }
}

/// VolumeAttachments of a Node that must be gone before its Machine is deleted, each with its volume: all but those whose volume
/// belongs to a pod that stays on the Node until its end.
///
/// `attachments` are (name, PersistentVolume) of the Node; `volume_of` gives the PersistentVolumes that a pod uses.
pub fn blocking_attachments(
    attachments: &[(String, String)],
    pods: &[&Pod],
    rules: &DrainRules,
    volume_of: impl Fn(&Pod) -> Vec<String>,
    now: Timestamp,
) -> Vec<String> {
    let staying: Vec<String> =
        pods.iter().filter(|pod| stays(pod, rules, now)).flat_map(|pod| volume_of(pod)).collect();
    let blocking = attachments.iter().filter(|(_, volume)| !staying.contains(volume));
    let mut blocking: Vec<String> = blocking.map(|(name, volume)| format!("{name} ({volume})")).collect();
    blocking.sort();
    blocking
}
