//! Pods with constraints on where they are, all at once: kube-scheduler accepts what the solver has promised, and one round of nodes is
//! enough.

mod one_by_one;
mod promises;
mod workloads;

use super::audit::Audit;
use super::process::Operator;
use super::stage::{Stage, machine, pool};
use anyhow::{Result, bail, ensure};
use karpenter_capi_e2e::plane::{Component, ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait};
use promises::{Promises, told_by_scheduler};
use std::time::Duration;
use workloads::Workload;

/// Users, of whose requests the order is looked at.
const OURS: &str = "karpenter-capi";
const SCHEDULER: &str = "system:kube-scheduler";

/// Two sizes in each of three zones; which one is cheap differs from zone to zone.
async fn machines_in_three_zones(stage: &Stage<'_>) -> Result<()> {
    for (zone, small, large) in [("a", "0.20", "0.76"), ("b", "0.24", "0.70"), ("c", "0.18", "0.84")] {
        let small = machine(&format!("small-{zone}"), "4", "16Gi").priced(small).in_zone(zone);
        let large = machine(&format!("large-{zone}"), "16", "64Gi").priced(large).in_zone(zone);
        stage.machine_deployment(&small).await?;
        stage.machine_deployment(&large).await?;
    }
    Ok(())
}

/// Each claim was asked for before the first pod got a place, so that all are of the first round.
fn one_round(audit: &Audit) -> Result<usize> {
    let requests = audit.requests()?;
    let succeeded = requests.iter().filter(|request| request.verb == "create" && request.code < 400);
    let (mut claims, mut bound, mut late) = (0, 0, 0);
    for request in succeeded {
        match (request.user.as_str(), request.resource.as_str()) {
            (OURS, "nodeclaims") => {
                claims += 1;
                late += usize::from(bound > 0);
            }
            (SCHEDULER, "pods") if request.uri.ends_with("/binding") => bound += 1,
            _ => {}
        }
    }
    ensure!(late == 0, "{late} of {claims} NodeClaims were made after a pod had got a place");
    ensure!(bound > 0, "kube-scheduler has bound no pod, says the audit log");
    Ok(claims)
}

/// Waits until all run; else tells what kube-scheduler says of those that don't.
async fn all_run(stage: &Stage<'_>, workload: &Workload) -> Result<()> {
    let (mut failed, mut running) = (None, 0);
    for app in &workload.apps {
        match stage.running(app.name, app.replicas, Duration::from_mins(2)).await {
            Ok(_) => running += app.replicas,
            Err(error) => failed = Some(error),
        }
    }
    let Some(error) = failed else {
        return Ok(());
    };
    let told = told_by_scheduler(&stage.client).await?;
    Err(error.context(format!("{running} of {} pods run; kube-scheduler says:\n{told}", workload.pods())))
}

/// Machines, a pool, and the workload, of which kube-scheduler has looked at every pod and found no place.
async fn waiting(stage: &Stage<'_>, workload: &Workload) -> Result<()> {
    machines_in_three_zones(stage).await?;
    objects::apply(&stage.client, &pool("general")).await?;
    workload.apply(&stage.client).await?;
    wait::eventually("all pods wait for a place", Duration::from_mins(1), async || {
        let waiting = promises::unschedulable(&stage.client).await?;
        ensure!(waiting == workload.pods(), "{waiting} of {} pods wait", workload.pods());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn pods_with_constraints_all_run_after_one_round_of_nodes() -> Result<()> {
    let audit = Audit::of(&[OURS, SCHEDULER])?;
    ControlPlane::with(audit.kept_by(Options::complete("one-round")), async |plane| {
        let stage = Stage::set(plane).await?;
        let workload = Workload::roomy();
        waiting(&stage, &workload).await?;
        let kubeconfig = plane.kubeconfig_for(OURS, &["system:masters"])?;
        let operator = Operator::start(plane, "operator", &kubeconfig, &[])?;
        all_run(&stage, &workload).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;

        let promises = Promises::read(&stage).await?;
        println!("{promises}");
        let made = match one_round(&audit) {
            Ok(made) => made,
            Err(error) => bail!("{error}; kube-scheduler says:\n{}", told_by_scheduler(&stage.client).await?),
        };
        ensure!(promises.claims.len() == made, "{} of {made} claims are left", promises.claims.len());
        promises.none_is_empty()?;
        operator.terminate().await?;
        Ok(())
    })
    .await
}

/// Left alone, kube-scheduler may put a pod elsewhere than was promised, rightly. Here each pod is nominated to the Node of its claim,
/// one after the other, so that kube-scheduler itself says of every single promise whether it can be kept.
#[tokio::test]
async fn kube_scheduler_accepts_every_single_promise() -> Result<()> {
    ControlPlane::with(Options::complete("promises"), async |plane| {
        let stage = Stage::set(plane).await?;
        let workload = Workload::tight();
        waiting(&stage, &workload).await?;
        plane.pause(Component::Scheduler)?;
        let operator = stage.operator()?;
        let promises =
            wait::eventually("every pod has a Node to go to", Duration::from_mins(2), async || {
                let promises = Promises::read(&stage).await?;
                for promise in &promises.pods {
                    ensure!(
                        !promises.promised(promise)?.is_empty(),
                        "the Node of {} isn't there",
                        promise.name()
                    );
                }
                Ok(promises)
            })
            .await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        let claims = stage.claims().await?.len();
        operator.terminate(Duration::from_secs(30)).await?;

        one_by_one::start_anew(&stage, &workload, &promises).await?;
        plane.resume(Component::Scheduler)?;
        one_by_one::every_node_is_known(&stage, &promises).await?;
        let refused = one_by_one::released(&stage, &promises).await?;
        println!("{}", Promises::read(&stage).await?);
        ensure!(refused.is_empty(), "promises that can't be kept:\n{}", refused.join("\n"));
        ensure!(stage.claims().await?.len() == claims, "there were {claims} claims");
        Ok(())
    })
    .await
}
