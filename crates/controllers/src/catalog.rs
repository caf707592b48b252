//! What MachineDeployments offer, from the index.

use crate::context::{Context, key};
use jiff::Timestamp;
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_catalog::{CatalogEntry, Selection, SelectorError};
use karpenter_capi_cluster::input::offer_of;
use karpenter_capi_model::name::NamespacedName;

/// What one MachineDeployment offers now; None where there is none of that name.
pub(crate) fn entry(context: &Context, name: &NamespacedName) -> Option<CatalogEntry> {
    let snapshot = context.index.snapshot();
    let deployment = snapshot.machine_deployments.get(name)?;
    Some(offer_of(&snapshot, deployment, &context.facts.of(name), Timestamp::now()))
}

/// What a node class's MachineDeployments offer, by name.
pub(crate) fn of_class(
    context: &Context,
    class: &ClusterAPINodeClass,
) -> Result<Vec<CatalogEntry>, SelectorError> {
    let selection = Selection::of(class)?;
    let snapshot = context.index.snapshot();
    let taken = snapshot.machine_deployments.values().filter(|deployment| selection.takes(deployment));
    let now = Timestamp::now();
    let offered = taken.map(|deployment| {
        let facts = context.facts.of(&key(deployment.as_ref()));
        offer_of(&snapshot, deployment, &facts, now)
    });
    Ok(offered.collect())
}
