//! Node classes: which MachineDeployments they take, and whether these can be used.

use crate::context::{Context, name};
use crate::error::Error;
use crate::queue::Outcome;
use jiff::Timestamp;
use karpenter_capi_api::names::{finalizers, managers};
use karpenter_capi_api::v1alpha1::{ClusterAPINodeClass, MachineDeploymentStatus, Warning};
use karpenter_capi_api::validation::{FieldError, validate_node_class};
use karpenter_capi_catalog::CatalogEntry;
use karpenter_capi_lifecycle::node_class::{Finalizer, Observed, desired_status, finalizer};
use kube::core::Resource;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Offerings come back when a back-off is over, which no watch shows.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// Brings one class's finalizer and status up to date.
pub(crate) async fn reconcile(context: Arc<Context>, class: String) -> Outcome {
    let snapshot = context.index.snapshot();
    let Some(object) = snapshot.node_class(&class) else {
        return Ok(None);
    };
    match finalizer(object, snapshot.node_claims.values().map(Arc::as_ref)) {
        Finalizer::Keep => {}
        Finalizer::Add => write_finalizer(&context, object, true).await?,
        Finalizer::Release => {
            write_finalizer(&context, object, false).await?;
            return Ok(None);
        }
        Finalizer::Wait { claims } => {
            let message = format!("waiting for NodeClaims to end: {}", claims.join(", "));
            context.events.normal(&object.object_ref(&()), "WaitingOnNodeClaims", message).await;
            return Ok(Some(Duration::from_secs(5)));
        }
    }
    let mut errors = validate_node_class(object);
    if let Some(message) = crate::workload::refusal(&context) {
        errors.push(foreign(&message));
    }
    // A selector that can't be read is among the errors.
    let entries = crate::catalog::of_class(&context, object).unwrap_or_default();
    let machine_deployments: Vec<_> = entries.iter().map(status_of).collect();
    let warnings: Vec<_> = entries.iter().flat_map(warnings_of).collect();
    for entry in &entries {
        let reason = entry.reason().map(|reason| reason.code.as_str());
        context.metrics.machine_deployment_unavailable(&entry.name.namespace, &entry.name.name, reason);
        tell(&context, entry).await;
    }
    let observed =
        Observed { errors: &errors, machine_deployments: &machine_deployments, warnings: &warnings };
    if let Some(status) = desired_status(object, &observed, Timestamp::now()) {
        let patch = json!({ "metadata": { "uid": object.metadata.uid }, "status": status });
        let action = || format!("write the status of ClusterAPINodeClass {class}");
        context.merge_status(&context.node_classes(), &class, managers::NODECLASS, &patch, action).await?;
        // Not the picture from before the write: a pool may have come meanwhile.
        context.pools_of_class_changed(&class);
    }
    Ok(Some(LOOK_AGAIN))
}

/// The class isn't ready, and so neither are its pools: no claim is made that would scale another cluster's machines.
fn foreign(message: &str) -> FieldError {
    FieldError {
        field: "workload cluster".to_owned(),
        value: String::new(),
        message: message.to_owned(),
        remedy: "see the events of the Cluster".to_owned(),
    }
}

fn status_of(entry: &CatalogEntry) -> MachineDeploymentStatus {
    let text = |value: &str| (!value.is_empty()).then(|| value.to_owned());
    let reason = entry.reason();
    MachineDeploymentStatus {
        name: entry.name.to_string(),
        instance_type: text(entry.instance_type_label()),
        zone: text(entry.zone()),
        capacity_type: text(entry.capacity_type()),
        price: entry.price.map(|price| price.to_string()),
        replicas: i32::try_from(entry.replicas).ok(),
        available: reason.is_none(),
        reason: reason.map(|reason| reason.code.as_str().to_owned()),
        message: reason.map(|reason| reason.message.clone()),
    }
}

fn warnings_of(entry: &CatalogEntry) -> impl Iterator<Item = Warning> {
    let object = format!("MachineDeployment {}", entry.name);
    entry
        .warnings
        .iter()
        .map(move |warning| Warning { object: object.clone(), message: warning.message.clone() })
}

/// Says on the MachineDeployment what can't be read of it: there its owner looks.
async fn tell(context: &Context, entry: &CatalogEntry) {
    let Some(deployment) = context.index.snapshot().machine_deployments.get(&entry.name).cloned() else {
        return;
    };
    let about = context.capi_reference(deployment.as_ref());
    for warning in &entry.warnings {
        context.management_events.warning(&about, "UnreadableAnnotation", warning.message.clone()).await;
    }
}

async fn write_finalizer(context: &Context, class: &ClusterAPINodeClass, wanted: bool) -> Result<(), Error> {
    let mut all = class.metadata.finalizers.clone().unwrap_or_default();
    all.retain(|finalizer| finalizer != finalizers::NODE_CLASS);
    if wanted {
        all.push(finalizers::NODE_CLASS.to_owned());
    }
    let class_name = name(class);
    let patch = json!({ "metadata": {
        "uid": class.metadata.uid, "resourceVersion": class.metadata.resource_version, "finalizers": all,
    } });
    let action = || format!("write the finalizer of ClusterAPINodeClass {class_name}");
    context.merge(&context.node_classes(), &class_name, managers::NODECLASS, &patch, action).await.map(drop)
}
