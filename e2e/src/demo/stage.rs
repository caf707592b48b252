//! The stage: CRDs, a Cluster, MachineDeployments, NodePools, pods, and the operator's process.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Toleration};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::screen::{Line, Screen, Style};
use crate::binaries::Binary;
use crate::hollow::{self, MachineDeploymentOptions, Provider, ProviderOptions};
use crate::plane::{ControlPlane, Program};
use crate::{objects, wait, workload};

/// Namespace of everything.
pub(super) const NAMESPACE: &str = "default";
/// Name of the Cluster.
const CLUSTER: &str = "demo";
/// The pool for pods that ask for nothing special.
pub(super) const GENERAL: &str = "general";
/// The pool for pods that tolerate its taint.
pub(super) const BATCH: &str = "batch";
/// Pods of `web` when nothing much happens.
pub(super) const WEB: i32 = 12;
/// Pods at the beginning: 12 of `web`, 6 of `api`, 2 of `cache`.
pub(super) const PODS: usize = 20;
/// The CRDs as they are shipped.
const CRDS: [&str; 3] = [
    include_str!("../../../crds/karpenter.sh_nodepools.yaml"),
    include_str!("../../../crds/karpenter.sh_nodeclaims.yaml"),
    include_str!("../../../crds/karpenter.cluster.x-k8s.io_clusterapinodeclasses.yaml"),
];

/// Applies everything that is there before the operator: also the pods, which wait.
pub(super) async fn set(plane: &ControlPlane, client: &Client) -> Result<Provider> {
    hollow::install(client).await?;
    let crds = CRDS.iter().map(|text| serde_saphyr::from_str(text));
    let crds: Vec<Value> = crds.collect::<Result<_, _>>().context("reading the CRDs")?;
    objects::apply_all(client, &crds).await?;
    objects::crds_established(client, &crds, Duration::from_mins(1)).await?;
    // Slow enough to be watched, quick enough not to be waited for.
    let cloud = ProviderOptions {
        provision_delay: Duration::from_secs(3),
        join_delay: Duration::from_secs(2),
        deletion_delay: Duration::from_secs(2),
        ..ProviderOptions::of_plane(plane)?
    };
    let cloud = Provider::start(client, client, cloud);
    objects::apply_all(client, &hollow::cluster(NAMESPACE, CLUSTER)).await?;
    for options in machine_deployments() {
        hollow::apply_machine_deployment(client, &options).await?;
    }
    objects::apply_all(client, &pools()).await?;
    for deployment in workloads() {
        workload::apply(client, &deployment).await?;
    }
    all_pods_wait(client).await?;
    Ok(cloud)
}

/// kube-scheduler has given up on every pod, so that the operator's first batch holds all of them.
async fn all_pods_wait(client: &Client) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    wait::eventually("all pods wait for a Node", Duration::from_mins(1), async || {
        let pods = api.list(&ListParams::default()).await?;
        let waiting = pods.iter().filter(|pod| is_unschedulable(pod)).count();
        ensure!(waiting == PODS, "{waiting} of {PODS} wait");
        Ok(())
    })
    .await
}

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")
    })
}

fn machine_deployments() -> Vec<MachineDeploymentOptions> {
    let machine = |name: &str, cpu: &str, memory: &str, price: &str, zone: &str| {
        let mut options =
            MachineDeploymentOptions::new(NAMESPACE, CLUSTER, name, cpu, memory).priced(price).in_zone(zone);
        options.max_size = Some(20);
        options
    };
    vec![
        machine("small", "4", "16Gi", "0.17", "zone-a"),
        machine("medium", "8", "32Gi", "0.33", "zone-b"),
        machine("memory", "8", "64Gi", "0.45", "zone-b"),
        machine("large", "16", "64Gi", "0.61", "zone-a"),
    ]
}

fn pools() -> Vec<Value> {
    let class =
        json!({ "group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default" });
    let pool = |name: &str, cpu: &str, taints: Value| {
        json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": { "name": name },
            "spec": {
                "limits": { "cpu": cpu },
                "template": { "spec": {
                    "nodeClassRef": class,
                    "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }],
                    "taints": taints,
                    "expireAfter": "Never",
                } },
            },
        })
    };
    vec![
        json!({
            "apiVersion": "karpenter.cluster.x-k8s.io/v1alpha1",
            "kind": "ClusterAPINodeClass",
            "metadata": { "name": "default" },
            "spec": {},
        }),
        pool(GENERAL, "100", json!([])),
        pool(BATCH, "64", json!([{ "key": "dedicated", "value": "batch", "effect": "NoSchedule" }])),
    ]
}

fn workloads() -> Vec<Deployment> {
    let web = workload::deployment(NAMESPACE, "web", WEB, &[("cpu", "500m"), ("memory", "512Mi")]);
    let api = workload::deployment(NAMESPACE, "api", 6, &[("cpu", "1500m"), ("memory", "2Gi")]);
    let cache = workload::deployment(NAMESPACE, "cache", 2, &[("cpu", "1"), ("memory", "20Gi")]);
    let batch = workload::deployment(NAMESPACE, "batch", 0, &[("cpu", "3500m"), ("memory", "4Gi")]);
    vec![
        web,
        api,
        selecting(cache, "topology.kubernetes.io/zone", "zone-b"),
        tolerating(selecting(batch, "karpenter.sh/nodepool", BATCH)),
    ]
}

fn selecting(mut deployment: Deployment, key: &str, value: &str) -> Deployment {
    if let Some(pod) = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
        pod.node_selector = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    }
    deployment
}

fn tolerating(mut deployment: Deployment) -> Deployment {
    if let Some(pod) = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
        pod.tolerations = Some(vec![Toleration {
            key: Some("dedicated".to_owned()),
            operator: Some("Exists".to_owned()),
            ..Toleration::default()
        }]);
    }
    deployment
}

/// Sets the number of pods of a Deployment.
pub(super) async fn scale(client: &Client, name: &str, replicas: i32) -> Result<()> {
    let deployment =
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "namespace": NAMESPACE } });
    let patch = kube::api::Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let patched: Result<DynamicObject, _> =
        objects::api_of(client, &deployment)?.patch(name, &kube::api::PatchParams::default(), &patch).await;
    patched.map(drop).with_context(|| format!("scaling Deployment {name}"))
}

pub(super) fn start_operator(plane: &ControlPlane, manager: &std::path::Path) -> Result<Program> {
    let mut command = Command::new(manager);
    command
        .arg("--kubeconfig")
        .arg(plane.kubeconfig())
        .args(["--cluster-namespace", NAMESPACE, "--cluster-name", CLUSTER])
        .args(["--bind-address", "127.0.0.1"])
        .args(["--metrics-port", "0", "--health-probe-port", "0"]);
    plane.start_program("operator", command)
}

/// Where people find everything.
pub(super) fn tell(plane: &ControlPlane, screen: &mut Screen) {
    let kubectl = plane.binaries().path(Binary::Kubectl);
    for line in [
        format!("export KUBECONFIG={}", plane.kubeconfig().display()),
        format!("kubectl:  {}", kubectl.display()),
        format!("logs:     {} (operator.log is the operator's)", plane.logs_dir().display()),
        "Ctrl-C ends it all.".to_owned(),
    ] {
        screen.say(&Line::styled(Style::Faint, line));
    }
}
