//! Two operators: one leads, the other takes over, and who has lost the lead writes nothing more.

use super::audit::Audit;
use super::process::Operator;
use super::stage::{NAMESPACE, Stage, machine, pool};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The shortest that a busy machine keeps.
const TIMES: [&str; 6] = [
    "--leader-election-lease-duration",
    "6s",
    "--leader-election-renew-deadline",
    "4s",
    "--leader-election-retry-period",
    "1s",
];
const LEASE: Duration = Duration::from_secs(6);

#[tokio::test]
async fn a_frozen_leader_is_succeeded_and_writes_nothing_when_it_thaws() -> Result<()> {
    let audit = Audit::of(&["first", "second", "third"])?;
    ControlPlane::with(audit.kept_by(Options::complete("leadership")), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10").in_zone("a")).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let start = |name: &str| {
            Operator::start(plane, name, &plane.kubeconfig_for(name, &["system:masters"])?, &TIMES)
        };
        let mut first = start("first")?;
        let leader = leader_other_than(&stage, "", Duration::from_secs(30)).await?;
        let mut second = start("second")?;
        stands_by(&second).await?;

        let web = workload::deployment(NAMESPACE, "web", 12, &[("cpu", "3"), ("memory", "1Gi")]);
        workload::apply(&stage.client, &web).await?;
        wait::eventually("Machines are being made", Duration::from_secs(30), async || {
            ensure!(!stage.machines().await?.is_empty(), "there is none");
            Ok(())
        })
        .await?;
        first.program.signal(Signal::STOP)?;
        let frozen = Instant::now();
        let running = workload::pods(&stage.client, NAMESPACE, "web")
            .await?
            .iter()
            .filter(|pod| workload::is_running(pod))
            .count();
        ensure!(running < 12, "all was done before the leader was frozen");
        let successor = leader_other_than(&stage, &leader, Duration::from_secs(30)).await?;
        let taken = frozen.elapsed();
        // It was renewed at most a retry period before, and so much is left to a slow machine.
        ensure!(
            taken > LEASE.mul_f32(0.7),
            "the Lease was taken after {taken:?}, while the leader could still write"
        );
        stage.running("web", 12, Duration::from_mins(1)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;

        let before = audit.writes("first")?;
        ensure!(before > 0 && audit.writes("second")? > 0, "the audit log isn't whole");
        // Something to do for whoever believes that he leads.
        stage.scale("web", 14).await?;
        first.program.signal(Signal::CONT)?;
        let status = wait::eventually("the thawed leader ends", Duration::from_secs(10), async || {
            first.program.ended()?.context("it runs")
        })
        .await?;
        ensure!(status.code() == Some(1), "{status}; {}", first.program.log_tail(5));
        stage.running("web", 14, Duration::from_mins(1)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        ensure!(stage.replicas("small").await? == 14, "{} replicas", stage.replicas("small").await?);
        let after = audit.writes("first")?;
        ensure!(before == after, "the thawed leader has written {} times", after - before);
        eprintln!("frozen leader succeeded after {:.1} s", taken.as_secs_f64());

        second.is_alive().await?;
        a_clean_end_hands_the_lease_over_at_once(&stage, second, &successor, start("third")?).await
    })
    .await
}

async fn a_clean_end_hands_the_lease_over_at_once(
    stage: &Stage<'_>,
    leading: Operator,
    leader: &str,
    standby: Operator,
) -> Result<()> {
    stands_by(&standby).await?;
    let status = leading.terminate().await?;
    ensure!(status.success(), "{status}");
    let ended = Instant::now();
    leader_other_than(stage, leader, Duration::from_secs(10)).await?;
    let taken = ended.elapsed();
    ensure!(taken < LEASE / 2, "the Lease was taken {taken:?} after a clean end: it wasn't given back");
    eprintln!("clean end succeeded after {:.1} s", taken.as_secs_f64());
    let status = standby.terminate().await?;
    ensure!(status.success(), "{status}");
    Ok(())
}

async fn stands_by(operator: &Operator) -> Result<()> {
    wait::eventually("it stands by with full caches", Duration::from_secs(30), async || {
        ensure!(operator.said().contains("standing by"), "it doesn't say so");
        operator.is_ready().await
    })
    .await
}

/// Waits until the Lease has a holder other than that one.
async fn leader_other_than(stage: &Stage<'_>, last: &str, within: Duration) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), "kube-system");
    wait::eventually("somebody else leads", within, async || {
        let lease = leases.get("karpenter-capi-c1").await?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        ensure!(!holder.is_empty() && holder != last, "the holder is {holder:?}");
        Ok(holder)
    })
    .await
}
