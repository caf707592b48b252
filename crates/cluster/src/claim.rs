//! From a planned claim to the NodeClaim that is created.

use crate::input::ProvisioningInput;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_capi_api::names::{KARPENTER_GROUP, annotations, finalizers, labels};
use karpenter_capi_api::v1::{NodeClaim, NodeClaimSpec, NodePool, ResourceRequirements};
use karpenter_capi_catalog::{Applied, CatalogEntry};
use karpenter_capi_lifecycle::hash::node_pool_hash;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_scheduling::plan::PlannedNodeClaim;
use std::collections::BTreeMap;

/// Keys that describe a state of the node and never a wish.
const NEVER_ASKED: [&str; 3] = [labels::HOSTNAME, labels::INITIALIZED, labels::REGISTERED];

/// The NodeClaim for a plan, assigned to the option that the plan has chosen: it is never assigned anew, so it names that one alone.
/// The finalizer is on it from the first moment, so that no deletion is missed.
///
/// `metadata.name` stays empty: the operator sets `generateName`, the simulator a name. None where the plan's choice isn't a
/// MachineDeployment of the catalog.
pub fn draft(planned: &PlannedNodeClaim, pool: &NodePool, made: &ProvisioningInput) -> Option<NodeClaim> {
    let chosen = &planned.chosen()?.instance_type;
    let entry = made.catalog.get(chosen.machine_deployment.as_ref()?)?;
    let overlaid = made.overlaid.applied(&planned.node_pool, &chosen.name);
    let template = &pool.spec.template;
    let requirements = asked(planned, entry);
    Some(NodeClaim {
        metadata: ObjectMeta {
            labels: Some(claim_labels(planned, pool, entry, &requirements)),
            annotations: Some(claim_annotations(planned, pool, entry, overlaid)),
            finalizers: Some(vec![finalizers::TERMINATION.to_owned()]),
            owner_references: Some(vec![owner(pool)]),
            ..ObjectMeta::default()
        },
        spec: NodeClaimSpec {
            taints: template.spec.taints.clone(),
            startup_taints: template.spec.startup_taints.clone(),
            requirements: requirements.to_api(),
            resources: ResourceRequirements { requests: planned.requests.to_quantities() },
            node_class_ref: template.spec.node_class_ref.clone(),
            termination_grace_period: template.spec.termination_grace_period.clone(),
            expire_after: Some(template.spec.effective_expire_after()),
        },
        status: None,
    })
}

/// Scheduling requirements, narrowed to the chosen instance type and offering.
fn asked(planned: &PlannedNodeClaim, entry: &CatalogEntry) -> Requirements {
    let mut requirements = planned.requirements.clone();
    let mut narrow = |requirement: &Requirement| {
        requirements.add(requirement.clone());
        // A choice of one can't be a choice of `minValues`, and the definition of NodeClaim refuses it.
        if let Some(narrowed) = requirements.get(requirement.key()).cloned() {
            requirements.replace(narrowed.with_min_values(None));
        }
    };
    if let Some(chosen) = planned.chosen() {
        chosen.offering.requirements.iter().for_each(&mut narrow);
    }
    narrow(&Requirement::one_of(labels::INSTANCE_TYPE, &[entry.instance_type_label()]));
    requirements.retain_keys(|key| !NEVER_ASKED.contains(&key));
    requirements
}

/// Strongest last: what the pool says of its nodes holds over what the MachineDeployment's nodes come up with.
fn claim_labels(
    planned: &PlannedNodeClaim,
    pool: &NodePool,
    entry: &CatalogEntry,
    requirements: &Requirements,
) -> BTreeMap<String, String> {
    let mut all = entry.labels.clone();
    all.extend(requirements.labels());
    all.extend(pool.spec.template.metadata.labels.clone());
    all.insert(labels::NODEPOOL.to_owned(), planned.node_pool.clone());
    all.insert(labels::NODECLASS.to_owned(), pool.spec.template.spec.node_class_ref.name.clone());
    all.retain(|key, _| !NEVER_ASKED.contains(&key.as_str()));
    all
}

