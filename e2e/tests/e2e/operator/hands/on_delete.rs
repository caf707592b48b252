//! Under `OnDelete` a new template changes nothing by itself; claims of old and new Machines go one by one, each with its own Machine.

use super::super::stage::{NAMESPACE, Stage, machine, pool};
use super::super::termination::{claims, delete_claim, event_says, is_gone, machine_of, machines, name};
use super::{Witness, change, claims_are, use_template};
use anyhow::{Context, Result, ensure};
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::hollow::MachineDeploymentOptions;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn small() -> MachineDeploymentOptions {
    let mut small = machine("small", "4", "16Gi").priced("0.10").in_zone("a");
    "OnDelete".clone_into(&mut small.strategy);
    small
}

async fn scale(stage: &Stage<'_>, name: &str, replicas: i32) -> Result<()> {
    let deployment = workload::deployment(NAMESPACE, name, replicas, &[("cpu", "3"), ("memory", "1Gi")]);
    workload::apply(&stage.client, &deployment).await?;
    stage.running(name, usize::try_from(replicas)?, Duration::from_mins(1)).await.map(drop)
}

/// One more claim, for a pod of that name.
async fn claim_for(stage: &Stage<'_>, name: &str) -> Result<NodeClaim> {
    let before = super::staying(stage).await?;
    scale(stage, name, 1).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    let new = super::staying(stage).await?.into_iter().find(|(name, _)| !before.contains_key(name));
    new.map(|(_, claim)| claim).context("no new claim")
}

