//! One write each, with the precondition that it was decided under.

use super::{Live, revisions};
use crate::context::Context;
use crate::error::{Attempt, Error, is_not_found};
use crate::facts::Lesson;
use jiff::Timestamp;
use karpenter_capi_api::capi::{Machine, MachineDeployment};
use karpenter_capi_api::names::{annotations, managers};
use karpenter_capi_lifecycle::claim::finalizer_patch;
use karpenter_capi_lifecycle::ledger::{ClaimRef, EndReason, Ledger, MachineRef, Write};
use karpenter_capi_model::name::NamespacedName;
use kube::api::{DeleteParams, Preconditions};
use serde_json::{Value, json};

/// Makes the write. Not found is an ordinary outcome where the object was to go anyway; a conflict is returned, and everything is
/// observed anew.
pub(super) async fn write(
    context: &Context,
    name: &NamespacedName,
    live: &Live,
    write: Write,
) -> Result<(), Error> {
    match write {
        Write::Bind { machine, claim } => {
            tracing::info!(claim = claim.name, machine = %machine.name, "binding Machine");
            let annotations =
                json!({ annotations::NODECLAIM: claim.to_string(), annotations::PRE_TERMINATE_HOOK: "" });
            patch_machine(context, &machine, managers::HOOK, &annotations).await
        }
        Write::RecordMachine { claim, machine } => record_machine(context, &claim, &machine).await,
        Write::EndClaim { claim, reason, message } => {
            end_claim(context, name, &claim, reason, &message).await
        }
        Write::ExcludeDrain { machine } => {
            // A manager of its own: what belongs to the end of a Machine must not hang on the hook's.
            let annotations = json!({
                annotations::EXCLUDE_NODE_DRAINING: "",
                annotations::EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH: "",
            });
            patch_machine(context, &machine, managers::TERMINATION, &annotations).await
        }
        Write::DeleteMachine { machine } => delete_machine(context, &machine).await,
        Write::UpdateLedger { resource_version, ledger, replicas, end_pause } => {
            let books = Books { resource_version, ledger, replicas, end_pause };
            update_ledger(context, name, live, &books).await
        }
        Write::ReleaseHook { machine } => {
            tracing::info!(machine = %machine.name, "releasing Machine");
            let annotations = json!({ annotations::PRE_TERMINATE_HOOK: Value::Null });
            patch_machine(context, &machine, managers::HOOK, &annotations).await
        }
        Write::Pause { resource_version, pause } => {
            revisions::pause(context, name, &resource_version, &pause).await
        }
        Write::MarkMachine { machine } => {
            patch_machine(
                context,
                &machine,
                managers::TERMINATION,
                &json!({ annotations::DELETE_MACHINE: "" }),
            )
            .await
        }
        Write::ScaleMachineSet { name: set, resource_version, replicas } => {
            revisions::scale(context, &set, &resource_version, replicas).await
        }
        Write::CreateSuccessor { claim } => revisions::create_successor(context, &claim).await,
        Write::Forget { machine } => {
            let annotations =
                json!({ annotations::NODECLAIM: Value::Null, annotations::PRE_TERMINATE_HOOK: Value::Null });
            patch_machine(context, &machine, managers::HOOK, &annotations).await
        }
        Write::FinishClaim { claim } => finish_claim(context, &claim).await,
    }
}

/// What the one patch of ledger and number says.
struct Books {
    resource_version: String,
    ledger: Ledger,
    replicas: Option<i64>,
    end_pause: bool,
}

/// Ledger and number in one patch, of the MachineDeployment or of the HyperShift NodePool that writes over its number.
async fn update_ledger(
    context: &Context,
    name: &NamespacedName,
    live: &Live,
    books: &Books,
) -> Result<(), Error> {
    let Books { resource_version, ledger, replicas, end_pause } = books;
    let before = live.deployment.as_ref().and_then(|deployment| deployment.spec.replicas);
    tracing::info!(machine_deployment = %name, claims = ledger.len(), replicas, before, "writing ledger and replicas");
    let hosting = live.hypershift.as_ref().and_then(|pool| Some((pool, context.hypershift_node_pools()?)));
    let Some((pool, api)) = hosting else {
        let patch = ledger_patch(resource_version, ledger, *replicas, *end_pause);
        return patch_deployment(context, name, &patch).await;
    };
    let there = replicas.filter(|_| pool.wanted().is_some());
    if let (None, Some(replicas), Some(deployment)) = (there, replicas, &live.deployment) {
        // HyperShift leaves the number to the MachineDeployment. Number first: an entry is judged by the number that is found.
        let version = &deployment.metadata.resource_version;
        let number = json!({ "metadata": { "resourceVersion": version }, "spec": { "replicas": replicas } });
        patch_deployment(context, name, &number).await?;
    }
    let patch = ledger_patch(resource_version, ledger, there, false);
    let pool = pool.metadata.name.as_deref().unwrap_or_default();
    let action = || format!("patch HyperShift NodePool {pool}, which owns the replicas of {name}");
    context.merge(&api, pool, managers::LEDGER, &patch, action).await.map(drop)
}

/// List and number in one patch, under the version that both were decided on.
fn ledger_patch(version: &str, ledger: &Ledger, replicas: Option<i64>, end_pause: bool) -> Value {
    let text = (!ledger.is_empty()).then(|| ledger.to_string());
    let mut patch = json!({
        "metadata": { "resourceVersion": version, "annotations": { annotations::CLAIMS: text } },
    });
    if end_pause {
        patch["metadata"]["annotations"][annotations::CAPI_PAUSED] = Value::Null;
        patch["metadata"]["annotations"][annotations::PAUSE_FOR] = Value::Null;
    }
    if let Some(replicas) = replicas {
        patch["spec"] = json!({ "replicas": replicas });
    }
    patch
}

