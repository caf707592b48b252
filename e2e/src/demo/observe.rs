//! Reads the cluster into a picture.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::picture::{Claim, MachineDeployment, Picture, Stage, Told, Workload};
use super::stage::NAMESPACE;
use crate::workload;

/// Who writes the operator's Events.
const REPORTER: &str = "karpenter-capi";
/// NodeClaim: the MachineDeployment that it is assigned to.
const ASSIGNED: &str = "karpenter.cluster.x-k8s.io/machine-deployment";
/// NodeClaim: the Machine that it is bound to.
const BOUND: &str = "cluster.x-k8s.io/machine";
/// Machine: its MachineDeployment.
const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
/// MachineDeployment: prefix of what a machine has.
const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io";
/// MachineDeployment: US dollars an hour.
const PRICE: &str = "karpenter.cluster.x-k8s.io/price";
/// Node and Machine labels.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Reads the cluster.
pub(super) struct Observer {
    client: Client,
}

/// The objects that a picture is made of.
struct Seen {
    deployments: Vec<Deployment>,
    pods: Vec<Pod>,
    nodes: Vec<Node>,
    machine_deployments: Vec<DynamicObject>,
    machines: Vec<DynamicObject>,
    claims: Vec<DynamicObject>,
    events: Vec<Event>,
}

impl Observer {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Reads everything once.
    pub(super) async fn look(&self) -> Result<Picture> {
        let all = ListParams::default();
        let core = |client: &Client| client.clone();
        let deployments: Api<Deployment> = Api::namespaced(core(&self.client), NAMESPACE);
        let pods: Api<Pod> = Api::namespaced(core(&self.client), NAMESPACE);
        let nodes: Api<Node> = Api::all(core(&self.client));
        let events: Api<Event> = Api::all(core(&self.client));
        let (machine_deployments, machines, claims) = (
            self.dynamic("cluster.x-k8s.io", "v1beta2", "MachineDeployment"),
            self.dynamic("cluster.x-k8s.io", "v1beta2", "Machine"),
            self.dynamic("karpenter.sh", "v1", "NodeClaim"),
        );
        let reported = ListParams::default().fields(&format!("reportingComponent={REPORTER}"));
        let seen = tokio::try_join!(
            deployments.list(&all),
            pods.list(&all),
            nodes.list(&all),
            machine_deployments.list(&all),
            machines.list(&all),
            claims.list(&all),
            events.list(&reported),
        )
        .context("listing objects")?;
        Ok(Seen {
            deployments: seen.0.items,
            pods: seen.1.items,
            nodes: seen.2.items,
            machine_deployments: seen.3.items,
            machines: seen.4.items,
            claims: seen.5.items,
            events: seen.6.items,
        }
        .picture())
    }

    fn dynamic(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::all_with(self.client.clone(), &resource)
    }
}

impl Seen {
    fn picture(&self) -> Picture {
        let mut workloads: Vec<_> =
            self.deployments.iter().map(|deployment| self.workload(deployment)).collect();
        workloads.sort_by(|left, right| left.name.cmp(&right.name));
        let mut machine_deployments: Vec<_> =
            self.machine_deployments.iter().map(|deployment| self.machine_deployment(deployment)).collect();
        machine_deployments.sort_by(|left, right| {
            let price = |row: &MachineDeployment| row.price.unwrap_or(f64::MAX);
            price(left).total_cmp(&price(right)).then_with(|| left.name.cmp(&right.name))
        });
        let mut claims: Vec<&DynamicObject> = self.claims.iter().collect();
        claims.sort_by_key(|claim| {
            let created = claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (created, claim.name_any())
        });
        Picture {
            workloads,
            machine_deployments,
            claims: claims.into_iter().map(|claim| self.claim(claim)).collect(),
            events: self.told(),
        }
    }

