//! The ledger's shell: read one MachineDeployment and everything of it live, decide, write.

mod revisions;
mod tell;
mod write;

pub(crate) use write::finish_claim;

use crate::context::{Context, of_machine_deployment};
use crate::error::{Attempt, Error, chain, is_not_found};
use crate::facts::Lesson;
use crate::queue::Outcome;
use jiff::Timestamp;
use karpenter_capi_api::capi::{Machine, MachineDeployment, MachineSet};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_cluster::input::{Owned, offer};
use karpenter_capi_lifecycle::claim::is_drained;
use karpenter_capi_lifecycle::ledger::{
    ClaimView, Entry, MachineDeploymentView, MachineSetView, MachineView, Observed, Orphans, Trust, assigned,
    step,
};
use karpenter_capi_lifecycle::workload::Recognition;
use karpenter_capi_model::name::NamespacedName;
use kube::api::ListParams;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// What this process has seen of each MachineDeployment over time.
#[derive(Default)]
pub(crate) struct Memory {
    /// Since when it has been at rest.
    rest: Mutex<HashMap<NamespacedName, Timestamp>>,
    /// Since when things of it have had no claim.
    orphans: Mutex<HashMap<NamespacedName, Orphans>>,
}

impl Memory {
    fn at_rest_since(&self, deployment: &NamespacedName, at_rest: bool, now: Timestamp) -> Option<Timestamp> {
        let mut all = self.rest.lock();
        if at_rest {
            Some(*all.entry(deployment.clone()).or_insert(now))
        } else {
            all.remove(deployment);
            None
        }
    }

    fn forget(&self, deployment: &NamespacedName) {
        self.rest.lock().remove(deployment);
        self.orphans.lock().remove(deployment);
    }
}

/// A foreign workload cluster is looked at again after this long.
const REFUSED: Duration = Duration::from_secs(30);

/// The objects of one MachineDeployment, read live.
struct Live {
    deployment: Option<MachineDeployment>,
    sets: Vec<Arc<MachineSet>>,
    machines: Vec<Arc<Machine>>,
}

/// Brings ledger, replicas, Machines and claims one step closer to each other; the claims say what is in the way.
pub(crate) async fn reconcile(context: Arc<Context>, memory: Arc<Memory>, name: NamespacedName) -> Outcome {
    let outcome = step_closer(&context, &memory, &name).await;
    if let Err(error) = &outcome
        && let Err(untold) = tell::failure(&context, &name, error).await
    {
        tracing::debug!(machine_deployment = %name, error = %chain(&untold), "not told on the claims yet");
    }
    outcome
}

async fn step_closer(context: &Context, memory: &Memory, name: &NamespacedName) -> Outcome {
    let claims = claims(context, name);
    let known = context.index.snapshot().machine_deployments.contains_key(name);
    if claims.is_empty() && !known {
        context.facts.forget(name);
        memory.forget(name);
        context.metrics.forget_machine_deployment(&name.namespace, &name.name);
        return Ok(None);
    }
    if let Some(message) = crate::workload::refusal(context) {
        tracing::warn!(machine_deployment = %name, "nothing is written: {message}");
        return Ok(Some(REFUSED));
    }
    // Claims from the index are at least as old as what is read now: a claim that has just come is seen in the next step.
    let live = read(context, name).await?;
    let now = Timestamp::now();
    let deployment = live.deployment.as_ref().map(|deployment| view(context, deployment, &live, now));
    let sets: Vec<_> = live.sets.iter().map(|set| MachineSetView::of(set)).collect();
    let machines: Vec<_> = live.machines.iter().map(|machine| MachineView::of(machine)).collect();
    let mut claims: Vec<_> = claims.iter().map(|claim| claim_view(context, claim, &live)).collect();
    if let Some(deployment) = &deployment {
        claims.extend(orphans(context, memory, deployment, &machines, &claims).await?);
    }
    let mut observed = Observed {
        now,
        machine_deployment: deployment.as_ref(),
        machine_sets: &sets,
        machines: &machines,
        claims: &claims,
        at_rest_since: None,
    };
    observed.at_rest_since = memory.at_rest_since(name, observed.at_rest(), now);
    let step = step(&observed);
    if step.scaled_by_others {
        let message = format!("somebody set {name} to fewer replicas than are claimed");
        tell::scaled_by_others(context, live.deployment.as_ref(), &message).await;
        context.facts.learn(name, Lesson::ScaledByOthers, message, now);
    }
    if let Some(deployment) = &deployment {
        let (replicas, claims) =
            (i32::try_from(deployment.replicas), usize::try_from(deployment.ledger.len()));
        context.metrics.machine_deployment(
            &name.namespace,
            &name.name,
            replicas.unwrap_or(i32::MAX),
            claims.unwrap_or_default(),
        );
    }
    for write in step.writes {
        write::write(context, name, live.deployment.as_ref(), write).await?;
    }
    tell::waiting(context, name, &step.waiting).await?;
    Ok(step.look_again.map(|wait| Duration::try_from(wait).unwrap_or(Duration::from_secs(1))))
}

