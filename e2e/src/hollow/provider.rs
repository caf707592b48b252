//! The provider itself: four controllers in tasks of this process.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Node,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
    runtime::{
        Controller,
        controller::{Action, Config as ControllerConfig},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tracing::{debug, warn};

use super::{
    behaviour::{DefaultDelays, FINALIZER, Seen, Step, step},
    kinds::{HollowCluster, HollowControlPlane, HollowMachine, HollowMachineTemplate, InstanceState},
    node,
};
use crate::plane::ControlPlane;

/// How long after an error an object is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How many objects of a kind are worked on at once.
const CONCURRENCY: u16 = 64;

/// How the hollow cloud behaves where a machine says nothing else.
#[derive(Clone, Debug)]
pub struct ProviderOptions {
    /// The only namespace to play the cloud for; none stands for all. Two providers must not work on the same objects.
    pub namespace: Option<String>,
    /// The workload cluster's kubeconfig as text, for the Secret through which Cluster API reaches it.
    pub workload_kubeconfig: String,
    /// From a `HollowMachine`'s creation to its provider ID.
    pub provision_delay: Duration,
    /// From the provider ID to the Node.
    pub join_delay: Duration,
    /// From a `HollowMachine`'s deletion to the end of its instance.
    pub deletion_delay: Duration,
}

impl ProviderOptions {
    /// A quick cloud in front of a workload cluster: two tenths of a second for each step.
    pub fn of_plane(workload: &ControlPlane) -> Result<Self> {
        let path = workload.kubeconfig();
        let workload_kubeconfig =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let delay = Duration::from_millis(200);
        Ok(Self {
            namespace: None,
            workload_kubeconfig,
            provision_delay: delay,
            join_delay: delay,
            deletion_delay: delay,
        })
    }
}

/// The running provider; dropping it stops the cloud where it is, and a new one goes on from there.
#[derive(Debug)]
pub struct Provider {
    _tasks: JoinSet<()>,
}

impl Provider {
    /// Plays the cloud for a management cluster; Nodes go to the workload cluster, which may be the same.
    ///
    /// Must be called within a tokio runtime, after [`install`](super::install).
    pub fn start(management: &Client, workload: &Client, options: ProviderOptions) -> Self {
        let context = Arc::new(Context {
            management: management.clone(),
            workload: workload.clone(),
            options,
            first_seen: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(run(Arc::clone(&context), reconcile_machine));
        tasks.spawn(run(Arc::clone(&context), reconcile_template));
        tasks.spawn(run(Arc::clone(&context), reconcile_cluster));
        tasks.spawn(run(context, reconcile_control_plane));
        Self { _tasks: tasks }
    }
}

struct Context {
    management: Client,
    workload: Client,
    options: ProviderOptions,
    /// When a machine was first seen, and first seen deleting, by uid.
    first_seen: Mutex<BTreeMap<String, (Timestamp, Option<Timestamp>)>>,
}

/// An error of a reconciliation; it is logged and the object is tried again.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
struct Error(anyhow::Error);

async fn run<K, F>(context: Arc<Context>, reconcile: fn(Arc<K>, Arc<Context>) -> F)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
    F: Future<Output = Result<Action>> + Send + 'static,
    K::DynamicType: Eq + Hash,
{
    let reconcile = move |object, context| {
        let reconciled = reconcile(object, context);
        async { reconciled.await.map_err(Error) }
    };
    let retry = |object: Arc<K>, error: &Error, _: Arc<Context>| {
        warn!(kind = %K::kind(&()), name = object.name_any(), %error, "hollow provider tries again");
        Action::requeue(RETRY)
    };
    let client = context.management.clone();
    let api: Api<K> = match &context.options.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    Controller::new(api, watcher::Config::default())
        .with_config(ControllerConfig::default().concurrency(CONCURRENCY))
        .run(reconcile, retry, context)
        .for_each(|result| {
            if let Err(error) = result {
                debug!(%error, "hollow provider");
            }
            std::future::ready(())
        })
        .await;
}

fn namespaced<K>(client: &Client, object: &K) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), &object.namespace().unwrap_or_default())
}

