//! What NodePools choose from, with what NodeOverlays say of it.

use super::deployments::{self, Deployment};
use super::pools::{self, Classes};
use super::{InputOptions, Origin, Warnings};
use crate::snapshot::Snapshot;
use karpenter_capi_api::names::labels;
use karpenter_capi_api::v1::NodePool;
use karpenter_capi_catalog::{Choice, Overlaid, Verdict, overlay};
use karpenter_capi_model::feature_gates::Gate;
use karpenter_capi_model::name::NamespacedName;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What NodePools choose from, and which overlays count, without the rest of the input.
pub fn overlaid(snapshot: &Snapshot, options: &InputOptions) -> Overlaid {
    let deployments = deployments::read(snapshot, options, &deployments::books(snapshot));
    let classes = pools::classes(snapshot, options, &deployments);
    of(snapshot, options, &deployments, &classes)
}

pub(super) fn of(
    snapshot: &Snapshot,
    options: &InputOptions,
    deployments: &BTreeMap<NamespacedName, Deployment>,
    classes: &Classes<'_>,
) -> Overlaid {
    let pools = snapshot.node_pools.iter().filter(|(_, pool)| {
        pool.spec.template.spec.node_class_ref.is_ours() && pool.metadata.deletion_timestamp.is_none()
    });
    let choices = pools.map(|(name, pool)| (name.name.clone(), choice(pool, deployments, classes))).collect();
    if options.gates.is_on(Gate::NodeOverlay) {
        // One that is going says nothing any more, though a finalizer of somebody may hold it.
        let overlays = snapshot.node_overlays.values();
        let staying = overlays.filter(|overlay| overlay.metadata.deletion_timestamp.is_none());
        return overlay(staying.map(Arc::as_ref), choices);
    }
    let mut untouched = Overlaid::untouched(choices);
    if options.origin == Origin::Files {
        let message = "NodeOverlays don't count: the feature gate NodeOverlay is off".to_owned();
        let overlays = snapshot.node_overlays.keys();
        untouched.findings.extend(overlays.map(|name| (name.name.clone(), message.clone())));
    }
    untouched
}

fn choice(
    pool: &NodePool,
    deployments: &BTreeMap<NamespacedName, Deployment>,
    classes: &Classes<'_>,
) -> Choice {
    let template = &pool.spec.template;
    let mut labels = template.metadata.labels.clone();
    labels.insert(labels::NODEPOOL.to_owned(), pool.metadata.name.clone().unwrap_or_default());
    labels.insert(labels::NODECLASS.to_owned(), template.spec.node_class_ref.name.clone());
    let taken = classes.get(template.spec.node_class_ref.name.as_str()).into_iter();
    let taken = taken.flat_map(|class| &class.takes).filter_map(|name| deployments.get(name));
    let instance_types = taken.map(|deployment| Arc::clone(&deployment.entry.instance_type)).collect();
    Choice { labels, instance_types }
}

/// Overlays that don't count, or not wholly.
pub(super) fn tell(overlaid: &Overlaid, warnings: &mut Warnings) {
    for (name, message) in &overlaid.findings {
        warnings.add(format!("NodeOverlay/{name}"), message.clone());
    }
    for (name, verdict) in &overlaid.verdicts {
        if let Verdict::Invalid(message) | Verdict::Conflict(message) = verdict {
            warnings.add(format!("NodeOverlay/{name}"), format!("it doesn't count: {message}"));
        }
    }
}
