//! Claims that NodePools with `replicas` lack, made before pods are placed.

use super::{CREATED_AT_ONCE, create, input_options};
use crate::context::Context;
use crate::error::Error;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use karpenter_capi_cluster::input::provisioning_input;
use karpenter_capi_cluster::static_claims::{StaticPlan, plan};
use karpenter_capi_model::feature_gates::Gate;
use karpenter_capi_scheduling::plan::Warning;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Static pools are looked at this often, whatever is seen.
const AGAIN: Duration = Duration::from_mins(1);

/// Makes what static pools lack, where there are any.
pub(super) async fn provision(context: &Arc<Context>) -> Result<(), Error> {
    let snapshot = context.index.snapshot();
    let is_on = context.settings.feature_gates.is_on(Gate::StaticCapacity);
    if !is_on || snapshot.node_pools.values().all(|pool| pool.spec.replicas.is_none()) {
        return Ok(());
    }
    context.trigger.anything_after(AGAIN);
    let options = input_options(context, Timestamp::now(), BTreeMap::new());
    let planning = tokio::task::spawn_blocking(move || {
        let made = provisioning_input(&snapshot, &options);
        let plan = plan(&made);
        (made, plan)
    });
    let (made, StaticPlan { node_claims, warnings }) =
        planning.await.map_err(|_| Error::TaskEnded("static capacity".to_owned()))?;
    let creating: Vec<BoxFuture<'_, _>> =
        node_claims.iter().map(|planned| create(context, &made, planned).boxed()).collect();
    let created: Vec<_> = stream::iter(creating).buffered(CREATED_AT_ONCE).collect().await;
    tell(context, warnings).await;
    created.into_iter().find_map(Result::err).map_or(Ok(()), Err)
}

/// Says on the pool what keeps it from having its nodes.
async fn tell(context: &Context, warnings: Vec<Warning>) {
    for warning in warnings {
        let name = warning.object.strip_prefix("NodePool/").unwrap_or_default();
        let about = ObjectReference {
            api_version: Some("karpenter.sh/v1".to_owned()),
            kind: Some("NodePool".to_owned()),
            name: Some(name.to_owned()),
            uid: context.index.snapshot().node_pool(name).and_then(|pool| pool.metadata.uid.clone()),
            ..ObjectReference::default()
        };
        context.events.warning(&about, "ReplicasNotMet", warning.message).await;
    }
}
