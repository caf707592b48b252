//! MachineDeployments with what belongs to them, read once each.

use super::{Books, InputOptions, Origin};
use crate::snapshot::Snapshot;
use crate::surface;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::capi::{Machine, MachineDeployment, MachineSet, controller_of_kind};
use karpenter_capi_api::names::{annotations, labels};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_catalog::{CatalogEntry, CatalogInput, Facts, catalog};
use karpenter_capi_lifecycle::ledger::{Entry, assigned, bound};
use karpenter_capi_model::name::NamespacedName;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The Cluster that is scaled. Without a name everything is in scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// `spec.clusterName` of its MachineDeployments.
    pub cluster_name: Option<String>,
    /// Their namespace.
    pub namespace: Option<String>,
}

impl Scope {
    /// Whether a MachineDeployment belongs to the Cluster.
    pub fn includes(&self, deployment: &MachineDeployment) -> bool {
        self.namespace.as_ref().is_none_or(|own| deployment.metadata.namespace.as_ref() == Some(own))
            && self.cluster_name.as_ref().is_none_or(|own| deployment.spec.cluster_name == *own)
    }
}

/// A MachineDeployment and what it offers.
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    pub(super) object: Arc<MachineDeployment>,
    pub(super) entry: CatalogEntry,
}

/// Everything in scope, whether a node class takes it or not: a claim may still be assigned to what is no longer a member.
pub(super) fn read(
    snapshot: &Snapshot,
    options: &InputOptions,
    books: &BTreeMap<NamespacedName, Books>,
) -> BTreeMap<NamespacedName, Deployment> {
    let mut sets: BTreeMap<NamespacedName, Vec<Arc<MachineSet>>> = BTreeMap::new();
    let mut deployment_of_set = BTreeMap::new();
    for (name, set) in snapshot.machine_sets.iter() {
        if let Some(owner) = owner_of(&set.metadata, "MachineDeployment", labels::DEPLOYMENT_NAME) {
            let owner = NamespacedName::new(name.namespace.clone(), owner);
            deployment_of_set.insert(name.clone(), owner.clone());
            sets.entry(owner).or_default().push(Arc::clone(set));
        }
    }
    let mut machines: BTreeMap<&NamespacedName, Vec<Arc<Machine>>> = BTreeMap::new();
    for (name, machine) in snapshot.machines.iter() {
        let set = owner_of(&machine.metadata, "MachineSet", labels::SET_NAME);
        let set = set.map(|set| NamespacedName::new(name.namespace.clone(), set));
        if let Some(owner) = set.and_then(|set| deployment_of_set.get(&set)) {
            machines.entry(owner).or_default().push(Arc::clone(machine));
        }
    }
    let in_scope =
        snapshot.machine_deployments.iter().filter(|(_, deployment)| options.scope.includes(deployment));
    in_scope
        .map(|(name, object)| {
            let mut facts: Facts = options.facts.get(name).cloned().unwrap_or_default();
            surface::learn(snapshot, object, options.origin, &mut facts);
            facts.claims_to_enter = books.get(name).map_or(0, |books| books.to_enter);
            let owned = Owned {
                machine_sets: sets.get(name).map(Vec::as_slice).unwrap_or_default(),
                machines: machines.get(name).map(Vec::as_slice).unwrap_or_default(),
            };
            let entry = offer(snapshot, object, owned, &facts, options.now);
            (name.clone(), Deployment { object: Arc::clone(object), entry })
        })
        .collect()
}

/// What a MachineDeployment made.
#[derive(Clone, Copy, Debug)]
pub struct Owned<'a> {
    /// Its MachineSets.
    pub machine_sets: &'a [Arc<MachineSet>],
    /// Its Machines.
    pub machines: &'a [Arc<Machine>],
}

/// What a MachineDeployment offers, with its MachineSets and Machines as they were read, and its Cluster and infrastructure template
/// from the picture.
pub fn offer(
    snapshot: &Snapshot,
    deployment: &MachineDeployment,
    owned: Owned<'_>,
    facts: &Facts,
    now: Timestamp,
) -> CatalogEntry {
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    let cluster = NamespacedName::new(namespace, deployment.spec.cluster_name.clone());
    let reference = &deployment.spec.template.spec.infrastructure_ref;
    catalog(&CatalogInput {
        machine_deployment: deployment,
        infrastructure_template: snapshot.infrastructure_template(namespace, reference).map(Arc::as_ref),
        machine_sets: owned.machine_sets,
        machines: owned.machines,
        cluster: snapshot.clusters.get(&cluster).map(Arc::as_ref),
        facts,
        now,
    })
}

/// As [`offer`], all of it from the picture of a live cluster; for many MachineDeployments at once, [`super::provisioning_input`] is quicker.
pub fn offer_of(
    snapshot: &Snapshot,
    deployment: &MachineDeployment,
    facts: &Facts,
    now: Timestamp,
) -> CatalogEntry {
    let name = deployment.metadata.name.as_deref();
    let namespace = &deployment.metadata.namespace;
    let is_owned = |meta: &ObjectMeta| {
        meta.namespace == *namespace
            && meta.labels.as_ref().and_then(|all| all.get(labels::DEPLOYMENT_NAME)).map(String::as_str)
                == name
    };
    let machine_sets: Vec<_> =
        snapshot.machine_sets.values().filter(|set| is_owned(&set.metadata)).cloned().collect();
    let machines: Vec<_> =
        snapshot.machines.values().filter(|machine| is_owned(&machine.metadata)).cloned().collect();
    let owned = Owned { machine_sets: &machine_sets, machines: &machines };
    let mut facts = facts.clone();
    surface::learn(snapshot, deployment, Origin::Cluster, &mut facts);
    offer(snapshot, deployment, owned, &facts, now)
}

/// What each MachineDeployment's claims will still do to its replicas, by the rules of the ledger.
pub(super) fn books(snapshot: &Snapshot) -> BTreeMap<NamespacedName, Books> {
    let mut all: BTreeMap<NamespacedName, Books> = BTreeMap::new();
    for claim in snapshot.node_claims.values().filter(|claim| claim.spec.node_class_ref.is_ours()) {
        let Some(name) = assigned(claim) else { continue };
        let Some(deployment) = snapshot.machine_deployments.get(&name) else {
            continue;
        };
        let counted = surface::ledger(snapshot, deployment).contains(&Entry::of(claim)) || was_bound(claim);
        let deleting = claim.metadata.deletion_timestamp.is_some();
        let takes_no_replica = [annotations::ADOPT, annotations::REPLACES]
            .iter()
            .any(|key| annotation(&claim.metadata, key).is_some());
        let released = annotation(&claim.metadata, annotations::RELEASE) == Some("true");
        let books = all.entry(name).or_default();
        match (counted, deleting) {
            (false, false) if !takes_no_replica => books.to_enter += 1,
            (true, true) if !released => books.to_leave += 1,
            _ => {}
        }
    }
    all
}

/// Whether a Machine was ever bound to the claim: such a claim never enters a ledger again.
fn was_bound(claim: &NodeClaim) -> bool {
    bound(claim).is_some() || claim.status.as_ref().is_some_and(|status| status.provider_id.is_some())
}

/// Name of the owner that controls the object; a hand-written file may have only Cluster API's label.
fn owner_of<'a>(metadata: &'a ObjectMeta, kind: &str, label: &str) -> Option<&'a str> {
    let owner = controller_of_kind(metadata, kind).map(|owner| owner.name.as_str());
    owner.or_else(|| metadata.labels.as_ref()?.get(label).map(String::as_str))
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}
