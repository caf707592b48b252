//! Whether a machine can be had now, and every reason why not.

use crate::entry::CatalogInput;
use crate::findings::{Annotations, Findings};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::capi::{MachineDeployment, MachineSet, StrategyType, controller_of_kind};
use karpenter_capi_api::condition::{self, Condition};
use karpenter_capi_api::names::{annotations, conditions, labels};
use karpenter_capi_model::reason::{ReasonCode, UnavailableReason};

/// What is known of a MachineDeployment besides its objects; for a file there is none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// A machine could not be had lately.
    pub out_of_capacity: Option<Until>,
    /// A machine did not come up in time lately.
    pub launch_timed_out: Option<Until>,
    /// Somebody else lowered the replicas lately.
    pub scaled_by_others: Option<Until>,
    /// HyperShift scales the MachineDeployment itself; one sentence.
    pub hypershift_autoscaling: Option<String>,
    /// HyperShift owns the replicas, and its NodePool can't be written; one sentence.
    pub hypershift_out_of_reach: Option<String>,
    /// Another autoscaler works on it; one sentence.
    pub two_autoscalers: Option<String>,
    /// Claims that are assigned and not yet counted in the replicas: they take room below the maximum size.
    pub claims_to_enter: i64,
}

/// A reason that holds for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Until {
    /// From then on it no longer holds.
    pub until: Timestamp,
    /// What happened, one sentence without its full stop.
    pub message: String,
}

/// Reasons that lie in the objects and the facts, the most lasting first.
pub(crate) fn unavailable(input: &CatalogInput<'_>) -> Vec<UnavailableReason> {
    let mut reasons = Vec::new();
    let mut add = |code: ReasonCode, message: Option<String>| {
        reasons.extend(message.map(|message| UnavailableReason { code, message }));
    };
    add(ReasonCode::Deleting, deleting(input));
    add(ReasonCode::Paused, paused(input));
    add(ReasonCode::ReplicasManaged, replicas_managed(input));
    add(ReasonCode::ReplicasManaged, input.facts.hypershift_out_of_reach.clone());
    add(ReasonCode::HyperShiftAutoscaling, input.facts.hypershift_autoscaling.clone());
    add(ReasonCode::TwoAutoscalers, input.facts.two_autoscalers.clone());
    add(ReasonCode::RollingOut, rolling_out(input));
    add(ReasonCode::PreflightFailing, preflight_failing(input));
    add(ReasonCode::ScaledByOthers, still(input.facts.scaled_by_others.as_ref(), input.now));
    add(ReasonCode::OutOfCapacity, still(input.facts.out_of_capacity.as_ref(), input.now));
    add(ReasonCode::LaunchTimedOut, still(input.facts.launch_timed_out.as_ref(), input.now));
    reasons
}

fn still(fact: Option<&Until>, now: Timestamp) -> Option<String> {
    let fact = fact.filter(|fact| now < fact.until)?;
    Some(format!("{}; tried again after {}", fact.message, fact.until))
}

fn deleting(input: &CatalogInput<'_>) -> Option<String> {
    if input.machine_deployment.metadata.deletion_timestamp.is_some() {
        return Some(format!("MachineDeployment {} is being deleted", input.name()));
    }
    let cluster = input.cluster.filter(|cluster| cluster.metadata.deletion_timestamp.is_some())?;
    Some(format!("Cluster {} is being deleted", cluster.metadata.name.as_deref().unwrap_or_default()))
}

/// Which of the three switches is on. `spec.paused` doesn't keep Cluster API from scaling, yet whoever sets it wants no change.
fn paused(input: &CatalogInput<'_>) -> Option<String> {
    let deployment = input.machine_deployment;
    let annotated = Annotations::new(deployment.metadata.annotations.as_ref());
    if annotated.has(annotations::CAPI_PAUSED) {
        let by_us = annotated.has(annotations::PAUSE_FOR);
        let why = if by_us { " (by karpenter-capi, while it removes a machine)" } else { "" };
        return Some(format!(
            "annotation {} is set on MachineDeployment {}{why}",
            annotations::CAPI_PAUSED,
            input.name()
        ));
    }
    if deployment.spec.paused {
        return Some(format!("spec.paused is true on MachineDeployment {}", input.name()));
    }
    let cluster = input.cluster.filter(|cluster| cluster.spec.paused)?;
    Some(format!("spec.paused is true on Cluster {}", cluster.metadata.name.as_deref().unwrap_or_default()))
}

/// A topology that sets replicas reverts every other writer.
fn replicas_managed(input: &CatalogInput<'_>) -> Option<String> {
    let metadata = &input.machine_deployment.metadata;
    let owned = metadata.labels.as_ref().filter(|all| all.contains_key(labels::TOPOLOGY_OWNED))?;
    let cluster = input.cluster?;
    let entries = &cluster.spec.topology.as_ref()?.workers.machine_deployments;
    let cluster_name = cluster.metadata.name.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    // Cluster API labels the MachineDeployment with the entry's name; a file may lack that label.
    let entry = match owned.get(labels::TOPOLOGY_DEPLOYMENT_NAME) {
        Some(entry) => entries.iter().find(|candidate| candidate.name == *entry),
        None => entries
            .iter()
            .filter(|entry| {
                name == entry.name || name.starts_with(&format!("{cluster_name}-{}-", entry.name))
            })
            .max_by_key(|entry| entry.name.len()),
    }?;
    let replicas = entry.replicas?;
    Some(format!(
        "Cluster {cluster_name} sets replicas {replicas} in spec.topology.workers.machineDeployments[name={}]; remove that field to let Karpenter scale",
        entry.name
    ))
}

