//! From a planned claim to the object that is created.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_capi_api::names::{annotations, finalizers, labels};
use karpenter_capi_api::v1::{NodeClaim, NodeClaimSpec, NodePool, ResourceRequirements};
use karpenter_capi_catalog::CatalogEntry;
use karpenter_capi_lifecycle::hash::node_pool_hash;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_scheduling::plan::PlannedNodeClaim;
use kube::core::Resource;
use std::collections::BTreeMap;

/// Keys that describe a state of the node and never a wish.
const NOT_REQUIRED: &[&str] = &[labels::HOSTNAME, labels::REGISTERED, labels::INITIALIZED];

/// The claim, assigned to the cheapest MachineDeployment of the plan: it is never assigned anew, so it names that one alone. The
/// finalizer is on it from the first moment, so that no deletion is missed.
pub(super) fn of_plan(
    planned: &PlannedNodeClaim,
    pool: &NodePool,
    catalog: &BTreeMap<NamespacedName, CatalogEntry>,
) -> Option<NodeClaim> {
    let chosen = planned.chosen()?;
    let deployment = chosen.instance_type.machine_deployment.clone()?;
    let entry = catalog.get(&deployment)?;
    let mut requirements = planned.requirements.clone();
    requirements.retain_keys(|key| !NOT_REQUIRED.contains(&key));
    for requirement in chosen.offering.requirements.iter() {
        requirements.add(requirement.clone());
    }
    requirements.add(Requirement::one_of(labels::INSTANCE_TYPE, &[entry.instance_type_label()]));

    let template = &pool.spec.template;
    // Strongest last: what the pool says of its nodes holds over what the MachineDeployment's nodes come up with.
    let mut all_labels = entry.labels.clone();
    all_labels.remove(labels::HOSTNAME);
    all_labels.extend(requirements.labels());
    all_labels.extend(template.metadata.labels.clone());
    all_labels.insert(labels::NODEPOOL.to_owned(), planned.node_pool.clone());
    all_labels.insert(labels::NODECLASS.to_owned(), template.spec.node_class_ref.name.clone());

    let mut all_annotations = template.metadata.annotations.clone();
    // Computed from the very template that the claim is made from: the pool's own annotation may still be that of an older one.
    all_annotations.insert(annotations::NODEPOOL_HASH.to_owned(), node_pool_hash(pool));
    all_annotations.insert(annotations::NODEPOOL_HASH_VERSION.to_owned(), annotations::NODEPOOL_HASH_VERSION_VALUE.to_owned());
    all_annotations.insert(annotations::NODECLAIM_MIN_VALUES_RELAXED.to_owned(), planned.min_values_relaxed.to_string());
    all_annotations.insert(annotations::MACHINE_DEPLOYMENT.to_owned(), deployment.to_string());

    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", planned.node_pool)),
        labels: Some(all_labels),
        annotations: Some(all_annotations),
        finalizers: Some(vec![finalizers::TERMINATION.to_owned()]),
        owner_references: Some(vec![owner(pool)]),
        ..ObjectMeta::default()
    };
    let spec = NodeClaimSpec {
        taints: template.spec.taints.clone(),
        startup_taints: template.spec.startup_taints.clone(),
        requirements: requirements.to_api(),
        resources: ResourceRequirements { requests: planned.requests.to_quantities() },
        node_class_ref: template.spec.node_class_ref.clone(),
        termination_grace_period: template.spec.termination_grace_period.clone(),
        expire_after: Some(template.spec.effective_expire_after()),
    };
    Some(NodeClaim { metadata, spec, status: None })
}

fn owner(pool: &NodePool) -> OwnerReference {
    OwnerReference {
        api_version: NodePool::api_version(&()).into_owned(),
        kind: NodePool::kind(&()).into_owned(),
        name: pool.metadata.name.clone().unwrap_or_default(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        controller: None,
        block_owner_deletion: Some(true),
    }
}
