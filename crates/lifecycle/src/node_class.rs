//! The status of a `ClusterAPINodeClass`: which MachineDeployments it selects, whether one of them can be used, and when the class
//! may go.

use jiff::Timestamp;
use karpenter_capi_api::condition::{self, Condition};
use karpenter_capi_api::names::conditions::reasons;
use karpenter_capi_api::names::{conditions, finalizers, labels};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_api::v1alpha1::{
    ClusterAPINodeClass, ClusterAPINodeClassStatus, MachineDeploymentStatus, Warning,
};
use karpenter_capi_api::validation::FieldError;
use karpenter_capi_model::reason::ReasonCode;

use crate::conditions::{clipped, listed, root_status};

/// The most warnings that a status holds; one more says how many there are besides.
pub const WARNING_LIMIT: usize = 200;

/// Reason of `ValidationSucceeded`: a field is refused.
const NODE_CLASS_VALIDATION_FAILED: &str = "NodeClassValidationFailed";

/// What `Ready` depends on, the causes first.
const DEPENDENTS: [&str; 2] = [conditions::VALIDATION_SUCCEEDED, conditions::MACHINE_DEPLOYMENTS_READY];

/// Reasons that pass by themselves or were meant to be for a while (a pause may be our own, while a Machine is given back). A
/// MachineDeployment that is unavailable for one of them keeps its class usable: else a full class would be a broken one.
const PASSING: [ReasonCode; 7] = [
    ReasonCode::MaxSize,
    ReasonCode::Paused,
    ReasonCode::RollingOut,
    ReasonCode::PreflightFailing,
    ReasonCode::OutOfCapacity,
    ReasonCode::LaunchTimedOut,
    ReasonCode::ScaledByOthers,
];

/// What is known when the status of a class is worked out.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// What is wrong with the class's spec, the selector included.
    pub errors: &'a [FieldError],
    /// The MachineDeployments that are selected, in any order.
    pub machine_deployments: &'a [MachineDeploymentStatus],
    /// What couldn't be read of them, in any order.
    pub warnings: &'a [Warning],
}

/// What is to be done about the class's finalizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finalizer {
    /// It is as it should be.
    Keep,
    /// Add it, before any claim can refer to the class.
    Add,
    /// The class is being deleted and these claims, by name, still refer to it: they are drained by its settings, so it waits.
    Wait {
        /// Sorted.
        claims: Vec<String>,
    },
    /// The class is being deleted and no claim refers to it: remove the finalizer.
    Release,
}

/// What is to be done about the finalizer of the class. `claims` may hold those of other classes, too.
pub fn finalizer<'a>(
    class: &ClusterAPINodeClass,
    claims: impl IntoIterator<Item = &'a NodeClaim>,
) -> Finalizer {
    let held =
        class.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == finalizers::NODE_CLASS);
    if class.metadata.deletion_timestamp.is_none() {
        return if held { Finalizer::Keep } else { Finalizer::Add };
    }
    if !held {
        return Finalizer::Keep;
    }
    let refers = |claim: &&NodeClaim| {
        let reference = &claim.spec.node_class_ref;
        reference.is_ours() && class.metadata.name.as_ref() == Some(&reference.name)
    };
    let mut claims: Vec<String> = claims
        .into_iter()
        .filter(refers)
        .map(|claim| claim.metadata.name.clone().unwrap_or_default())
        .collect();
    if claims.is_empty() {
        return Finalizer::Release;
    }
    claims.sort_unstable();
    Finalizer::Wait { claims }
}

/// The status that the class should have, or None if it has it already.
///
/// `ValidationSucceeded` and `MachineDeploymentsReady` make `Ready`, which takes over reason and message of the first that isn't
/// `True`, so that a NodePool can pass them on.
pub fn desired_status(
    class: &ClusterAPINodeClass,
    observed: &Observed<'_>,
    now: Timestamp,
) -> Option<ClusterAPINodeClassStatus> {
    let present = class.status.clone().unwrap_or_default();
    let generation = class.metadata.generation;
    let machine_deployments = machine_deployments(observed.machine_deployments);
    let mut status = ClusterAPINodeClassStatus {
        observed_generation: generation,
        conditions: present.conditions.clone(),
        warnings: warnings(class, observed.warnings),
        machine_deployments,
    };
    let validation = validation(observed.errors);
    let usable = usable(&validation, &status.machine_deployments);
    for (type_, state) in DEPENDENTS.into_iter().zip([validation, usable]) {
        condition::set(
            &mut status.conditions,
            type_,
            state.status,
            &state.reason,
            &state.message,
            now,
            generation,
        );
    }
    let ready = root(&status.conditions);
    let (reason, message) = (&ready.reason, &ready.message);
    condition::set(&mut status.conditions, conditions::READY, ready.status, reason, message, now, generation);
    (class.status.is_none() || status != present).then_some(status)
}

