//! MachineDeployments whose number HyperShift rewrites at every reconcile: they are scaled through their HyperShift NodePool.

use super::process::{Operator, manifests, permit};
use super::stage::{NAMESPACE, Stage, machine, pool};
use anyhow::{Context, Result, ensure};
use karpenter_capi_api::capi::{CapiVersion, MachineDeployment};
use karpenter_capi_api::hypershift::NodePool;
use karpenter_capi_api::names::annotations;
use karpenter_capi_e2e::hypershift::{self, HyperShift};
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Where HyperShift keeps its NodePools.
const CLUSTERS: &str = "clusters";
const USER: &str = "hypershift-operator-test";
const ARGUMENTS: [&str; 4] =
    ["--hypershift-namespace", CLUSTERS, "--leader-election-namespace", "karpenter-capi-system"];
const MINUTE: Duration = Duration::from_mins(1);

/// Everything but the operator.
struct Hosted<'a> {
    stage: Stage<'a>,
    _hypershift: HyperShift,
}

impl<'a> Hosted<'a> {
    /// `hosted` belongs to HyperShift NodePool `workers` of one machine; `plain` is like it, and dear.
    async fn set(plane: &'a ControlPlane) -> Result<Self> {
        let stage = Stage::set(plane).await?;
        workload::namespace(&stage.client, CLUSTERS).await?;
        hypershift::install(&stage.client).await?;
        objects::apply(&stage.client, &hypershift::node_pool(CLUSTERS, "workers", 1, "user-data-1")).await?;
        let mut hosted = machine("hosted", "4", "16Gi").priced("0.10");
        hosted.replicas = 1;
        hosted.annotations.insert(hypershift::NODE_POOL.to_owned(), format!("{CLUSTERS}/workers"));
        stage.machine_deployment(&hosted).await?;
        stage.machine_deployment(&machine("plain", "4", "16Gi").priced("0.90")).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        for namespace in manifests("manager/namespace.yaml")? {
            objects::apply(&stage.client, &namespace).await?;
        }
        for role in
            ["rbac/workload/cluster_role.yaml", "rbac/workload/lease_role.yaml", "rbac/management/role.yaml"]
        {
            permit(&stage.client, role, USER).await?;
        }
        permit(&stage.client, "rbac/hypershift/role.yaml", USER).await?;
        let hypershift = HyperShift::start(&stage.client);
        // Pods find the machine that was there.
        wait::eventually("the first machine has its Node", MINUTE, async || {
            let nodes = workload::nodes(&stage.client).await?;
            ensure!(
                nodes.iter().filter(|node| workload::is_ready(node)).count() == 1,
                "{} Nodes",
                nodes.len()
            );
            Ok(())
        })
        .await?;
        Ok(Self { stage, _hypershift: hypershift })
    }

    fn operator(&self) -> Result<Operator> {
        let plane = self.stage.plane;
        Operator::start(plane, "operator", &plane.kubeconfig_for(USER, &[])?, &ARGUMENTS)
    }

    fn node_pools(&self) -> Api<NodePool> {
        Api::namespaced(self.stage.client.clone(), CLUSTERS)
    }

