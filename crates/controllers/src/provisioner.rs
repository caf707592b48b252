//! Pending pods in, NodeClaims out: batch, take a picture, solve off the async threads, create what was planned.

mod report;
mod static_capacity;
mod trigger;

pub(crate) use trigger::Trigger;

use crate::context::Context;
use crate::error::{Attempt, Error, chain};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use karpenter_capi_cluster::buffers::held;
use karpenter_capi_cluster::claim::draft;
use karpenter_capi_cluster::input::{InputOptions, Origin, ProvisioningInput, Scope, provisioning_input};
use karpenter_capi_lifecycle::ledger::assigned;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_scheduling::input::{Options, ReservedOfferingMode};
use karpenter_capi_scheduling::plan::{PendingPod, Plan, PlannedNodeClaim};
use karpenter_capi_scheduling::{effective_zones, solve_while};
use kube::api::PostParams;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Most instance types that a claim lists, as upstream.
const MAX_INSTANCE_TYPES: usize = 600;
/// Pods without a place are tried again after this long, even if nothing changed.
const AGAIN: Duration = Duration::from_secs(10);
/// How many claims are created at the same time. Each takes a round trip, which a busy API server draws out.
const CREATED_AT_ONCE: usize = 32;
/// How often a long pass says that it is still at it.
const PROGRESS: Duration = Duration::from_secs(1);
/// How long pods are looked at in one pass, as upstream. Those that weren't looked at by then are taken up at once by the next pass, in
/// which the others have their places already.
const LONGEST: Duration = Duration::from_mins(1);
/// Own writes that no watch shows for this long were missed by it.
const ASSUMED_FOR: jiff::SignedDuration = jiff::SignedDuration::from_mins(1);

/// What one pass leaves to the next. Lost with the process: then pods are packed anew once, and may get a node more than they need.
#[derive(Default)]
struct Memory {
    /// Claims that were made for pods, or have room for them, by the pod's UID.
    nominations: BTreeMap<String, String>,
    /// Pods that were decided on before.
    decided: HashSet<String>,
}

impl Memory {
    fn nominate(&mut self, provisioning: &ProvisioningInput, pods: &[NamespacedName], claim: &str) {
        self.nominations.extend(provisioning.uids(pods).map(|uid| (uid.to_owned(), claim.to_owned())));
    }
}

/// Runs until `stop`.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let mut memory = Memory::default();
    loop {
        let settings = (context.settings.batch_idle, context.settings.batch_max);
        let seen = tokio::select! {
            () = stop.cancelled() => return,
            seen = context.trigger.batch(settings.0, settings.1) => seen,
        };
        // First what static pools lack: pods may use it.
        if let Err(error) = static_capacity::provision(&context).await {
            tracing::error!(error = %chain(&error), "static provisioning failed");
            context.trigger.anything_after(AGAIN);
        }
        let until = Instant::now() + LONGEST;
        match pass(&context, &seen, &mut memory, move || Instant::now() < until).await {
            Ok(Left::Nobody) => {}
            Ok(Left::WithoutAPlace) => context.trigger.anything_after(AGAIN),
            Ok(Left::NotLookedAt) => context.trigger.anything(),
            Err(error) => {
                tracing::error!(error = %chain(&error), "provisioning failed");
                context.trigger.anything_after(AGAIN);
            }
        }
    }
}

/// Pods that a pass has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Everybody has a place.
    Nobody,
    /// Some have none.
    WithoutAPlace,
    /// Some weren't looked at, since the pass ended early.
    NotLookedAt,
}

/// What a pass has decided.
struct Solved {
    provisioning: ProvisioningInput,
    plan: Plan,
    /// Pods that weren't looked at for want of time: nothing is known of them.
    not_looked_at: HashSet<NamespacedName>,
    /// How many pods wait, by the zone that is left to them.
    zones: BTreeMap<String, usize>,
}

