//! A control plane with Cluster API, a hollow cloud, our CRDs, a Cluster, a pool and an operator.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use karpenter_capi_api::capi::{CapiVersion, Machine, MachineDeployment, MachineSet};
use karpenter_capi_api::hypershift;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_e2e::hollow::{self, MachineDeploymentOptions, Provider, ProviderOptions};
use karpenter_capi_e2e::plane::{ControlPlane, Program};
use karpenter_capi_e2e::{objects, wait, workload};
use karpenter_capi_lifecycle::invariants::{World, check};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(super) const NAMESPACE: &str = "default";
pub(super) const CLUSTER: &str = "c1";

/// Everything but the operator.
pub(super) struct Stage<'a> {
    /// The workload cluster's, which is the management cluster's too unless the stage was set across two.
    pub(super) plane: &'a ControlPlane,
    /// Of the workload cluster.
    pub(super) client: Client,
    /// Of the management cluster.
    pub(super) management: Client,
    _cloud: Provider,
}

impl<'a> Stage<'a> {
    /// Sets the stage: CRDs, cloud, Cluster, node class `default`.
    pub(super) async fn set(plane: &'a ControlPlane) -> Result<Self> {
        Self::across(plane, plane).await
    }

    /// As [`Stage::set`], with Cluster API in another cluster than pods and nodes.
    pub(super) async fn across(workload: &'a ControlPlane, management: &'a ControlPlane) -> Result<Self> {
        Self::with_crds(workload, management, &shipped_crds()?).await
    }

    /// As [`Stage::across`], with other CRDs than those that are shipped.
    pub(super) async fn with_crds(
        workload: &'a ControlPlane,
        management: &'a ControlPlane,
        crds: &[Value],
    ) -> Result<Self> {
        let stage = Self::without_cluster(workload, management, crds).await?;
        objects::apply_all(&stage.management, &hollow::cluster(NAMESPACE, CLUSTER)).await?;
        Ok(stage)
    }

    /// As [`Stage::with_crds`], for a test that makes a Cluster of another kind.
    pub(super) async fn without_cluster(
        workload: &'a ControlPlane,
        management: &'a ControlPlane,
        crds: &[Value],
    ) -> Result<Self> {
        let (client, capi) = (workload.client()?, management.client()?);
        hollow::install(&capi).await?;
        install_crds(&client, crds).await?;
        let cloud = Provider::start(&capi, &client, ProviderOptions::of_plane(workload)?);
        objects::apply(&client, &node_class("default")).await?;
        Ok(Self { plane: workload, client, management: capi, _cloud: cloud })
    }

    pub(super) async fn machine_deployment(&self, options: &MachineDeploymentOptions) -> Result<()> {
        hollow::apply_machine_deployment(&self.management, options).await.map(drop)
    }

    /// Starts the operator; further arguments come last.
    pub(super) fn operator(&self) -> Result<Program> {
        let mut command = Command::new(binary("KARPENTER_CAPI_MANAGER_BIN", "karpenter-capi-manager"));
        command
            .arg("--kubeconfig")
            .arg(self.plane.kubeconfig())
            .args(["--cluster-namespace", NAMESPACE, "--cluster-name", CLUSTER])
            .args(["--bind-address", "127.0.0.1", "--metrics-port", "0", "--health-probe-port", "0"]);
        self.plane.start_program("operator", command)
    }

    pub(super) async fn machines(&self) -> Result<Vec<Machine>> {
        self.capi().await
    }

    pub(super) async fn replicas(&self, name: &str) -> Result<i32> {
        let api: Api<MachineDeployment> =
            Api::namespaced_with(self.management.clone(), NAMESPACE, &CapiVersion::V1Beta2);
        Ok(api.get(name).await?.spec.replicas.unwrap_or_default())
    }

