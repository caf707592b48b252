//! What every reconcile has at hand.

use crate::capacity_buffer::BufferBook;
use crate::events::Events;
use crate::facts::FactBook;
use crate::metrics::Metrics;
use crate::node_claim::Evictions;
use crate::provisioner::Trigger;
use crate::queue::Queue;
use crate::watch::Change;
use crate::{Clients, Scope, Settings};
use k8s_openapi::api::core::v1::ObjectReference;
use karpenter_capi_api::capacity_buffer::CapacityBuffer;
use karpenter_capi_api::capi::{CapiVersion, Cluster, Machine, MachineDeployment, MachineSet, owner_of_kind};
use karpenter_capi_api::hypershift;
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::node_overlay::NodeOverlay;
use karpenter_capi_api::v1::{NodeClaim, NodePool};
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_cluster::index::Index;
use karpenter_capi_cluster::object::{Kind, Object};
use karpenter_capi_cluster::surface::node_pool_name;
use karpenter_capi_lifecycle::ledger::{MachineView, assigned, bound};
use karpenter_capi_model::feature_gates::Gate;
use karpenter_capi_model::name::NamespacedName;
use kube::core::Resource;
use kube::{Api, Client};
use std::sync::Arc;
use std::time::Duration;

/// Status that sums up many objects is written at most this often.
const SUMMARY_DELAY: Duration = Duration::from_secs(1);
/// A Machine changes a dozen times while it comes up, and each look at its MachineDeployment reads all of its Machines: what comes within
/// this time is looked at once.
const LEDGER_DELAY: Duration = Duration::from_millis(100);

/// Work queues by what their keys name.
pub(crate) struct Queues {
    pub(crate) node_classes: Queue<String>,
    pub(crate) node_pools: Queue<String>,
    /// All overlays are judged together.
    pub(crate) node_overlays: Queue<&'static str>,
    pub(crate) static_pools: Queue<String>,
    pub(crate) capacity_buffers: Queue<NamespacedName>,
    pub(crate) node_claims: Queue<String>,
    pub(crate) nodes: Queue<String>,
    pub(crate) machine_deployments: Queue<NamespacedName>,
    pub(crate) templates: Queue<crate::templates::TemplateKind>,
}

/// Clients, the index, settings, and ways to ask for work and to tell what happened. No lock in it is held across an await.
pub(crate) struct Context {
    pub(crate) workload: Client,
    pub(crate) management: Client,
    pub(crate) scope: Scope,
    pub(crate) settings: Settings,
    pub(crate) index: Index,
    pub(crate) facts: FactBook,
    pub(crate) buffers: BufferBook,
    pub(crate) evictions: Evictions,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) queues: Queues,
    pub(crate) trigger: Trigger,
    /// In the workload cluster.
    pub(crate) events: Events,
    /// In the management cluster.
    pub(crate) management_events: Events,
}

impl Context {
    pub(crate) fn new(
        clients: Clients,
        scope: Scope,
        settings: Settings,
        metrics: Arc<Metrics>,
        queues: Queues,
    ) -> Self {
        Self {
            events: Events::new(clients.workload.clone()),
            management_events: Events::new(clients.management.clone()),
            workload: clients.workload,
            management: clients.management,
            scope,
            settings,
            index: Index::new(),
            facts: FactBook::default(),
            buffers: BufferBook::default(),
            evictions: Evictions::default(),
            metrics,
            queues,
            trigger: Trigger::default(),
        }
    }

    pub(crate) fn node_claims(&self) -> Api<NodeClaim> {
        Api::all(self.workload.clone())
    }

    pub(crate) fn node_pools(&self) -> Api<NodePool> {
        Api::all(self.workload.clone())
    }

    pub(crate) fn capacity_buffers(&self, namespace: &str) -> Api<CapacityBuffer> {
        Api::namespaced(self.workload.clone(), namespace)
    }

    pub(crate) fn node_overlays(&self) -> Api<NodeOverlay> {
        Api::all(self.workload.clone())
    }

    pub(crate) fn node_classes(&self) -> Api<ClusterAPINodeClass> {
        Api::all(self.workload.clone())
    }

    pub(crate) fn nodes(&self) -> Api<k8s_openapi::api::core::v1::Node> {
        Api::all(self.workload.clone())
    }

    /// A kind of Cluster API, in the one namespace that we may look at.
    pub(crate) fn capi<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = CapiVersion, Scope = kube::core::DynamicResourceScope>,
    {
        Api::namespaced_with(self.management.clone(), &self.scope.namespace, &self.scope.version)
    }

    /// HyperShift's NodePools, in the one namespace that we may look at, if any.
    pub(crate) fn hypershift_node_pools(&self) -> Option<Api<hypershift::NodePool>> {
        let namespace = self.scope.hypershift_namespace.as_deref()?;
        Some(Api::namespaced(self.management.clone(), namespace))
    }

    /// Asks for everything that a change may concern.
    pub(crate) fn changed(&self, change: Change) {
        match change {
            Change::Object(object) => self.object_changed(&object),
            Change::Anew(kind) => self.kind_anew(kind),
        }
    }