fn decide(provisioning: ProvisioningInput, go_on: impl Fn() -> bool) -> Solved {
    let input = &provisioning.input;
    if input.pods.is_empty() {
        let (plan, not_looked_at, zones) = Default::default();
        return Solved { provisioning, plan, not_looked_at, zones };
    }
    let zones = effective_zones(input);
    let ended = Cell::new(false);
    let plan = solve_while(input, &|| {
        let on = !ended.get() && go_on();
        ended.set(!on);
        on
    });
    let unseen =
        |pending: &&PendingPod| pending.reasons.iter().any(|reason| reason.code == ReasonCode::NotEvaluated);
    let not_looked_at = if ended.get() {
        plan.pending.iter().filter(unseen).map(|pending| pending.pod.clone()).collect()
    } else {
        HashSet::new()
    };
    Solved { provisioning, plan, not_looked_at, zones }
}

/// One pass, which looks at pods while `go_on` says so. What was decided until then is carried out.
async fn pass(
    context: &Arc<Context>,
    seen: &HashMap<String, tokio::time::Instant>,
    memory: &mut Memory,
    go_on: impl Fn() -> bool + Send + 'static,
) -> Result<Left, Error> {
    let now = Timestamp::now();
    context.index.expire_assumed(now.saturating_sub(ASSUMED_FOR).unwrap_or(now));
    let snapshot = context.index.snapshot();
    memory.nominations.retain(|_, claim| {
        snapshot.node_claim(claim).is_some_and(|claim| claim.metadata.deletion_timestamp.is_none())
    });
    let options = input_options(context, now, memory.nominations.clone());
    let started = Instant::now();
    // The decision takes as long as it takes; the async threads serve health checks and watches meanwhile.
    let scheduling_id = now.to_string();
    let waiting = Arc::new(AtomicUsize::new(seen.len()));
    let run = context.metrics.scheduling_started("provisioner", &scheduling_id, seen.len());
    let counted = Arc::clone(&waiting);
    let mut solving = tokio::task::spawn_blocking(move || {
        let provisioning = provisioning_input(&snapshot, &options);
        counted.store(provisioning.input.pods.len(), Ordering::Relaxed);
        decide(provisioning, go_on)
    });
    let solved = loop {
        tokio::select! {
            solved = &mut solving => break solved,
            () = tokio::time::sleep(PROGRESS) => {
                run.progress(waiting.load(Ordering::Relaxed), started.elapsed());
            }
        }
    };
    drop(run);
    let solved = solved.map_err(|_| Error::TaskEnded("solve".to_owned()))?;
    report::measure(context, &solved, started.elapsed());
    carry_out(context, &solved, seen, memory).await
}

/// Creates what was planned, and tells people.
async fn carry_out(
    context: &Context,
    solved: &Solved,
    seen: &HashMap<String, tokio::time::Instant>,
    memory: &mut Memory,
) -> Result<Left, Error> {
    let Solved { provisioning, plan, not_looked_at, .. } = solved;
    let wanting: HashSet<&str> = provisioning.input.pods.iter().map(|pod| pod.uid.as_str()).collect();
    memory.nominations.retain(|uid, _| wanting.contains(uid.as_str()));
    memory.decided.retain(|uid| wanting.contains(uid.as_str()));
    follow_buffers(context, provisioning, plan);
    report::note_first_decisions(context, solved, seen, &mut memory.decided);
    if provisioning.input.pods.is_empty() {
        return Ok(Left::Nobody);
    }
    tracing::info!(
        pods = provisioning.input.pods.len(),
        node_claims = plan.node_claims.len(),
        on_existing = plan.placements.iter().map(|placement| placement.pods.len()).sum::<usize>(),
        pending = plan.pending.len() - not_looked_at.len(),
        not_looked_at = not_looked_at.len(),
        "computed a plan"
    );
    for placement in plan.placements.iter().filter(|placement| placement.in_flight) {
        memory.nominate(provisioning, &placement.pods, &placement.node);
    }
    create_all(context, provisioning, plan, memory).await?;
    report::tell(context, solved).await;
    let somebody = plan.pending.iter().any(|pending| provisioning.buffer_of(&pending.pod).is_none());
    Ok(match (somebody, not_looked_at.is_empty()) {
        (false, true) => Left::Nobody,
        (true, true) => Left::WithoutAPlace,
        (_, false) => Left::NotLookedAt,
    })
}