    /// Changes the template of a MachineDeployment, so that Cluster API makes another MachineSet.
    pub(super) async fn change_template(&self, name: &str) -> Result<()> {
        let api = objects::api_of(
            &self.management,
            &json!({ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": { "namespace": NAMESPACE } }),
        )?;
        let patch =
            json!({ "spec": { "template": { "spec": { "bootstrap": { "dataSecretName": "other" } } } } });
        api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    pub(super) async fn class(&self) -> Result<ClusterAPINodeClass> {
        Ok(Api::all(self.client.clone()).get("default").await?)
    }

    pub(super) async fn claims(&self) -> Result<Vec<NodeClaim>> {
        let api: Api<NodeClaim> = Api::all(self.client.clone());
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// Everything of one kind of Cluster API.
    async fn capi<K>(&self) -> Result<Vec<K>>
    where
        K: kube::Resource<DynamicType = CapiVersion, Scope = kube::core::DynamicResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced_with(self.management.clone(), NAMESPACE, &CapiVersion::V1Beta2);
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// Gives a Deployment another number of pods.
    pub(super) async fn scale(&self, deployment: &str, replicas: i32) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        api.patch(deployment, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// The pods of a Deployment run, as many as that.
    pub(super) async fn running(&self, deployment: &str, count: usize, within: Duration) -> Result<Vec<Pod>> {
        wait::eventually(&format!("{count} pods of {deployment} run"), within, async || {
            let pods = workload::pods(&self.client, NAMESPACE, deployment).await?;
            let running = pods
                .iter()
                .filter(|pod| workload::is_running(pod) && pod.metadata.deletion_timestamp.is_none())
                .count();
            ensure!(running == count, "{running} of {} pods run; claims: {}", pods.len(), self.told().await?);
            Ok(pods)
        })
        .await
    }

    async fn told(&self) -> Result<String> {
        let claims = self.claims().await?;
        let told = claims.iter().map(|claim| {
            let conditions =
                claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            let waiting =
                conditions.iter().find(|condition| condition.status != "True" && condition.type_ != "Ready");
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            waiting.map_or_else(
                || format!("{name} ready"),
                |waiting| format!("{name} {}={} {}", waiting.type_, waiting.status, waiting.message),
            )
        });
        Ok(told.collect::<Vec<_>>().join(", "))
    }

    /// The books are exact, for two seconds on end.
    pub(super) async fn books_are_exact(&self, within: Duration) -> Result<()> {
        let exact = async || {
            let violations = check(&self.world().await?);
            ensure!(
                violations.is_empty(),
                "{}",
                violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
            );
            let claims = self.claims().await?;
            let ours = claims.iter().filter(|claim| claim.spec.node_class_ref.is_ours());
            let going = ours.filter(|claim| claim.metadata.deletion_timestamp.is_some()).count();
            ensure!(going == 0, "{going} claims are going");
            Ok(())
        };
        // Lists are read one after the other: what changes in between may look wrong once, but not for long.
        let settled = async || wait::holds("the books stay exact", Duration::from_secs(2), exact).await;
        wait::eventually("the books are exact", within, async || {
            settled().await.map_err(|error| anyhow::anyhow!("{error:#}"))
        })
        .await
    }

    /// Of any namespace; none where HyperShift isn't there.
    async fn hypershift_node_pools(&self) -> Result<Vec<hypershift::NodePool>> {
        let api: Api<hypershift::NodePool> = Api::all(self.management.clone());
        match api.list(&ListParams::default()).await {
            Ok(pools) => Ok(pools.items),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    async fn world(&self) -> Result<World> {
        Ok(World {
            machine_deployments: self.capi().await?,
            hypershift_node_pools: self.hypershift_node_pools().await?,
            machine_sets: self.capi::<MachineSet>().await?,
            machines: self.capi().await?,
            claims: self.claims().await?,
            nodes: workload::nodes(&self.client).await?,
        })
    }
}

/// A machine of the stage's cluster.
pub(super) fn machine(name: &str, cpu: &str, memory: &str) -> MachineDeploymentOptions {
    MachineDeploymentOptions::new(NAMESPACE, CLUSTER, name, cpu, memory)
}

/// A node class that takes every member.
pub(super) fn node_class(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.cluster.x-k8s.io/v1alpha1", "kind": "ClusterAPINodeClass",
        "metadata": { "name": name }, "spec": {},
    })
}

/// A pool whose nodes come from node class `default` and never expire.
pub(super) fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": name },
        "spec": { "template": { "spec": {
            "requirements": [],
            "nodeClassRef": { "group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default" },
            "expireAfter": "Never",
        } } },
    })
}

/// The CRDs as they are shipped.
pub(crate) async fn apply_crds(client: &Client) -> Result<()> {
    install_crds(client, &shipped_crds()?).await
}

async fn install_crds(client: &Client, crds: &[Value]) -> Result<()> {
    objects::apply_all(client, crds).await?;
    objects::crds_established(client, crds, Duration::from_mins(1)).await
}

pub(super) fn shipped_crds() -> Result<Vec<Value>> {
    let folder = repository().join("crds");
    let mut crds = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let text = std::fs::read_to_string(entry?.path())?;
        if text.contains("kind: CustomResourceDefinition") {
            crds.push(serde_saphyr::from_str(&text)?);
        }
    }
    ensure!(crds.len() >= 3, "only {} CRDs in {}", crds.len(), folder.display());
    Ok(crds)
}

pub(super) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// A binary of ours: named by a variable, else the one that lies beside the tests.
pub(super) fn binary(variable: &str, name: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(
        || {
            let test = std::env::current_exe().unwrap_or_default();
            test.parent().and_then(Path::parent).map(|folder| folder.join(name)).unwrap_or_default()
        },
        PathBuf::from,
    )
}
