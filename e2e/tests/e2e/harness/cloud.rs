//! A control plane with Cluster API and the hollow cloud; the tests share one and have a namespace each.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use karpenter_capi_e2e::{
    hollow::{
        self, HollowMachine, HollowMachineTemplate, MachineDeploymentOptions, Provider, ProviderOptions,
        annotations,
    },
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

const MINUTE: Duration = Duration::from_mins(1);
const UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";
/// Label of Nodes with the namespace of the test they belong to.
const TEST: &str = "example.com/test";

/// A namespace with a Cluster of the same name, and a cloud for it alone.
struct World {
    client: Client,
    namespace: &'static str,
    provider: ProviderOptions,
    _cloud: Provider,
}

async fn world(namespace: &'static str, body: impl AsyncFnOnce(&World) -> Result<()>) -> Result<()> {
    ControlPlane::with_shared(
        "harness",
        || Options::complete("harness"),
        async |plane| {
            let client = plane.client()?;
            hollow::install(&client).await?;
            workload::namespace(&client, namespace).await?;
            let provider = ProviderOptions {
                namespace: Some(namespace.to_owned()),
                ..ProviderOptions::of_plane(plane)?
            };
            let cloud = Provider::start(&client, &client, provider.clone());
            objects::apply_all(&client, &hollow::cluster(namespace, namespace)).await?;
            body(&World { client, namespace, provider, _cloud: cloud }).await
        },
    )
    .await
}

impl World {
    fn capi(&self, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind));
        Api::namespaced_with(self.client.clone(), self.namespace, &resource)
    }

    fn options(&self, name: &str) -> MachineDeploymentOptions {
        let mut options = MachineDeploymentOptions::new(self.namespace, self.namespace, name, "4", "16Gi");
        options.labels.insert(TEST.to_owned(), self.namespace.to_owned());
        options
    }

    async fn apply(&self, options: &MachineDeploymentOptions) -> Result<()> {
        hollow::apply_machine_deployment(&self.client, options).await
    }

    async fn scale(&self, machine_deployment: &str, replicas: u32) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        self.capi("MachineDeployment")
            .patch_scale(machine_deployment, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn machines(&self, machine_deployment: &str) -> Result<Vec<DynamicObject>> {
        let selector = format!("cluster.x-k8s.io/deployment-name={machine_deployment}");
        Ok(self.capi("Machine").list(&ListParams::default().labels(&selector)).await?.items)
    }

    /// The only Machine of a MachineDeployment, once `probe` finds it as wanted.
    async fn machine(
        &self,
        machine_deployment: &str,
        what: &str,
        probe: impl Fn(&DynamicObject) -> bool,
    ) -> Result<DynamicObject> {
        wait::eventually(&format!("the Machine of {machine_deployment} {what}"), MINUTE, async || {
            let machines = self.machines(machine_deployment).await?;
            ensure!(machines.len() == 1, "there are {} Machines", machines.len());
            let found = machines.into_iter().find(&probe).with_context(|| "it is otherwise".to_string())?;
            Ok(found)
        })
        .await
    }

    async fn nodes(&self) -> Result<Vec<Node>> {
        let mut nodes = workload::nodes(&self.client).await?;
        nodes.retain(|node| node.labels().get(TEST).is_some_and(|test| test == self.namespace));
        Ok(nodes)
    }

    async fn ready_nodes(&self, count: usize) -> Result<Vec<Node>> {
        wait::eventually(&format!("{count} Nodes are Ready and initialized"), MINUTE, async || {
            let nodes = self.nodes().await?;
            let usable = nodes
                .iter()
                .filter(|node| workload::is_ready(node) && !taints(node).contains(&UNINITIALIZED))
                .count();
            ensure!(usable == count && nodes.len() == count, "{usable} of {} Nodes", nodes.len());
            Ok(nodes)
        })
        .await
    }

    async fn running_pods(&self, deployment: &str, count: usize) -> Result<()> {
        wait::eventually(&format!("{count} pods of {deployment} run"), MINUTE, async || {
            let pods = workload::pods(&self.client, self.namespace, deployment).await?;
            let running = pods.iter().filter(|pod| workload::is_running(pod)).count();
            ensure!(running == count, "{running} of {} run", pods.len());
            Ok(())
        })
        .await
    }

    async fn annotate_machine(&self, name: &str, annotations: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        self.capi("Machine").patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

fn taints(node: &Node) -> Vec<&str> {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).map(|taint| taint.key.as_str()).collect()
}

fn capacity(node: &Node, resource: &str) -> Option<String> {
    node.status.as_ref()?.capacity.as_ref()?.get(resource).map(|quantity| quantity.0.clone())
}

fn field<'a>(object: &'a DynamicObject, pointer: &str) -> Option<&'a str> {
    object.data.pointer(pointer).and_then(Value::as_str)
}

fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    object.data.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == kind)
}

