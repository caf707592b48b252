//! API servers that are away, watches that are cut, and others who write to the same objects all the time.

use super::main_job::{
    nothing_is_left, sixty_pods, sixty_pods_go, sixty_pods_run_on_the_cheapest, three_machine_deployments,
};
use super::process::Operator;
use super::stage::{NAMESPACE, Stage, machine, pool};
use anyhow::{Context, Result, ensure};
use karpenter_capi_api::capi::{CapiVersion, Machine, MachineDeployment};
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::plane::{Component, ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const AWAY: Duration = Duration::from_mins(1);

#[tokio::test]
async fn each_api_server_may_be_away_for_a_minute_in_the_middle_of_work() -> Result<()> {
    let mut options = Options::workload_only("away-workload");
    // Nodes must not fall silent for the sake of an API server that is away.
    options.node_lease = Duration::from_mins(10);
    ControlPlane::with(options, async |workload| {
        ControlPlane::with(Options::management_only("away-management"), async |management| {
            let stage = Stage::across(workload, management).await?;
            stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10").in_zone("a")).await?;
            objects::apply(&stage.client, &pool("general")).await?;
            let path = management.kubeconfig().display().to_string();
            let arguments = ["--cluster-api-kubeconfig", path.as_str()];
            let mut operator = Operator::start(workload, "operator", workload.kubeconfig(), &arguments)?;
            // A machine of four processors for each pod of three.
            let web = workload::deployment(NAMESPACE, "web", 4, &[("cpu", "3"), ("memory", "1Gi")]);
            workload::apply(&stage.client, &web).await?;
            stage.running("web", 4, Duration::from_mins(1)).await?;
            stage.books_are_exact(Duration::from_mins(1)).await?;

            let going = begin_work(&stage, 6).await?;
            management.kill(Component::ApiServer)?;
            stays_alive_for(&mut operator, AWAY).await?;
            management.restart(Component::ApiServer).await?;
            work_goes_on(&stage, 6, &going, "the management cluster's").await?;
            ensure!(
                operator.metric(LEASE_LOST).await? == 0,
                "the management cluster has nothing to do with the Lease"
            );

            let going = begin_work(&stage, 8).await?;
            workload.pause(Component::ApiServer)?;
            stays_alive_for(&mut operator, AWAY).await?;
            workload.resume(Component::ApiServer)?;
            work_goes_on(&stage, 8, &going, "the workload cluster's").await?;
            ensure!(
                operator.metric(LEASE_LOST).await? == 1,
                "a minute without renewal must have cost the Lease"
            );

            // All watches are cut at once, and begin anew.
            workload.restart(Component::ApiServer).await?;
            management.restart(Component::ApiServer).await?;
            let going = begin_work(&stage, 9).await?;
            work_goes_on(&stage, 9, &going, "all").await?;
            operator.is_alive().await?;
            let status = operator.terminate().await?;
            ensure!(status.success(), "{status}");
            Ok(())
        })
        .await
    })
    .await
}

const LEASE_LOST: &str = "karpenter_capi_operator_starts_total{reason=\"lease_lost\"}";

/// Pods that find no room, and a claim that is being deleted: gives the name of its Machine.
async fn begin_work(stage: &Stage<'_>, pods: i32) -> Result<String> {
    stage.scale("web", pods).await?;
    let claims = stage.claims().await?;
    let bound = |claim: &&NodeClaim| annotation(claim, annotations::MACHINE).is_some();
    let claim = claims.iter().find(bound).context("no claim is bound")?;
    let api: Api<NodeClaim> = Api::all(stage.client.clone());
    api.delete(claim.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default()).await?;
    annotation(claim, annotations::MACHINE).context("bound without a Machine")
}

async fn stays_alive_for(operator: &mut Operator, during: Duration) -> Result<()> {
    let started = Instant::now();
    while started.elapsed() < during {
        operator
            .is_alive()
            .await
            .with_context(|| format!("after {} s without an API server", started.elapsed().as_secs()))?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Each pod has its machine, the claim that was deleted has none any longer, and the books are exact.
async fn work_goes_on(stage: &Stage<'_>, pods: usize, going: &str, whose: &str) -> Result<()> {
    let back = Instant::now();
    stage.running("web", pods, Duration::from_mins(2)).await?;
    wait::eventually("the deleted claim's Machine is gone", Duration::from_mins(1), async || {
        let machines = stage.machines().await?;
        let left = machines.iter().any(|machine| {
            going.ends_with(&format!("/{}", machine.metadata.name.as_deref().unwrap_or_default()))
        });
        ensure!(!left, "{going} is there");
        Ok(())
    })
    .await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    let replicas = stage.replicas("small").await?;
    ensure!(usize::try_from(replicas)? == pods, "{replicas} replicas for {pods} pods");
    eprintln!(
        "{whose} API server away: all was done {:.1} s after it came back",
        back.elapsed().as_secs_f64()
    );
    Ok(())
}

#[tokio::test]
async fn others_who_write_to_the_same_objects_all_the_time_change_nothing_of_the_end() -> Result<()> {
    ControlPlane::with(Options::complete("conflicts"), async |plane| {
        let stage = Stage::set(plane).await?;
        three_machine_deployments(&stage).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let writes = Arc::new(AtomicUsize::new(0));
        let somebody = tokio::spawn(write_without_end(stage.management.clone(), Arc::clone(&writes)));
        let operator = Operator::start(plane, "operator", plane.kubeconfig(), &[])?;
        sixty_pods(&stage).await?;
        sixty_pods_run_on_the_cheapest(&stage).await?;

        sixty_pods_go(&stage).await?;
        nothing_is_left(&stage).await?;
        ensure!(!somebody.is_finished(), "the other writer has ended");
        somebody.abort();
        let writes = writes.load(Ordering::SeqCst);
        ensure!(writes > 200, "only {writes} writes by others: that is no conflict");
        eprintln!("{writes} writes by others");
        let status = operator.terminate().await?;
        ensure!(status.success(), "{status}");
        Ok(())
    })
    .await
}

/// Patches an annotation of every MachineDeployment and Machine, again and again with 50 ms between the rounds.
async fn write_without_end(management: Client, writes: Arc<AtomicUsize>) {
    let deployments: Api<MachineDeployment> =
        Api::namespaced_with(management.clone(), NAMESPACE, &CapiVersion::V1Beta2);
    let machines: Api<Machine> = Api::namespaced_with(management, NAMESPACE, &CapiVersion::V1Beta2);
    loop {
        let round = writes.load(Ordering::SeqCst).to_string();
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { "example.com/touched": round } } }));
        let params = PatchParams::default();
        for name in ["small", "dear", "large"] {
            if deployments.patch(name, &params, &patch).await.is_ok() {
                writes.fetch_add(1, Ordering::SeqCst);
            }
        }
        let listed = machines.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        for name in listed.iter().filter_map(|machine| machine.metadata.name.as_deref()) {
            // A Machine may be gone meanwhile.
            if machines.patch(name, &params, &patch).await.is_ok() {
                writes.fetch_add(1, Ordering::SeqCst);
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn annotation(claim: &NodeClaim, key: &str) -> Option<String> {
    claim.metadata.annotations.as_ref()?.get(key).cloned()
}
