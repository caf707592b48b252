//! Nodes end in the order and within the limits that their pods, budgets, volumes and drain rules set.

mod others;

use super::stage::{NAMESPACE, Stage, machine, pool};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use karpenter_capi_api::capi::{CapiVersion, Machine};
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A machine that three pods of `web` don't share: one Node for each.
const CPU: &str = "3";

async fn small(stage: &Stage<'_>) -> Result<()> {
    stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10").in_zone("a")).await
}

/// Pods of which each takes a Node, all running, with something changed in their template.
async fn run(
    stage: &Stage<'_>,
    name: &str,
    replicas: i32,
    change: impl FnOnce(&mut Deployment),
) -> Result<()> {
    let mut deployment = workload::deployment(NAMESPACE, name, replicas, &[("cpu", CPU), ("memory", "1Gi")]);
    change(&mut deployment);
    workload::apply(&stage.client, &deployment).await?;
    let count = usize::try_from(replicas)?;
    stage.running(name, count, Duration::from_mins(2)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await
}

fn budget(name: &str, app: &str, minimum: i32) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "minAvailable": minimum, "selector": { "matchLabels": { "app": app } } },
    })
}

/// A budget that the disruption controller has looked at.
pub(super) async fn apply_budget(stage: &Stage<'_>, name: &str, app: &str, minimum: i32) -> Result<()> {
    objects::apply(&stage.client, &budget(name, app, minimum)).await?;
    let api: Api<PodDisruptionBudget> = Api::namespaced(stage.client.clone(), NAMESPACE);
    wait::eventually("the budget is counted", Duration::from_secs(30), async || {
        let budget = api.get(name).await?;
        let status = budget.status.context("no status")?;
        ensure!(status.observed_generation == budget.metadata.generation, "{status:?}");
        Ok(())
    })
    .await
}

async fn the_claim(stage: &Stage<'_>) -> Result<NodeClaim> {
    let mut claims = stage.claims().await?;
    ensure!(claims.len() == 1, "{} claims", claims.len());
    claims.pop().context("no claim")
}

pub(super) fn name(claim: &NodeClaim) -> String {
    claim.metadata.name.clone().unwrap_or_default()
}

pub(super) fn machine_of(claim: &NodeClaim) -> String {
    let machine = claim
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotations::MACHINE))
        .cloned()
        .unwrap_or_default();
    machine.rsplit('/').next().unwrap_or_default().to_owned()
}

pub(super) fn node_of(claim: &NodeClaim) -> String {
    claim.status.as_ref().and_then(|status| status.node_name.clone()).unwrap_or_default()
}

pub(super) fn claims(stage: &Stage<'_>) -> Api<NodeClaim> {
    Api::all(stage.client.clone())
}

pub(super) fn machines(stage: &Stage<'_>) -> Api<Machine> {
    Api::namespaced_with(stage.client.clone(), NAMESPACE, &CapiVersion::V1Beta2)
}

pub(super) async fn delete_claim(stage: &Stage<'_>, claim: &NodeClaim) -> Result<()> {
    claims(stage).delete(&name(claim), &DeleteParams::default()).await?;
    Ok(())
}

/// Status, reason and message of a claim's condition contain all of these words.
pub(super) async fn condition_says(
    stage: &Stage<'_>,
    claim: &NodeClaim,
    kind: &str,
    words: &[&str],
) -> Result<()> {
    wait::eventually(&format!("{kind} says {words:?}"), Duration::from_secs(30), async || {
        let claim = claims(stage).get(&name(claim)).await?;
        let all = claim.status.map(|status| status.conditions).unwrap_or_default();
        let found = all.iter().find(|condition| condition.type_ == kind).context("no such condition")?;
        let text = format!("{} {}: {}", found.status, found.reason, found.message);
        ensure!(words.iter().all(|word| text.contains(word)), "{text}");
        Ok(())
    })
    .await
}

