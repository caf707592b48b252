//! Default topology spread constraints, as kube-scheduler gives them to pods that have none: in memory only.
//!
//! The selector of such a constraint is made of what the pod's Services select and what its controller selects: labels of Services
//! and of a `ReplicationController`, the selector of a `ReplicaSet` or `StatefulSet`. A pod without any of these gets no constraint.

use crate::object::PodRecord;
use crate::scheduler_config::SchedulerConfig;
use crate::snapshot::Snapshot;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::selector::{LabelSelector, SelectorOperator};
use std::collections::BTreeMap;
use std::sync::Arc;

type Labels = BTreeMap<String, String>;

/// Gives pods the constraints that they get by default.
pub(super) struct Defaults<'a> {
    config: &'a SchedulerConfig,
    snapshot: &'a Snapshot,
    /// What Services select, by namespace.
    services: BTreeMap<&'a str, Vec<&'a Labels>>,
}

impl<'a> Defaults<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, config: &'a SchedulerConfig) -> Self {
        let mut services: BTreeMap<&str, Vec<&Labels>> = BTreeMap::new();
        if config.has_default_constraints() {
            for (name, service) in snapshot.services.iter() {
                if let Some(selector) = service.spec.as_ref().and_then(|spec| spec.selector.as_ref()) {
                    services.entry(&name.namespace).or_default().push(selector);
                }
            }
        }
        Self { config, snapshot, services }
    }

    /// The pod as scheduling is to see it.
    pub(super) fn apply(&self, record: &PodRecord) -> Arc<Pod> {
        let pod = &record.model;
        let wanted = self.config.has_default_constraints() && pod.topology_spread.is_empty();
        let Some(selector) = wanted.then(|| self.selector(record)).flatten() else {
            return Arc::clone(pod);
        };
        let mut spread = self.config.default_constraints.clone();
        for constraint in &mut spread {
            constraint.selector = Some(selector.clone());
        }
        Arc::new(Pod { topology_spread: spread, ..(**pod).clone() })
    }

    /// None where nobody selects the pod.
    fn selector(&self, record: &PodRecord) -> Option<LabelSelector> {
        let pod = &record.model;
        let mut labels = Labels::new();
        for selector in self.services.get(pod.name.namespace.as_str()).into_iter().flatten() {
            if selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value)) {
                labels.extend(selector.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
        }
        let mut selector = LabelSelector::default();
        if let Some(owner) = controller(record) {
            let name = NamespacedName::new(pod.name.namespace.clone(), owner.name.clone());
            match (owner.api_version.as_str(), owner.kind.as_str()) {
                ("v1", "ReplicationController") => labels.extend(self.of_replication_controller(&name)),
                ("apps/v1", "ReplicaSet") => selector = self.of_replica_set(&name).unwrap_or_default(),
                ("apps/v1", "StatefulSet") => selector = self.of_stateful_set(&name).unwrap_or_default(),
                _ => {}
            }
        }
        for (key, value) in labels {
            selector.require(&key, SelectorOperator::In, &[value]);
        }
        selector.expressions.sort_unstable();
        selector.expressions.dedup();
        (!selector.expressions.is_empty()).then_some(selector)
    }

    fn of_replication_controller(&self, name: &NamespacedName) -> Labels {
        let spec = self.snapshot.replication_controllers.get(name).and_then(|object| object.spec.as_ref());
        spec.and_then(|spec| spec.selector.clone()).unwrap_or_default()
    }

    fn of_replica_set(&self, name: &NamespacedName) -> Option<LabelSelector> {
        LabelSelector::from_api(&self.snapshot.replica_sets.get(name)?.spec.as_ref()?.selector).ok()
    }

    fn of_stateful_set(&self, name: &NamespacedName) -> Option<LabelSelector> {
        LabelSelector::from_api(&self.snapshot.stateful_sets.get(name)?.spec.as_ref()?.selector).ok()
    }
}

/// The owner that kube-scheduler takes for the pod's controller: the one that says so.
fn controller(record: &PodRecord) -> Option<&OwnerReference> {
    let owners = record.object.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true))
}