    fn object_changed(&self, object: &Object) {
        match object {
            Object::Pod(pod) => {
                if pod.object.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
                    self.trigger.pod(&pod.model.uid);
                }
            }
            Object::Node(node) => self.node_changed(node),
            Object::NodeClaim(claim) => self.claim_changed(claim),
            Object::NodePool(pool) => {
                self.queues.node_pools.add(name(pool.as_ref()));
                self.static_pool_changed(pool);
                self.overlays_changed();
                self.trigger.anything();
            }
            Object::ClusterAPINodeClass(class) => {
                self.queues.node_classes.add(name(class.as_ref()));
                self.pools_of_class_changed(&name(class.as_ref()));
                self.overlays_changed();
                self.trigger.anything();
            }
            Object::CapacityBuffer(buffer) => {
                self.queues.capacity_buffers.add(key(buffer.as_ref()));
                self.trigger.anything();
            }
            Object::PodTemplate(_)
            | Object::Deployment(_)
            | Object::ReplicaSet(_)
            | Object::StatefulSet(_) => {
                self.buffers_changed(Some(&object.key().namespace));
            }
            Object::NodeOverlay(_) => {
                self.overlays_changed();
                self.trigger.anything();
            }
            Object::MachineDeployment(deployment) => self.machine_deployment_changed(deployment),
            Object::MachineSet(set) => self.machine_set_changed(set),
            Object::Machine(machine) => self.machine_changed(machine),
            Object::Cluster(_) => self.kind_anew(Kind::MachineDeployment),
            Object::HyperShiftNodePool(pool) => self.hypershift_changed(&key(pool.as_ref())),
            Object::InfrastructureTemplate(_) => self.node_classes_changed(),
            Object::DaemonSet(_)
            | Object::PersistentVolume(_)
            | Object::PersistentVolumeClaim(_)
            | Object::StorageClass(_)
            | Object::CSINode(_)
            | Object::VolumeAttachment(_)
            | Object::PodDisruptionBudget(_)
            | Object::MachineDrainRule(_)
            | Object::PriorityClass(_)
            | Object::Namespace(_)
            | Object::LimitRange(_)
            | Object::RuntimeClass(_)
            | Object::ReplicationController(_)
            | Object::Service(_) => {}
        }
    }

    fn node_changed(&self, node: &k8s_openapi::api::core::v1::Node) {
        self.queues.nodes.add(name(node));
        let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
        let snapshot = self.index.snapshot();
        for claim in snapshot.node_claims.values() {
            let known = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
            if provider_id.is_some() && known == provider_id {
                self.claim_follows(claim);
                // Of a Node the ledger only looks at whether it is drained. Kubelets write all the time, and a look reads all Machines.
                if claim.metadata.deletion_timestamp.is_some() {
                    self.ledger_follows(claim);
                }
            }
        }
    }

    fn claim_changed(&self, claim: &NodeClaim) {
        self.claim_follows(claim);
        self.ledger_follows(claim);
    }

    fn claim_follows(&self, claim: &NodeClaim) {
        self.queues.node_claims.add(name(claim));
        if let Some(pool) = pool_name(claim) {
            self.queues.node_pools.add_after(pool.to_owned(), SUMMARY_DELAY);
            if let Some(pool) = self.index.snapshot().node_pool(pool) {
                self.static_pool_changed(pool);
                // One that goes is replaced.
                if self.is_static(pool) && claim.metadata.deletion_timestamp.is_some() {
                    self.trigger.anything();
                }
            }
        }
    }

    /// At once where replicas may have to change: a claim that wants to enter or to go. What happens to one that has its Machine is looked
    /// at together with its neighbours'.
    pub(crate) fn ledger_follows(&self, claim: &NodeClaim) {
        if let Some(deployment) = assigned(claim) {
            let settled = bound(claim).is_some() && claim.metadata.deletion_timestamp.is_none();
            let wait = if settled { LEDGER_DELAY } else { Duration::ZERO };
            self.queues.machine_deployments.add_after(deployment, wait);
        }
    }

    fn machine_deployment_changed(&self, deployment: &MachineDeployment) {
        self.queues.machine_deployments.add(key(deployment));
        let reference = &deployment.spec.template.spec.infrastructure_ref;
        if !reference.kind.is_empty() {
            let kind = crate::templates::TemplateKind {
                group: reference.api_group.clone(),
                kind: reference.kind.clone(),
            };
            self.queues.templates.add(kind);
        }
        self.overlays_changed();
        self.node_classes_changed();
    }

    /// The MachineDeployments whose number and ledger stand on that HyperShift NodePool.
    fn hypershift_changed(&self, pool: &NamespacedName) {
        for deployment in self.index.snapshot().machine_deployments.values() {
            if matches!(node_pool_name(deployment), Some(Ok(owner)) if owner == *pool) {
                self.machine_deployment_changed(deployment);
            }
        }
        self.trigger.anything();
    }

    fn machine_set_changed(&self, set: &MachineSet) {
        if let Some(owner) = owner_of_kind(&set.metadata, "MachineDeployment") {
            let namespace = set.metadata.namespace.clone().unwrap_or_default();
            let deployment = NamespacedName::new(namespace, owner.name.clone());
            self.queues.machine_deployments.add_after(deployment, LEDGER_DELAY);
        }
    }

    fn machine_changed(&self, machine: &Machine) {
        if let Some(deployment) = MachineView::machine_deployment(machine) {
            self.queues.machine_deployments.add_after(deployment, LEDGER_DELAY);
        }
        let owner = machine.metadata.annotations.as_ref().and_then(|all| all.get(annotations::NODECLAIM));
        if let Some((claim, _)) = owner.and_then(|owner| owner.split_once('/')) {
            self.queues.node_claims.add(claim.to_owned());
        }
    }

    /// A pool's readiness follows its class's.
    pub(crate) fn pools_of_class_changed(&self, class: &str) {
        let snapshot = self.index.snapshot();
        let pools =
            snapshot.node_pools.values().filter(|pool| pool.spec.template.spec.node_class_ref.name == class);
        pools.for_each(|pool| self.queues.node_pools.add(name(pool.as_ref())));
    }

    /// What buffers of that namespace, or of all, refer to may have changed.
    fn buffers_changed(&self, namespace: Option<&str>) {
        let snapshot = self.index.snapshot();
        let names = snapshot.capacity_buffers.keys();
        for name in names.filter(|name| namespace.is_none_or(|namespace| name.namespace == namespace)) {
            self.queues.capacity_buffers.add_after(name.clone(), SUMMARY_DELAY);
        }
    }

    /// A pool with `replicas` may have more claims than that.
    fn static_pool_changed(&self, pool: &NodePool) {
        if self.is_static(pool) {
            self.queues.static_pools.add_after(name(pool), SUMMARY_DELAY);
        }
    }

    fn is_static(&self, pool: &NodePool) -> bool {
        pool.spec.replicas.is_some() && self.settings.feature_gates.is_on(Gate::StaticCapacity)
    }

    /// Which overlays contradict each other depends on what all pools choose from.
    fn overlays_changed(&self) {
        if self.settings.feature_gates.is_on(Gate::NodeOverlay) {
            self.queues.node_overlays.add_after(crate::node_overlay::ALL, SUMMARY_DELAY);
        }
    }

    fn node_classes_changed(&self) {
        for class in self.index.snapshot().node_classes.values() {
            self.queues.node_classes.add_after(name(class.as_ref()), SUMMARY_DELAY);
        }
    }

    /// A new list may have missed deletions, so everything that hangs on the kind is looked at.
    fn kind_anew(&self, kind: Kind) {
        let snapshot = self.index.snapshot();
        match kind {
            Kind::MachineDeployment
            | Kind::MachineSet
            | Kind::Machine
            | Kind::NodeClaim
            | Kind::Cluster
            | Kind::HyperShiftNodePool => {
                snapshot
                    .machine_deployments
                    .values()
                    .for_each(|deployment| self.machine_deployment_changed(deployment));
                snapshot.node_claims.values().for_each(|claim| self.claim_changed(claim));
            }
            Kind::Node => snapshot.node_claims.values().for_each(|claim| self.claim_changed(claim)),
            Kind::NodePool | Kind::ClusterAPINodeClass => {
                self.node_classes_changed();
                snapshot.node_pools.values().for_each(|pool| self.queues.node_pools.add(name(pool.as_ref())));
            }
            Kind::NodeOverlay => self.overlays_changed(),
            Kind::CapacityBuffer
            | Kind::PodTemplate
            | Kind::Deployment
            | Kind::ReplicaSet
            | Kind::StatefulSet => self.buffers_changed(None),
            _ => {}
        }
        self.trigger.anything();
    }

    /// The Cluster, once it was seen.
    pub(crate) fn cluster(&self) -> Option<Arc<Cluster>> {
        let key = NamespacedName::new(&self.scope.namespace, &self.scope.cluster);
        self.index.snapshot().clusters.get(&key).cloned()
    }

    /// How events name an object of Cluster API.
    pub(crate) fn capi_reference<K>(&self, object: &K) -> ObjectReference
    where
        K: Resource<DynamicType = CapiVersion>,
    {
        object.object_ref(&self.scope.version)
    }
}

/// The name of the claim's pool.
pub(crate) fn pool_name(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.labels.as_ref()?.get(karpenter_capi_api::names::labels::NODEPOOL).map(String::as_str)
}

/// The name of an object.
pub(crate) fn name<K: Resource>(object: &K) -> String {
    object.meta().name.clone().unwrap_or_default()
}

/// Namespace and name of an object.
pub(crate) fn key<K: Resource>(object: &K) -> NamespacedName {
    NamespacedName::new(object.meta().namespace.clone().unwrap_or_default(), name(object))
}

/// Everything of Cluster API that carries that MachineDeployment's label: its Machines and MachineSets.
pub(crate) fn of_machine_deployment(deployment: &NamespacedName) -> kube::api::ListParams {
    let label = karpenter_capi_api::names::labels::DEPLOYMENT_NAME;
    kube::api::ListParams::default().labels(&format!("{label}={}", deployment.name))
}