    async fn change_node_pool(&self, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.node_pools().patch("workers", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// The NodePool has that number and so many claims in its ledger, and the MachineDeployment has the same number and no ledger.
    async fn stands_at(&self, replicas: i32, claims: usize) -> Result<()> {
        wait::eventually("number and ledger stand on the NodePool", MINUTE, async || {
            let pool = self.node_pools().get("workers").await?;
            let ledger = ledger(pool.metadata.annotations.as_ref());
            let deployment = self.deployment().await?;
            let own = ledger_of(&deployment);
            let found = (pool.spec.replicas, ledger, deployment.spec.replicas, own);
            ensure!(found == (Some(replicas), claims, Some(replicas), 0), "{found:?}");
            Ok(())
        })
        .await?;
        self.stage.books_are_exact(MINUTE).await
    }

    async fn deployment(&self) -> Result<MachineDeployment> {
        let api: Api<MachineDeployment> =
            Api::namespaced_with(self.stage.client.clone(), NAMESPACE, &CapiVersion::V1Beta2);
        Ok(api.get("hosted").await?)
    }

    async fn machine_names(&self) -> Result<BTreeSet<String>> {
        let machines = self.stage.machines().await?;
        Ok(machines.into_iter().filter_map(|machine| machine.metadata.name).collect())
    }

    async fn delete_claims(&self, count: usize) -> Result<()> {
        let claims = self.stage.claims().await?;
        ensure!(claims.len() >= count, "{} claims", claims.len());
        let api: Api<karpenter_capi_api::v1::NodeClaim> = Api::all(self.stage.client.clone());
        for claim in claims.iter().take(count) {
            let name = claim.metadata.name.as_deref().context("a claim without name")?;
            api.delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }
}

fn ledger(annotated: Option<&std::collections::BTreeMap<String, String>>) -> usize {
    let text = annotated.and_then(|all| all.get(annotations::CLAIMS));
    text.map_or(0, |text| text.split(',').count())
}

fn ledger_of(deployment: &MachineDeployment) -> usize {
    ledger(deployment.metadata.annotations.as_ref())
}

#[tokio::test]
async fn number_and_ledger_stand_on_the_node_pool_that_hypershift_makes_the_number_from() -> Result<()> {
    ControlPlane::with(Options::complete("hypershift"), async |plane| {
        let hosted = Hosted::set(plane).await?;
        let stage = &hosted.stage;
        let operator = hosted.operator()?;
        // One pod fits on a machine; one machine was there.
        let web = workload::deployment(NAMESPACE, "web", 6, &[("cpu", "3")]);
        workload::apply(&stage.client, &web).await?;
        stage.running("web", 6, 2 * MINUTE).await?;
        hosted.stands_at(6, 5).await?;
        ensure!(stage.replicas("plain").await? == 0, "the dear one was scaled");

        let before = hosted.machine_names().await?;
        hosted.delete_claims(1).await?;
        wait::eventually("one Machine is gone", MINUTE, async || {
            let now = hosted.machine_names().await?;
            ensure!(before.difference(&now).count() == 1, "{before:?} became {now:?}");
            Ok(())
        })
        .await?;
        stage.running("web", 6, 2 * MINUTE).await?;
        hosted.stands_at(6, 5).await?;
        let after = hosted.machine_names().await?;
        ensure!(before.intersection(&after).count() == 5, "{before:?} became {after:?}");

        killed_in_the_middle(&hosted, operator).await
    })
    .await
}

/// Two claims are given back, and the operator dies over it.
async fn killed_in_the_middle(hosted: &Hosted<'_>, operator: Operator) -> Result<()> {
    let stage = &hosted.stage;
    stage.scale("web", 0).await?;
    stage.running("web", 0, MINUTE).await?;
    hosted.delete_claims(2).await?;
    wait::eventually("a Machine is going", MINUTE, async || {
        let machines = stage.machines().await?;
        ensure!(machines.iter().any(|machine| machine.metadata.deletion_timestamp.is_some()), "none is");
        Ok(())
    })
    .await?;
    operator.program.kill();
    let operator = hosted.operator()?;
    hosted.stands_at(4, 3).await?;
    let status = operator.terminate().await?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[tokio::test]
async fn others_may_change_the_numbers_and_turn_hypershifts_autoscaling_on_and_off() -> Result<()> {
    ControlPlane::with(Options::complete("hypershift-others"), async |plane| {
        let hosted = Hosted::set(plane).await?;
        let stage = &hosted.stage;
        let operator = hosted.operator()?;
        let web = workload::deployment(NAMESPACE, "web", 4, &[("cpu", "3")]);
        workload::apply(&stage.client, &web).await?;
        stage.running("web", 4, 2 * MINUTE).await?;
        hosted.stands_at(4, 3).await?;

        // Behind HyperShift's back: it puts the number back, whichever Machines Cluster API took.
        let api: Api<MachineDeployment> =
            Api::namespaced_with(stage.client.clone(), NAMESPACE, &CapiVersion::V1Beta2);
        let lower = Patch::Merge(json!({ "spec": { "replicas": 2 } }));
        api.patch("hosted", &PatchParams::default(), &lower).await?;
        stage.running("web", 4, 2 * MINUTE).await?;
        stage.books_are_exact(2 * MINUTE).await?;

        autoscaling_is_left_alone(&hosted).await?;
        let status = operator.terminate().await?;
        ensure!(status.success(), "{status}");
        Ok(())
    })
    .await
}

/// With HyperShift's autoscaling the offering is out, and what is ours is still given back; without it, it is scaled again.
async fn autoscaling_is_left_alone(hosted: &Hosted<'_>) -> Result<()> {
    let stage = &hosted.stage;
    let replicas = hosted.deployment().await?.spec.replicas;
    hosted.change_node_pool(json!({ "replicas": null, "autoScaling": { "min": 0, "max": 20 } })).await?;
    told(stage, Some("HyperShiftAutoscaling")).await?;
    stage.scale("web", 5).await?;
    stage.running("web", 5, 2 * MINUTE).await?;
    ensure!(stage.replicas("plain").await? == 1, "the other one wasn't scaled");
    ensure!(
        hosted.deployment().await?.spec.replicas == replicas,
        "the number of the Cluster Autoscaler was changed"
    );
    stage.books_are_exact(MINUTE).await?;

    stage.scale("web", 0).await?;
    stage.running("web", 0, MINUTE).await?;
    hosted.delete_claims(stage.claims().await?.len()).await?;
    wait::eventually("no claim is left", 2 * MINUTE, async || {
        let claims = stage.claims().await?.len();
        ensure!(claims == 0, "{claims} are");
        Ok(())
    })
    .await?;
    stage.books_are_exact(MINUTE).await?;

    let rest = hosted.deployment().await?.spec.replicas;
    hosted.change_node_pool(json!({ "replicas": rest, "autoScaling": null })).await?;
    told(stage, None).await?;
    stage.scale("web", 3).await?;
    stage.running("web", 3, 2 * MINUTE).await?;
    ensure!(stage.replicas("plain").await? == 0, "the dear one was scaled");
    stage.books_are_exact(MINUTE).await
}

/// The class says that `hosted` is out for that reason, or that it isn't.
async fn told(stage: &Stage<'_>, reason: Option<&str>) -> Result<()> {
    wait::eventually("the class tells whether the offering can be had", MINUTE, async || {
        let status = stage.class().await?.status.context("no status")?;
        let found = status.machine_deployments.iter().find(|found| found.name == "default/hosted");
        let found = found.context("the class doesn't list it")?;
        ensure!(found.reason.as_deref() == reason, "{found:?}");
        Ok(())
    })
    .await
}
