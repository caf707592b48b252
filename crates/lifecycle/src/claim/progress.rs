//! From assigned to initialized.

use super::failure::{Failure, terminal, trouble};
use super::set_ready;
use crate::node::{self, NodeChange};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_capi_api::capi::Machine;
use karpenter_capi_api::condition::{self, FALSE, TRUE, UNKNOWN};
use karpenter_capi_api::names::conditions::{self, reasons};
use karpenter_capi_api::v1::{NodeClaim, NodeClaimStatus, ResourceList};
use karpenter_capi_model::taint::Taint;

/// What a claim may take for, each from the step before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From its creation to Launched.
    pub launch: SignedDuration,
    /// From Launched to Registered.
    pub registration: SignedDuration,
}

/// What the MachineDeployment promises of its nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Promise {
    /// Whole capacity.
    pub capacity: ResourceList,
    /// What pods may use.
    pub allocatable: ResourceList,
}

/// A claim that isn't deleted, with what belongs to it.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The moment.
    pub now: Timestamp,
    /// The claim.
    pub claim: &'a NodeClaim,
    /// The Machine that it is bound to.
    pub machine: Option<&'a Machine>,
    /// Every Node with the Machine's provider ID.
    pub nodes: &'a [&'a Node],
    /// The promise of its MachineDeployment, where that is known.
    pub promise: Option<&'a Promise>,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// Why Cluster API can't make Machines at the moment, in its own words: reason and sentence.
    pub blocked: Option<(&'a str, &'a str)>,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// To be written to the Node first; the status holds once that has succeeded.
    pub node: Option<NodeChange>,
    /// The wanted status; equal to the present one when nothing changes.
    pub status: NodeClaimStatus,
    /// The claim ends: why, typed and for people.
    pub ended: Option<(Failure, String)>,
    /// Look again after this long.
    pub look_again: Option<SignedDuration>,
}

/// The next step.
pub fn progress(observed: &Observed<'_>) -> Step {
    let present = observed.claim.status.clone().unwrap_or_default();
    let mut step = Step { node: None, status: present, ended: None, look_again: None };
    if let Some(promise) = observed.promise.filter(|_| step.status.capacity.is_empty()) {
        step.status.capacity = promise.capacity.clone();
        step.status.allocatable = promise.allocatable.clone();
    }
    launch(observed, &mut step);
    if condition::is_true(&step.status.conditions, conditions::LAUNCHED) {
        register(observed, &mut step);
    } else {
        wait(observed, &mut step, conditions::REGISTERED, "NotLaunched", "the Machine is not launched");
    }
    if condition::is_true(&step.status.conditions, conditions::REGISTERED) {
        initialize(observed, &mut step);
    } else {
        wait(observed, &mut step, conditions::INITIALIZED, "NotRegistered", "the Node is not registered");
    }
    set_ready(&mut step.status.conditions, observed.now, observed.claim.metadata.generation);
    super::end::end(observed, &mut step);
    step
}

fn set(observed: &Observed<'_>, step: &mut Step, kind: &str, status: &str, reason: &str, message: &str) {
    let generation = observed.claim.metadata.generation;
    condition::set(&mut step.status.conditions, kind, status, reason, message, observed.now, generation);
}

fn wait(observed: &Observed<'_>, step: &mut Step, kind: &str, reason: &str, message: &str) {
    set(observed, step, kind, UNKNOWN, reason, message);
}

/// Launched: the Machine is bound and its infrastructure has a provider ID. Once true it stays so.
fn launch(observed: &Observed<'_>, step: &mut Step) {
    if condition::is_true(&step.status.conditions, conditions::LAUNCHED) {
        return;
    }
    let Some(machine) = observed.machine else {
        let (reason, message) =
            observed.blocked.unwrap_or(("AwaitingMachine", "no Machine has been made yet"));
        return wait(observed, step, conditions::LAUNCHED, reason, message);
    };
    if let Some(provider_id) = &machine.spec.provider_id {
        step.status.provider_id = Some(provider_id.clone());
        set(observed, step, conditions::LAUNCHED, TRUE, conditions::LAUNCHED, "");
    } else if let Some(trouble) = trouble(machine) {
        // False, so that the transition time tells since when: see TROUBLE_GRACE.
        let message = in_words(machine, &trouble.message);
        set(observed, step, conditions::LAUNCHED, FALSE, &trouble.reason, &message);
    } else {
        let (reason, message) = provisioning(machine);
        wait(observed, step, conditions::LAUNCHED, &reason, &message);
    }
}

/// The infrastructure provider's own words, which name a lack of capacity or quota, cut to what a condition should hold.
fn provisioning(machine: &Machine) -> (String, String) {
    let name = machine.metadata.name.as_deref().unwrap_or_default();
    let told = condition::find(&machine.status.conditions, conditions::CAPI_INFRASTRUCTURE_READY)
        .filter(|told| told.status != TRUE && !told.message.is_empty());
    match told {
        Some(condition) => {
            let reason = if condition.reason.is_empty() { reasons::LAUNCH_FAILED } else { &condition.reason };
            (reason.to_owned(), in_words(machine, &condition.message))
        }
        None => ("MachineProvisioning".to_owned(), format!("Machine {name} has no infrastructure yet")),
    }
}

