//! Everybody else's hand on Machines and numbers: health checks, roll-outs, topologies and people.

mod health_check;
mod on_delete;
mod people;
mod roll_out;
mod topology;

use super::stage::{NAMESPACE, Stage};
use super::termination::name;
use anyhow::{Result, ensure};
use futures::StreamExt;
use karpenter_capi_api::capi::{CapiVersion, Machine, MachineDeployment};
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::hollow::MachineDeploymentOptions;
use karpenter_capi_e2e::{hollow, objects, wait, workload};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// Sees every change of one MachineDeployment and its Machines until it is dropped.
struct Witness {
    seen: Arc<Mutex<Seen>>,
    _watches: JoinSet<()>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    /// Each number that `spec.replicas` had, one after the other.
    replicas: Vec<i32>,
    /// Each state of the pause: whether it was there, and whether with our note.
    pauses: Vec<(bool, bool)>,
    /// Every Machine that there was, by name, with the claims that it carried.
    machines: BTreeMap<String, BTreeSet<String>>,
}

impl Witness {
    fn of(stage: &Stage<'_>, deployment: &str) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut watches = JoinSet::new();
        let config = Config::default().fields(&format!("metadata.name={deployment}"));
        let api = capi::<MachineDeployment>(&stage.management);
        watches.spawn(watch(api, config, Arc::clone(&seen), Seen::deployment));
        let config = Config::default().labels(&format!("cluster.x-k8s.io/deployment-name={deployment}"));
        let api = capi::<Machine>(&stage.management);
        watches.spawn(watch(api, config, Arc::clone(&seen), Seen::machine));
        Self { seen, _watches: watches }
    }

    fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Seen {
    fn deployment(&mut self, deployment: &MachineDeployment) {
        let has =
            |key: &str| deployment.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
        push_news(&mut self.replicas, deployment.spec.replicas.unwrap_or_default());
        push_news(&mut self.pauses, (has(annotations::CAPI_PAUSED), has(annotations::PAUSE_FOR)));
    }

    fn machine(&mut self, machine: &Machine) {
        let claims = self.machines.entry(machine.metadata.name.clone().unwrap_or_default()).or_default();
        let claim = machine.metadata.annotations.as_ref().and_then(|all| all.get(annotations::NODECLAIM));
        claims.extend(claim.cloned());
    }
}

fn push_news<T: PartialEq>(all: &mut Vec<T>, next: T) {
    if all.last() != Some(&next) {
        all.push(next);
    }
}

async fn watch<K>(api: Api<K>, config: Config, seen: Arc<Mutex<Seen>>, note: fn(&mut Seen, &K))
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let mut events = std::pin::pin!(watcher(api, config));
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(object) | Event::InitApply(object)) = event {
            note(&mut seen.lock().unwrap_or_else(PoisonError::into_inner), &object);
        }
    }
}

/// One kind of Cluster API.
fn capi<K>(client: &Client) -> Api<K>
where
    K: kube::Resource<DynamicType = CapiVersion, Scope = kube::core::DynamicResourceScope>,
{
    Api::namespaced_with(client.clone(), NAMESPACE, &CapiVersion::V1Beta2)
}

/// Gives a MachineDeployment machines of its own, which no claim is for, and waits for their Nodes.
async fn floor_of(stage: &Stage<'_>, mut options: MachineDeploymentOptions, floor: u32) -> Result<()> {
    options.replicas = floor;
    stage.machine_deployment(&options).await?;
    // Whoever applies the number once more takes it back from the operator.
    wait::eventually(&format!("{floor} Nodes are Ready"), Duration::from_mins(1), async || {
        let nodes = workload::nodes(&stage.client).await?;
        let ready = nodes.iter().filter(|node| workload::is_ready(node)).count();
        ensure!(ready == usize::try_from(floor)?, "{ready} are Ready");
        Ok(())
    })
    .await
}

/// Changes a MachineDeployment as a person with kubectl does.
async fn change(stage: &Stage<'_>, deployment: &str, patch: Value) -> Result<()> {
    let api = capi::<MachineDeployment>(&stage.management);
    api.patch(deployment, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// A machine template of that name, and the MachineDeployment made to use it.
pub(super) async fn use_template(
    stage: &Stage<'_>,
    deployment: &str,
    template: &str,
    options: &MachineDeploymentOptions,
) -> Result<()> {
    let (mut made, _) = hollow::machine_deployment(options);
    made.metadata.name = Some(template.to_owned());
    objects::apply(&stage.management, &serde_json::to_value(made)?).await?;
    let patch = json!({ "spec": { "template": { "spec": { "infrastructureRef": { "name": template } } } } });
    change(stage, deployment, patch).await
}

/// Machines that carry no claim and aren't going.
async fn unowned(stage: &Stage<'_>) -> Result<BTreeSet<String>> {
    let machines = stage.machines().await?;
    let unowned = machines.iter().filter(|machine| {
        let annotations = machine.metadata.annotations.as_ref();
        machine.metadata.deletion_timestamp.is_none()
            && !annotations.is_some_and(|all| all.contains_key(annotations::NODECLAIM))
    });
    Ok(unowned.filter_map(|machine| machine.metadata.name.clone()).collect())
}

/// Claims that aren't going, by name.
async fn staying(stage: &Stage<'_>) -> Result<BTreeMap<String, NodeClaim>> {
    let claims = stage.claims().await?.into_iter();
    let staying = claims.filter(|claim| claim.metadata.deletion_timestamp.is_none());
    Ok(staying.map(|claim| (name(&claim), claim)).collect())
}

/// That many claims that stay, and no other.
async fn claims_are(stage: &Stage<'_>, count: usize) -> Result<BTreeMap<String, NodeClaim>> {
    let claims = staying(stage).await?;
    ensure!(claims.len() == count, "{} claims", claims.len());
    Ok(claims)
}
