//! Small MachineDeployments and what must be read from them; several are public bug reports retold.

mod availability;
mod capacity;
mod labels;
mod overlay;
mod price;
mod robustness;
mod selection;
mod taints;

use crate::{CatalogEntry, CatalogInput, Facts, Selection, Until, catalog};
use jiff::{SignedDuration, Timestamp};
use karpenter_capi_api::capi::{Cluster, InfrastructureTemplate, Machine, MachineDeployment, MachineSet};
use karpenter_capi_api::names::labels as keys;
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_model::price::Price;
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_model::resources::Resources;
use serde_json::{Value, json};
use std::sync::Arc;

const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io/";
const OURS: &str = "karpenter.cluster.x-k8s.io/";
const MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
const MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";

/// A MachineDeployment `default/<name>` with 4 processors and 16Gi, changed by `change`.
fn deployment(name: &str, change: impl FnOnce(&mut Value)) -> MachineDeployment {
    let mut object = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {
            "name": name, "namespace": "default", "uid": "md-uid",
            "labels": {"node.cluster.x-k8s.io/karpenter-member": ""},
            "annotations": {format!("{CAPACITY}cpu"): "4", format!("{CAPACITY}memory"): "16Gi"}
        },
        "spec": {"clusterName": "c", "replicas": 0, "selector": {}, "template": {"spec": {"clusterName": "c"}}}
    });
    change(&mut object);
    serde_json::from_value(object).unwrap()
}

fn annotated(name: &str, annotations: &[(&str, &str)]) -> MachineDeployment {
    deployment(name, |object| {
        for (key, value) in annotations {
            object["metadata"]["annotations"][*key] = json!(value);
        }
    })
}

/// The keys' prefix is the Cluster Autoscaler's.
fn with_capacity(name: &str, annotations: &[(&str, &str)]) -> MachineDeployment {
    deployment(name, |object| {
        for (key, value) in annotations {
            object["metadata"]["annotations"][format!("{CAPACITY}{key}")] = json!(value);
        }
    })
}

/// The keys' prefix is our own.
fn with_own(name: &str, annotations: &[(&str, &str)]) -> MachineDeployment {
    deployment(name, |object| {
        for (key, value) in annotations {
            object["metadata"]["annotations"][format!("{OURS}{key}")] = json!(value);
        }
    })
}

fn now() -> Timestamp {
    "2026-01-05T12:00:00Z".parse().unwrap()
}

#[derive(Default)]
struct World {
    template: Option<Value>,
    sets: Vec<Arc<MachineSet>>,
    machines: Vec<Arc<Machine>>,
    cluster: Option<Value>,
    facts: Facts,
}

impl World {
    fn entry(&self, deployment: &MachineDeployment) -> CatalogEntry {
        let template =
            self.template.as_ref().map(|template| InfrastructureTemplate::parse(template).unwrap());
        let cluster: Option<Cluster> =
            self.cluster.clone().map(|cluster| serde_json::from_value(cluster).unwrap());
        catalog(&CatalogInput {
            machine_deployment: deployment,
            infrastructure_template: template.as_ref(),
            machine_sets: &self.sets,
            machines: &self.machines,
            cluster: cluster.as_ref(),
            facts: &self.facts,
            now: now(),
        })
    }
}

fn entry(deployment: &MachineDeployment) -> CatalogEntry {
    World::default().entry(deployment)
}

fn code(entry: &CatalogEntry) -> Option<ReasonCode> {
    assert_eq!(entry.reason(), entry.instance_type.offerings[0].unavailable.as_ref());
    entry.reason().map(|reason| reason.code)
}

fn message(entry: &CatalogEntry) -> &str {
    entry.reason().map_or("", |reason| reason.message.as_str())
}

fn allocatable(entry: &CatalogEntry) -> Resources {
    entry.instance_type.capacity.allocatable(&entry.instance_type.overhead)
}

fn gibibytes(count: i64) -> i64 {
    count << 30
}
