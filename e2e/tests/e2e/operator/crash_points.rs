//! The operator dies after every single write, then after every second, and so on: between any two writes of scaling up, binding,
//! registering, draining, giving back, keeping a lost Machine from being remade, and following a roll-out. The end is the same each time.

use super::hands::use_template;
use super::stage::{NAMESPACE, Stage, binary, machine, pool};
use super::termination::machine_of;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use karpenter_capi_api::capi::{CapiVersion, Machine};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::hollow::MachineDeploymentOptions;
use karpenter_capi_e2e::plane::{ControlPlane, Options, Program};
use karpenter_capi_e2e::{objects, workload};
use kube::Api;
use kube::api::DeleteParams;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

/// An operator that is started anew whenever it has died.
struct Mortal<'a> {
    stage: &'a Stage<'a>,
    /// It dies after so many writes.
    writes: u32,
    /// How many pods there are, each on a machine of its own.
    pods: u8,
    program: Option<Program>,
    deaths: usize,
}

impl Mortal<'_> {
    fn start(&self) -> Result<Program> {
        let mut command = Command::new(binary("KARPENTER_CAPI_MANAGER_BIN", "karpenter-capi-manager"));
        command
            .arg("--kubeconfig")
            .arg(self.stage.plane.kubeconfig())
            .args(["--cluster-namespace", NAMESPACE, "--cluster-name", super::stage::CLUSTER])
            .args(["--bind-address", "127.0.0.1", "--metrics-port", "0", "--health-probe-port", "0"])
            .args(["--disable-leader-election", "--batch-idle-duration=100ms"])
            .env("KARPENTER_CAPI_CRASH_AFTER_WRITES", self.writes.to_string());
        self.stage.plane.start_program("operator", command)
    }

    /// Makes the pods; each fills a machine.
    async fn run_pods(&self) -> Result<()> {
        let web =
            workload::deployment(NAMESPACE, "web", self.pods.into(), &[("cpu", "3"), ("memory", "1Gi")]);
        workload::apply(&self.stage.client, &web).await
    }

    /// Keeps an operator alive until `done`.
    async fn until(
        &mut self,
        what: &str,
        within: Duration,
        mut done: impl AsyncFnMut() -> Result<bool>,
    ) -> Result<()> {
        let started = Instant::now();
        loop {
            let ended = match &mut self.program {
                None => true,
                Some(program) => program.ended()?.is_some(),
            };
            if ended {
                self.deaths += usize::from(self.program.is_some());
                self.program = Some(self.start()?);
            }
            if done().await? {
                return Ok(());
            }
            ensure!(started.elapsed() < within, "not in {within:?}: {what}, after {} deaths", self.deaths);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test]
async fn dying_after_every_write_changes_nothing_about_the_end() -> Result<()> {
    ControlPlane::with(Options::complete("crash-points"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&small()).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        for writes in [1, 2, 3, 5] {
            up_and_down(&stage, writes)
                .await
                .with_context(|| format!("dying after every {writes} writes"))?;
        }
        let points = crash_points(&stage)?;
        eprintln!(
            "{} distinct crash points:\n{}",
            points.len(),
            points.iter().cloned().collect::<Vec<_>>().join("\n")
        );
        ensure!(points.len() >= 20, "only {} distinct crash points: {points:?}", points.len());
        Ok(())
    })
    .await
}

fn small() -> MachineDeploymentOptions {
    machine("small", "4", "16Gi").priced("0.10").in_zone("a")
}

#[tokio::test]
async fn dying_after_every_write_over_a_lost_machine_and_a_roll_out_changes_nothing_about_the_end()
-> Result<()> {
    ControlPlane::with(Options::complete("crash-remakes"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&small()).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let mut operator = Mortal { stage: &stage, writes: 1, pods: 2, program: None, deaths: 0 };
        operator.run_pods().await?;
        pods_run(&stage, &mut operator).await?;
        lose_one(&stage, &mut operator).await?;
        roll_out(&stage, &mut operator).await?;
        down(&stage, &mut operator).await?;
        let points = crash_points(&stage)?;
        eprintln!("{} deaths, {} distinct crash points", operator.deaths, points.len());
        let successor = points.iter().filter(|point| point.contains("POST nodeclaims")).count();
        ensure!(successor > 0, "it never died around the creation of a claim: {points:?}");
        Ok(())
    })
    .await
}

/// Three pods, each on a machine of its own; one of them moves; then all goes.
async fn up_and_down(stage: &Stage<'_>, writes: u32) -> Result<()> {
    let mut operator = Mortal { stage, writes, pods: 3, program: None, deaths: 0 };
    operator.run_pods().await?;
    pods_run(stage, &mut operator).await?;
    replace_one(stage, &mut operator).await?;
    down(stage, &mut operator).await?;
    ensure!(operator.deaths > 0, "the operator never died");
    Ok(())
}

async fn pods_run(stage: &Stage<'_>, operator: &mut Mortal<'_>) -> Result<()> {
    let wanted = operator.pods;
    let count = usize::from(wanted);
    let run = async || {
        let pods = workload::pods(&stage.client, NAMESPACE, "web").await?;
        let claims = stage.claims().await?;
        let staying = |pod: &&Pod| workload::is_running(pod) && pod.metadata.deletion_timestamp.is_none();
        let ready =
            claims.iter().filter(|claim| is_ready(claim) && claim.metadata.deletion_timestamp.is_none());
        Ok(pods.iter().filter(staying).count() == count && ready.count() == count && claims.len() == count)
    };
    operator.until("the pods run on as many ready claims", Duration::from_mins(4), run).await?;
    ensure!(
        stage.replicas("small").await? == i32::from(wanted),
        "{} replicas",
        stage.replicas("small").await?
    );
    stage.books_are_exact(Duration::from_secs(20)).await
}

