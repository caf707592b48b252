//! The status of a buffer.

use super::{Resolved, Unresolved, is_served};
use crate::conditions::{State, clipped};
use jiff::Timestamp;
use karpenter_capi_api::capacity_buffer::{CapacityBuffer, CapacityBufferStatus, LocalObjectRef};
use karpenter_capi_api::condition;
use karpenter_capi_api::names::conditions;

/// Where the latest pass found room for the pods of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// On nodes that are there or on their way.
    pub existing: usize,
    /// On nodes that are made for them.
    pub on_new: usize,
    /// Nowhere.
    pub failed: usize,
    /// Of those, the ones that limits of NodePools keep out.
    pub limited: usize,
}

/// The status that the buffer should have, or None if it has it already or isn't served here. Reasons and messages of
/// `Provisioning` are upstream's. Without `held`, what was said of it stays.
pub fn desired_status(
    buffer: &CapacityBuffer,
    resolution: Result<&Resolved, &Unresolved>,
    held: Option<Held>,
    now: Timestamp,
) -> Option<CapacityBufferStatus> {
    if !is_served(buffer) {
        return None;
    }
    let present = buffer.status.clone().unwrap_or_default();
    let mut status = present.clone();
    status.provisioning_strategy = Some(buffer.spec.effective_strategy().to_owned());
    if let Ok(resolved) = resolution {
        status.replicas = Some(resolved.replicas);
        let seen = resolved.pod_template.clone();
        status.pod_template_generation = seen.as_ref().and_then(|(_, generation)| *generation);
        status.pod_template_ref = seen.map(|(name, _)| LocalObjectRef { name });
    }
    let wanted = [
        (conditions::READY_FOR_PROVISIONING, Some(ready(resolution))),
        (conditions::PROVISIONING, provisioning(resolution, held)),
        (conditions::LIMITED_BY_QUOTAS, held.map(limited)),
    ];
    let generation = buffer.metadata.generation;
    for (type_, state) in wanted {
        if let Some(State { status: value, reason, message }) = state {
            condition::set(&mut status.conditions, type_, value, reason, &message, now, generation);
        }
    }
    (buffer.status.is_none() || status != present).then_some(status)
}

fn ready(resolution: Result<&Resolved, &Unresolved>) -> State {
    match resolution {
        Ok(_) => told(condition::TRUE, "Resolved", "Pod template resolved successfully".to_owned()),
        Err(unresolved) => State::no(unresolved.reason, clipped(&unresolved.message)),
    }
}

fn provisioning(resolution: Result<&Resolved, &Unresolved>, held: Option<Held>) -> Option<State> {
    let Ok(resolved) = resolution else {
        return Some(State::no("NotReadyForProvisioning", "Buffer is not ReadyForProvisioning".to_owned()));
    };
    if resolved.replicas <= 0 {
        return Some(State::no("BufferEmpty", "Buffer has zero desired replicas".to_owned()));
    }
    let Held { existing, on_new, failed, .. } = held?;
    let wanted = usize::try_from(resolved.replicas).unwrap_or(usize::MAX);
    if on_new > 0 || failed > 0 {
        let message = format!("{on_new}/{wanted} virtual pods required new capacity, {failed} failed");
        return Some(State::no("RequiresNewCapacity", message));
    }
    let message = format!("All {wanted} virtual pods fit on existing capacity");
    (existing == wanted).then(|| told(condition::TRUE, "FitsExistingCapacity", message))
}

fn limited(held: Held) -> State {
    if held.limited == 0 {
        return State::no("", String::new());
    }
    let message = format!("limits of NodePools keep {} virtual pods from having room", held.limited);
    told(condition::TRUE, "NodePoolLimits", message)
}

fn told(status: &'static str, reason: &'static str, message: String) -> State {
    State { status, reason, message }
}
