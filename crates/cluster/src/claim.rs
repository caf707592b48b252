//! From a planned claim to the NodeClaim that is created.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_capi_api::names::{KARPENTER_GROUP, annotations, labels};
use karpenter_capi_api::v1::{NodeClaim, NodeClaimSpec, NodePool, ResourceRequirements};
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_scheduling::plan::{InstanceOption, PlannedNodeClaim};
use std::collections::{BTreeMap, BTreeSet};

/// Labels that the chosen MachineDeployment decides, where it declares them.
const DECIDED: [&str; 6] = [
    labels::ARCH,
    labels::CAPACITY_TYPE,
    labels::INSTANCE_TYPE,
    labels::OS,
    labels::TOPOLOGY_REGION,
    labels::TOPOLOGY_ZONE,
];
/// Keys that scheduling may use and that no claim may ask for.
const NEVER_ASKED: [&str; 3] = [labels::HOSTNAME, labels::INITIALIZED, labels::REGISTERED];

/// The NodeClaim for a plan, assigned to the option that the plan has chosen.
///
/// `metadata.name` stays empty; the operator sets `generateName`, the simulator a name.
pub fn draft(planned: &PlannedNodeClaim, pool: &NodePool) -> NodeClaim {
    let template = &pool.spec.template;
    let chosen = planned.chosen();
    let mut claim_annotations = template.metadata.annotations.clone();
    if let Some(deployment) = chosen.and_then(|option| option.instance_type.machine_deployment.as_ref()) {
        claim_annotations.insert(annotations::MACHINE_DEPLOYMENT.to_owned(), deployment.to_string());
    }
    let relaxed = planned.min_values_relaxed.to_string();
    claim_annotations.insert(annotations::NODECLAIM_MIN_VALUES_RELAXED.to_owned(), relaxed);
    let pool_name = pool.metadata.name.clone().unwrap_or_default();
    let owner = OwnerReference {
        api_version: format!("{KARPENTER_GROUP}/v1"),
        kind: "NodePool".to_owned(),
        name: pool_name,
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    };
    NodeClaim {
        metadata: ObjectMeta {
            labels: Some(claim_labels(planned, pool)),
            annotations: Some(claim_annotations),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: NodeClaimSpec {
            taints: template.spec.taints.clone(),
            startup_taints: template.spec.startup_taints.clone(),
            requirements: asked(planned).to_api(),
            resources: ResourceRequirements {
                requests: planned.requests.to_quantities(),
            },
            node_class_ref: template.spec.node_class_ref.clone(),
            termination_grace_period: template.spec.termination_grace_period.clone(),
            expire_after: Some(template.spec.effective_expire_after()),
        },
        status: None,
    }
}

/// Template labels, what the requirements resolve to, and what the chosen MachineDeployment decides.
fn claim_labels(planned: &PlannedNodeClaim, pool: &NodePool) -> BTreeMap<String, String> {
    let mut all = planned.requirements.labels();
    all.extend(pool.spec.template.metadata.labels.clone());
    all.insert(labels::NODEPOOL.to_owned(), planned.node_pool.clone());
    all.insert(
        labels::NODECLASS.to_owned(),
        pool.spec.template.spec.node_class_ref.name.clone(),
    );
    if let Some(chosen) = planned.chosen() {
        let mut promised = chosen.instance_type.requirements.single_values();
        promised.extend(chosen.offering.requirements.single_values());
        promised.retain(|key, _| DECIDED.contains(&key.as_str()));
        all.extend(promised);
    }
    all.retain(|key, _| !NEVER_ASKED.contains(&key.as_str()));
    all
}

/// All scheduling requirements, narrowed to the instance types and capacity types that would serve.
fn asked(planned: &PlannedNodeClaim) -> Requirements {
    let mut requirements = planned.requirements.clone();
    let types = values(planned, |option| {
        option
            .instance_type
            .requirements
            .get(labels::INSTANCE_TYPE)
            .and_then(Requirement::single_value)
    });
    let capacity_types = values(planned, |option| {
        Some(option.offering.capacity_type()).filter(|found| !found.is_empty())
    });
    for (key, values) in [
        (labels::INSTANCE_TYPE, types),
        (labels::CAPACITY_TYPE, capacity_types),
    ] {
        if !values.is_empty() {
            requirements.add(Requirement::one_of(key, &values));
        }
    }
    requirements.retain_keys(|key| !NEVER_ASKED.contains(&key));
    requirements
}

fn values<'a>(
    planned: &'a PlannedNodeClaim,
    of: impl Fn(&'a InstanceOption) -> Option<&'a str>,
) -> Vec<&'a str> {
    planned
        .options
        .iter()
        .filter_map(of)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}