#[tokio::test]
async fn machines_become_nodes_that_run_pods_and_a_marked_one_goes_first() -> Result<()> {
    world("flow", async |world| {
        world.apply(&world.options("small").in_zone("zone-a")).await?;
        world.scale("small", 3).await?;
        for node in world.ready_nodes(3).await? {
            assert_eq!(capacity(&node, "cpu").as_deref(), Some("4"));
            assert_eq!(capacity(&node, "memory").as_deref(), Some("16Gi"));
            assert_eq!(node.labels().get("topology.kubernetes.io/zone").map(String::as_str), Some("zone-a"));
        }

        // Two pods of one and a half CPUs fit each machine of four.
        let mut web = workload::deployment(world.namespace, "web", 6, &[("cpu", "1500m")]);
        workload::apply(&world.client, &web).await?;
        world.running_pods("web", 6).await?;

        // Neither first nor last by name, which is the order in which Cluster API would choose otherwise.
        let marked = world.machines("small").await?.swap_remove(1);
        let node = field(&marked, "/status/nodeRef/name").expect("the Machine has a Node").to_owned();
        let annotations = json!({
            "cluster.x-k8s.io/delete-machine": "yes",
            // Cluster API's drain would add twenty seconds.
            "machine.cluster.x-k8s.io/exclude-node-draining": "",
        });
        world.annotate_machine(&marked.name_any(), annotations).await?;
        world.scale("small", 2).await?;
        let left = world.ready_nodes(2).await?;
        assert!(left.iter().all(|other| other.name_any() != node), "{node} is still there");
        wait::eventually("the marked Machine is gone", MINUTE, async || {
            ensure!(world.capi("Machine").get_opt(&marked.name_any()).await?.is_none(), "it is there");
            Ok(())
        })
        .await?;

        web.spec.as_mut().expect("a spec").replicas = Some(0);
        workload::apply(&world.client, &web).await?;
        world.scale("small", 0).await?;
        world.ready_nodes(0).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_cloud_without_capacity_says_so_until_it_has_some() -> Result<()> {
    world("capacity", async |world| {
        let mut options = world.options("none");
        options.machine.no_capacity = true;
        options.report_capacity = true;
        options.replicas = 1;
        world.apply(&options).await?;
        let machine = world
            .machine("none", "reports insufficient capacity", |machine| {
                condition(machine, "InfrastructureReady").is_some_and(|found| {
                    found["status"] == "False" && found["reason"] == "InsufficientCapacity"
                })
            })
            .await?;
        assert_eq!(field(&machine, "/spec/providerID"), None);

        let templates: Api<HollowMachineTemplate> = Api::namespaced(world.client.clone(), world.namespace);
        let reported = templates.get("none").await?.status.context("the template has no status")?;
        assert_eq!(reported.capacity["cpu"].0, "4");

        let machines: Api<HollowMachine> = Api::namespaced(world.client.clone(), world.namespace);
        let patch = json!({ "metadata": { "annotations": { annotations::NO_CAPACITY: "false" } } });
        machines.patch(&machine.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        world.ready_nodes(1).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_instance_may_never_join_or_vanish_and_both_can_be_removed() -> Result<()> {
    world("faults", async |world| {
        let mut lost = world.options("lost");
        lost.machine.never_joins = true;
        lost.replicas = 1;
        world.apply(&lost).await?;
        let mut spot = world.options("spot");
        spot.machine.vanishes_after = Some("3s".to_owned());
        spot.machine.unregistered_taint = true;
        spot.replicas = 1;
        world.apply(&spot).await?;

        let nodes = world.ready_nodes(1).await?;
        assert_eq!(taints(&nodes[0]), ["karpenter.sh/unregistered"]);
        let spot = world
            .machine("spot", "knows its Node", |machine| field(machine, "/status/nodeRef/name").is_some())
            .await?;
        world.ready_nodes(0).await?;
        world.machine("spot", "is still there", |machine| machine.name_any() == spot.name_any()).await?;

        let provisioned = world
            .machine("lost", "has a provider ID", |machine| field(machine, "/spec/providerID").is_some())
            .await?;
        assert_eq!(field(&provisioned, "/status/nodeRef/name"), None);

        for name in ["lost", "spot"] {
            world.scale(name, 0).await?;
        }
        wait::eventually("both Machines are gone", MINUTE, async || {
            let left = world.capi("Machine").list(&ListParams::default()).await?.items.len();
            ensure!(left == 0, "{left} are there");
            Ok(())
        })
        .await
    })
    .await
}

#[tokio::test]
async fn deletion_takes_as_long_as_the_cloud_says() -> Result<()> {
    world("slowly", async |world| {
        let mut options = world.options("slowly");
        options.machine.delays.deletion = Some("4s".to_owned());
        options.replicas = 1;
        world.apply(&options).await?;
        world.ready_nodes(1).await?;
        let machines: Api<HollowMachine> = Api::namespaced(world.client.clone(), world.namespace);
        world.scale("slowly", 0).await?;
        wait::eventually("the HollowMachine is being deleted", MINUTE, async || {
            let found = machines.list(&ListParams::default()).await?;
            ensure!(
                found.items.iter().any(|machine| machine.metadata.deletion_timestamp.is_some()),
                "it isn't"
            );
            Ok(())
        })
        .await?;
        let deleting = Instant::now();
        world.ready_nodes(0).await?;
        // Polling may see the deletion a little after the cloud did.
        let taken = deleting.elapsed();
        ensure!(taken > Duration::from_secs(3), "the Node went after {taken:?}, before its instance did");
        assert_eq!(
            world.provider.deletion_delay,
            Duration::from_millis(200),
            "the default would have been much shorter"
        );
        Ok(())
    })
    .await
}
