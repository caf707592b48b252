//! Starts everything, in order, and ends it together.

mod gated;

use crate::context::{Context, Queues};
use crate::machine_deployment::Memory;
use crate::metrics::Metrics;
use crate::optional::{self, Place};
use crate::queue::{Outcome, Queue, Requests, work};
use crate::templates::{TemplateKind, Watched};
use crate::watch::feed;
use crate::{Clients, Error, Scope, Settings, provisioner};
use k8s_openapi::api::{apps::v1 as apps, core::v1 as core, policy::v1 as policy, storage::v1 as storage};
use karpenter_capi_api::capi::{
    CapiVersion, Cluster, Machine, MachineDeployment, MachineDrainRule, MachineSet,
};
use karpenter_capi_api::hypershift;
use karpenter_capi_api::names::labels;
use karpenter_capi_api::v1::{NodeClaim, NodePool};
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_cluster::object::{Kind, Object};
use karpenter_capi_model::name::NamespacedName;
use kube::Api;
use kube::core::Resource;
use kube::runtime::watcher::Config;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// No decision is made before each of these has been listed once.
const NEEDED: &[Kind] = &[
    Kind::Pod,
    Kind::Node,
    Kind::DaemonSet,
    Kind::PersistentVolume,
    Kind::PersistentVolumeClaim,
    Kind::StorageClass,
    Kind::CSINode,
    Kind::VolumeAttachment,
    Kind::PodDisruptionBudget,
    Kind::Namespace,
    Kind::LimitRange,
    Kind::NodePool,
    Kind::NodeClaim,
    Kind::ClusterAPINodeClass,
    Kind::Cluster,
    Kind::MachineDeployment,
    Kind::MachineSet,
    Kind::Machine,
    Kind::MachineDrainRule,
    Kind::HyperShiftNodePool,
    Kind::NodeOverlay,
    Kind::CapacityBuffer,
    Kind::PodTemplate,
    Kind::Deployment,
    Kind::ReplicaSet,
    Kind::StatefulSet,
];

/// What default topology spread constraints are made from; watched only where there are some.
const NEEDED_FOR_DEFAULTS: &[Kind] =
    &[Kind::Service, Kind::ReplicationController, Kind::ReplicaSet, Kind::StatefulSet];

/// The operator of one workload cluster.
pub struct Operator {
    context: Arc<Context>,
    work: Mutex<Option<Work>>,
}

/// The queues, until [`Operator::run`] takes them.
struct Work {
    node_classes: (Queue<String>, Requests<String>),
    node_pools: (Queue<String>, Requests<String>),
    node_overlays: (Queue<&'static str>, Requests<&'static str>),
    static_pools: (Queue<String>, Requests<String>),
    capacity_buffers: (Queue<NamespacedName>, Requests<NamespacedName>),
    node_claims: (Queue<String>, Requests<String>),
    nodes: (Queue<String>, Requests<String>),
    machine_deployments: (Queue<NamespacedName>, Requests<NamespacedName>),
    templates: (Queue<TemplateKind>, Requests<TemplateKind>),
}

impl Operator {
    /// An operator that does nothing yet.
    pub fn new(clients: Clients, scope: Scope, settings: Settings, metrics: Arc<Metrics>) -> Self {
        let work = Work {
            node_classes: Queue::new(),
            node_pools: Queue::new(),
            node_overlays: Queue::new(),
            static_pools: Queue::new(),
            capacity_buffers: Queue::new(),
            node_claims: Queue::new(),
            nodes: Queue::new(),
            machine_deployments: Queue::new(),
            templates: Queue::new(),
        };
        let queues = Queues {
            node_classes: work.node_classes.0.clone(),
            node_pools: work.node_pools.0.clone(),
            node_overlays: work.node_overlays.0.clone(),
            static_pools: work.static_pools.0.clone(),
            capacity_buffers: work.capacity_buffers.0.clone(),
            node_claims: work.node_claims.0.clone(),
            nodes: work.nodes.0.clone(),
            machine_deployments: work.machine_deployments.0.clone(),
            templates: work.templates.0.clone(),
        };
        let context = Arc::new(Context::new(clients, scope, settings, metrics, queues));
        Self { context, work: Mutex::new(Some(work)) }
    }

    /// Whether everything that decisions need has been seen.
    pub fn is_synced(&self) -> bool {
        self.context.index.is_synced(self.needed())
    }

    fn needed(&self) -> impl Iterator<Item = Kind> {
        let defaults = self.context.settings.scheduler_config.has_default_constraints();
        NEEDED.iter().chain(NEEDED_FOR_DEFAULTS.iter().filter(move |_| defaults)).copied()
    }

    /// Watches from now on; reconciles once everything was seen and `leading` is true; ends all of it at `stop`, after the reconciles
    /// that run. It runs once: a second call ends at once, with an error, as does a task that ends by itself.
    pub async fn run(&self, leading: watch::Receiver<bool>, stop: CancellationToken) -> Result<(), Error> {
        let Some(work) = self.work.lock().take() else {
            return Err(Error::TaskEnded("operator".to_owned()));
        };
        let mut tasks = Tasks { set: JoinSet::new(), stop: stop.child_token() };
        self.watch(&mut tasks);
        let mut result = Ok(());
        if self.ready(leading, &tasks).await {
            self.reconcile(work, &mut tasks);
            result = tasks.until_stopped().await;
        }
        tasks.end().await;
        result
    }