/// Annotations of a Machine, under the version that was decided on.
fn machine_patch(machine: &MachineRef, annotations: &Value) -> Value {
    json!({ "metadata": {
        "resourceVersion": machine.resource_version, "uid": machine.uid, "annotations": annotations,
    } })
}

/// A MachineDeployment that is gone is seen so in the next step.
pub(super) async fn patch_deployment(
    context: &Context,
    name: &NamespacedName,
    patch: &Value,
) -> Result<(), Error> {
    let action = || format!("patch MachineDeployment {name}");
    let api = context.capi::<MachineDeployment>();
    context.merge(&api, &name.name, managers::LEDGER, patch, action).await.map(drop)
}

/// A Machine that is gone is seen so in the next step.
async fn patch_machine(
    context: &Context,
    machine: &MachineRef,
    manager: &str,
    annotations: &Value,
) -> Result<(), Error> {
    let action = || format!("patch Machine {}", machine.name);
    let patch = machine_patch(machine, annotations);
    context.merge(&context.capi::<Machine>(), &machine.name.name, manager, &patch, action).await.map(drop)
}

async fn record_machine(context: &Context, claim: &ClaimRef, machine: &NamespacedName) -> Result<(), Error> {
    let patch = json!({ "metadata": { "uid": claim.uid, "annotations": { annotations::MACHINE: machine.to_string() } } });
    let action = || format!("patch NodeClaim {}", claim.name);
    context.merge(&context.node_claims(), &claim.name, managers::LEDGER, &patch, action).await.map(drop)
}

async fn end_claim(
    context: &Context,
    deployment: &NamespacedName,
    claim: &ClaimRef,
    reason: EndReason,
    message: &str,
) -> Result<(), Error> {
    let (told, counted) = match reason {
        EndReason::InsufficientCapacity => ("InsufficientCapacityError", "insufficient_capacity"),
        EndReason::ScaledByOthers => ("ScaledByOthers", "scaled_by_others"),
        EndReason::MachineLost => ("MachineLost", "machine_lost"),
        EndReason::ReplacedByRollOut => ("ReplacedByRollOut", "replaced_by_roll_out"),
        EndReason::AdoptionRefused => ("AdoptionRefused", "adoption_refused"),
    };
    if reason == EndReason::InsufficientCapacity {
        context.facts.learn(deployment, Lesson::OutOfCapacity, message.to_owned(), Timestamp::now());
    }
    crate::node_claim::delete(context, &claim.name, &claim.uid, told, counted, message).await
}

async fn delete_machine(context: &Context, machine: &MachineRef) -> Result<(), Error> {
    tracing::info!(machine = %machine.name, "deleting Machine");
    let preconditions = Preconditions { uid: Some(machine.uid.clone()), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match context.capi::<Machine>().delete(&machine.name.name, &params).await {
        Err(error) if is_not_found(&error) => Ok(()),
        result => result.attempt(|| format!("delete Machine {}", machine.name)).map(drop),
    }
}

/// Takes only our finalizer off, by a patch of the metadata: a whole update would send the immutable spec, too.
pub(crate) async fn finish_claim(context: &Context, claim: &ClaimRef) -> Result<(), Error> {
    let Some(present) = context.index.snapshot().node_claim(&claim.name).cloned() else {
        return Ok(());
    };
    // A claim of that name which came later has another UID.
    if present.metadata.uid.as_deref() != Some(claim.uid.as_str()) {
        return Ok(());
    }
    let Some(patch) = finalizer_patch(&present, false) else {
        return Ok(());
    };
    let action = || format!("take the finalizer off NodeClaim {}", claim.name);
    let finished =
        context.merge(&context.node_claims(), &claim.name, managers::TERMINATION, &patch, action).await?;
    if finished.is_some() {
        tracing::info!(claim = claim.name, "NodeClaim is finished");
        context.metrics.node_claim_terminated(&present);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // karpenter-provider-cluster-api: two overlapping batches bind two claims to one machine, as neither write says what it was
    // decided on.
    #[test]
    fn double_bind_a_patch_of_a_machine_carries_the_version_that_it_was_decided_on() {
        let machine = MachineRef {
            name: NamespacedName::new("default", "m"),
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
        };
        let patch = machine_patch(&machine, &json!({ "a": "b" }));
        assert_eq!(
            patch,
            json!({ "metadata": { "resourceVersion": "7", "uid": "u", "annotations": { "a": "b" } } })
        );
    }

    // karpenter-provider-cluster-api: replicas and what they stand for are several writes, of whole objects.
    #[test]
    fn double_decrement_ledger_and_number_are_one_patch_of_nothing_else() {
        let ledger = Ledger::parse("b,a");
        assert_eq!(
            ledger_patch("7", &ledger, Some(2), false),
            json!({ "metadata": { "resourceVersion": "7", "annotations": { annotations::CLAIMS: "a,b" } }, "spec": { "replicas": 2 } })
        );
        assert_eq!(
            ledger_patch("7", &Ledger::default(), None, true),
            json!({ "metadata": { "resourceVersion": "7", "annotations": {
                annotations::CLAIMS: null, annotations::CAPI_PAUSED: null, annotations::PAUSE_FOR: null,
            } } })
        );
    }
}
