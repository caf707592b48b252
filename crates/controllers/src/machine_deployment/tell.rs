//! What is in the way of a MachineDeployment's claims, told where people look: on the claims, and on the MachineDeployment.

use crate::context::Context;
use crate::error::{Class, Error, chain};
use jiff::Timestamp;
use karpenter_capi_api::condition;
use karpenter_capi_api::names::conditions::{self, reasons};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_lifecycle::claim::{HeldUp, held_up};
use karpenter_capi_lifecycle::ledger::{ClaimRef, Waiting};
use karpenter_capi_model::name::NamespacedName;
use kube::core::Resource;

/// Everything could be written. Says on each deleted claim what it waits for, and takes back what no longer holds.
pub(super) async fn waiting(
    context: &Context,
    deployment: &NamespacedName,
    waiting: &[Waiting],
) -> Result<(), Error> {
    for waiting in waiting {
        tracing::info!(claim = waiting.claim.name, machine_deployment = %deployment, "waiting: {}", waiting.message);
    }
    if context.facts.accepted(deployment) {
        look_again(context, deployment);
    }
    for claim in super::claims(context, deployment).iter().filter(|claim| is_deleting(claim)) {
        let found = waiting.iter().find(|waiting| waiting.claim == ClaimRef::of(claim));
        let why = found.map(|waiting| HeldUp::AwaitingMachineDeployment(&waiting.message));
        if let Some(why) = why {
            context.events.normal(&claim.object_ref(&()), why.reason(), why.message().to_owned()).await;
        }
        write(context, claim, why).await?;
    }
    Ok(())
}

/// Number and ledger stand where nothing can be read or written: every claim that is to end waits for that.
pub(super) async fn out_of_reach(
    context: &Context,
    deployment: &NamespacedName,
    message: &str,
) -> Result<(), Error> {
    tracing::warn!(machine_deployment = %deployment, "nothing is written: {message}");
    for claim in super::claims(context, deployment).iter().filter(|claim| is_deleting(claim)) {
        write(context, claim, Some(HeldUp::AwaitingMachineDeployment(message))).await?;
    }
    Ok(())
}

/// Something failed. What an API server refuses, a person must change: it is told on every claim that waits for it.
pub(super) async fn failure(
    context: &Context,
    deployment: &NamespacedName,
    error: &Error,
) -> Result<(), Error> {
    if error.class() != Class::Refused {
        return Ok(());
    }
    let message = chain(error);
    if context.facts.refused(deployment, &message) {
        look_again(context, deployment);
    }
    for claim in super::claims(context, deployment).iter().filter(|claim| needs_its_machine_deployment(claim))
    {
        context.events.warning(&claim.object_ref(&()), reasons::REQUEST_REFUSED, message.clone()).await;
        if is_deleting(claim) {
            write(context, claim, Some(HeldUp::RequestRefused(&message))).await?;
        }
    }
    Ok(())
}

/// Claims on their way tell it by themselves, in `Launched`.
fn look_again(context: &Context, deployment: &NamespacedName) {
    for claim in super::claims(context, deployment).iter().filter(|claim| needs_its_machine_deployment(claim))
    {
        context.queues.node_claims.add(crate::context::name(claim.as_ref()));
    }
}

async fn write(context: &Context, claim: &NodeClaim, why: Option<HeldUp<'_>>) -> Result<(), Error> {
    match held_up(claim, why, Timestamp::now()) {
        Some(status) => crate::node_claim::write_status(context, claim, status).await,
        None => Ok(()),
    }
}

fn is_deleting(claim: &NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_some()
}

/// It waits for a Machine, or for its end.
fn needs_its_machine_deployment(claim: &NodeClaim) -> bool {
    let all = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    is_deleting(claim) || !condition::is_true(all, conditions::LAUNCHED)
}