    /// Waits until reconciling may begin; false: stopped before.
    async fn ready(&self, mut leading: watch::Receiver<bool>, tasks: &Tasks) -> bool {
        let synced = async {
            let mut told = tokio::time::Instant::now();
            let started = told;
            while !self.is_synced() {
                tokio::time::sleep(Duration::from_millis(50)).await;
                self.context.metrics.cluster_state_unsynced(started.elapsed());
                if told.elapsed() > Duration::from_secs(10) {
                    told = tokio::time::Instant::now();
                    let missing = self.needed().filter(|kind| !self.context.index.is_synced([*kind]));
                    let missing: Vec<String> = missing.map(|kind| kind.to_string()).collect();
                    tracing::warn!(missing = missing.join(", "), "waiting for the first lists");
                }
            }
            tracing::info!("everything was listed");
            // The sender going away means that nobody will ever lead.
            leading.wait_for(|leading| *leading).await.is_ok()
        };
        tokio::select! {
            ready = synced => ready,
            () = tasks.stop.cancelled() => false,
        }
    }

    fn watch(&self, tasks: &mut Tasks) {
        let own = &self.context.workload;
        self.feed(tasks, Kind::Pod, Api::<core::Pod>::all(own.clone()), Config::default());
        self.feed(tasks, Kind::Node, Api::<core::Node>::all(own.clone()), Config::default());
        self.feed(tasks, Kind::Namespace, Api::<core::Namespace>::all(own.clone()), Config::default());
        self.feed(tasks, Kind::LimitRange, Api::<core::LimitRange>::all(own.clone()), Config::default());
        self.feed(tasks, Kind::DaemonSet, Api::<apps::DaemonSet>::all(own.clone()), Config::default());
        self.feed(
            tasks,
            Kind::PersistentVolume,
            Api::<core::PersistentVolume>::all(own.clone()),
            Config::default(),
        );
        let claims = Api::<core::PersistentVolumeClaim>::all(own.clone());
        self.feed(tasks, Kind::PersistentVolumeClaim, claims, Config::default());
        self.feed(
            tasks,
            Kind::StorageClass,
            Api::<storage::StorageClass>::all(own.clone()),
            Config::default(),
        );
        self.feed(tasks, Kind::CSINode, Api::<storage::CSINode>::all(own.clone()), Config::default());
        self.feed(
            tasks,
            Kind::VolumeAttachment,
            Api::<storage::VolumeAttachment>::all(own.clone()),
            Config::default(),
        );
        let budgets = Api::<policy::PodDisruptionBudget>::all(own.clone());
        self.feed(tasks, Kind::PodDisruptionBudget, budgets, Config::default());
        self.feed(tasks, Kind::NodePool, Api::<NodePool>::all(own.clone()), Config::default());
        self.feed(tasks, Kind::NodeClaim, Api::<NodeClaim>::all(own.clone()), Config::default());
        self.feed(
            tasks,
            Kind::ClusterAPINodeClass,
            Api::<ClusterAPINodeClass>::all(own.clone()),
            Config::default(),
        );
        if self.context.settings.scheduler_config.has_default_constraints() {
            self.watch_for_defaults(tasks);
        }

        // Never more of the management cluster than the one Cluster's.
        let scope = &self.context.scope;
        let one = Config::default().fields(&format!("metadata.name={}", scope.cluster));
        self.feed_capi::<Cluster>(tasks, Kind::Cluster, one);
        let of_cluster = Config::default().labels(&format!("{}={}", labels::CLUSTER_NAME, scope.cluster));
        self.feed_capi::<MachineDeployment>(tasks, Kind::MachineDeployment, of_cluster.clone());
        self.feed_capi::<MachineSet>(tasks, Kind::MachineSet, of_cluster.clone());
        self.feed_capi::<Machine>(tasks, Kind::Machine, of_cluster);
        let rules = Place {
            client: self.context.management.clone(),
            api_version: scope.version.api_version(),
            plural: "machinedrainrules",
            kind: Kind::MachineDrainRule,
        };
        self.watch_optional::<MachineDrainRule>(tasks, rules, self.context.capi());
        self.watch_hypershift(tasks);
        self.watch_gated(tasks);
    }

    /// What selects pods. `ReplicaSet`s are many, and nothing else needs them.
    fn watch_for_defaults(&self, tasks: &mut Tasks) {
        let own = &self.context.workload;
        self.feed(tasks, Kind::Service, Api::<core::Service>::all(own.clone()), Config::default());
        let controllers = Api::<core::ReplicationController>::all(own.clone());
        self.feed(tasks, Kind::ReplicationController, controllers, Config::default());
        self.feed(tasks, Kind::ReplicaSet, Api::<apps::ReplicaSet>::all(own.clone()), Config::default());
        self.feed(tasks, Kind::StatefulSet, Api::<apps::StatefulSet>::all(own.clone()), Config::default());
    }