/// Deletes a claim whose pod is gone; its Machine goes, all others stay, and none is made.
async fn give_back(
    stage: &Stage<'_>,
    witness: &Witness,
    app: &str,
    claim: &NodeClaim,
    meanwhile: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let before: BTreeSet<String> = super::staying(stage).await?.values().map(machine_of).collect();
    let made = witness.seen().machines.len();
    scale(stage, app, 0).await?;
    delete_claim(stage, claim).await?;
    meanwhile().await?;
    is_gone(stage, claim, Duration::from_mins(1)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    let after: BTreeSet<String> = super::staying(stage).await?.values().map(machine_of).collect();
    let gone: Vec<_> = before.difference(&after).collect();
    ensure!(gone == [&machine_of(claim)], "gone are {gone:?} instead of {}", machine_of(claim));
    ensure!(witness.seen().machines.len() == made, "a Machine was made: {:?}", witness.seen().machines);
    Ok(())
}

/// Pauses that there were one after the other, each with whether it carried our note.
fn pauses_are(witness: &Witness, expected: &[(bool, bool)]) -> Result<()> {
    let pauses = witness.seen().pauses;
    ensure!(pauses == expected, "pauses: {pauses:?}");
    Ok(())
}

#[tokio::test]
async fn claims_of_old_and_new_revisions_go_each_with_its_own_machine() -> Result<()> {
    ControlPlane::with(Options::complete("on-delete"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&small()).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let mut operator = Some(stage.operator()?);
        let witness = Witness::of(&stage, "small");
        let mut old = BTreeMap::new();
        for app in ["old-1", "old-2"] {
            old.insert(app, claim_for(&stage, app).await?);
        }
        use_template(&stage, "small", "small-2", &small()).await?;
        wait::holds("no claim ends and no Machine comes", Duration::from_secs(5), async || {
            claims_are(&stage, 2).await?;
            ensure!(stage.machines().await?.len() == 2, "{} Machines", stage.machines().await?.len());
            Ok(())
        })
        .await?;
        let mut new = BTreeMap::new();
        for app in ["new-1", "new-2"] {
            new.insert(app, claim_for(&stage, app).await?);
        }
        pauses_are(&witness, &[(false, false)])?;

        // Lowering the number would take a Machine of the old revision; so our own pause comes and goes, also when we
        // die under it.
        give_back(&stage, &witness, "new-1", &new["new-1"], async || {
            wait::eventually("our own pause is there", Duration::from_mins(1), async || {
                let pauses = witness.seen().pauses;
                ensure!(pauses.last() == Some(&(true, true)), "{pauses:?}");
                Ok(())
            })
            .await?;
            operator.take().context("no operator")?.kill();
            operator = Some(stage.operator()?);
            Ok(())
        })
        .await?;
        pauses_are(&witness, &[(false, false), (true, true), (false, false)])?;
        give_back(&stage, &witness, "old-1", &old["old-1"], async || Ok(())).await?;
        // One of the old revision needs none.
        pauses_are(&witness, &[(false, false), (true, true), (false, false)])?;
        under_a_foreign_pause(&stage, &witness, &new["new-2"]).await?;

        ensure!(stage.replicas("small").await? == 1, "{} replicas", stage.replicas("small").await?);
        ensure!(
            witness.seen().replicas == [0, 1, 2, 3, 4, 3, 2, 1],
            "replicas: {:?}",
            witness.seen().replicas
        );
        stage.running("old-2", 1, Duration::from_secs(10)).await?;
        operator.context("no operator")?.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// `kubectl delete machine` is how people roll out under `OnDelete`: the pod moves to a Machine of the new template.
///
/// Of an older revision the number is lowered for it; of the newer one that would take an old Machine, so it is remade, and the remake
/// is given back.
#[tokio::test]
async fn machines_that_somebody_deletes_are_replaced_whatever_their_revision() -> Result<()> {
    ControlPlane::with(Options::complete("on-delete-by-hand"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&small()).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let operator = stage.operator()?;
        let first = claim_for(&stage, "first").await?;
        let second = claim_for(&stage, "second").await?;
        use_template(&stage, "small", "small-2", &small()).await?;
        let second = moves(&stage, "second", &second).await?;
        moves(&stage, "second", &second).await?;
        ensure!(super::staying(&stage).await?.contains_key(&name(&first)), "the other claim has ended");
        let machine = machines(&stage).get(&machine_of(&first)).await?;
        ensure!(machine.metadata.deletion_timestamp.is_none(), "its Machine is going");
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// Deletes a claim's Machine; the claim ends as lost, and its pod gets another one. There are two claims, before and after.
async fn moves(stage: &Stage<'_>, app: &str, claim: &NodeClaim) -> Result<NodeClaim> {
    let before = claims_are(stage, 2).await?;
    let kind = "machines.v1beta2.cluster.x-k8s.io";
    stage.plane.kubectl(&["delete", kind, &machine_of(claim), "-n", NAMESPACE, "--wait=false"]).await?;
    event_says(stage, &name(claim), "MachineLost", &machine_of(claim)).await?;
    is_gone(stage, claim, Duration::from_mins(2)).await?;
    stage.running(app, 1, Duration::from_mins(1)).await?;
    stage.books_are_exact(Duration::from_mins(2)).await?;
    ensure!(stage.replicas("small").await? == 2, "{} replicas", stage.replicas("small").await?);
    let new = claims_are(stage, 2).await?.into_iter().find(|(name, _)| !before.contains_key(name));
    new.map(|(_, claim)| claim).context("no new claim")
}

/// Somebody else's pause holds everything, and only he takes it off.
async fn under_a_foreign_pause(stage: &Stage<'_>, witness: &Witness, claim: &NodeClaim) -> Result<()> {
    let pause =
        |value: Option<&str>| json!({ "metadata": { "annotations": { annotations::CAPI_PAUSED: value } } });
    change(stage, "small", pause(Some(""))).await?;
    scale(stage, "new-2", 0).await?;
    delete_claim(stage, claim).await?;
    event_says(stage, &name(claim), "AwaitingMachineDeployment", annotations::CAPI_PAUSED).await?;
    wait::holds("the Machine stays under the foreign pause", Duration::from_secs(5), async || {
        let machine = machines(stage).get(&machine_of(claim)).await?;
        ensure!(machine.metadata.deletion_timestamp.is_none(), "it is going");
        claims(stage).get(&name(claim)).await?;
        Ok(())
    })
    .await?;
    ensure!(witness.seen().pauses.last() == Some(&(true, false)), "pauses: {:?}", witness.seen().pauses);
    change(stage, "small", pause(None)).await?;
    is_gone(stage, claim, Duration::from_mins(1)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await
}
