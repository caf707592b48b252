//! The harness itself: a control plane with Cluster API and the hollow cloud does what the other tests lean on.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use karpenter_capi_e2e::{
    hollow::{self, MachineDeploymentOptions, Provider, ProviderOptions},
    objects,
    plane::{ControlPlane, Options},
    wait, workload,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";

fn capi(client: &Client, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind));
    Api::namespaced_with(client.clone(), "default", &resource)
}

async fn scale(client: &Client, machine_deployment: &str, replicas: u32) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    capi(client, "MachineDeployment").patch_scale(machine_deployment, &PatchParams::default(), &patch).await?;
    Ok(())
}

async fn ready_nodes(client: &Client, count: usize) -> Result<Vec<Node>> {
    wait::eventually(&format!("{count} Nodes are Ready and initialized"), MINUTE, async || {
        let nodes = workload::nodes(client).await?;
        let usable = nodes.iter().filter(|node| workload::is_ready(node) && !has_taint(node, UNINITIALIZED)).count();
        let machines = capi(client, "Machine").list(&ListParams::default()).await?;
        ensure!(usable == count && nodes.len() == count, "{usable} of {} Nodes, {} Machines", nodes.len(), machines.items.len());
        Ok(nodes)
    })
    .await
}

fn has_taint(node: &Node, key: &str) -> bool {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(|taint| taint.key == key)
}

fn capacity(node: &Node, resource: &str) -> Option<String> {
    node.status.as_ref()?.capacity.as_ref()?.get(resource).map(|quantity| quantity.0.clone())
}

fn field<'a>(object: &'a DynamicObject, pointer: &str) -> Option<&'a str> {
    object.data.pointer(pointer).and_then(Value::as_str)
}

/// A plane with the provider's kinds, a running cloud and a Cluster.
async fn cloud(plane: &ControlPlane, cluster: &str) -> Result<(Client, Provider)> {
    let client = plane.client()?;
    hollow::install(&client).await?;
    let provider = Provider::start(&client, &client, ProviderOptions::of_plane(plane)?);
    objects::apply_all(&client, &hollow::cluster("default", cluster)).await?;
    Ok((client, provider))
}

#[tokio::test]
async fn machines_become_nodes_that_run_pods_and_a_marked_one_goes_first() -> Result<()> {
    let started = Instant::now();
    ControlPlane::with(Options::complete("harness"), async |plane| {
        eprintln!("plane ready after {:.1} s", started.elapsed().as_secs_f64());
        let (client, _provider) = cloud(plane, "c1").await?;
        let options = MachineDeploymentOptions::new("default", "c1", "small", "4", "16Gi").in_zone("zone-a");
        hollow::apply_machine_deployment(&client, &options).await?;
        eprintln!("manifests applied after {:.1} s", started.elapsed().as_secs_f64());

        scale(&client, "small", 3).await?;
        for node in ready_nodes(&client, 3).await? {
            assert_eq!(capacity(&node, "cpu").as_deref(), Some("4"));
            assert_eq!(capacity(&node, "memory").as_deref(), Some("16Gi"));
            assert_eq!(node.labels().get("topology.kubernetes.io/zone").map(String::as_str), Some("zone-a"));
        }
        eprintln!("three Nodes after {:.1} s", started.elapsed().as_secs_f64());

        // Two pods of one and a half CPUs fit each machine of four.
        workload::apply(&client, &workload::deployment("default", "web", 6, &[("cpu", "1500m")])).await?;
        all_running(&client, 6).await?;
        eprintln!("six pods after {:.1} s", started.elapsed().as_secs_f64());

        let machines = capi(&client, "Machine").list(&ListParams::default()).await?.items;
        // Neither first nor last by name, which is the order in which Cluster API would choose otherwise.
        let marked = &machines[1];
        let node = field(marked, "/status/nodeRef/name").expect("the Machine has a Node").to_owned();
        let mark = json!({ "metadata": { "annotations": { "cluster.x-k8s.io/delete-machine": "yes" } } });
        capi(&client, "Machine").patch(&marked.name_any(), &PatchParams::default(), &Patch::Merge(mark)).await?;
        scale(&client, "small", 2).await?;
        let left = ready_nodes(&client, 2).await?;
        assert!(left.iter().all(|other| other.name_any() != node), "{node} is still there");
        ensure!(capi(&client, "Machine").get_opt(&marked.name_any()).await?.is_none(), "the marked Machine is still there");
        eprintln!("the marked Machine gone after {:.1} s", started.elapsed().as_secs_f64());

        workload::apply(&client, &workload::deployment("default", "web", 0, &[("cpu", "1500m")])).await?;
        scale(&client, "small", 0).await?;
        ready_nodes(&client, 0).await?;
        eprintln!("all gone after {:.1} s", started.elapsed().as_secs_f64());
        Ok(())
    })
    .await
}

async fn all_running(client: &Client, count: usize) -> Result<()> {
    wait::eventually(&format!("{count} pods run"), MINUTE, async || {
        let pods = workload::pods(client, "default", "web").await?;
        let running = pods.iter().filter(|pod| workload::is_running(pod)).count();
        ensure!(running == count, "{running} of {} run", pods.len());
        Ok(())
    })
    .await
}
