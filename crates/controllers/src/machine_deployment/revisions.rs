//! Writes for MachineDeployments with several revisions: our own pause, and successors of claims whose Machine is replaced.

use super::write::patch_deployment;
use crate::context::{Context, pool_name};
use crate::error::{Attempt, Error};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::capi::MachineSet;
use karpenter_capi_api::names::{annotations, finalizers, managers};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_lifecycle::ledger::{ClaimRef, OwnPause};
use karpenter_capi_model::name::NamespacedName;
use kube::api::PostParams;
use serde_json::json;

/// Pauses the MachineDeployment and notes what for, in one patch.
pub(super) async fn pause(
    context: &Context,
    name: &NamespacedName,
    resource_version: &str,
    pause: &OwnPause,
) -> Result<(), Error> {
    tracing::info!(machine_deployment = %name, machine_set = pause.machine_set, target = pause.target, "pausing to take one Machine out");
    let note = format!("{}/{}/{}", pause.claim_uid, pause.machine_set, pause.target);
    let patch = json!({ "metadata": {
        "resourceVersion": resource_version,
        "annotations": { annotations::CAPI_PAUSED: "", annotations::PAUSE_FOR: note },
    } });
    patch_deployment(context, name, &patch).await
}

/// Sets a MachineSet's replicas.
pub(super) async fn scale(
    context: &Context,
    set: &str,
    resource_version: &str,
    replicas: i64,
) -> Result<(), Error> {
    let patch =
        json!({ "metadata": { "resourceVersion": resource_version }, "spec": { "replicas": replicas } });
    let action = || format!("patch MachineSet {}/{set}", context.scope.namespace);
    context.merge(&context.capi::<MachineSet>(), set, managers::LEDGER, &patch, action).await.map(drop)
}

/// Makes the claim that takes another one's place: the same in everything but its Machine.
pub(super) async fn create_successor(context: &Context, claim: &ClaimRef) -> Result<(), Error> {
    let Some(predecessor) = context.index.snapshot().node_claim(&claim.name).cloned() else {
        return Ok(());
    };
    let successor = successor_of(&predecessor, &claim.uid);
    let params = PostParams { field_manager: Some(managers::LEDGER.to_owned()), ..PostParams::default() };
    let created = context.node_claims().create(&params, &successor).await;
    let created = created.attempt(|| format!("create the successor of NodeClaim {}", claim.name))?;
    tracing::info!(
        claim = claim.name,
        successor = created.metadata.name,
        "a roll-out replaces the claim's Machine"
    );
    context.metrics.node_claim_created(&created, "replaced_by_roll_out");
    context.index.assume(created.clone(), Timestamp::now());
    context.changed(crate::watch::Change::Object(created.into()));
    Ok(())
}

fn successor_of(predecessor: &NodeClaim, uid: &str) -> NodeClaim {
    let of_the_machine = [
        annotations::MACHINE,
        annotations::ADOPT,
        annotations::REPLACES,
        annotations::RELEASE,
        annotations::NODECLAIM_TERMINATION_TIMESTAMP,
    ];
    let mut all = predecessor.metadata.annotations.clone().unwrap_or_default();
    all.retain(|key, _| !of_the_machine.contains(&key.as_str()));
    all.insert(annotations::REPLACES.to_owned(), uid.to_owned());
    let prefix = pool_name(predecessor).or(predecessor.metadata.name.as_deref()).unwrap_or_default();
    NodeClaim {
        metadata: ObjectMeta {
            generate_name: Some(format!("{prefix}-")),
            labels: predecessor.metadata.labels.clone(),
            annotations: Some(all),
            finalizers: Some(vec![finalizers::TERMINATION.to_owned()]),
            owner_references: predecessor.metadata.owner_references.clone(),
            ..ObjectMeta::default()
        },
        spec: predecessor.spec.clone(),
        status: None,
    }
}