/// A claim goes: its pod is evicted, and as the other machines are full, a fourth one is made for it.
async fn replace_one(stage: &Stage<'_>, operator: &mut Mortal<'_>) -> Result<()> {
    let claims = stage.claims().await?;
    let going = claims.get(1).and_then(|claim| claim.metadata.name.clone()).context("no second claim")?;
    let api: Api<NodeClaim> = Api::all(stage.client.clone());
    api.delete(&going, &DeleteParams::default()).await?;
    operator
        .until("the claim is gone", Duration::from_mins(4), async || Ok(api.get_opt(&going).await?.is_none()))
        .await?;
    pods_run(stage, operator).await
}

/// Somebody deletes a Machine: it isn't remade behind our back, and its pod gets another one.
async fn lose_one(stage: &Stage<'_>, operator: &mut Mortal<'_>) -> Result<()> {
    let claims = stage.claims().await?;
    let lost = claims.first().context("no claim")?;
    let machines: Api<Machine> =
        Api::namespaced_with(stage.management.clone(), NAMESPACE, &CapiVersion::V1Beta2);
    machines.delete(&machine_of(lost), &DeleteParams::default()).await?;
    let lost = lost.metadata.name.clone().unwrap_or_default();
    let api: Api<NodeClaim> = Api::all(stage.client.clone());
    operator
        .until("its claim is gone", Duration::from_mins(4), async || Ok(api.get_opt(&lost).await?.is_none()))
        .await?;
    pods_run(stage, operator).await
}

/// Each claim gets a successor. A pod that is evicted while the operator is dead may get a node of its own: then there is one more.
async fn roll_out(stage: &Stage<'_>, operator: &mut Mortal<'_>) -> Result<()> {
    let names = |claims: &[NodeClaim]| -> BTreeSet<String> {
        claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect()
    };
    let (old, count) = (names(&stage.claims().await?), usize::from(operator.pods));
    use_template(stage, "small", "small-2", &small()).await?;
    let replaced = async || {
        let pods = workload::pods(&stage.client, NAMESPACE, "web").await?;
        let running =
            pods.iter().filter(|pod| workload::is_running(pod) && pod.metadata.deletion_timestamp.is_none());
        let claims = stage.claims().await?;
        Ok(running.count() == count && claims.iter().all(is_ready) && old.is_disjoint(&names(&claims)))
    };
    operator.until("the pods run on successors", Duration::from_mins(4), replaced).await?;
    stage.books_are_exact(Duration::from_secs(20)).await?;
    let (claims, replicas) = (stage.claims().await?.len(), stage.replicas("small").await?);
    ensure!(i32::try_from(claims)? == replicas, "{claims} claims, {replicas} replicas");
    Ok(())
}

/// The pods go, and then the claims: one that was just made for a pod, too.
async fn down(stage: &Stage<'_>, operator: &mut Mortal<'_>) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(stage.client.clone(), NAMESPACE);
    deployments.delete("web", &DeleteParams::foreground()).await?;
    let no_pods = async || Ok(workload::pods(&stage.client, NAMESPACE, "web").await?.is_empty());
    operator.until("all pods are gone", Duration::from_mins(1), no_pods).await?;
    let api: Api<NodeClaim> = Api::all(stage.client.clone());
    let gone = async || {
        let claims = stage.claims().await?;
        for claim in claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            api.delete(name, &DeleteParams::default()).await?;
        }
        Ok(claims.is_empty() && stage.machines().await?.is_empty())
    };
    operator.until("all claims and Machines are gone", Duration::from_mins(4), gone).await?;
    ensure!(stage.replicas("small").await? == 0, "{} replicas", stage.replicas("small").await?);
    stage.books_are_exact(Duration::from_secs(20)).await
}

fn is_ready(claim: &NodeClaim) -> bool {
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    karpenter_capi_api::condition::is_true(conditions, "Ready")
}

/// Between which two writes the operator died: the one before its death, and the first one of its next life, each by method, kind
/// of object, subresource and field manager.
fn crash_points(stage: &Stage<'_>) -> Result<BTreeSet<String>> {
    let log = std::fs::read_to_string(stage.plane.logs_dir().join("operator.log"))?;
    let mut died_after: Option<String> = None;
    let mut points = BTreeSet::new();
    for line in log.lines() {
        if let Some((_, write)) = line.split_once("crash point after ") {
            died_after = Some(kind_of(write));
        } else if let Some((_, write)) = line.split_once(" write ")
            && let Some(before) = died_after.take()
        {
            points.insert(format!("{before} … {}", kind_of(write)));
        }
    }
    Ok(points)
}

/// `PATCH https://127.0.0.1:1/apis/karpenter.sh/v1/nodeclaims/x/status?&fieldManager=m` → `PATCH nodeclaims/status m`.
fn kind_of(write: &str) -> String {
    let (method, uri) = write.split_once(' ').unwrap_or((write, ""));
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let kinds = [
        "nodeclaims",
        "nodepools",
        "clusterapinodeclasses",
        "machinedeployments",
        "machinesets",
        "machines",
        "clusters",
        "nodes",
        "pods",
    ];
    let kind = parts.iter().rposition(|part| kinds.contains(part));
    let name = kind.and_then(|index| parts.get(index)).copied().unwrap_or("?");
    let subresource =
        kind.and_then(|index| parts.get(index + 2)).map_or(String::new(), |part| format!("/{part}"));
    let manager = query.split('&').find_map(|pair| pair.strip_prefix("fieldManager=")).unwrap_or("");
    format!("{method} {name}{subresource} {manager}").trim_end().to_owned()
}