fn in_words(machine: &Machine, words: &str) -> String {
    let words: String = words.chars().take(300).collect();
    format!("Machine {}: {words}", machine.metadata.name.as_deref().unwrap_or_default())
}

/// Registered: the one Node with the provider ID carries what the claim promises.
fn register(observed: &Observed<'_>, step: &mut Step) {
    if condition::is_true(&step.status.conditions, conditions::REGISTERED) {
        if let [node] = observed.nodes
            && !node::is_registered(node)
        {
            step.node = node::registered(observed.claim, node);
        }
        return;
    }
    match observed.nodes {
        [] if let Some(failure) = observed.machine.and_then(terminal) => {
            let message =
                observed.machine.map(|machine| in_words(machine, &failure.message)).unwrap_or_default();
            set(observed, step, conditions::REGISTERED, FALSE, &failure.reason, &message);
        }
        [] => {
            let message = match &step.status.provider_id {
                Some(provider_id) => format!("no Node has the provider ID {provider_id}"),
                None => "no Node yet".to_owned(),
            };
            wait(observed, step, conditions::REGISTERED, reasons::NODE_NOT_FOUND, &message);
        }
        [node] => {
            step.node = node::registered(observed.claim, node);
            step.status.node_name.clone_from(&node.metadata.name);
            set(observed, step, conditions::REGISTERED, TRUE, conditions::REGISTERED, "");
        }
        several => {
            let names: Vec<&str> = several.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
            let message = format!("several Nodes have its provider ID: {}", names.join(", "));
            set(observed, step, conditions::REGISTERED, FALSE, reasons::MULTIPLE_NODES_FOUND, &message);
        }
    }
}

/// Initialized: Ready, its startup and ephemeral taints gone, and every requested resource there.
fn initialize(observed: &Observed<'_>, step: &mut Step) {
    let [node] = observed.nodes else {
        // False, so that the transition time tells since when: see NODE_GONE_AFTER.
        let name = step.status.node_name.clone().unwrap_or_default();
        let message = format!("Node {name} is gone, though its Machine is there");
        return set(observed, step, conditions::INITIALIZED, FALSE, reasons::NODE_NOT_FOUND, &message);
    };
    if condition::is_true(&step.status.conditions, conditions::INITIALIZED) {
        return;
    }
    if let Some((reason, message)) = not_initialized(observed.claim, node) {
        return wait(observed, step, conditions::INITIALIZED, reason, &message);
    }
    // Registration's patch and this one carry the same resourceVersion: one of them per step.
    if step.node.is_some() {
        step.look_again = Some(SignedDuration::from_secs(1));
        return wait(observed, step, conditions::INITIALIZED, "Registering", "the Node is being registered");
    }
    step.node = node::initialized(node);
    let status = node.status.clone().unwrap_or_default();
    step.status.capacity.extend(status.capacity.unwrap_or_default());
    step.status.allocatable.extend(status.allocatable.unwrap_or_default());
    set(observed, step, conditions::INITIALIZED, TRUE, conditions::INITIALIZED, "");
}

fn not_initialized(claim: &NodeClaim, node: &Node) -> Option<(&'static str, String)> {
    if !node::is_ready(node) {
        return Some((reasons::NODE_NOT_READY, "the Node is not ready".to_owned()));
    }
    let taints = node::taints_of(node);
    let startup = taints.iter().find(|taint| {
        claim
            .spec
            .startup_taints
            .iter()
            .any(|startup| startup.key == taint.key && startup.effect == taint.effect)
    });
    if let Some(taint) = startup {
        return Some((
            reasons::STARTUP_TAINTS_EXIST,
            format!("startup taint {}:{} is still there", taint.key, taint.effect),
        ));
    }
    if let Some(taint) =
        taints.iter().find(|taint| Taint::from_api(taint).is_ok_and(|taint| taint.is_ephemeral()))
    {
        let message = format!("taint {}:{} is still there", taint.key, taint.effect);
        return Some((reasons::KNOWN_EPHEMERAL_TAINTS_EXIST, message));
    }
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let requested = claim.spec.resources.requests.iter().filter(|(_, amount)| !is_zero(&amount.0));
    let missing = requested.map(|(resource, _)| resource).find(|resource| {
        allocatable.and_then(|all| all.get(*resource)).is_none_or(|amount| is_zero(&amount.0))
    });
    missing
        .map(|resource| (reasons::RESOURCE_NOT_REGISTERED, format!("resource {resource} is not registered")))
}

fn is_zero(quantity: &str) -> bool {
    !quantity.bytes().any(|byte| (b'1'..=b'9').contains(&byte))
}
