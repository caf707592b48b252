//! A NodeClaim's shell: read what belongs to it, decide, write Node, status, evictions.

mod assign;
mod evict;
mod terminate;

pub(crate) use evict::Evictions;

use crate::context::{Context, pool_name};
use crate::error::{Attempt, Error, is_not_found};
use crate::queue::Outcome;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_capi_api::capi::Machine;
use karpenter_capi_api::condition;
use karpenter_capi_api::names::conditions::{self, reasons};
use karpenter_capi_api::names::{annotations, managers};
use karpenter_capi_api::v1::{NodeClaim, NodeClaimStatus, NodePool};
use karpenter_capi_api::v1alpha1::DEFAULT_TIMEOUT;
use karpenter_capi_catalog::CatalogEntry;
use karpenter_capi_cluster::input::overlaid;
use karpenter_capi_lifecycle::claim::{Failure, Observed, Promise, Timeouts, finalizer_patch, progress};
use karpenter_capi_lifecycle::ledger::{assigned, bound};
use karpenter_capi_lifecycle::node_pool::{Failed, Registrations};
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::reason::ReasonCode;
use kube::api::{DeleteParams, Preconditions};
use kube::core::Resource;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A Node that is gone is looked for again after this long.
const GONE: Duration = Duration::from_secs(1);

/// Follows one claim.
pub(crate) async fn reconcile(context: Arc<Context>, name: String) -> Outcome {
    let Some(claim) = context.index.snapshot().node_claim(&name).cloned() else {
        return Ok(None);
    };
    // Claims of other Karpenters stand beside ours in the same kind.
    if !claim.spec.node_class_ref.is_ours() {
        return Ok(None);
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return terminate::terminate(&context, &claim).await;
    }
    add_finalizer(&context, &claim).await?;
    if assigned(&claim).is_none() {
        return assign::assign(&context, &claim).await;
    }
    follow(&context, &claim).await
}

async fn follow(context: &Context, claim: &NodeClaim) -> Outcome {
    let machine = machine_of(context, claim);
    let nodes = nodes_of(context, claim, machine.as_deref());
    let nodes: Vec<&Node> = nodes.iter().map(Arc::as_ref).collect();
    let entry = assigned(claim).and_then(|name| crate::catalog::entry(context, &name));
    let promise = entry.as_ref().map(|entry| promise(&promised(context, claim, entry)));
    let refusal = assigned(claim).and_then(|name| context.facts.refusal(&name));
    let now = Timestamp::now();
    let step = progress(&Observed {
        now,
        claim,
        machine: machine.as_deref(),
        nodes: &nodes,
        promise: promise.as_ref(),
        timeouts: timeouts(context, claim, entry.as_ref()),
        blocked: blocked(refusal.as_deref(), entry.as_ref()),
    });
    if let Some((failure, message)) = step.ended {
        return end(context, claim, failure, &message, now).await;
    }
    let registered_now = !is_registered(claim.status.as_ref()) && is_registered(Some(&step.status));
    if let Some(change) = &step.node {
        // Somebody deleted it meanwhile: what was decided no longer holds, and the watch is about to say so.
        let Some(node) = crate::node::write(context, change, "patch").await? else {
            return Ok(Some(GONE));
        };
        if registered_now {
            context.metrics.node_created(&node);
        }
    }
    write_status(context, claim, step.status).await?;
    if registered_now {
        succeeded(context, claim);
    }
    Ok(step.look_again.map(wait))
}

/// Why no Machine is made: the operator may not ask for one, or Cluster API makes none, which only its MachineSet says.
fn blocked<'a>(refusal: Option<&'a str>, entry: Option<&'a CatalogEntry>) -> Option<(&'a str, &'a str)> {
    if let Some(refusal) = refusal {
        return Some((reasons::REQUEST_REFUSED, refusal));
    }
    let failing = entry?.unavailable.iter().find(|reason| reason.code == ReasonCode::PreflightFailing)?;
    Some(("PreflightFailing", failing.message.as_str()))
}

