//! Makes sure that the workload cluster is the one that the management cluster's Machines belong to.

use crate::context::{Context, name};
use crate::error::{Error, chain};
use karpenter_capi_api::capi::Cluster;
use karpenter_capi_api::names::{annotations, managers};
use karpenter_capi_lifecycle::workload::{Recognition, recognize};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The namespace that every cluster has, and whose UID is the cluster's.
const KUBE_SYSTEM: &str = "kube-system";
/// A person's answer is seen within this long.
const AGAIN: Duration = Duration::from_secs(10);

/// Whether anything may be written, and anything be given back on suspicion. None: the Cluster or the namespace isn't known yet.
pub(crate) fn recognition(context: &Context) -> Option<Recognition> {
    let snapshot = context.index.snapshot();
    let uid = snapshot
        .namespaces
        .values()
        .find(|namespace| name(namespace.as_ref()) == KUBE_SYSTEM)?
        .metadata
        .uid
        .clone()?;
    let cluster = context.cluster()?;
    let recorded = cluster.metadata.annotations.as_ref().and_then(|all| all.get(annotations::WORKLOAD_UID));
    let carry = snapshot.machines.values().any(|machine| {
        machine.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::NODECLAIM))
    });
    Some(recognize(recorded.map(String::as_str), &uid, carry))
}

/// The sentence that says why nothing may be written, if so.
pub(crate) fn refusal(context: &Context) -> Option<String> {
    match recognition(context) {
        Some(Recognition::Foreign(message)) => Some(message),
        _ => None,
    }
}

/// Records the UID, and tells on the Cluster when it is another one, until `stop`.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    loop {
        if let Err(error) = look(&context).await {
            tracing::error!(error = %chain(&error), "could not record the workload cluster");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}

async fn look(context: &Context) -> Result<(), Error> {
    let Some(cluster) = context.cluster() else {
        return Ok(());
    };
    let foreign = match recognition(context) {
        Some(Recognition::Record(uid)) => {
            record(context, &cluster, &uid).await?;
            None
        }
        Some(Recognition::Foreign(message)) => Some(message),
        Some(Recognition::Known | Recognition::Unrecorded) | None => None,
    };
    context.metrics.workload_cluster_foreign(foreign.is_some());
    if let Some(message) = foreign {
        tracing::error!("{message}");
        let about = context.capi_reference(cluster.as_ref());
        context.management_events.warning(&about, "ForeignWorkloadCluster", message).await;
        for class in context.index.snapshot().node_classes.values() {
            context.queues.node_classes.add(name(class.as_ref()));
        }
    }
    Ok(())
}

async fn record(context: &Context, cluster: &Cluster, uid: &str) -> Result<(), Error> {
    let patch = json!({ "metadata": {
        "resourceVersion": cluster.metadata.resource_version,
        "annotations": { annotations::WORKLOAD_UID: uid },
    } });
    let action = || format!("record the workload cluster on Cluster {}", context.scope.cluster);
    context
        .merge(&context.capi::<Cluster>(), &context.scope.cluster, managers::LEDGER, &patch, action)
        .await
        .map(drop)
}