    /// Pods that aren't being deleted.
    fn staying_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none())
    }

    fn workload(&self, deployment: &Deployment) -> Workload {
        let name = deployment.name_any();
        let mut found = Workload { wanted: wanted(deployment), name, ..Workload::default() };
        let of_it = |pod: &&Pod| pod.labels().get(workload::APP) == Some(&found.name);
        for pod in self.staying_pods().filter(of_it).collect::<Vec<_>>() {
            if node_of(pod).is_none() {
                found.pending += 1;
            } else if workload::is_running(pod) {
                found.running += 1;
            }
        }
        found
    }

    fn machine_deployment(&self, deployment: &DynamicObject) -> MachineDeployment {
        let name = deployment.name_any();
        let annotation = |key: &str| deployment.annotations().get(key).map(String::as_str);
        let of_it = |machine: &&DynamicObject| machine.labels().get(DEPLOYMENT_NAME) == Some(&name);
        let (mut machines, mut going) = (BTreeSet::new(), BTreeSet::new());
        let mut nodes = BTreeSet::new();
        for machine in self.machines.iter().filter(of_it) {
            if machine.metadata.deletion_timestamp.is_some() {
                going.insert(machine.name_any());
            } else {
                machines.insert(machine.name_any());
            }
            nodes.extend(text(machine, "/status/nodeRef/name"));
        }
        let ready = self.nodes.iter().filter(|node| workload::is_ready(node)).map(ResourceExt::name_any);
        let pods = self.staying_pods().filter(|pod| workload::is_running(pod));
        MachineDeployment {
            size: format!(
                "{} cpu {}",
                annotation(&format!("{CAPACITY}/cpu")).unwrap_or("?"),
                annotation(&format!("{CAPACITY}/memory")).unwrap_or("?")
            ),
            zone: zone(annotation(&format!("{CAPACITY}/labels")).unwrap_or_default()),
            price: annotation(PRICE).and_then(|price| price.parse().ok()),
            replicas: deployment
                .data
                .pointer("/spec/replicas")
                .and_then(Value::as_u64)
                .and_then(|replicas| replicas.try_into().ok())
                .unwrap_or_default(),
            nodes: ready.filter(|node| nodes.contains(node)).count(),
            pods: pods.filter_map(node_of).filter(|node| nodes.contains(*node)).count(),
            name,
            machines,
            going,
        }
    }

    fn claim(&self, claim: &DynamicObject) -> Claim {
        let named = |key: &str| {
            let name = claim.annotations().get(key)?;
            Some(name.rsplit('/').next().unwrap_or(name).to_owned())
        };
        let node = text(claim, "/status/nodeName");
        let pods = self.staying_pods().filter(|pod| workload::is_running(pod));
        let on_it = pods.filter_map(node_of).filter(|pod| Some(*pod) == node.as_deref());
        Claim {
            name: claim.name_any(),
            node_pool: claim.labels().get("karpenter.sh/nodepool").cloned().unwrap_or_default(),
            machine_deployment: named(ASSIGNED).unwrap_or_default(),
            machine: named(BOUND),
            stage: stage(claim),
            pods: on_it.count(),
        }
    }

    fn told(&self) -> Vec<Told> {
        // A nomination of each single pod would drown the rest.
        let worth = |event: &&Event| {
            event.involved_object.kind.as_deref() != Some("Pod") || event.type_.as_deref() == Some("Warning")
        };
        let mut events: Vec<_> = self.events.iter().filter(worth).collect();
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        let told = events.into_iter().map(|event| Told {
            about: format!(
                "{}/{}",
                event.involved_object.kind.as_deref().unwrap_or_default(),
                event.involved_object.name.as_deref().unwrap_or_default()
            ),
            message: format!(
                "{}: {}",
                event.reason.as_deref().unwrap_or_default(),
                event.message.as_deref().unwrap_or_default()
            ),
        });
        told.collect()
    }
}

fn wanted(deployment: &Deployment) -> usize {
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    replicas.and_then(|replicas| replicas.try_into().ok()).unwrap_or_default()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn text(object: &DynamicObject, pointer: &str) -> Option<String> {
    object.data.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

fn zone(labels: &str) -> String {
    let labels: BTreeMap<&str, &str> = labels.split(',').filter_map(|label| label.split_once('=')).collect();
    labels.get(ZONE).copied().unwrap_or_default().to_owned()
}

fn stage(claim: &DynamicObject) -> Stage {
    if claim.metadata.deletion_timestamp.is_some() {
        return Stage::Deleting;
    }
    let conditions = claim.data.pointer("/status/conditions").and_then(Value::as_array);
    let is_true = |type_: &str| {
        let of_type = |condition: &Value| condition.get("type").and_then(Value::as_str) == Some(type_);
        let condition = conditions.and_then(|all| all.iter().find(|condition| of_type(condition)));
        condition.and_then(|condition| condition.get("status")?.as_str()) == Some("True")
    };
    let stages = [
        ("Initialized", Stage::Initialized),
        ("Registered", Stage::Registered),
        ("Launched", Stage::Launched),
    ];
    let reached = stages.into_iter().find(|(type_, _)| is_true(type_));
    reached.map_or(Stage::Created, |(_, stage)| stage)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(object: Value) -> DynamicObject {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_claim_is_as_far_as_its_last_true_condition() {
        let with = |conditions: Value| {
            claim(json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": "c" },
                "status": { "conditions": conditions },
            }))
        };
        let condition = |type_: &str, status: &str| json!({ "type": type_, "status": status });
        assert_eq!(stage(&with(json!([]))), Stage::Created);
        let launched = json!([condition("Launched", "True"), condition("Registered", "Unknown")]);
        assert_eq!(stage(&with(launched)), Stage::Launched);
        let initialized = json!([condition("Initialized", "True"), condition("Registered", "True")]);
        assert_eq!(stage(&with(initialized)), Stage::Initialized);
        let going = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": { "name": "c", "deletionTimestamp": "2026-01-05T12:00:00Z" },
            "status": { "conditions": [condition("Initialized", "True")] },
        });
        assert_eq!(stage(&claim(going)), Stage::Deleting);
    }

    #[test]
    fn the_zone_is_read_from_the_announced_labels() {
        assert_eq!(zone("kubernetes.io/os=linux,topology.kubernetes.io/zone=b"), "b");
        assert_eq!(zone(""), "");
    }
}
