//! NodePools with `replicas` that have more claims than that.

use crate::context::{Context, name};
use crate::queue::Outcome;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_cluster::snapshot::Snapshot;
use karpenter_capi_lifecycle::static_capacity::{Holder, belongs_to, surplus};
use karpenter_capi_model::node_pool::is_disruption_paused;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A pool is looked at this often, whatever is seen.
const AGAIN: Duration = Duration::from_mins(1);

/// Deletes the claims of one pool that are too many.
pub(crate) async fn reconcile(context: Arc<Context>, pool: String) -> Outcome {
    let snapshot = context.index.snapshot();
    let Some(object) = snapshot.node_pool(&pool) else {
        return Ok(None);
    };
    let is_ours = object.spec.template.spec.node_class_ref.is_ours();
    let Some(replicas) =
        object.spec.replicas.filter(|_| is_ours && object.metadata.deletion_timestamp.is_none())
    else {
        return Ok(None);
    };
    let now = Timestamp::now();
    if is_disruption_paused(object, now) {
        return Ok(Some(AGAIN));
    }
    for claim in surplus(replicas, &holders(&snapshot, &pool), now) {
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let message = format!("NodePool {pool} has more nodes than its {replicas} replicas");
        crate::node_claim::delete(
            &context,
            &name(claim),
            uid,
            "Overprovisioned",
            "overprovisioned",
            &message,
        )
        .await?;
    }
    Ok(Some(AGAIN))
}

/// The pool's claims, each with the pods of its Node.
fn holders<'a>(snapshot: &'a Snapshot, pool: &str) -> Vec<Holder<'a>> {
    let mut by_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for record in snapshot.pods.values() {
        if let Some(node) = &record.model.node_name {
            by_node.entry(node).or_default().push(&record.object);
        }
    }
    let claims = snapshot.node_claims.values().map(Arc::as_ref).filter(|claim| belongs_to(claim, pool));
    let node = |claim: &'a NodeClaim| claim.status.as_ref()?.node_name.as_deref();
    claims
        .map(|claim| {
            let pods = node(claim).and_then(|node| by_node.get(node)).cloned().unwrap_or_default();
            Holder { claim, pods }
        })
        .collect()
}
