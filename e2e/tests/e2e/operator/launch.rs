//! Machines that can't be had, and machines that never become Nodes: their claims end in time, exactly their Machines are given back,
//! and the next best MachineDeployment serves their pods.

use super::stage::{NAMESPACE, Stage, machine, pool};
use anyhow::{Context, Result, ensure};
use karpenter_capi_api::v1::NodePool;
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

async fn reason_of(stage: &Stage<'_>, deployment: &str) -> Result<Option<String>> {
    let status = stage.class().await?.status.context("no status")?;
    let told =
        status.machine_deployments.iter().find(|told| told.name == format!("{NAMESPACE}/{deployment}"));
    Ok(told.context("no such MachineDeployment")?.reason.clone())
}

async fn is_unavailable(stage: &Stage<'_>, deployment: &str, reason: &str) -> Result<()> {
    wait::eventually(&format!("{deployment} is {reason}"), Duration::from_secs(30), async || {
        let told = reason_of(stage, deployment).await?;
        ensure!(told.as_deref() == Some(reason), "{told:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn without_capacity_on_the_cheapest_the_next_best_is_taken_and_its_machines_are_given_back()
-> Result<()> {
    ControlPlane::with(Options::complete("no-capacity"), async |plane| {
        let stage = Stage::set(plane).await?;
        let mut empty = machine("empty", "4", "16Gi").priced("0.10").in_zone("a");
        empty.machine.no_capacity = true;
        stage.machine_deployment(&empty).await?;
        stage.machine_deployment(&machine("dear", "4", "16Gi").priced("0.20").in_zone("a")).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let operator = stage.operator()?;
        let web = workload::deployment(NAMESPACE, "web", 3, &[("cpu", "3"), ("memory", "1Gi")]);
        let started = Instant::now();
        workload::apply(&stage.client, &web).await?;
        wait::eventually("a claim says what its infrastructure says", Duration::from_secs(30), async || {
            let claims = stage.claims().await?;
            let conditions =
                claims.iter().filter_map(|claim| claim.status.as_ref()).flat_map(|status| &status.conditions);
            let mut launched = conditions.filter(|condition| condition.type_ == "Launched");
            let found = launched
                .find(|condition| condition.status == "False" && condition.reason == "InsufficientCapacity");
            ensure!(found.is_some_and(|found| found.message.contains("no capacity")), "{found:?}");
            Ok(())
        })
        .await?;
        // Thirty seconds of grace, and not the fifteen minutes of a launch timeout.
        stage.running("web", 3, Duration::from_mins(2)).await?;
        println!("three pods run on the next best after {:.1} s", started.elapsed().as_secs_f64());
        is_unavailable(&stage, "empty", "OutOfCapacity").await?;
        stage.books_are_exact(Duration::from_mins(2)).await?;
        println!("the books are exact after {:.1} s", started.elapsed().as_secs_f64());
        let replicas = (stage.replicas("empty").await?, stage.replicas("dear").await?);
        ensure!(replicas == (0, 3), "{replicas:?} replicas");
        ensure!(stage.machines().await?.len() == 3, "{} Machines", stage.machines().await?.len());
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn machines_that_never_join_end_in_time_and_slow_ones_that_may_be_slow_are_waited_for() -> Result<()> {
    ControlPlane::with(Options::complete("never-joins"), async |plane| {
        let stage = Stage::set(plane).await?;
        let classes: Api<ClusterAPINodeClass> = Api::all(stage.client.clone());
        let short = Patch::Merge(json!({ "spec": { "launchTimeout": "30s", "registrationTimeout": "10s" } }));
        classes.patch("default", &PatchParams::default(), &short).await?;
        let mut lost = machine("lost", "4", "16Gi").priced("0.10").in_zone("a");
        lost.machine.never_joins = true;
        stage.machine_deployment(&lost).await?;
        stage.machine_deployment(&machine("dear", "4", "16Gi").priced("0.20").in_zone("a")).await?;
        let mut slow = machine("slow", "4", "16Gi").priced("0.10").in_zone("b");
        slow.machine.slow_by = Some("45s".to_owned());
        let override_key = "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime";
        slow.annotations.insert(override_key.to_owned(), "5m".to_owned());
        stage.machine_deployment(&slow).await?;
        for (name, zone) in [("general", "a"), ("late", "b")] {
            let mut of_zone = pool(name);
            of_zone["spec"]["template"]["spec"]["requirements"] =
                json!([{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone] }]);
            objects::apply(&stage.client, &of_zone).await?;
        }
        let operator = stage.operator()?;
        for (name, zone, replicas) in [("web", "a", 2), ("late", "b", 1)] {
            let mut pods =
                workload::deployment(NAMESPACE, name, replicas, &[("cpu", "3"), ("memory", "1Gi")]);
            if let Some(pod) = pods.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
                pod.node_selector =
                    Some(BTreeMap::from([("topology.kubernetes.io/zone".to_owned(), zone.to_owned())]));
            }
            workload::apply(&stage.client, &pods).await?;
        }
        let mut slow_claims = std::collections::BTreeSet::new();
        wait::eventually("all pods run", Duration::from_mins(2), async || {
            for claim in stage.claims().await? {
                let assigned = claim.metadata.annotations.unwrap_or_default();
                if assigned.get("karpenter.cluster.x-k8s.io/machine-deployment").map(String::as_str)
                    == Some("default/slow")
                {
                    slow_claims.insert(claim.metadata.name);
                }
            }
            for (name, count) in [("web", 2), ("late", 1)] {
                let pods = workload::pods(&stage.client, NAMESPACE, name).await?;
                let running = pods.iter().filter(|pod| workload::is_running(pod)).count();
                ensure!(running == count, "{running} of {count} pods of {name} run");
            }
            Ok(())
        })
        .await?;
        ensure!(
            slow_claims.len() == 1,
            "a slow machine was given up although it may be slow: {slow_claims:?}"
        );
        is_unavailable(&stage, "lost", "LaunchTimedOut").await?;
        let pools: Api<NodePool> = Api::all(stage.client.clone());
        // Two of its machines failed, then two came up: half of the last four.
        wait::eventually("the pool says what doesn't come up", Duration::from_secs(30), async || {
            let conditions =
                pools.get("general").await?.status.map(|status| status.conditions).unwrap_or_default();
            let health = conditions
                .iter()
                .find(|condition| condition.type_ == "NodeRegistrationHealthy")
                .context("no condition")?;
            let told = format!("{} {}: {}", health.status, health.reason, health.message);
            for words in ["False RegistrationFailed", "the last 2 claims on MachineDeployment default/lost"] {
                ensure!(told.contains(words), "{told}");
            }
            Ok(())
        })
        .await?;
        stage.books_are_exact(Duration::from_mins(2)).await?;
        let replicas =
            (stage.replicas("lost").await?, stage.replicas("dear").await?, stage.replicas("slow").await?);
        ensure!(replicas == (0, 2, 1), "{replicas:?} replicas");
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}