async fn patch_status<K>(api: &Api<K>, name: &str, status: Value) -> Result<K>
where
    K: Clone + Debug + DeserializeOwned,
{
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch).await.with_context(|| format!("status of {name}"))
}

async fn reconcile_cluster(cluster: Arc<HollowCluster>, context: Arc<Context>) -> Result<Action> {
    if cluster.status.as_ref().is_none_or(|status| status.initialization.is_none()) {
        let api = namespaced(&context.management, cluster.as_ref());
        patch_status(&api, &cluster.name_any(), json!({ "initialization": { "provisioned": true } })).await?;
    }
    Ok(Action::await_change())
}

/// Writes the Secret through which Cluster API reaches the workload cluster, then says that the control plane answers.
async fn reconcile_control_plane(
    control_plane: Arc<HollowControlPlane>,
    context: Arc<Context>,
) -> Result<Action> {
    let owners = control_plane.metadata.owner_references.as_deref().unwrap_or_default();
    let Some(cluster) = owners.iter().find(|owner| owner.kind == "Cluster") else {
        return Ok(Action::await_change());
    };
    if control_plane.status.as_ref().is_some_and(|status| status.initialization.is_some()) {
        return Ok(Action::await_change());
    }
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": format!("{}-kubeconfig", cluster.name),
            "namespace": control_plane.namespace(),
            "labels": { "cluster.x-k8s.io/cluster-name": cluster.name },
        },
        "type": "cluster.x-k8s.io/secret",
        "stringData": { "value": context.options.workload_kubeconfig },
    });
    crate::objects::apply(&context.management, &secret).await?;
    let status = json!({
        "externalManagedControlPlane": true,
        "version": control_plane.spec.version,
        "initialization": { "controlPlaneInitialized": true },
    });
    let api = namespaced(&context.management, control_plane.as_ref());
    patch_status(&api, &control_plane.name_any(), status).await?;
    Ok(Action::await_change())
}

async fn reconcile_template(template: Arc<HollowMachineTemplate>, context: Arc<Context>) -> Result<Action> {
    let machine = &template.spec.template.spec;
    let reported = template.status.as_ref().is_some_and(|status| status.capacity == machine.capacity);
    if template.spec.report_capacity && !reported {
        let label =
            |key: &str, default: &str| machine.labels.get(key).cloned().unwrap_or_else(|| default.to_owned());
        let status = json!({
            "capacity": machine.capacity,
            "nodeInfo": { "architecture": label(node::ARCH, "amd64"), "operatingSystem": label(node::OS, "linux") },
        });
        patch_status(&namespaced(&context.management, template.as_ref()), &template.name_any(), status)
            .await?;
    }
    Ok(Action::await_change())
}

async fn reconcile_machine(machine: Arc<HollowMachine>, context: Arc<Context>) -> Result<Action> {
    let api = namespaced(&context.management, machine.as_ref());
    let defaults = DefaultDelays {
        provision: context.options.provision_delay,
        join: context.options.join_delay,
        deletion: context.options.deletion_delay,
    };
    let mut machine = machine.as_ref().clone();
    // Steps that need no waiting follow one another on the object that the last write returned.
    loop {
        let seen = context.seen(&machine);
        machine = match step(&machine, seen, defaults).map_err(anyhow::Error::msg)? {
            Step::Rest => return Ok(Action::await_change()),
            Step::Wait(rest) => return Ok(Action::requeue(rest)),
            Step::Guard => set_finalizers(&api, &machine, true).await?,
            Step::Refuse => {
                let message = format!("the hollow cloud has no capacity for {}", machine.name_any());
                let status = json!({ "conditions": [ready(&machine, Err(("InsufficientCapacity", &message)), seen.now)] });
                patch_status(&api, &machine.name_any(), status).await?
            }
            Step::Provision => provision(&api, &machine, seen.now).await?,
            Step::Join => join(&context.workload, &api, &machine).await?,
            Step::Vanish => vanish(&context.workload, &api, &machine, seen.now).await?,
            Step::Release => {
                set_finalizers(&api, &machine, false).await?;
                context.forget(&machine);
                return Ok(Action::await_change());
            }
        };
    }
}

