//! Nodes that somebody deletes: their claim ends first, and the Node goes when its Machine is let go.

use crate::context::Context;
use crate::error::Error;
use crate::queue::Outcome;
use k8s_openapi::api::core::v1::Node;
use karpenter_capi_api::names::{annotations, finalizers, managers};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_lifecycle::{ledger, node};
use std::sync::Arc;

/// Follows a Node with a deletionTimestamp and our finalizer.
pub(crate) async fn reconcile(context: Arc<Context>, name: String) -> Outcome {
    let snapshot = context.index.snapshot();
    let Some(node) = snapshot.node(&name) else {
        return Ok(None);
    };
    let has_finalizer =
        node.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == finalizers::TERMINATION);
    if node.metadata.deletion_timestamp.is_none() || !has_finalizer {
        return Ok(None);
    }
    let claim = claim_of(&context, node);
    // Another Karpenter, with the same finalizer, may still be draining it.
    if !node::is_managed(node, claim.as_deref()) {
        return Ok(None);
    }
    let Some(claim) = claim else {
        return release(&context, node).await;
    };
    if claim.metadata.deletion_timestamp.is_none() {
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        let message = format!("Node {name} was deleted");
        crate::node_claim::delete(
            &context,
            &crate::context::name(claim.as_ref()),
            &uid,
            "NodeDeleted",
            "node_deleted",
            &message,
        )
        .await?;
        return Ok(Some(std::time::Duration::from_secs(1)));
    }
    let machine = ledger::bound(&claim).and_then(|machine| snapshot.machines.get(&machine).cloned());
    let held = machine.is_some_and(|machine| {
        machine
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|all| all.contains_key(annotations::PRE_TERMINATE_HOOK))
    });
    if held { Ok(Some(std::time::Duration::from_secs(1))) } else { release(&context, node).await }
}

fn claim_of(context: &Context, node: &Node) -> Option<Arc<NodeClaim>> {
    let provider_id = node.spec.as_ref()?.provider_id.as_deref()?;
    let snapshot = context.index.snapshot();
    let mut claims = snapshot.node_claims.values();
    claims
        .find(|claim| {
            claim.status.as_ref().and_then(|status| status.provider_id.as_deref()) == Some(provider_id)
        })
        .cloned()
}

async fn release(context: &Context, node: &Node) -> Outcome {
    if let Some(change) = node::released(node)
        && write(context, &change, "take the finalizer off").await?.is_some()
    {
        context.metrics.node_terminated(node);
    }
    Ok(None)
}

/// Writes a change of a Node; None: the Node is gone. `verb` is told when it fails.
pub(crate) async fn write(
    context: &Context,
    change: &node::NodeChange,
    verb: &str,
) -> Result<Option<Node>, Error> {
    let action = || format!("{verb} Node {}", change.node);
    context.merge(&context.nodes(), &change.node, managers::NODECLAIM, &change.patch, action).await
}
