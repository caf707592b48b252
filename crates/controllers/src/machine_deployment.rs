//! The ledger's shell: read one MachineDeployment and everything of it live, decide, write.

mod revisions;
mod tell;
mod write;

pub(crate) use write::finish_claim;

use crate::context::{Context, of_machine_deployment};
use crate::error::{Attempt, Class, Error, chain};
use crate::facts::Lesson;
use crate::queue::Outcome;
use jiff::Timestamp;
use karpenter_capi_api::capi::{Machine, MachineDeployment, MachineSet};
use karpenter_capi_api::hypershift;
use karpenter_capi_api::names::conditions::reasons;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_cluster::input::{Origin, Owned, offer};
use karpenter_capi_cluster::surface;
use karpenter_capi_lifecycle::claim::is_drained;
use karpenter_capi_lifecycle::ledger::{
    ClaimView, Entry, MachineDeploymentView, MachineSetView, MachineView, Observed, Orphans, Trust, Write,
    assigned, step,
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

/// What may not be written is looked at again after this long.
const REFUSED: Duration = Duration::from_secs(30);

/// The objects of one MachineDeployment, read live.
struct Live {
    deployment: Option<MachineDeployment>,
    /// The HyperShift NodePool that carries its number and ledger.
    hypershift: Option<hypershift::NodePool>,
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
    let live = match read(context, name).await? {
        Ok(live) => live,
        Err(message) => {
            tell::out_of_reach(context, name, &message).await?;
            return Ok(Some(REFUSED));
        }
    };
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
    if let Some(deployment) = &deployment {
        if step.scaled_by_others {
            learn_of_lowering(context, live.deployment.as_ref(), deployment, now).await;
        }
        let (replicas, claims) =
            (i32::try_from(deployment.replicas), usize::try_from(deployment.ledger.len()));
        context.metrics.machine_deployment(
            &name.namespace,
            &name.name,
            replicas.unwrap_or(i32::MAX),
            claims.unwrap_or_default(),
        );
    }
    write_all(context, name, &live, step.writes).await?;
    tell::waiting(context, name, &step.waiting).await?;
    Ok(step.look_again.map(|wait| Duration::try_from(wait).unwrap_or(Duration::from_secs(1))))
}

/// Makes the writes in order, without those that fall with one that met a conflict. The first conflict is returned.
async fn write_all(
    context: &Context,
    name: &NamespacedName,
    live: &Live,
    writes: Vec<Write>,
) -> Result<(), Error> {
    let mut conflicts: Vec<(Write, Error)> = Vec::new();
    for write in writes {
        if conflicts.iter().any(|(conflicting, _)| write.falls_with(conflicting)) {
            continue;
        }
        match write::write(context, name, live, write.clone()).await {
            Ok(()) => {}
            Err(error) if error.class() == Class::Conflict => conflicts.push((write, error)),
            Err(error) => return Err(error),
        }
    }
    conflicts.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}

/// Somebody took machines of ours: the offering is out for a while, and its owner is told once why.
async fn learn_of_lowering(
    context: &Context,
    object: Option<&MachineDeployment>,
    deployment: &MachineDeploymentView,
    now: Timestamp,
) {
    let message = format!(
        "somebody set {} to {} replicas, below the {} that are claimed",
        deployment.name,
        deployment.replicas,
        deployment.ledger.len()
    );
    let news = context.facts.learn(&deployment.name, Lesson::ScaledByOthers, message.clone(), now);
    if let Some(object) = object.filter(|_| news) {
        tracing::warn!("{message}");
        let about = context.capi_reference(object);
        context.management_events.warning(&about, reasons::SCALED_BY_OTHERS, message).await;
    }
}

fn claims(context: &Context, deployment: &NamespacedName) -> Vec<Arc<NodeClaim>> {
    let snapshot = context.index.snapshot();
    snapshot
        .node_claims
        .values()
        // A claim of another Karpenter has our annotation when its pool's template has it.
        .filter(|claim| claim.spec.node_class_ref.is_ours() && assigned(claim).as_ref() == Some(deployment))
        .cloned()
        .collect()
}

/// Reads everything; a message: number and ledger stand where we can't read them, and nothing may be decided.
async fn read(context: &Context, name: &NamespacedName) -> Result<Result<Live, String>, Error> {
    let mut deployment = read_deployment(context, name).await?;
    let hypershift = match deployment.as_ref().and_then(surface::node_pool_name) {
        None => None,
        Some(Err(message)) => return Ok(Err(message)),
        Some(Ok(owner)) => {
            let Some(pool) = read_node_pool(context, &owner).await? else {
                return Ok(Err(surface::out_of_reach(&owner)));
            };
            // Again, so that it isn't older than the number that it is compared with.
            deployment = read_deployment(context, name).await?;
            Some(pool)
        }
    };
    // In this order: a MachineSet or Machine is never older than what the MachineDeployment had asked for when it was read.
    let params = of_machine_deployment(name);
    let sets =
        context.capi::<MachineSet>().list(&params).await.attempt(|| format!("list MachineSets of {name}"))?;
    let machines =
        context.capi::<Machine>().list(&params).await.attempt(|| format!("list Machines of {name}"))?;
    let mut machines: Vec<_> = machines.items.into_iter().map(Arc::new).collect();
    machines.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    Ok(Ok(Live { deployment, hypershift, sets: sets.items.into_iter().map(Arc::new).collect(), machines }))
}

async fn read_deployment(
    context: &Context,
    name: &NamespacedName,
) -> Result<Option<MachineDeployment>, Error> {
    let read = context.capi::<MachineDeployment>().get_opt(&name.name).await;
    read.attempt(|| format!("read MachineDeployment {name}"))
}

/// None: it is gone, or not in the namespace that we may look at.
async fn read_node_pool(
    context: &Context,
    name: &NamespacedName,
) -> Result<Option<hypershift::NodePool>, Error> {
    let ours = context.scope.hypershift_namespace.as_ref() == Some(&name.namespace);
    let Some(api) = context.hypershift_node_pools().filter(|_| ours) else {
        return Ok(None);
    };
    api.get_opt(&name.name).await.attempt(|| format!("read HyperShift NodePool {name}"))
}

fn view(
    context: &Context,
    deployment: &MachineDeployment,
    live: &Live,
    now: Timestamp,
) -> MachineDeploymentView {
    let snapshot = context.index.snapshot();
    let owned = Owned { machine_sets: &live.sets, machines: &live.machines };
    let mut facts = context.facts.of(&crate::context::key(deployment));
    surface::learn(&snapshot, deployment, Origin::Cluster, &mut facts);
    let entry = offer(&snapshot, deployment, owned, &facts, now);
    let cluster = context.cluster();
    MachineDeploymentView::of(
        deployment,
        live.hypershift.as_ref(),
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