fn claims(context: &Context, deployment: &NamespacedName) -> Vec<Arc<NodeClaim>> {
    let snapshot = context.index.snapshot();
    snapshot
        .node_claims
        .values()
        .filter(|claim| assigned(claim).as_ref() == Some(deployment))
        .cloned()
        .collect()
}

async fn read(context: &Context, name: &NamespacedName) -> Result<Live, Error> {
    let deployment = match context.capi::<MachineDeployment>().get(&name.name).await {
        Ok(deployment) => Some(deployment),
        Err(error) if is_not_found(&error) => None,
        Err(error) => return Err(error).attempt(|| format!("read MachineDeployment {name}")),
    };
    // In this order: a MachineSet or Machine is never older than what the MachineDeployment had asked for when it was read.
    let params = of_machine_deployment(name);
    let sets =
        context.capi::<MachineSet>().list(&params).await.attempt(|| format!("list MachineSets of {name}"))?;
    let machines =
        context.capi::<Machine>().list(&params).await.attempt(|| format!("list Machines of {name}"))?;
    let mut machines: Vec<_> = machines.items.into_iter().map(Arc::new).collect();
    machines.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    Ok(Live { deployment, sets: sets.items.into_iter().map(Arc::new).collect(), machines })
}

fn view(
    context: &Context,
    deployment: &MachineDeployment,
    live: &Live,
    now: Timestamp,
) -> MachineDeploymentView {
    let snapshot = context.index.snapshot();
    let owned = Owned { machine_sets: &live.sets, machines: &live.machines };
    let facts = context.facts.of(&crate::context::key(deployment));
    let entry = offer(&snapshot, deployment, owned, &facts, now);
    let cluster = context.cluster();
    MachineDeploymentView::of(
        deployment,
        cluster.as_deref(),
        entry.instance_type.headroom,
        &entry.unavailable,
    )
}

fn claim_view(context: &Context, claim: &NodeClaim, live: &Live) -> ClaimView {
    let reference = karpenter_capi_lifecycle::ledger::ClaimRef::of(claim).to_string();
    let carries = |machine: &&Arc<Machine>| {
        let annotations = machine.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(karpenter_capi_api::names::annotations::NODECLAIM))
            == Some(&reference)
    };
    let machine = live.machines.iter().find(carries);
    let snapshot = context.index.snapshot();
    let node = machine.and_then(|machine| machine.node_name()).and_then(|node| snapshot.node(node));
    ClaimView::of(claim, is_drained(claim, node.map(Arc::as_ref)))
}

/// What is to be given back though its claim is gone. The claims are listed live before anything is: the index may lag.
async fn orphans(
    context: &Context,
    memory: &Memory,
    deployment: &MachineDeploymentView,
    machines: &[MachineView],
    claims: &[ClaimView],
) -> Result<Vec<ClaimView>, Error> {
    let recognized = matches!(crate::workload::recognition(context), Some(Recognition::Known));
    let any_claim =
        context.index.snapshot().node_claims.values().any(|claim| claim.spec.node_class_ref.is_ours());
    let trust = if recognized && any_claim { Trust::Full } else { Trust::None };
    let mut ripe = {
        let mut all = memory.orphans.lock();
        let orphans = all.entry(deployment.name.clone()).or_default();
        let ripe = orphans.ripe(deployment, machines, claims, trust, Timestamp::now());
        if !orphans.is_empty() && trust == Trust::None {
            tracing::warn!(machine_deployment = %deployment.name, count = orphans.len(), "Machines or ledger entries have no claim; nothing is given back while no claim is visible or the workload cluster isn't the recorded one");
        }
        ripe
    };
    if !ripe.is_empty() {
        let live = context
            .node_claims()
            .list(&ListParams::default())
            .await
            .attempt(|| "list NodeClaims".to_owned())?;
        let existing: BTreeSet<Entry> = live.items.iter().map(Entry::of).collect();
        ripe.retain(|orphan| !existing.contains(&orphan.entry));
        for orphan in &ripe {
            tracing::warn!(machine_deployment = %deployment.name, entry = %orphan.entry, "giving back what has had no claim for long");
        }
    }
    Ok(ripe)
}