    /// HyperShift's NodePools, where we may look at them.
    fn watch_hypershift(&self, tasks: &mut Tasks) {
        let Some(api) = self.context.hypershift_node_pools() else {
            self.context.index.retain(Kind::HyperShiftNodePool, &BTreeSet::new());
            return;
        };
        let pools = Place {
            client: self.context.management.clone(),
            api_version: hypershift::NodePool::API_VERSION,
            plural: "nodepools",
            kind: Kind::HyperShiftNodePool,
        };
        self.watch_optional(tasks, pools, api);
    }

    fn watch_optional<K>(&self, tasks: &mut Tasks, place: Place, api: Api<K>)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
        Object: From<K>,
    {
        tasks.spawn(optional::watch(Arc::clone(&self.context), place, api, tasks.stop.clone()));
    }

    fn feed<K>(&self, tasks: &mut Tasks, kind: Kind, api: Api<K>, config: Config)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
        Object: From<K>,
    {
        let into = |object: K| Some(Object::from(object));
        tasks.spawn(feed(Arc::clone(&self.context), kind, api, config, into, tasks.stop.clone()));
    }

    fn feed_capi<K>(&self, tasks: &mut Tasks, kind: Kind, config: Config)
    where
        K: Resource<DynamicType = CapiVersion, Scope = kube::core::DynamicResourceScope>
            + Clone
            + DeserializeOwned
            + Debug
            + Send
            + 'static,
        Object: From<K>,
    {
        let api = self.context.capi::<K>();
        self.feed(tasks, kind, api, config);
    }

    fn reconcile(&self, work_of: Work, tasks: &mut Tasks) {
        let many = concurrency(self.context.settings.cpu_requests_millicores);
        let memory = Arc::new(Memory::default());
        let watched = Arc::new(Watched::default());
        let template_stop = tasks.stop.clone();
        let ledger =
            move |context, name| crate::machine_deployment::reconcile(context, Arc::clone(&memory), name);
        let watch = move |context, kind| {
            let (watched, stop) = (Arc::clone(&watched), template_stop.clone());
            async move { watched.watch(context, kind, stop).await }
        };
        self.work(tasks, "nodeclass.status", work_of.node_classes, 10, crate::node_class::reconcile);
        self.work(tasks, "nodepool.status", work_of.node_pools, 10, crate::node_pool::reconcile);
        self.work(tasks, "nodeoverlay.status", work_of.node_overlays, 1, crate::node_overlay::reconcile);
        self.work(tasks, "capacitybuffer", work_of.capacity_buffers, 10, crate::capacity_buffer::reconcile);
        self.work(
            tasks,
            "static.deprovisioning",
            work_of.static_pools,
            10,
            crate::static_capacity::reconcile,
        );
        self.work(tasks, "nodeclaim.lifecycle", work_of.node_claims, many, crate::node_claim::reconcile);
        self.work(tasks, "node.termination", work_of.nodes, many, crate::node::reconcile);
        self.work(tasks, "machinedeployment.ledger", work_of.machine_deployments, many, ledger);
        self.work(tasks, "infrastructuretemplate.watch", work_of.templates, 1, watch);
        let stop = tasks.stop.clone();
        tasks.spawn(provisioner::run(Arc::clone(&self.context), stop.clone()));
        tasks.spawn(crate::workload::run(Arc::clone(&self.context), stop));
    }

    /// Reconciles the keys of one queue.
    fn work<K, F, Fut>(
        &self,
        tasks: &mut Tasks,
        name: &'static str,
        queue: (Queue<K>, Requests<K>),
        at_once: usize,
        reconcile: F,
    ) where
        K: Clone + Eq + Hash + Display + Send + Sync + Unpin + 'static,
        F: Fn(Arc<Context>, K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let stop = tasks.stop.clone();
        tasks.spawn(work(name, Arc::clone(&self.context), queue, at_once, reconcile, stop));
    }
}

/// How many reconciles of one kind run at a time: they wait for API servers most of the time.
fn concurrency(cpu_millicores: u32) -> usize {
    let cores = usize::try_from(cpu_millicores.div_ceil(1000).clamp(1, 60)).unwrap_or(1);
    16 * cores
}

/// All tasks; one that ends by itself ends the others.
struct Tasks {
    set: JoinSet<()>,
    stop: CancellationToken,
}

impl Tasks {
    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.set.spawn(task);
    }

    async fn until_stopped(&mut self) -> Result<(), Error> {
        let stop = self.stop.clone();
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = self.set.join_next() => {
                // A panic comes here, too: whatever state it left is in memory only, and a new process starts from the objects.
                let why = match ended {
                    Some(Err(error)) if error.is_panic() => "a task panicked",
                    _ => "a task",
                };
                if stop.is_cancelled() { Ok(()) } else { Err(Error::TaskEnded(why.to_owned())) }
            }
        }
    }

    async fn end(mut self) {
        self.stop.cancel();
        while self.set.join_next().await.is_some() {}
    }
}
