//! The ledger's shell: read one MachineDeployment and everything of it live, decide, write.

mod revisions;
mod write;

pub(crate) use write::finish_claim;

use crate::context::{Context, of_machine_deployment};
use crate::error::{Attempt, Error, is_not_found};
use crate::facts::Lesson;
use crate::queue::Outcome;
use jiff::Timestamp;
use karpenter_capi_api::capi::{Machine, MachineDeployment, MachineSet};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_cluster::input::{Owned, offer};
use karpenter_capi_lifecycle::claim::is_drained;
use karpenter_capi_lifecycle::ledger::{ClaimView, MachineDeploymentView, MachineSetView, MachineView, Observed, assigned, step};
use karpenter_capi_model::name::NamespacedName;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Since when each MachineDeployment has been at rest, as far as this process has seen.
#[derive(Default)]
pub(crate) struct Rest(Mutex<HashMap<NamespacedName, Timestamp>>);

impl Rest {
    fn observe(&self, deployment: &NamespacedName, at_rest: bool, now: Timestamp) -> Option<Timestamp> {
        let mut all = self.0.lock();
        if at_rest {
            Some(*all.entry(deployment.clone()).or_insert(now))
        } else {
            all.remove(deployment);
            None
        }
    }
}

/// The objects of one MachineDeployment, read live.
struct Live {
    deployment: Option<MachineDeployment>,
    sets: Vec<Arc<MachineSet>>,
    machines: Vec<Arc<Machine>>,
}

/// Brings ledger, replicas, Machines and claims one step closer to each other.
pub(crate) async fn reconcile(context: Arc<Context>, rest: Arc<Rest>, name: NamespacedName) -> Outcome {
    let claims = claims(&context, &name);
    let known = context.index.snapshot().machine_deployments.contains_key(&name);
    if claims.is_empty() && !known {
        context.facts.forget(&name);
        context.metrics.forget_machine_deployment(&name.namespace, &name.name);
        return Ok(None);
    }
    // Claims from the index are at least as old as what is read now: a claim that has just come is seen in the next step.
    let live = read(&context, &name).await?;
    let now = Timestamp::now();
    let deployment = live.deployment.as_ref().map(|deployment| view(&context, deployment, &live, now));
    let sets: Vec<_> = live.sets.iter().map(|set| MachineSetView::of(set)).collect();
    let machines: Vec<_> = live.machines.iter().map(|machine| MachineView::of(machine)).collect();
    let claims: Vec<_> = claims.iter().map(|claim| claim_view(&context, claim, &live)).collect();
    let mut observed = Observed {
        now,
        machine_deployment: deployment.as_ref(),
        machine_sets: &sets,
        machines: &machines,
        claims: &claims,
        at_rest_since: None,
    };
    observed.at_rest_since = rest.observe(&name, observed.at_rest(), now);
    let step = step(&observed);
    if step.scaled_by_others {
        let message = format!("somebody set {name} to fewer replicas than are claimed");
        context.facts.learn(&name, Lesson::ScaledByOthers, message, now);
    }
    if let Some(deployment) = &deployment {
        let (replicas, claims) = (i32::try_from(deployment.replicas), usize::try_from(deployment.ledger.len()));
        context.metrics.machine_deployment(&name.namespace, &name.name, replicas.unwrap_or(i32::MAX), claims.unwrap_or_default());
    }
    for write in step.writes {
        write::write(&context, &name, live.deployment.as_ref(), write).await?;
    }
    for waiting in step.waiting {
        tracing::info!(claim = waiting.claim.name, machine_deployment = %name, "waiting: {}", waiting.message);
        write::tell_waiting(&context, &waiting).await;
    }
    Ok(step.look_again.map(|wait| Duration::try_from(wait).unwrap_or(Duration::from_secs(1))))
}

fn claims(context: &Context, deployment: &NamespacedName) -> Vec<Arc<NodeClaim>> {
    let snapshot = context.index.snapshot();
    snapshot.node_claims.values().filter(|claim| assigned(claim).as_ref() == Some(deployment)).cloned().collect()
}

async fn read(context: &Context, name: &NamespacedName) -> Result<Live, Error> {
    let deployment = match context.capi::<MachineDeployment>().get(&name.name).await {
        Ok(deployment) => Some(deployment),
        Err(error) if is_not_found(&error) => None,
        Err(error) => return Err(error).attempt(|| format!("read MachineDeployment {name}")),
    };
    // In this order: a MachineSet or Machine is never older than what the MachineDeployment had asked for when it was read.
    let params = of_machine_deployment(name);
    let sets = context.capi::<MachineSet>().list(&params).await.attempt(|| format!("list MachineSets of {name}"))?;
    let machines = context.capi::<Machine>().list(&params).await.attempt(|| format!("list Machines of {name}"))?;
    let mut machines: Vec<_> = machines.items.into_iter().map(Arc::new).collect();
    machines.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    Ok(Live { deployment, sets: sets.items.into_iter().map(Arc::new).collect(), machines })
}

fn view(context: &Context, deployment: &MachineDeployment, live: &Live, now: Timestamp) -> MachineDeploymentView {
    let snapshot = context.index.snapshot();
    let owned = Owned { machine_sets: &live.sets, machines: &live.machines };
    let facts = context.facts.of(&crate::context::key(deployment));
    let entry = offer(&snapshot, deployment, owned, &facts, now);
    let cluster = context.cluster();
    MachineDeploymentView::of(deployment, cluster.as_deref(), entry.instance_type.headroom, &entry.unavailable)
}

fn claim_view(context: &Context, claim: &NodeClaim, live: &Live) -> ClaimView {
    let reference = karpenter_capi_lifecycle::ledger::ClaimRef::of(claim).to_string();
    let carries = |machine: &&Arc<Machine>| {
        let annotations = machine.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(karpenter_capi_api::names::annotations::NODECLAIM)) == Some(&reference)
    };
    let machine = live.machines.iter().find(carries);
    let snapshot = context.index.snapshot();
    let node = machine.and_then(|machine| machine.node_name()).and_then(|node| snapshot.node(node));
    ClaimView::of(claim, is_drained(claim, node.map(Arc::as_ref)))
}
