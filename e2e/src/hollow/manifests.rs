//! Manifests: the kinds, a Cluster, MachineDeployments.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{Client, CustomResourceExt};
use serde_json::{Value, json};

use super::kinds::{
    HollowCluster, HollowControlPlane, HollowMachine, HollowMachineSpec, HollowMachineTemplate,
    HollowMachineTemplateResource, HollowMachineTemplateSpec, NodeTaint,
};
use crate::objects;

/// The Kubernetes version of hollow control planes and kubelets.
pub const VERSION: &str = "v1.36.3";

/// Applies the provider's CRDs and waits until they are served.
pub async fn install(client: &Client) -> Result<()> {
    let crds =
        [HollowCluster::crd(), HollowControlPlane::crd(), HollowMachine::crd(), HollowMachineTemplate::crd()];
    let crds: Vec<Value> = crds.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    objects::apply_all(client, &crds).await?;
    objects::crds_established(client, &crds, Duration::from_mins(1)).await
}

/// A Cluster with hollow infrastructure and an externally managed control plane. Apply all of them, in any order.
pub fn cluster(namespace: &str, name: &str) -> Vec<Value> {
    // Nothing connects to this address: Cluster API uses the kubeconfig Secret, which the provider writes.
    let endpoint = json!({ "host": "127.0.0.1", "port": 6443 });
    let metadata = json!({ "name": name, "namespace": namespace });
    vec![
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1",
            "kind": "HollowCluster",
            "metadata": metadata,
            "spec": { "controlPlaneEndpoint": endpoint },
        }),
        json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1",
            "kind": "HollowControlPlane",
            "metadata": metadata,
            "spec": { "version": VERSION },
        }),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": metadata,
            "spec": {
                "controlPlaneEndpoint": endpoint,
                "controlPlaneRef": { "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "HollowControlPlane", "name": name },
                "infrastructureRef": { "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HollowCluster", "name": name },
            },
        }),
    ]
}

/// What a MachineDeployment of hollow machines shall be. Change what a test needs otherwise after [`new`](Self::new).
#[derive(Clone, Debug)]
pub struct MachineDeploymentOptions {
    /// Name of the MachineDeployment and of its `HollowMachineTemplate`.
    pub name: String,
    /// Namespace of both.
    pub namespace: String,
    /// Name of the Cluster.
    pub cluster: String,
    /// CPU of a machine, such as `4`.
    pub cpu: String,
    /// Memory of a machine, such as `16Gi`.
    pub memory: String,
    /// Pods of a machine.
    pub max_pods: u32,
    /// Other resources of a machine: `ephemeral-storage`, `nvidia.com/gpu`.
    pub other_resources: BTreeMap<String, String>,
    /// US dollars an hour; none leaves the annotation out.
    pub price: Option<String>,
    /// Zone label.
    pub zone: Option<String>,
    /// Instance type label.
    pub instance_type: Option<String>,
    /// Architecture label.
    pub architecture: String,
    /// Maximum of replicas; none leaves the annotation out.
    pub max_size: Option<u32>,
    /// Replicas at first.
    pub replicas: u32,
    /// Whether the label is there by which MachineDeployments opt in.
    pub member: bool,
    /// Further labels of the Nodes, also announced in the capacity annotation.
    pub labels: BTreeMap<String, String>,
    /// Taints that the Nodes keep, also announced in the capacity annotation.
    pub taints: Vec<NodeTaint>,
    /// Further annotations of the MachineDeployment; they win.
    pub annotations: BTreeMap<String, String>,
    /// Whether capacity is announced by annotations.
    pub announce: bool,
    /// Whether the provider announces capacity in the template's status.
    pub report_capacity: bool,
    /// `RollingUpdate` or `OnDelete`.
    pub strategy: String,
    /// Delays, failures and whatever else the machines do; capacity, labels and version are filled in.
    pub machine: HollowMachineSpec,
}