/// An older MachineSet still has replicas or Machines while the strategy replaces them by itself.
fn rolling_out(input: &CatalogInput<'_>) -> Option<String> {
    if input.machine_deployment.spec.strategy() == StrategyType::OnDelete {
        return None;
    }
    let own = || input.machine_sets.iter().filter(|set| belongs_to(set, input.machine_deployment));
    let newest = own().map(|set| revision(set)).max()?;
    let older = own().filter(|set| revision(set) != newest).map(|set| (set, machines_of(set, input)));
    let (set, machines) = older
        .filter(|(_, machines)| *machines > 0)
        .min_by_key(|(set, _)| (revision(set), set.metadata.name.clone()))?;
    Some(format!(
        "a roll-out is under way{}: MachineSet {} of revision {} still has {machines} of its machines",
        since(input.machine_deployment),
        set.metadata.name.as_deref().unwrap_or_default(),
        revision(set)
    ))
}

/// Since when, as Cluster API tells it; one that never ends is known by that. Before `v1beta2` Cluster API has no such condition.
fn since(deployment: &MachineDeployment) -> String {
    condition::find(&deployment.status.conditions, conditions::CAPI_ROLLING_OUT)
        .filter(|condition| condition.status == condition::TRUE)
        .map_or_else(String::new, |condition| format!(" since {}", condition.last_transition_time.0))
}

fn belongs_to(set: &MachineSet, deployment: &MachineDeployment) -> bool {
    let same_namespace = set.metadata.namespace == deployment.metadata.namespace;
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    // A file may lack UIDs; where both are known they decide, since a name may be used again.
    let same_uid = controller_of_kind(&set.metadata, "MachineDeployment").is_none_or(|owner| {
        let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
        uid.is_empty() || owner.uid.is_empty() || owner.uid == uid
    });
    same_namespace
        && same_uid
        && owner_of(&set.metadata, "MachineDeployment", labels::DEPLOYMENT_NAME) == Some(name)
}

/// Name of the owner that controls the object; a hand-written file may have only Cluster API's label.
fn owner_of<'a>(metadata: &'a ObjectMeta, kind: &str, label: &str) -> Option<&'a str> {
    let owner = controller_of_kind(metadata, kind).map(|owner| owner.name.as_str());
    owner.or_else(|| metadata.labels.as_ref()?.get(label).map(String::as_str))
}

fn revision(set: &MachineSet) -> i64 {
    let annotated = Annotations::new(set.metadata.annotations.as_ref());
    annotated.value(annotations::REVISION).and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// The most that anybody says the MachineSet has: what it is to have, what it saw, and Machines that name it as their owner.
fn machines_of(set: &MachineSet, input: &CatalogInput<'_>) -> i64 {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let owned = input.machines.iter().filter(|machine| {
        machine.metadata.namespace == set.metadata.namespace
            && owner_of(&machine.metadata, "MachineSet", labels::SET_NAME) == Some(name)
    });
    let owned = i64::try_from(owned.count()).unwrap_or(i64::MAX);
    owned.max(set.spec.replicas.unwrap_or(0).into()).max(set.status.replicas.unwrap_or(0).into())
}

/// Cluster API tells what keeps it from adding machines only in the words of the condition `ScalingUp`.
fn preflight_failing(input: &CatalogInput<'_>) -> Option<String> {
    let deployment = input.machine_deployment;
    let own = input.machine_sets.iter().filter(|set| belongs_to(set, deployment));
    let sets = own.map(|set| ("MachineSet", &set.metadata, set.status.conditions.as_slice()));
    let of_deployment = ("MachineDeployment", &deployment.metadata, deployment.status.conditions.as_slice());
    sets.chain([of_deployment]).find_map(|(kind, metadata, all)| {
        let blocked =
            condition::find(all, conditions::CAPI_SCALING_UP).filter(|condition| is_blocked(condition))?;
        let name = metadata.name.as_deref().unwrap_or_default();
        Some(format!("{kind} {name} can't add machines: {}", one_line(&blocked.message)))
    })
}

fn is_blocked(condition: &Condition) -> bool {
    let message = condition.message.to_lowercase();
    condition.status != condition::FALSE
        && (message.contains("preflight") || message.contains("blocked because"))
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Machines that may still be added, and the reason if it is none. `None` is unlimited.
pub(crate) fn headroom(
    input: &CatalogInput<'_>,
    annotated: Annotations<'_>,
    findings: &mut Findings,
) -> (Option<i64>, Option<UnavailableReason>) {
    const KEY: &str = annotations::NODE_GROUP_MAX_SIZE;
    let Some(value) = annotated.value(KEY) else {
        return (None, None);
    };
    // HyperShift writes "0" and "0" to say that the Cluster Autoscaler has no business here.
    let off = value == "0" && annotated.value(annotations::NODE_GROUP_MIN_SIZE) == Some("0");
    if off && annotated.has(annotations::HYPERSHIFT_NODE_POOL) {
        return (None, None);
    }
    let Some(maximum) = value.parse().ok().filter(|maximum: &i64| *maximum >= 0) else {
        findings.fault(KEY, value, "write the largest number of replicas as a whole number such as 10");
        return (Some(0), None);
    };
    let taken = input.replicas().saturating_add(input.facts.claims_to_enter);
    let room = maximum.saturating_sub(taken).max(0);
    let full = (room == 0).then(|| UnavailableReason {
        code: ReasonCode::MaxSize,
        message: format!("{} has {taken} of at most {maximum} replicas ({KEY})", input.name()),
    });
    (Some(room), full)
}
