//! What ends a claim by itself.

use super::failure::{Failure, terminal, trouble};
use super::progress::{Observed, Step};
use jiff::{SignedDuration, Timestamp};
use karpenter_capi_api::condition;
use karpenter_capi_api::names::conditions;

/// How long an infrastructure provider may say that it has no capacity, or that it has failed, before the claim ends: some of them
/// try again by themselves within seconds.
pub const TROUBLE_GRACE: SignedDuration = SignedDuration::from_secs(30);
/// How long the Node of a registered claim may be gone while its Machine is there, before the claim ends: a kubelet that starts anew
/// makes its Node again.
pub const NODE_GONE_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// A claim that takes too long, or waits for what won't come, ends; its pods are solved again.
pub(super) fn end(observed: &Observed<'_>, step: &mut Step) {
    let Some((failure, from, limit)) = next_end(observed, step) else {
        return;
    };
    let left = limit - observed.now.duration_since(from);
    if left.is_positive() {
        step.look_again = Some(step.look_again.map_or(left, |other| other.min(left)));
        return;
    }
    let (kind, what) = match failure {
        Failure::LaunchFailed if condition::is_true(&step.status.conditions, conditions::LAUNCHED) => {
            (conditions::REGISTERED, "failed before it had a Node".to_owned())
        }
        Failure::InsufficientCapacity | Failure::LaunchFailed => {
            (conditions::LAUNCHED, "can't be launched".to_owned())
        }
        Failure::LaunchTimedOut => {
            (conditions::LAUNCHED, format!("not {} within {}", conditions::LAUNCHED, show(limit)))
        }
        Failure::RegistrationTimedOut => {
            (conditions::REGISTERED, format!("not {} within {}", conditions::REGISTERED, show(limit)))
        }
        Failure::NodeGone => (conditions::INITIALIZED, format!("without Node for {}", show(limit))),
    };
    let why = condition::find(&step.status.conditions, kind)
        .map(|condition| condition.message.clone())
        .unwrap_or_default();
    step.ended = Some((failure, format!("{what}: {why}")));
}

/// What ends the claim next if nothing changes.
fn next_end(observed: &Observed<'_>, step: &Step) -> Option<End> {
    let all = &step.status.conditions;
    let since = |kind: &str| condition::find(all, kind).map(|condition| condition.last_transition_time.0);
    if condition::is_true(all, conditions::REGISTERED) {
        let gone = condition::is_false(all, conditions::INITIALIZED);
        return gone
            .then(|| Some((Failure::NodeGone, since(conditions::INITIALIZED)?, NODE_GONE_AFTER)))
            .flatten();
    }
    if condition::is_true(all, conditions::LAUNCHED) {
        let timeout =
            (Failure::RegistrationTimedOut, since(conditions::LAUNCHED)?, observed.timeouts.registration);
        let failed =
            observed.machine.and_then(terminal).filter(|_| condition::is_false(all, conditions::REGISTERED));
        let early =
            failed.and_then(|_| Some((Failure::LaunchFailed, since(conditions::REGISTERED)?, TROUBLE_GRACE)));
        return first(observed, early, timeout);
    }
    let created = observed.claim.metadata.creation_timestamp.as_ref()?.0;
    let timeout = (Failure::LaunchTimedOut, created, observed.timeouts.launch);
    let trouble =
        observed.machine.and_then(trouble).filter(|_| condition::is_false(all, conditions::LAUNCHED));
    let early =
        trouble.and_then(|trouble| Some((trouble.failure, since(conditions::LAUNCHED)?, TROUBLE_GRACE)));
    first(observed, early, timeout)
}

/// What ends a claim: why, and how long after which moment.
type End = (Failure, Timestamp, SignedDuration);

/// Whichever comes first: a limit that was set shorter than the grace holds as well.
fn first(observed: &Observed<'_>, early: Option<End>, timeout: End) -> Option<End> {
    let left = |(_, from, limit): &End| *limit - observed.now.duration_since(*from);
    [early, Some(timeout)].into_iter().flatten().min_by_key(left)
}

fn show(limit: SignedDuration) -> String {
    karpenter_capi_api::duration::format_go(limit)
}