/// An event of that reason about an object of that name says so.
pub(super) async fn event_says(stage: &Stage<'_>, about: &str, reason: &str, words: &str) -> Result<()> {
    wait::eventually(
        &format!("an event {reason} about {about} says {words:?}"),
        Duration::from_secs(30),
        async || {
            let events: Api<Event> = Api::all(stage.client.clone());
            let events = events.list(&ListParams::default()).await?.items;
            let about = events.iter().filter(|event| event.involved_object.name.as_deref() == Some(about));
            let told: Vec<&str> = about
                .filter(|event| event.reason.as_deref() == Some(reason))
                .filter_map(|event| event.message.as_deref())
                .collect();
            ensure!(told.iter().any(|text| text.contains(words)), "{told:?}");
            Ok(())
        },
    )
    .await
}

pub(super) async fn is_gone(stage: &Stage<'_>, claim: &NodeClaim, within: Duration) -> Result<()> {
    wait::eventually(&format!("{} and its Machine are gone", name(claim)), within, async || {
        ensure!(claims(stage).get_opt(&name(claim)).await?.is_none(), "the claim is there");
        ensure!(machines(stage).get_opt(&machine_of(claim)).await?.is_none(), "the Machine is there");
        Ok(())
    })
    .await
}

/// Nobody has asked for the end of the Machine, for a while.
async fn machine_stays(stage: &Stage<'_>, claim: &NodeClaim, during: Duration) -> Result<()> {
    wait::holds("the Machine stays", during, async || {
        let machine = machines(stage).get(&machine_of(claim)).await?;
        ensure!(machine.metadata.deletion_timestamp.is_none(), "it is being deleted");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_budget_that_blocks_is_named_and_when_it_allows_the_node_goes() -> Result<()> {
    ControlPlane::with(Options::complete("budget"), async |plane| {
        let stage = Stage::set(plane).await?;
        small(&stage).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let operator = stage.operator()?;
        run(&stage, "web", 1, |_| {}).await?;
        apply_budget(&stage, "guard", "web", 1).await?;
        let claim = the_claim(&stage).await?;
        delete_claim(&stage, &claim).await?;
        condition_says(&stage, &claim, "Drained", &["Unknown", "Draining", "PodDisruptionBudget guard"])
            .await?;
        event_says(&stage, &name(&claim), "FailedDraining", "guard").await?;
        event_says(&stage, &node_of(&claim), "FailedDraining", "guard").await?;
        machine_stays(&stage, &claim, Duration::from_secs(5)).await?;

        apply_budget(&stage, "guard", "web", 0).await?;
        is_gone(&stage, &claim, Duration::from_mins(1)).await?;
        stage.running("web", 1, Duration::from_mins(2)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;

        // The eviction API doesn't serve pods of two budgets at all, whatever these allow.
        apply_budget(&stage, "second", "web", 0).await?;
        let claim = the_claim(&stage).await?;
        delete_claim(&stage, &claim).await?;
        condition_says(&stage, &claim, "Drained", &["more than one PodDisruptionBudget (guard, second)"])
            .await?;
        event_says(
            &stage,
            &name(&claim),
            "FailedDraining",
            "more than one PodDisruptionBudget (guard, second)",
        )
        .await?;
        machine_stays(&stage, &claim, Duration::from_secs(5)).await?;
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.client.clone(), NAMESPACE);
        budgets.delete("second", &DeleteParams::default()).await?;
        is_gone(&stage, &claim, Duration::from_mins(1)).await?;
        stage.running("web", 1, Duration::from_mins(2)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_termination_grace_period_ends_what_budget_annotation_and_volume_block() -> Result<()> {
    ControlPlane::with(Options::complete("grace-period"), async |plane| {
        let stage = Stage::set(plane).await?;
        small(&stage).await?;
        let mut general = pool("general");
        general["spec"]["template"]["spec"]["terminationGracePeriod"] = json!("20s");
        objects::apply(&stage.client, &general).await?;
        let operator = stage.operator()?;
        run(&stage, "web", 1, |deployment| {
            annotate(deployment, "karpenter.sh/do-not-disrupt", "true");
        })
        .await?;
        apply_budget(&stage, "guard", "web", 1).await?;
        let claim = the_claim(&stage).await?;
        objects::apply(&stage.client, &attachment("csi-1", "pv-1", &node_of(&claim))).await?;
        let started = Instant::now();
        delete_claim(&stage, &claim).await?;
        event_says(&stage, &name(&claim), "TerminationGracePeriodExpiring", "All pods will be deleted by")
            .await?;
        condition_says(&stage, &claim, "Drained", &["may not be disrupted"]).await?;
        wait::eventually("the Machine's end was asked for", Duration::from_mins(1), async || {
            let machine = machines(&stage).get_opt(&machine_of(&claim)).await?;
            ensure!(machine.is_none_or(|machine| machine.metadata.deletion_timestamp.is_some()), "it is not");
            Ok(())
        })
        .await?;
        let took = started.elapsed();
        println!("grace period of 20 s: the Machine's deletion after {:.1} s", took.as_secs_f64());
        ensure!(
            took > Duration::from_secs(18),
            "the pod and its volume had time until the deadline, not {took:?}"
        );
        ensure!(took < Duration::from_secs(25), "the deadline was passed by far: {took:?}");
        is_gone(&stage, &claim, Duration::from_mins(1)).await?;
        let attachments: Api<VolumeAttachment> = Api::all(stage.client.clone());
        attachments.delete("csi-1", &DeleteParams::default()).await?;
        stage.running("web", 1, Duration::from_mins(2)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

fn annotate(deployment: &mut Deployment, key: &str, value: &str) {
    if let Some(spec) = &mut deployment.spec {
        let metadata = spec.template.metadata.get_or_insert_default();
        metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    }
}

fn attachment(name: &str, volume: &str, node: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": { "name": name },
        "spec": { "attacher": "hollow.csi", "nodeName": node, "source": { "persistentVolumeName": volume } },
    })
}

#[tokio::test]
async fn do_not_disrupt_and_attached_volumes_hold_a_node_and_are_named() -> Result<()> {
    ControlPlane::with(Options::complete("volumes"), async |plane| {
        let stage = Stage::set(plane).await?;
        small(&stage).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let operator = stage.operator()?;
        run(&stage, "web", 1, |deployment| {
            annotate(deployment, "karpenter.sh/do-not-disrupt", "true");
        })
        .await?;
        let claim = the_claim(&stage).await?;
        objects::apply(&stage.client, &attachment("csi-1", "pv-1", &node_of(&claim))).await?;
        delete_claim(&stage, &claim).await?;
        condition_says(&stage, &claim, "Drained", &["Unknown", "karpenter.sh/do-not-disrupt"]).await?;
        machine_stays(&stage, &claim, Duration::from_secs(5)).await?;

        let pods: Api<Pod> = Api::namespaced(stage.client.clone(), NAMESPACE);
        for pod in workload::pods(&stage.client, NAMESPACE, "web").await? {
            let patch = Patch::Merge(
                json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": null } } }),
            );
            pods.patch(pod.metadata.name.as_deref().unwrap_or_default(), &PatchParams::default(), &patch)
                .await?;
        }
        condition_says(
            &stage,
            &claim,
            "VolumesDetached",
            &["Unknown", "AwaitingVolumeDetachment", "csi-1 (pv-1)"],
        )
        .await?;
        event_says(&stage, &node_of(&claim), "AwaitingVolumeDetachment", "csi-1").await?;
        machine_stays(&stage, &claim, Duration::from_secs(5)).await?;
        let attachments: Api<VolumeAttachment> = Api::all(stage.client.clone());
        attachments.delete("csi-1", &DeleteParams::default()).await?;
        is_gone(&stage, &claim, Duration::from_mins(1)).await?;
        stage.running("web", 1, Duration::from_mins(2)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}
