//! The status of a NodePool: what its nodes add up to, and whether it can be used.

mod count;
mod registrations;

use jiff::Timestamp;
use karpenter_capi_api::condition::{self, Condition};
use karpenter_capi_api::names::conditions;
use karpenter_capi_api::names::conditions::reasons;
use karpenter_capi_api::v1::{NodePool, NodePoolStatus};
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_api::validation::FieldError;

use crate::conditions::{State, clipped, listed, root};

pub use count::{ClaimTally, Counted, NODES, UnreadableAmount, counted, tally};
pub use registrations::{Failed, Registrations};

/// Reason of `NodeClassReady`: the node class is being deleted.
const NODE_CLASS_TERMINATING: &str = "NodeClassTerminating";
/// Reason of `NodeClassReady`: nobody has looked at the node class yet.
const NODE_CLASS_READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";
/// Reason of a condition that nobody has set yet.
const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";

/// What `Ready` depends on.
const DEPENDENTS: [&str; 2] = [conditions::VALIDATION_SUCCEEDED, conditions::NODE_CLASS_READY];

/// What is known when the status of a pool is worked out.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// What is wrong with the pool's spec.
    pub errors: &'a [FieldError],
    /// The node class that it names, if it is there.
    pub node_class: Option<&'a ClusterAPINodeClass>,
    /// The sum over its nodes; None while not all nodes and claims are known, since a sum of some would be too low.
    pub counted: Option<&'a Counted>,
    /// Whether its nodes come up; it must be emptied where [`is_changed`].
    pub registrations: &'a Registrations,
}

/// The status that the pool should have, or None if it has it already or isn't ours.
///
/// `ValidationSucceeded` and `NodeClassReady` make `Ready`, with reason and message as upstream writes them. The registration
/// health goes back to `Unknown` whenever pool or node class change.
pub fn desired_status(pool: &NodePool, observed: &Observed<'_>, now: Timestamp) -> Option<NodePoolStatus> {
    let reference = &pool.spec.template.spec.node_class_ref;
    if !reference.is_ours() {
        return None;
    }
    let present = pool.status.clone().unwrap_or_default();
    let mut status = present.clone();
    let generation = pool.metadata.generation;
    let set = |conditions: &mut Vec<Condition>, type_: &str, state: &State| {
        condition::set(conditions, type_, state.status, state.reason, &state.message, now, generation);
    };
    set(&mut status.conditions, conditions::VALIDATION_SUCCEEDED, &validation(observed.errors));
    set(
        &mut status.conditions,
        conditions::NODE_CLASS_READY,
        &node_class(&reference.name, observed.node_class),
    );
    if let Some(class) = observed.node_class {
        if is_changed(pool, class) {
            set(&mut status.conditions, conditions::NODE_REGISTRATION_HEALTHY, &awaiting());
        }
        status.node_class_observed_generation = class.metadata.generation;
        observed.registrations.tell(&mut status.conditions, now, generation);
    }
    let ready = root(&status.conditions, &DEPENDENTS);
    set(&mut status.conditions, conditions::READY, &ready);
    if let Some(counted) = observed.counted {
        status.resources.clone_from(&counted.resources);
        status.nodes = Some(counted.nodes);
    }
    (pool.status.is_none() || status != present).then_some(status)
}

/// Whether pool or node class have changed since the registration health was judged: what was known of it no longer holds.
pub fn is_changed(pool: &NodePool, class: &ClusterAPINodeClass) -> bool {
    let Some(status) = &pool.status else { return true };
    let health = condition::find(&status.conditions, conditions::NODE_REGISTRATION_HEALTHY);
    health.is_none_or(|health| health.observed_generation != pool.metadata.generation)
        || status.node_class_observed_generation != class.metadata.generation
}

fn awaiting() -> State {
    let message = "object is awaiting reconciliation".to_owned();
    State { status: condition::UNKNOWN, reason: AWAITING_RECONCILIATION, message }
}

fn validation(errors: &[FieldError]) -> State {
    if errors.is_empty() {
        return State::yes();
    }
    State::no(reasons::NODE_POOL_VALIDATION_FAILED, listed(errors.iter().map(ToString::to_string)))
}

fn node_class(name: &str, class: Option<&ClusterAPINodeClass>) -> State {
    let Some(class) = class else {
        return State::no(
            reasons::NODE_CLASS_NOT_FOUND,
            format!(
                "there is no ClusterAPINodeClass {name:?}; create it, or correct spec.template.spec.nodeClassRef.name"
            ),
        );
    };
    if class.metadata.deletion_timestamp.is_some() {
        return State::no(NODE_CLASS_TERMINATING, format!("ClusterAPINodeClass {name:?} is being deleted"));
    }
    let of_class =
        class.status.as_ref().and_then(|status| condition::find(&status.conditions, conditions::READY));
    match of_class {
        Some(ready) if ready.status == condition::TRUE => State::yes(),
        Some(ready) if ready.status == condition::FALSE => {
            let why = if ready.message.is_empty() { &ready.reason } else { &ready.message };
            State::no(
                reasons::NODE_CLASS_NOT_READY,
                format!("ClusterAPINodeClass {name:?} isn't ready: {}", clipped(why)),
            )
        }
        _ => State::no(
            NODE_CLASS_READINESS_UNKNOWN,
            format!("it isn't known yet whether ClusterAPINodeClass {name:?} is ready"),
        ),
    }
}

#[cfg(test)]
mod tests;
