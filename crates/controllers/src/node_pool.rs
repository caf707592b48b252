//! NodePools: hash, usage, readiness.

use crate::context::{Context, name};
use crate::error::Error;
use crate::queue::Outcome;
use jiff::Timestamp;
use karpenter_capi_api::names::managers;
use karpenter_capi_api::v1::{NodePool, ResourceList};
use karpenter_capi_api::validation::validate_node_pool;
use karpenter_capi_lifecycle::hash::hash_annotations;
use karpenter_capi_lifecycle::node_pool::{Observed, counted, desired_status, is_changed};
use karpenter_capi_model::quantity::Rounding;
use karpenter_capi_model::resources::{CPU, read_amount};
use serde_json::json;
use std::sync::Arc;

/// Brings one pool's annotations and status up to date.
pub(crate) async fn reconcile(context: Arc<Context>, pool: String) -> Outcome {
    let snapshot = context.index.snapshot();
    let Some(object) = snapshot.node_pool(&pool) else {
        context.metrics.forget_node_pool(&pool);
        let left = snapshot.node_pools.values().filter_map(|pool| pool.metadata.uid.as_deref()).collect();
        context.facts.retain_pools(&left);
        return Ok(None);
    };
    if !object.spec.template.spec.node_class_ref.is_ours() {
        return Ok(None);
    }
    write_hashes(&context, object).await?;
    let claims = snapshot.node_claims.values().map(Arc::as_ref);
    let counted = counted(&pool, claims, snapshot.nodes.values().map(Arc::as_ref));
    for amount in &counted.unreadable {
        tracing::warn!(node_pool = pool, "{amount}");
    }
    let class = snapshot.node_class(&object.spec.template.spec.node_class_ref.name);
    let errors = validate_node_pool(object);
    let changed = class.is_some_and(|class| is_changed(object, class));
    let registrations = context.facts.registrations(object, changed);
    let observed = Observed {
        errors: &errors,
        node_class: class.map(Arc::as_ref),
        counted: Some(&counted),
        registrations: &registrations,
    };
    context.metrics.node_pool_resources(
        &pool,
        base_units(&counted.resources),
        base_units(&object.spec.limits),
    );
    if let Some(status) = desired_status(object, &observed, Timestamp::now()) {
        let patch = json!({ "metadata": { "uid": object.metadata.uid }, "status": status });
        let action = || format!("write the status of NodePool {pool}");
        context.merge_status(&context.node_pools(), &pool, managers::NODEPOOL, &patch, action).await?;
        context.trigger.anything();
    }
    Ok(None)
}

/// The claims first: a claim whose version is older than its pool's would never be judged.
async fn write_hashes(context: &Context, pool: &NodePool) -> Result<(), Error> {
    let snapshot = context.index.snapshot();
    let updates = hash_annotations(pool, snapshot.node_claims.values().map(Arc::as_ref));
    for (claim, annotations) in &updates.node_claims {
        let patch = json!({ "metadata": { "annotations": annotations } });
        let action = || format!("write the hash of NodeClaim {claim}");
        context.merge(&context.node_claims(), claim, managers::NODEPOOL, &patch, action).await?;
    }
    if !updates.node_pool.is_empty() {
        let pool = name(pool);
        let patch = json!({ "metadata": { "annotations": updates.node_pool } });
        let action = || format!("write the hash of NodePool {pool}");
        context.merge(&context.node_pools(), &pool, managers::NODEPOOL, &patch, action).await?;
    }
    Ok(())
}

/// Cores, bytes and pieces, for metrics; what can't be read is told by the pool's validation.
fn base_units(list: &ResourceList) -> Vec<(&str, f64)> {
    let amounts = list.iter().filter_map(|(resource, quantity)| {
        let amount = read_amount(resource, &quantity.0, Rounding::Up).ok()?;
        #[expect(clippy::cast_precision_loss, reason = "a metric is a float; 53 bits are plenty for bytes")]
        let amount = amount as f64;
        Some((resource.as_str(), if resource == CPU { amount / 1000.0 } else { amount }))
    });
    amounts.collect()
}
