//! One pod for each DaemonSet.

use crate::snapshot::Snapshot;
use k8s_openapi::api::core::v1::LimitRange;
use karpenter_capi_model::daemon::from_daemon_set;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::pod::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;

/// By namespace and name of the DaemonSets.
pub(super) fn read(snapshot: &Snapshot) -> Vec<Arc<Pod>> {
    let live = newest(snapshot);
    let ranges: Vec<_> = snapshot.limit_ranges.iter().collect();
    let sets = snapshot.daemon_sets.iter().filter(|(_, set)| set.metadata.deletion_timestamp.is_none());
    sets.map(|(name, set)| {
        let in_namespace = ranges.iter().filter(|(range, _)| range.namespace == name.namespace);
        let in_namespace: Vec<&LimitRange> = in_namespace.map(|(_, range)| range.as_ref()).collect();
        let live = live.get(name).filter(|live| {
            let uid = set.metadata.uid.as_deref().unwrap_or_default();
            // A file may lack UIDs; where both are known, a pod of an earlier set of that name says nothing.
            uid.is_empty() || live.owner_uid.is_empty() || live.owner_uid == uid
        });
        Arc::new(from_daemon_set(set, live.map(|live| live.pod), &in_namespace))
    })
    .collect()
}

/// A pod of a DaemonSet.
struct Live<'a> {
    pod: &'a k8s_openapi::api::core::v1::Pod,
    owner_uid: &'a str,
    created: Option<jiff::Timestamp>,
}

/// The newest pod that isn't going, by DaemonSet; of equals the last by name.
fn newest(snapshot: &Snapshot) -> BTreeMap<NamespacedName, Live<'_>> {
    let mut found: BTreeMap<NamespacedName, Live<'_>> = BTreeMap::new();
    let living = snapshot.pods.values().filter(|record| {
        record.model.is_daemon() && !record.model.is_terminal() && record.model.deleting.is_none()
    });
    for record in living {
        let Some(owner) = &record.model.owner else {
            continue;
        };
        let set = NamespacedName::new(record.model.name.namespace.clone(), owner.name.clone());
        let candidate = Live { pod: &record.object, owner_uid: &owner.uid, created: record.model.created };
        if found.get(&set).is_none_or(|present| present.created <= candidate.created) {
            found.insert(set, candidate);
        }
    }
    found
}
