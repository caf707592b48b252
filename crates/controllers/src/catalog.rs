//! What MachineDeployments offer, from the index.

use crate::context::{Context, key};
use jiff::Timestamp;
use karpenter_capi_api::capi::{Machine, MachineDeployment, MachineSet, owner_of_kind};
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_catalog::{CatalogEntry, CatalogInput, Selection, SelectorError, catalog};
use karpenter_capi_cluster::snapshot::Snapshot;
use karpenter_capi_lifecycle::ledger::MachineView;
use karpenter_capi_model::name::NamespacedName;
use std::sync::Arc;

/// What one MachineDeployment offers now; None where there is none of that name.
pub(crate) fn entry(context: &Context, name: &NamespacedName) -> Option<CatalogEntry> {
    let snapshot = context.index.snapshot();
    let deployment = snapshot.machine_deployments.get(name)?;
    Some(read(context, &snapshot, deployment))
}

/// What a node class's MachineDeployments offer, by name.
pub(crate) fn of_class(context: &Context, class: &ClusterAPINodeClass) -> Result<Vec<CatalogEntry>, SelectorError> {
    let selection = Selection::of(class)?;
    let snapshot = context.index.snapshot();
    let taken = snapshot.machine_deployments.values().filter(|deployment| selection.takes(deployment));
    Ok(taken.map(|deployment| read(context, &snapshot, deployment)).collect())
}

fn read(context: &Context, snapshot: &Snapshot, deployment: &MachineDeployment) -> CatalogEntry {
    let name = key(deployment);
    let owned = |set: &&Arc<MachineSet>| {
        set.metadata.namespace.as_ref() == Some(&name.namespace)
            && owner_of_kind(&set.metadata, "MachineDeployment").is_some_and(|owner| owner.name == name.name)
    };
    let sets: Vec<Arc<MachineSet>> = snapshot.machine_sets.values().filter(owned).cloned().collect();
    let made = |machine: &&Arc<Machine>| MachineView::machine_deployment(machine).as_ref() == Some(&name);
    let machines: Vec<Arc<Machine>> = snapshot.machines.values().filter(made).cloned().collect();
    of(context, deployment, &sets, &machines)
}

/// What a MachineDeployment offers, with its MachineSets and Machines as they were read.
pub(crate) fn of(
    context: &Context,
    deployment: &MachineDeployment,
    machine_sets: &[Arc<MachineSet>],
    machines: &[Arc<Machine>],
) -> CatalogEntry {
    let name = key(deployment);
    let snapshot = context.index.snapshot();
    let template = snapshot.infrastructure_template(&name.namespace, &deployment.spec.template.spec.infrastructure_ref);
    let cluster = context.cluster();
    catalog(&CatalogInput {
        machine_deployment: deployment,
        infrastructure_template: template.map(Arc::as_ref),
        machine_sets,
        machines,
        cluster: cluster.as_deref(),
        facts: &context.facts.of(&name),
        now: Timestamp::now(),
    })
}