fn claim_annotations(
    planned: &PlannedNodeClaim,
    pool: &NodePool,
    entry: &CatalogEntry,
    overlaid: Applied,
) -> BTreeMap<String, String> {
    let mut all = pool.spec.template.metadata.annotations.clone();
    let mut set = |key: &str, value: String| _ = all.insert(key.to_owned(), value);
    // Computed from the very template that the claim is made from: the pool's own annotation may still be that of an older one.
    set(annotations::NODEPOOL_HASH, node_pool_hash(pool));
    set(annotations::NODEPOOL_HASH_VERSION, annotations::NODEPOOL_HASH_VERSION_VALUE.to_owned());
    set(annotations::NODECLAIM_MIN_VALUES_RELAXED, planned.min_values_relaxed.to_string());
    set(annotations::MACHINE_DEPLOYMENT, entry.name.to_string());
    if overlaid.price {
        set(annotations::PRICE_OVERLAY_APPLIED, "true".to_owned());
    }
    if overlaid.capacity {
        set(annotations::CAPACITY_OVERLAY_APPLIED, "true".to_owned());
    }
    all
}

fn owner(pool: &NodePool) -> OwnerReference {
    OwnerReference {
        api_version: format!("{KARPENTER_GROUP}/v1"),
        kind: "NodePool".to_owned(),
        name: pool.metadata.name.clone().unwrap_or_default(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Source, load};
    use crate::index::Index;
    use crate::input::{InputOptions, Origin, Scope, provisioning_input};
    use karpenter_capi_api::validation::validate_node_claim;
    use karpenter_capi_model::feature_gates::{FeatureGates, Gate};
    use karpenter_capi_scheduling::input::{
        MinValuesPolicy, Options, PreferencePolicy, ReservedOfferingMode,
    };
    use karpenter_capi_scheduling::solve;

    const WORLD: &str = "
{apiVersion: karpenter.cluster.x-k8s.io/v1alpha1, kind: ClusterAPINodeClass, metadata: {name: c}, spec: {}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p, uid: pool-uid}
spec:
  template:
    metadata: {labels: {team: blue}, annotations: {note: kept}}
    spec:
      expireAfter: Never
      terminationGracePeriod: 30m
      taints: [{key: t, effect: NoSchedule}]
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: Exists, minValues: 2}
      - {key: example.com/gen, operator: Gt, values: ['2']}
      nodeClassRef: {group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}
---
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {tolerations: [{operator: Exists}], containers: [{name: c, resources: {requests: {cpu: '1'}}}]}}
";

    fn drafted() -> NodeClaim {
        drafted_with("", FeatureGates::NONE)
    }

    fn drafted_with(more: &str, gates: FeatureGates) -> NodeClaim {
        let mut text = WORLD.to_owned() + more;
        for (name, price) in [("m1", "0.1"), ("m2", "0.2")] {
            text += &["---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: ", name, "
  labels: {node.cluster.x-k8s.io/karpenter-member: ''}
  annotations: {capacity.cluster-autoscaler.kubernetes.io/cpu: '4', capacity.cluster-autoscaler.kubernetes.io/memory: 8Gi, capacity.cluster-autoscaler.kubernetes.io/labels: example.com/gen=3, karpenter.cluster.x-k8s.io/zone: z1, karpenter.cluster.x-k8s.io/price: '", price, "'}
spec: {clusterName: k, replicas: 0}
"].concat();
        }
        let loaded = load([Source { name: "test", text: &text }]).unwrap_or_else(|error| panic!("{error}"));
        let snapshot = loaded.objects.into_iter().collect::<Index>().snapshot();
        let made = provisioning_input(
            &snapshot,
            &InputOptions {
                now: "2026-01-05T12:00:00Z".parse().unwrap(),
                origin: Origin::Files,
                scope: Scope::default(),
                scheduling: Options {
                    preference_policy: PreferencePolicy::Respect,
                    min_values_policy: MinValuesPolicy::Strict,
                    reserved_offering_mode: ReservedOfferingMode::Strict,
                    max_instance_types: 600,
                },
                gates,
                facts: BTreeMap::new(),
                nominations: BTreeMap::new(),
                marked: std::collections::BTreeSet::new(),
                scheduler_config: crate::scheduler_config::SchedulerConfig::default(),
            },
        );
        let plan = solve(&made.input);
        assert_eq!(plan.node_claims.len(), 1, "{:?}", plan.pending);
        draft(&plan.node_claims[0], snapshot.node_pool("p").unwrap(), &made).unwrap()
    }

    #[test]
    fn the_definition_of_node_claim_accepts_it() {
        let mut claim = drafted();
        claim.metadata.name = Some("p-1".to_owned());
        assert_eq!(validate_node_claim(&claim), []);
    }

    #[test]
    fn it_carries_its_assignment_and_what_pool_and_machine_deployment_promise() {
        let claim = drafted();
        let annotations = claim.metadata.annotations.unwrap();
        assert_eq!(
            annotations["karpenter.cluster.x-k8s.io/machine-deployment"], "default/m1",
            "the cheaper one"
        );
        assert_eq!(
            (annotations["note"].as_str(), annotations["karpenter.sh/nodepool-hash-version"].as_str()),
            ("kept", "v3")
        );
        let labels = claim.metadata.labels.unwrap();
        for (key, value) in [
            ("team", "blue"),
            ("karpenter.sh/nodepool", "p"),
            ("karpenter.sh/capacity-type", "on-demand"),
            ("node.kubernetes.io/instance-type", "m1"),
            ("topology.kubernetes.io/zone", "z1"),
            ("example.com/gen", "3"),
        ] {
            assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert_eq!(claim.metadata.finalizers.unwrap(), ["karpenter.sh/termination"]);
    }

    #[test]
    fn what_an_overlay_has_said_of_the_chosen_machine_is_noted_on_the_claim() {
        let overlay = "---
{apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {name: o}, spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m2]}], price: '0.01', capacity: {example.com/fuse: '2'}}}
";
        let of = |gates: FeatureGates| {
            let annotations = drafted_with(overlay, gates).metadata.annotations.unwrap();
            [
                "karpenter.cluster.x-k8s.io/machine-deployment",
                "karpenter.sh/price-overlay-applied",
                "karpenter.sh/capacity-overlay-applied",
            ]
            .map(|key| annotations.get(key).cloned().unwrap_or_default())
        };
        assert_eq!(of(FeatureGates::NONE.with(Gate::NodeOverlay)), ["default/m2", "true", "true"]);
        assert_eq!(of(FeatureGates::NONE), ["default/m1", "", ""]);
    }

    // Public reports aws/karpenter-provider-aws#2831 and #6905: nodes whose pool was deleted lost what they were made by, and hung.
    #[test]
    fn case_114_a_claim_goes_with_its_pool_and_carries_what_its_end_needs() {
        let claim = drafted();
        let owner = &claim.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(
            (owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()),
            ("NodePool", "p", "pool-uid")
        );
        assert_eq!(owner.block_owner_deletion, Some(true), "the pool's garbage collection doesn't wait");
        let period = claim.spec.termination_grace_period.as_ref().map(ToString::to_string);
        assert_eq!((period.as_deref(), claim.spec.taints[0].key.as_str()), (Some("30m"), "t"));
    }

    #[test]
    fn case_122_bounds_are_written_with_operators_that_every_definition_has() {
        let requirements = drafted().spec.requirements;
        let generation =
            requirements.iter().find(|requirement| requirement.key == "example.com/gen").unwrap();
        assert_eq!(
            (generation.operator.as_str(), generation.values.as_slice()),
            ("Gt", ["2".to_owned()].as_slice())
        );
        let types = requirements
            .iter()
            .find(|requirement| requirement.key == "node.kubernetes.io/instance-type")
            .unwrap();
        assert_eq!((types.values.as_slice(), types.min_values), (["m1".to_owned()].as_slice(), None));
    }
}
