//! MachineDeployments that can't be used are left alone with a stated reason, while the others work.

use super::stage::{NAMESPACE, Stage, machine, pool};
use anyhow::{Context, Result, ensure};
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use std::collections::BTreeMap;
use std::time::Duration;

#[tokio::test]
async fn what_can_not_be_used_is_left_alone_and_says_why() -> Result<()> {
    ControlPlane::with(Options::complete("unavailable"), async |plane| {
        let stage = Stage::set(plane).await?;
        let mut full = machine("full", "4", "16Gi").priced("0.01");
        full.max_size = Some(0);
        let mut paused = machine("paused", "4", "16Gi").priced("0.02");
        paused.annotations.insert("cluster.x-k8s.io/paused".to_owned(), String::new());
        let mut broken = machine("broken", "4", "16Gi").priced("0.03");
        broken
            .annotations
            .insert("capacity.cluster-autoscaler.kubernetes.io/memory".to_owned(), "16GB".to_owned());
        let mut rolling = machine("rolling", "4", "16Gi").priced("0.04");
        rolling.replicas = 2;
        rolling.machine.delays.provision = Some("10m".into());
        let unpriced = machine("unpriced", "8", "32Gi");
        let good = machine("good", "4", "16Gi").priced("0.50");
        for options in [&full, &paused, &broken, &unpriced, &good] {
            stage.machine_deployment(options).await?;
        }
        roll(&stage, rolling).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let operator = stage.operator()?;
        let web = workload::deployment(NAMESPACE, "web", 6, &[("cpu", "3"), ("memory", "1Gi")]);
        workload::apply(&stage.client, &web).await?;
        // Two pods find room on the two Nodes of `rolling`, which are there. Of the four others each takes a machine of four processors:
        // not the cheaper ones, which can't be had, and not the larger one, whose price nobody knows.
        stage.running("web", 6, Duration::from_mins(2)).await?;

        let expected = BTreeMap::from([
            ("full", Some("MaxSize")),
            ("paused", Some("Paused")),
            ("broken", Some("Invalid")),
            ("rolling", Some("RollingOut")),
            ("unpriced", None),
            ("good", None),
        ]);
        wait::eventually("the node class says what can be used", Duration::from_secs(30), async || {
            let class = stage.class().await?;
            let status = class.status.context("no status")?;
            let told: BTreeMap<String, Option<String>> = status
                .machine_deployments
                .iter()
                .map(|told| (told.name.trim_start_matches("default/").to_owned(), told.reason.clone()))
                .collect();
            let wanted: BTreeMap<String, Option<String>> = expected
                .iter()
                .map(|(name, reason)| ((*name).to_owned(), reason.map(str::to_owned)))
                .collect();
            ensure!(told == wanted, "{told:?}");
            ensure!(
                status.warnings.iter().any(|warning| warning.message.contains("16GB")),
                "{:?}",
                status.warnings
            );
            Ok(())
        })
        .await?;
        for (name, replicas) in
            [("full", 0), ("paused", 0), ("broken", 0), ("rolling", 2), ("unpriced", 0), ("good", 4)]
        {
            ensure!(
                stage.replicas(name).await? == replicas,
                "{name} has {} replicas",
                stage.replicas(name).await?
            );
        }
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// Leaves a MachineDeployment of two in the middle of a roll-out that takes longer than the test.
async fn roll(
    stage: &Stage<'_>,
    mut options: karpenter_capi_e2e::hollow::MachineDeploymentOptions,
) -> Result<()> {
    let slow = std::mem::take(&mut options.machine.delays.provision);
    stage.machine_deployment(&options).await?;
    wait::eventually("two Machines run", Duration::from_mins(1), async || {
        let machines = stage.machines().await?;
        let running = machines.iter().filter(|machine| machine.status.node_ref.is_some()).count();
        ensure!(running == 2, "{running} run");
        Ok(())
    })
    .await?;
    options.machine.delays.provision = slow;
    stage.machine_deployment(&options).await?;
    stage.change_template("rolling").await?;
    wait::eventually("a third Machine is being made", Duration::from_mins(1), async || {
        let machines = stage.machines().await?;
        ensure!(machines.len() == 3, "{} Machines", machines.len());
        Ok(())
    })
    .await
}