impl Context {
    fn seen(&self, machine: &HollowMachine) -> Seen {
        let now = Timestamp::now();
        let mut first_seen = self.first_seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (created, deleted) = first_seen.entry(machine.uid().unwrap_or_default()).or_insert((now, None));
        if machine.metadata.deletion_timestamp.is_some() {
            deleted.get_or_insert(now);
        }
        Seen { now, created: *created, deleted: *deleted }
    }

    fn forget(&self, machine: &HollowMachine) {
        let mut first_seen = self.first_seen.lock().unwrap_or_else(PoisonError::into_inner);
        first_seen.remove(&machine.uid().unwrap_or_default());
    }
}

/// Writes the list of finalizers with ours or without it, unless somebody else changed the object since.
async fn set_finalizers(
    api: &Api<HollowMachine>,
    machine: &HollowMachine,
    ours: bool,
) -> Result<HollowMachine> {
    let mut finalizers = machine.metadata.finalizers.clone().unwrap_or_default();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    if ours {
        finalizers.push(FINALIZER.to_owned());
    }
    let metadata = json!({ "finalizers": finalizers, "resourceVersion": machine.resource_version() });
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    api.patch(&machine.name_any(), &PatchParams::default(), &patch).await.context("writing finalizers")
}

/// The provider ID comes before the status: Cluster API reads both as soon as the status says provisioned.
async fn provision(
    api: &Api<HollowMachine>,
    machine: &HollowMachine,
    now: Timestamp,
) -> Result<HollowMachine> {
    let name = machine.name_any();
    let spec = Patch::Merge(json!({ "spec": { "providerID": node::provider_id(machine) } }));
    api.patch(&name, &PatchParams::default(), &spec).await.context("writing the provider ID")?;
    let status = json!({
        "initialization": { "provisioned": true },
        "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
        "conditions": [ready(machine, Ok("InstanceRunning"), now)],
        "instanceState": InstanceState::Running,
        "runningSince": micro(now),
    });
    patch_status(api, &name, status).await
}

async fn join(workload: &Client, api: &Api<HollowMachine>, machine: &HollowMachine) -> Result<HollowMachine> {
    let nodes: Api<Node> = Api::all(workload.clone());
    match nodes.create(&PostParams::default(), &node::of(machine)).await {
        Ok(_) => {}
        // The last try got so far and its status was lost.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => return Err(error).context("creating the Node"),
    }
    let status = json!({ "instanceState": InstanceState::Joined, "joinedAt": micro(Timestamp::now()) });
    patch_status(api, &machine.name_any(), status).await
}

async fn vanish(
    workload: &Client,
    api: &Api<HollowMachine>,
    machine: &HollowMachine,
    now: Timestamp,
) -> Result<HollowMachine> {
    let nodes: Api<Node> = Api::all(workload.clone());
    match nodes.delete(&machine.name_any(), &DeleteParams::default()).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error).context("deleting the Node of a vanished instance"),
    }
    let status = json!({
        "instanceState": InstanceState::Vanished,
        "conditions": [ready(machine, Err(("InstanceVanished", "the instance is gone")), now)],
    });
    patch_status(api, &machine.name_any(), status).await
}

fn micro(time: Timestamp) -> Value {
    json!(k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(time))
}

fn ready(machine: &HollowMachine, state: Result<&str, (&str, &str)>, now: Timestamp) -> Condition {
    let (status, reason, message) = match state {
        Ok(reason) => ("True", reason, ""),
        Err((reason, message)) => ("False", reason, message),
    };
    Condition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(now),
        observed_generation: machine.metadata.generation,
    }
}
