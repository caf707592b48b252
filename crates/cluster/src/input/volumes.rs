//! Facts about the volumes that pods want to mount.

mod drivers;

use crate::object::PodRecord;
use crate::snapshot::{Snapshot, cluster_key};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use karpenter_capi_api::names::labels;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_scheduling::input::{VolumeClaim, Volumes};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Marks the class of claims that name none.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Facts about the claims of pods that want a place and of pods that hold one, and every node's attach limits.
pub fn volumes<'p>(
    snapshot: &Snapshot,
    wanting: &[Arc<PodRecord>],
    holding: impl IntoIterator<Item = &'p Arc<Pod>>,
) -> Volumes {
    let mut claims = BTreeMap::new();
    for record in wanting {
        for name in &record.model.volume_claims {
            if !claims.contains_key(name) {
                let ephemeral = ephemeral(record, name);
                claims.insert(name.clone(), judge(snapshot, name, ephemeral));
            }
        }
    }
    for name in holding.into_iter().flat_map(|pod| &pod.volume_claims) {
        if !claims.contains_key(name) {
            claims.insert(name.clone(), mounted(snapshot, name));
        }
    }
    Volumes { claims, attach_limits: attach_limits(snapshot) }
}

/// A claim that only pods in their places use: it takes one of their node's attachments, whatever else is wrong with it.
fn mounted(snapshot: &Snapshot, name: &NamespacedName) -> VolumeClaim {
    let spec = snapshot.persistent_volume_claims.get(name).and_then(|claim| claim.spec.as_ref());
    let volume = spec
        .and_then(|spec| spec.volume_name.as_deref())
        .and_then(|volume| snapshot.persistent_volumes.get(&cluster_key(volume)));
    let class = spec.and_then(|spec| spec.storage_class_name.as_deref());
    VolumeClaim::Usable {
        alternatives: Vec::new(),
        driver: volume
            .and_then(|volume| drivers::of_volume(volume))
            .or_else(|| driver_of_class(snapshot, class?)),
    }
}

fn driver_of_class(snapshot: &Snapshot, class: &str) -> Option<String> {
    drivers::of_class(snapshot.storage_classes.get(&cluster_key(class))?)
}

/// What the claim of an ephemeral volume will ask for; it is made only when the pod is there.
struct Ephemeral {
    storage_class: Option<String>,
}

/// The pod's ephemeral volume behind a claim's name.
fn ephemeral(record: &PodRecord, claim: &NamespacedName) -> Option<Ephemeral> {
    let volumes = record.object.spec.as_ref()?.volumes.as_deref().unwrap_or_default();
    let pod = &record.model.name.name;
    let volume = volumes
        .iter()
        .find(|volume| volume.ephemeral.is_some() && format!("{pod}-{}", volume.name) == claim.name)?;
    let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref();
    Some(Ephemeral { storage_class: template.and_then(|template| template.spec.storage_class_name.clone()) })
}

fn judge(snapshot: &Snapshot, name: &NamespacedName, ephemeral: Option<Ephemeral>) -> VolumeClaim {
    let verdict = match (snapshot.persistent_volume_claims.get(name), ephemeral) {
        (Some(claim), _) => of_claim(snapshot, name, claim),
        (None, Some(ephemeral)) => unbound(snapshot, name, ephemeral.storage_class.as_deref()),
        (None, None) => Err(format!("PersistentVolumeClaim {name} not found")),
    };
    verdict.unwrap_or_else(VolumeClaim::Unusable)
}

fn of_claim(
    snapshot: &Snapshot,
    name: &NamespacedName,
    claim: &PersistentVolumeClaim,
) -> Result<VolumeClaim, String> {
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(format!("PersistentVolumeClaim {name} is being deleted"));
    }
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost") {
        return Err(format!("PersistentVolumeClaim {name} has lost its volume"));
    }
    let spec = claim.spec.as_ref();
    match spec.and_then(|spec| spec.volume_name.as_deref()).filter(|volume| !volume.is_empty()) {
        // A bound claim needs no StorageClass any more.
        Some(volume) => {
            bound(snapshot, name, volume, spec.and_then(|spec| spec.storage_class_name.as_deref()))
        }
        None => unbound(snapshot, name, spec.and_then(|spec| spec.storage_class_name.as_deref())),
    }
}