/// Where there is room for buffers goes into their status.
fn follow_buffers(context: &Context, provisioning: &ProvisioningInput, plan: &Plan) {
    for buffer in context.buffers.take(held(provisioning, plan)) {
        context.queues.capacity_buffers.add(buffer);
    }
    if !provisioning.buffer_pods.is_empty() {
        // Real pods take a buffer's room without asking us.
        context.trigger.anything_after(crate::capacity_buffer::AGAIN);
    }
}

/// What isn't in the picture, for a pass that begins now.
pub(crate) fn input_options(
    context: &Context,
    now: Timestamp,
    nominations: BTreeMap<String, String>,
) -> InputOptions {
    InputOptions {
        now,
        origin: Origin::Cluster,
        scope: Scope {
            cluster_name: Some(context.scope.cluster.clone()),
            namespace: Some(context.scope.namespace.clone()),
        },
        scheduling: Options {
            preference_policy: context.settings.preference_policy,
            min_values_policy: context.settings.min_values_policy,
            reserved_offering_mode: ReservedOfferingMode::Strict,
            max_instance_types: MAX_INSTANCE_TYPES,
        },
        gates: context.settings.feature_gates.clone(),
        facts: context.facts.all(),
        nominations,
        marked: BTreeSet::new(),
        scheduler_config: context.settings.scheduler_config.clone(),
    }
}

/// Creates the claims, several at once: a refusal of one is its own. Then their pods are told; no claim waits for that.
async fn create_all(
    context: &Context,
    provisioning: &ProvisioningInput,
    plan: &Plan,
    memory: &mut Memory,
) -> Result<(), Error> {
    let creating: Vec<BoxFuture<'_, _>> =
        plan.node_claims.iter().map(|planned| create(context, provisioning, planned).boxed()).collect();
    // In the order of the plan, whichever is answered first.
    let created: Vec<_> = stream::iter(creating).buffered(CREATED_AT_ONCE).collect().await;
    let mut first_error = None;
    let mut nominations = Vec::new();
    for (planned, created) in plan.node_claims.iter().zip(created) {
        match created {
            Ok(Some(claim)) => {
                memory.nominate(provisioning, &planned.pods, &claim);
                nominations.extend(planned.pods.iter().map(|pod| (pod, claim.clone())));
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!(node_pool = planned.node_pool, error = %chain(&error), "could not create a NodeClaim");
                first_error = first_error.or(Some(error));
            }
        }
    }
    report::nominate(context, provisioning, &nominations).await;
    first_error.map_or(Ok(()), Err)
}

/// Creates one claim and returns its name; None where its NodePool is gone meanwhile.
async fn create(
    context: &Context,
    provisioning: &ProvisioningInput,
    planned: &PlannedNodeClaim,
) -> Result<Option<String>, Error> {
    let snapshot = context.index.snapshot();
    let Some(pool) = snapshot.node_pool(&planned.node_pool) else {
        return Ok(None);
    };
    let Some(mut claim) = draft(planned, pool, provisioning) else {
        return Ok(None);
    };
    claim.metadata.generate_name = Some(format!("{}-", planned.node_pool));
    let params = PostParams {
        field_manager: Some(karpenter_capi_api::names::managers::PROVISIONER.to_owned()),
        ..PostParams::default()
    };
    let created = context.node_claims().create(&params, &claim).await;
    let created = created.attempt(|| format!("create a NodeClaim of NodePool {}", planned.node_pool))?;
    tracing::info!(
        claim = created.metadata.name,
        node_pool = planned.node_pool,
        machine_deployment = assigned(&claim).map(|name| name.to_string()),
        pods = planned.pods.len(),
        "created NodeClaim"
    );
    context.metrics.node_claim_created(&created, "provisioned");
    let name = crate::context::name(&created);
    context.index.assume(created.clone(), Timestamp::now());
    context.changed(crate::watch::Change::Object(created.into()));
    Ok(Some(name))
}

#[cfg(test)]
mod tests;