/// A Node has come up: what failed before is forgiven.
fn succeeded(context: &Context, claim: &NodeClaim) {
    if let Some(deployment) = assigned(claim) {
        context.facts.succeeded(&deployment);
    }
    judge(context, claim, Registrations::succeeded);
}

/// Adds to the registration health of the claim's pool.
fn judge(context: &Context, claim: &NodeClaim, add: impl FnOnce(&mut Registrations)) {
    let Some(pool) = pool_of(context, claim) else { return };
    context.facts.judge(&pool, add);
    context.queues.node_pools.add(crate::context::name(pool.as_ref()));
}

/// The claim's pool, as the index has it. A pool of another Karpenter, which a claim made by hand may name, is none.
fn pool_of(context: &Context, claim: &NodeClaim) -> Option<Arc<NodePool>> {
    let pool = context.index.snapshot().node_pool(pool_name(claim)?).cloned();
    pool.filter(|pool| pool.spec.template.spec.node_class_ref.is_ours())
}

/// The Machine that the claim names, as the index has it.
fn machine_of(context: &Context, claim: &NodeClaim) -> Option<Arc<Machine>> {
    context.index.snapshot().machines.get(&bound(claim)?).cloned()
}

/// Every Node with the provider ID of the claim or its Machine.
fn nodes_of(context: &Context, claim: &NodeClaim, machine: Option<&Machine>) -> Vec<Arc<Node>> {
    let own = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
    let Some(provider_id) = machine.and_then(|machine| machine.spec.provider_id.as_deref()).or(own) else {
        return vec![];
    };
    let snapshot = context.index.snapshot();
    let has_it = |node: &&Arc<Node>| {
        node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(provider_id)
    };
    snapshot.nodes.values().filter(has_it).cloned().collect()
}

/// What the claim was made for: what its MachineDeployment offers, or what an overlay made of that. It is noted once, so that
/// the other overlays needn't be asked on every look.
fn promised(context: &Context, claim: &NodeClaim, entry: &CatalogEntry) -> Arc<InstanceType> {
    let is_noted = claim.status.as_ref().is_some_and(|status| !status.capacity.is_empty());
    let annotated = claim.metadata.annotations.as_ref();
    let is_overlaid = annotated.is_some_and(|all| all.contains_key(annotations::CAPACITY_OVERLAY_APPLIED));
    let found = pool_name(claim).filter(|_| is_overlaid && !is_noted).and_then(|pool| {
        let options = crate::provisioner::input_options(context, Timestamp::now(), BTreeMap::new());
        overlaid(&context.index.snapshot(), &options).instance_type(pool, &entry.instance_type.name).cloned()
    });
    found.unwrap_or_else(|| Arc::clone(&entry.instance_type))
}

fn promise(of: &InstanceType) -> Promise {
    Promise {
        capacity: of.capacity.to_quantities(),
        allocatable: of.capacity.allocatable(&of.overhead).to_quantities(),
    }
}

fn timeouts(context: &Context, claim: &NodeClaim, entry: Option<&CatalogEntry>) -> Timeouts {
    if let Some(timeout) = entry.and_then(|entry| entry.launch_timeout) {
        return Timeouts { launch: timeout, registration: timeout };
    }
    let class = context.index.snapshot().node_class(&claim.spec.node_class_ref.name).cloned();
    let of_class = |timeout: Option<&karpenter_capi_api::duration::GoDuration>| {
        timeout
            .and_then(|timeout| timeout.parse().ok())
            .filter(SignedDuration::is_positive)
            .unwrap_or(DEFAULT_TIMEOUT)
    };
    let spec = class.as_ref().map(|class| &class.spec);
    Timeouts {
        launch: of_class(spec.and_then(|spec| spec.launch_timeout.as_ref())),
        registration: of_class(spec.and_then(|spec| spec.registration_timeout.as_ref())),
    }
}