impl MachineDeploymentOptions {
    /// A member with 110 pods a machine, on demand, amd64, at most 100 replicas, 0 at first, without price or zone.
    pub fn new(namespace: &str, cluster: &str, name: &str, cpu: &str, memory: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            cluster: cluster.to_owned(),
            cpu: cpu.to_owned(),
            memory: memory.to_owned(),
            max_pods: 110,
            other_resources: BTreeMap::new(),
            price: None,
            zone: None,
            instance_type: None,
            architecture: "amd64".to_owned(),
            max_size: Some(100),
            replicas: 0,
            member: true,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            annotations: BTreeMap::new(),
            announce: true,
            report_capacity: false,
            strategy: "RollingUpdate".to_owned(),
            machine: HollowMachineSpec::default(),
        }
    }

    /// The same with a price in US dollars an hour.
    #[must_use]
    pub fn priced(mut self, price: &str) -> Self {
        self.price = Some(price.to_owned());
        self
    }

    /// The same in a zone.
    #[must_use]
    pub fn in_zone(mut self, zone: &str) -> Self {
        self.zone = Some(zone.to_owned());
        self
    }

    fn node_labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([
            ("kubernetes.io/arch".to_owned(), self.architecture.clone()),
            ("kubernetes.io/os".to_owned(), "linux".to_owned()),
        ]);
        labels.extend(self.zone.clone().map(|zone| ("topology.kubernetes.io/zone".to_owned(), zone)));
        labels.extend(
            self.instance_type.clone().map(|kind| ("node.kubernetes.io/instance-type".to_owned(), kind)),
        );
        labels.extend(self.labels.clone());
        labels
    }

    fn machine_spec(&self) -> HollowMachineSpec {
        let mut machine = self.machine.clone();
        let mut capacity = self.other_resources.clone();
        capacity.insert("cpu".to_owned(), self.cpu.clone());
        capacity.insert("memory".to_owned(), self.memory.clone());
        capacity.insert("pods".to_owned(), self.max_pods.to_string());
        machine.capacity = capacity.into_iter().map(|(name, amount)| (name, Quantity(amount))).collect();
        machine.labels = self.node_labels();
        machine.kubelet_version.get_or_insert_with(|| VERSION.to_owned());
        if !self.taints.is_empty() {
            let uninitialized = NodeTaint::new(super::node::UNINITIALIZED, "NoSchedule");
            let taints = machine.taints.get_or_insert_with(|| vec![uninitialized]);
            taints.extend(self.taints.iter().cloned());
        }
        machine
    }

    fn capacity_annotations(&self) -> BTreeMap<String, String> {
        const PREFIX: &str = "capacity.cluster-autoscaler.kubernetes.io";
        let mut annotations = BTreeMap::from([
            (format!("{PREFIX}/cpu"), self.cpu.clone()),
            (format!("{PREFIX}/memory"), self.memory.clone()),
            (format!("{PREFIX}/maxPods"), self.max_pods.to_string()),
        ]);
        let labels: Vec<String> =
            self.node_labels().iter().map(|(key, value)| format!("{key}={value}")).collect();
        annotations.insert(format!("{PREFIX}/labels"), labels.join(","));
        if !self.taints.is_empty() {
            let text = |taint: &NodeTaint| {
                format!("{}={}:{}", taint.key, taint.value.as_deref().unwrap_or_default(), taint.effect)
            };
            let taints: Vec<String> = self.taints.iter().map(text).collect();
            annotations.insert(format!("{PREFIX}/taints"), taints.join(","));
        }
        for (resource, amount) in &self.other_resources {
            if resource == "ephemeral-storage" {
                annotations.insert(format!("{PREFIX}/ephemeral-disk"), amount.clone());
            } else if resource.contains("gpu") {
                annotations.insert(format!("{PREFIX}/gpu-type"), resource.clone());
                annotations.insert(format!("{PREFIX}/gpu-count"), amount.clone());
            }
        }
        annotations
    }

    fn all_annotations(&self) -> BTreeMap<String, String> {
        const GROUP_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group";
        let mut annotations = if self.announce { self.capacity_annotations() } else { BTreeMap::new() };
        annotations.insert(format!("{GROUP_SIZE}-min-size"), "0".to_owned());
        annotations.extend(self.max_size.map(|max| (format!("{GROUP_SIZE}-max-size"), max.to_string())));
        annotations
            .extend(self.price.clone().map(|price| ("karpenter.cluster.x-k8s.io/price".to_owned(), price)));
        annotations.extend(self.annotations.clone());
        annotations
    }
}

/// The template and the MachineDeployment (Cluster API `v1beta2`) of the options.
pub fn machine_deployment(options: &MachineDeploymentOptions) -> (HollowMachineTemplate, Value) {
    let MachineDeploymentOptions { name, namespace, cluster, .. } = options;
    let mut template = HollowMachineTemplate::new(
        name,
        HollowMachineTemplateSpec {
            template: HollowMachineTemplateResource { spec: options.machine_spec() },
            report_capacity: options.report_capacity,
        },
    );
    template.metadata.namespace = Some(namespace.clone());
    let labels =
        if options.member { json!({ "node.cluster.x-k8s.io/karpenter-member": "" }) } else { json!({}) };
    let deployment = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": options.all_annotations(),
        },
        "spec": {
            "clusterName": cluster,
            "replicas": options.replicas,
            "selector": { "matchLabels": {} },
            "rollout": { "strategy": { "type": options.strategy } },
            "template": { "spec": {
                "clusterName": cluster,
                "version": VERSION,
                // There is no bootstrap provider: a name alone counts as ready and is never read.
                "bootstrap": { "dataSecretName": "hollow" },
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io",
                    "kind": "HollowMachineTemplate",
                    "name": name,
                },
            }},
        },
    });
    (template, deployment)
}

/// Applies the template and the MachineDeployment of the options.
pub async fn apply_machine_deployment(client: &Client, options: &MachineDeploymentOptions) -> Result<()> {
    let (template, deployment) = machine_deployment(options);
    objects::apply(client, &serde_json::to_value(template)?).await?;
    objects::apply(client, &deployment).await.map(drop)
}
