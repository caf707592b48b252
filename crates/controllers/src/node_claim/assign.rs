//! Claims that people make by hand get their MachineDeployment here.

use crate::context::{Context, name};
use crate::queue::Outcome;
use karpenter_capi_api::names::{annotations, labels, managers};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_lifecycle::assign::assign as decide;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// A class that isn't there yet may come.
const AGAIN: Duration = Duration::from_secs(10);

/// Assigns the claim once and for all, or ends it, saying why nothing serves.
pub(super) async fn assign(context: &Context, claim: &NodeClaim) -> Outcome {
    let Some(class) = context.index.snapshot().node_class(&claim.spec.node_class_ref.name).cloned() else {
        tracing::warn!(
            claim = name(claim),
            class = claim.spec.node_class_ref.name,
            "the claim's node class does not exist"
        );
        return Ok(Some(AGAIN));
    };
    let entries = crate::catalog::of_class(context, &class).unwrap_or_default();
    let types: Vec<_> = entries.iter().map(|entry| entry.instance_type.clone()).collect();
    let of_nodes = entries.iter().flat_map(|entry| entry.labels.keys().cloned());
    let well_known = labels::WELL_KNOWN.iter().map(|key| (*key).to_owned()).chain(of_nodes).collect();
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let assignment = match decide(claim, &types, &well_known) {
        Ok(assignment) => assignment,
        Err(why) => {
            let message = format!("no MachineDeployment serves the claim: {why}");
            super::delete(
                context,
                &name(claim),
                uid,
                "InsufficientCapacityError",
                "insufficient_capacity",
                &message,
            )
            .await?;
            return Ok(None);
        }
    };
    let Some(entry) = entries
        .iter()
        .find(|entry| Some(&entry.name) == assignment.instance_type.machine_deployment.as_ref())
    else {
        return Ok(Some(AGAIN));
    };
    let own = claim.metadata.labels.clone().unwrap_or_default();
    let mut promised: BTreeMap<String, String> = entry.labels.clone();
    promised.retain(|key, _| key != labels::HOSTNAME && !own.contains_key(key));
    let patch = json!({ "metadata": {
        "uid": uid,
        "resourceVersion": claim.metadata.resource_version,
        "labels": promised,
        "annotations": { annotations::MACHINE_DEPLOYMENT: entry.name.to_string() },
    } });
    let action = || format!("assign NodeClaim {}", name(claim));
    let assigned =
        context.merge(&context.node_claims(), &name(claim), managers::NODECLAIM, &patch, action).await?;
    if assigned.is_none() {
        return Ok(None);
    }
    tracing::info!(claim = name(claim), machine_deployment = %entry.name, "assigned NodeClaim");
    context.queues.machine_deployments.add(entry.name.clone());
    Ok(Some(Duration::from_secs(1)))
}