/// What a condition is to say.
struct State {
    status: &'static str,
    reason: String,
    message: String,
}

impl State {
    fn new(status: &'static str, reason: &str, message: String) -> Self {
        Self { status, reason: reason.to_owned(), message }
    }
}

fn validation(errors: &[FieldError]) -> State {
    if errors.is_empty() {
        return State::new(condition::TRUE, "", String::new());
    }
    let message = listed(errors.iter().map(ToString::to_string));
    State::new(condition::FALSE, NODE_CLASS_VALIDATION_FAILED, message)
}

/// `MachineDeploymentsReady`.
fn usable(validation: &State, deployments: &[MachineDeploymentStatus]) -> State {
    if deployments.is_empty() {
        // Without a selector that can be evaluated, nothing is known of what it would select.
        if validation.status == condition::FALSE {
            return State::new(
                condition::UNKNOWN,
                &validation.reason,
                "no MachineDeployments are looked for while the class isn't valid".to_owned(),
            );
        }
        let message = format!(
            "no MachineDeployment is selected; it must have the label {}: \"\" and match spec.scalableResourceSelector, if that is set",
            labels::MEMBER
        );
        return State::new(condition::FALSE, reasons::NO_MACHINE_DEPLOYMENTS, message);
    }
    if deployments.iter().any(|deployment| deployment.available) {
        return State::new(condition::TRUE, "", String::new());
    }
    let told = || listed(deployments.iter().map(why_unavailable));
    if deployments.iter().any(passes) {
        let message = format!("no MachineDeployment has anything to give at present: {}", told());
        return State::new(condition::TRUE, "", message);
    }
    let message = format!("none of the selected MachineDeployments can be used: {}", told());
    State::new(condition::FALSE, reasons::NO_USABLE_MACHINE_DEPLOYMENTS, message)
}

fn passes(deployment: &MachineDeploymentStatus) -> bool {
    PASSING.iter().any(|code| deployment.reason.as_deref() == Some(code.as_str()))
}

/// `namespace/name: Reason: message`, as far as they are known.
fn why_unavailable(deployment: &MachineDeploymentStatus) -> String {
    let parts = [Some(&deployment.name), deployment.reason.as_ref(), deployment.message.as_ref()];
    let parts: Vec<&str> =
        parts.into_iter().flatten().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

fn root(all: &[Condition]) -> State {
    let unhealthy = DEPENDENTS
        .iter()
        .filter_map(|dependent| condition::find(all, dependent))
        .find(|condition| condition.status != condition::TRUE);
    let (reason, message) = unhealthy
        .map_or_else(Default::default, |condition| (condition.reason.clone(), condition.message.clone()));
    State { status: root_status(all, &DEPENDENTS), reason, message }
}

/// By name, each name once (it is the key of the list).
fn machine_deployments(observed: &[MachineDeploymentStatus]) -> Vec<MachineDeploymentStatus> {
    let mut deployments = observed.to_vec();
    deployments.sort_by(|a, b| a.name.cmp(&b.name));
    deployments.dedup_by(|later, earlier| later.name == earlier.name);
    for deployment in &mut deployments {
        deployment.message = deployment.message.as_deref().map(clipped);
    }
    deployments
}

/// Sorted, each once, and not more than [`WARNING_LIMIT`] and how many there are besides.
fn warnings(class: &ClusterAPINodeClass, observed: &[Warning]) -> Vec<Warning> {
    let mut warnings = observed.to_vec();
    warnings.sort();
    warnings.dedup();
    let left_out = warnings.len().saturating_sub(WARNING_LIMIT);
    warnings.truncate(WARNING_LIMIT);
    for warning in &mut warnings {
        warning.message = clipped(&warning.message);
    }
    if left_out > 0 {
        warnings.push(Warning {
            object: format!("ClusterAPINodeClass {}", class.metadata.name.as_deref().unwrap_or_default()),
            message: format!(
                "{left_out} more warnings are not listed here; each is an Event on its MachineDeployment"
            ),
        });
    }
    warnings
}

#[cfg(test)]
mod tests;