fn bound(
    snapshot: &Snapshot,
    name: &NamespacedName,
    volume: &str,
    class: Option<&str>,
) -> Result<VolumeClaim, String> {
    let Some(object) = snapshot.persistent_volumes.get(&cluster_key(volume)) else {
        return Err(format!("PersistentVolume {volume} of PersistentVolumeClaim {name} not found"));
    };
    if object.metadata.deletion_timestamp.is_some() {
        return Err(format!("PersistentVolume {volume} of PersistentVolumeClaim {name} is being deleted"));
    }
    let driver = drivers::of_volume(object).or_else(|| driver_of_class(snapshot, class?));
    Ok(VolumeClaim::Usable { alternatives: places_of(object)?, driver })
}

/// The terms of a volume's node affinity. A local volume's host says nothing about a node that doesn't exist yet, so it is dropped;
/// where nothing else stood in the term, the volume may be anywhere.
fn places_of(volume: &PersistentVolume) -> Result<Vec<Requirements>, String> {
    let Some(spec) = &volume.spec else {
        return Ok(Vec::new());
    };
    let local = spec.local.is_some() || spec.host_path.is_some();
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let terms = required.map(|required| required.node_selector_terms.as_slice()).unwrap_or_default();
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    // A term without expressions selects no node, so it is no alternative.
    terms
        .iter()
        .filter(|term| {
            [&term.match_expressions, &term.match_fields]
                .into_iter()
                .any(|list| list.as_ref().is_some_and(|list| !list.is_empty()))
        })
        .map(|term| {
            let mut place = Requirements::from_term(term).map_err(|problems| {
                format!("PersistentVolume {name}: spec.nodeAffinity: {}", problems.join("; "))
            })?;
            if local {
                place.retain_keys(|key| key != labels::HOSTNAME);
            }
            Ok(place)
        })
        .collect()
}

/// A claim that waits for its first consumer may be made wherever its class allows.
fn unbound(snapshot: &Snapshot, name: &NamespacedName, class: Option<&str>) -> Result<VolumeClaim, String> {
    let class = match class {
        Some(class) => class.to_owned(),
        None => default_class(snapshot).ok_or_else(|| {
            format!(
                "PersistentVolumeClaim {name} is unbound and names no StorageClass, and there is no default"
            )
        })?,
    };
    let Some(object) = snapshot.storage_classes.get(&cluster_key(&class)) else {
        return Err(format!("StorageClass {class:?} of PersistentVolumeClaim {name} not found"));
    };
    if object.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer") {
        return Err(format!(
            "PersistentVolumeClaim {name} is unbound, and StorageClass {class} binds at once: it waits for its volume"
        ));
    }
    let terms = object.allowed_topologies.as_deref().unwrap_or_default();
    let place = |term: &k8s_openapi::api::core::v1::TopologySelectorTerm| -> Requirements {
        let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
        expressions
            .iter()
            .map(|expression| Requirement::one_of(labels::normalized(&expression.key), &expression.values))
            .collect()
    };
    Ok(VolumeClaim::Usable {
        alternatives: terms.iter().map(place).filter(|place| !place.is_empty()).collect(),
        driver: drivers::of_class(object),
    })
}

/// The newest class that is marked as default, as the API server chooses it; of equals the first by name.
fn default_class(snapshot: &Snapshot) -> Option<String> {
    let marked = snapshot.storage_classes.iter().filter(|(_, class)| {
        class
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(DEFAULT_CLASS))
            .is_some_and(|value| value == "true")
    });
    let created = |class: &k8s_openapi::api::storage::v1::StorageClass| {
        class.metadata.creation_timestamp.as_ref().map(|time| time.0)
    };
    let newest = marked.reduce(|best, next| if created(next.1) > created(best.1) { next } else { best });
    newest.map(|(name, _)| name.name.clone())
}

fn attach_limits(snapshot: &Snapshot) -> BTreeMap<String, BTreeMap<String, i64>> {
    let mut limits = BTreeMap::new();
    for (name, node) in snapshot.csi_nodes.iter() {
        let drivers =
            node.spec.drivers.iter().filter_map(|driver| {
                Some((driver.name.clone(), i64::from(driver.allocatable.as_ref()?.count?)))
            });
        let drivers: BTreeMap<String, i64> = drivers.collect();
        if !drivers.is_empty() {
            limits.insert(name.name.clone(), drivers);
        }
    }
    limits
}

#[cfg(test)]
mod tests;