/// Ends a claim that failed. Its MachineDeployment is left alone for a while, so that the next best one is taken for its pods.
async fn end(
    context: &Context,
    claim: &NodeClaim,
    failure: Failure,
    message: &str,
    now: Timestamp,
) -> Outcome {
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let name = crate::context::name(claim);
    if let Some(deployment) = assigned(claim).filter(|_| failure.repeats()) {
        let streak = context.facts.failed(&deployment, failure, format!("a claim was {message}"), now);
        let told = if streak.claims > 1 {
            format!(
                "the last {} claims on MachineDeployment {deployment} failed; the last was {message}",
                streak.claims
            )
        } else {
            format!("a claim on MachineDeployment {deployment} was {message}")
        };
        let told = format!("{told}; tried again after {:.0}", streak.until);
        // Before anything is waited for: of claims that fail together the last one to be counted is the last one to be told of.
        if failure.is_unhealthy() {
            // Upstream's reason where the machine was there.
            let reason =
                if failure == Failure::RegistrationTimedOut { "RegistrationFailed" } else { failure.event() };
            let message = told.clone();
            judge(context, claim, |results| results.failed(Failed { reason: reason.to_owned(), message }));
        }
        tracing::warn!(claim = name, machine_deployment = %deployment, claims = streak.claims, until = %streak.until, "{told}");
        tell_pool(context, claim, failure, &told).await;
    }
    delete(context, &name, uid, failure.event(), failure.metric(), message).await?;
    Ok(None)
}

async fn tell_pool(context: &Context, claim: &NodeClaim, failure: Failure, message: &str) {
    if let Some(pool) = pool_of(context, claim) {
        context.events.warning(&pool.object_ref(&()), failure.event(), message.to_owned()).await;
    }
}

/// Deletes a claim, tells why, and counts it.
pub(crate) async fn delete(
    context: &Context,
    name: &str,
    uid: &str,
    reason: &str,
    counted: &str,
    message: &str,
) -> Result<(), Error> {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match context.node_claims().delete(name, &params).await {
        // It counts as going at once, so that what is decided next doesn't rest on it. Without a finalizer it is gone, and no watch
        // would take it out of the index again.
        Ok(answer) => {
            let is_held =
                |claim: &NodeClaim| claim.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty());
            if let Some(claim) = answer.left().filter(is_held) {
                context.index.assume(claim, Timestamp::now());
            }
        }
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(error).attempt(|| format!("delete NodeClaim {name}")),
    }
    tracing::info!(claim = name, reason, "deleted NodeClaim: {message}");
    // Its pods need another place from now on.
    context.trigger.anything();
    if let Some(claim) = context.index.snapshot().node_claim(name) {
        context.metrics.node_claim_disrupted(claim, counted, "");
        context.events.warning(&claim.object_ref(&()), reason, message.to_owned()).await;
    }
    Ok(())
}

/// Claims of ours are made with it; one that a person made gets it here.
async fn add_finalizer(context: &Context, claim: &NodeClaim) -> Result<(), Error> {
    let Some(patch) = finalizer_patch(claim, true) else {
        return Ok(());
    };
    let name = crate::context::name(claim);
    let action = || format!("add the finalizer to NodeClaim {name}");
    context.merge(&context.node_claims(), &name, managers::NODECLAIM, &patch, action).await.map(drop)
}

/// Writes the status where it differs, under the version that it was decided on.
pub(crate) async fn write_status(
    context: &Context,
    claim: &NodeClaim,
    status: NodeClaimStatus,
) -> Result<(), Error> {
    if claim.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let name = crate::context::name(claim);
    // A finalizer that was added in this pass has raised the version.
    let snapshot = context.index.snapshot();
    let version = snapshot.node_claim(&name).and_then(|claim| claim.metadata.resource_version.clone());
    let patch =
        json!({ "metadata": { "uid": claim.metadata.uid, "resourceVersion": version }, "status": status });
    let action = || format!("write the status of NodeClaim {name}");
    let written =
        context.merge_status(&context.node_claims(), &name, managers::NODECLAIM, &patch, action).await?;
    // The ledger looks at Drained, and nobody else tells it.
    if written.is_some() {
        context.ledger_follows(claim);
    }
    Ok(())
}

fn is_registered(status: Option<&NodeClaimStatus>) -> bool {
    let all = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition::is_true(all, conditions::REGISTERED)
}

fn wait(duration: SignedDuration) -> Duration {
    Duration::try_from(duration).unwrap_or(Duration::from_secs(1))
}
