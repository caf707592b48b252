//! The control plane, the hollow cloud and everything in them but the operator and the pods.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use karpenter_capi_e2e::hollow::{self, MachineDeploymentOptions, Provider, ProviderOptions};
use karpenter_capi_e2e::plane::{Component, ControlPlane, Options, Served};
use karpenter_capi_e2e::{objects, workload};
use kube::Client;
use serde_json::{Value, json};

/// Namespace of everything.
pub(crate) const NAMESPACE: &str = "default";
/// Name of the Cluster.
pub(crate) const CLUSTER: &str = "bench";
/// The group that may do everything, without being exempt from fair queueing.
pub(crate) const GROUP: &str = "bench";
/// How many MachineDeployments, each of a zone of its own, the fleet is spread over.
pub(crate) const ZONES: u32 = 10;
/// The zone of the MachineDeployment whose reaction is measured.
pub(crate) const REACTION_ZONE: &str = "reaction";
/// What a pod asks for, and a machine has: one pod fits a machine.
const POD: [(&str, &str); 2] = [("cpu", "3"), ("memory", "8Gi")];
const MACHINE: (&str, &str) = ("4", "16Gi");
const ZONE: &str = "topology.kubernetes.io/zone";

/// The CRDs as they are shipped.
const CRDS: [&str; 3] = [
    include_str!("../../crds/karpenter.sh_nodepools.yaml"),
    include_str!("../../crds/karpenter.sh_nodeclaims.yaml"),
    include_str!("../../crds/karpenter.cluster.x-k8s.io_clusterapinodeclasses.yaml"),
];

/// What is changed of a control plane, so that the operator is measured and not its surroundings; the report says so.
pub(crate) const RELAXED: [(Component, &str); 5] = [
    // It evicts a pod from a Node whose startup taint has just gone, when it hears of the pod first; a lone pod is lost by that.
    (Component::ControllerManager, "--controllers=*,-taint-eviction-controller"),
    // kwok renews leases so rarely that the controller manager would take the Nodes for lost.
    (Component::ControllerManager, "--node-monitor-grace-period=48h"),
    // A hundred Machines at a time, on two cores, meet conflicts of which each is tried five times: most patches come to nothing.
    (Component::CapiCore, "--machine-concurrency=10"),
    (Component::CapiCore, "--clustercache-client-qps=500"),
    (Component::CapiCore, "--clustercache-client-burst=1000"),
];
/// How long the lease of a hollow Node lasts.
pub(crate) const NODE_LEASE: Duration = Duration::from_hours(24);

/// How long the hollow cloud waits before each step of a machine.
pub(crate) const CLOUD_DELAY: Duration = Duration::ZERO;

/// The control plane's parts.
pub(crate) fn plane_options(name: &str, served: Served) -> Options {
    let mut options = Options::complete(name);
    options.served = served;
    options.node_lease = NODE_LEASE;
    RELAXED
        .into_iter()
        .fold(options, |options, (component, argument)| options.with_argument(component, argument))
}

/// Applies everything that is there before the operator. The returned cloud takes no time to make a machine.
pub(crate) async fn set(plane: &ControlPlane, client: &Client) -> Result<Provider> {
    hollow::install(client).await?;
    let crds = CRDS.iter().map(|text| serde_saphyr::from_str(text));
    let crds: Vec<Value> = crds.collect::<Result<_, _>>().context("reading the CRDs")?;
    objects::apply_all(client, &crds).await?;
    objects::crds_established(client, &crds, Duration::from_mins(1)).await?;
    objects::apply(client, &all_rights()).await?;
    let cloud = ProviderOptions {
        provision_delay: CLOUD_DELAY,
        join_delay: CLOUD_DELAY,
        deletion_delay: CLOUD_DELAY,
        ..ProviderOptions::of_plane(plane)?
    };
    let cloud = Provider::start(client, client, cloud);
    objects::apply_all(client, &hollow::cluster(NAMESPACE, CLUSTER)).await?;
    for zone in zones().chain([REACTION_ZONE.to_owned()]) {
        hollow::apply_machine_deployment(client, &machine_deployment(&zone)).await?;
    }
    objects::apply_all(client, &[node_class(), node_pool()]).await?;
    Ok(cloud)
}

/// The zones of the fleet.
pub(crate) fn zones() -> impl Iterator<Item = String> {
    (0..ZONES).map(|number| format!("zone-{number}"))
}

fn machine_deployment(zone: &str) -> MachineDeploymentOptions {
    let (cpu, memory) = MACHINE;
    let mut options =
        MachineDeploymentOptions::new(NAMESPACE, CLUSTER, zone, cpu, memory).priced("0.10").in_zone(zone);
    options.max_size = None;
    // Unique, as the peer confuses two MachineDeployments of one name.
    options.instance_type = Some(format!("hollow-{zone}"));
    // The peer registers no Node without it, and the operator takes it off as well.
    options.machine.unregistered_taint = true;
    options
}

fn all_rights() -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": GROUP },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "apiGroup": group, "kind": "Group", "name": GROUP }],
    })
}

fn node_class() -> Value {
    json!({
        "apiVersion": "karpenter.cluster.x-k8s.io/v1alpha1", "kind": "ClusterAPINodeClass",
        "metadata": { "name": "default" }, "spec": {},
    })
}

/// A pool whose Nodes nobody disrupts.
fn node_pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": "bench" },
        "spec": {
            "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never" },
            "template": { "spec": {
                "requirements": [],
                "nodeClassRef": { "group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default" },
                "expireAfter": "Never",
            } },
        },
    })
}

/// A Deployment of so many pods, each of which takes a machine of that zone.
pub(crate) fn fleet(zone: &str, pods: u32) -> Deployment {
    let replicas = i32::try_from(pods).unwrap_or(i32::MAX);
    let mut deployment = workload::deployment(NAMESPACE, zone, replicas, &POD);
    if let Some(pod) = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
        pod.node_selector = Some(BTreeMap::from([(ZONE.to_owned(), zone.to_owned())]));
    }
    deployment
}

/// A pod that takes a machine of the zone whose reaction is measured.
pub(crate) fn lone_pod(name: &str) -> Pod {
    let template = fleet(REACTION_ZONE, 1).spec.map(|spec| spec.template).unwrap_or_default();
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.name = Some(name.to_owned());
    metadata.namespace = Some(NAMESPACE.to_owned());
    Pod { metadata, spec: template.spec, status: None }
}
