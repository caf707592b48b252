//! Objects of one kind, with own writes assumed until the watch shows them.

use crate::object::Keyed;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_model::name::NamespacedName;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Objects by namespace (empty for kinds without one) and name; a snapshot shares the map until the next change.
pub type Objects<O> = Arc<BTreeMap<NamespacedName, Arc<O>>>;

/// Own writes that the watch hasn't shown yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assumed(BTreeMap<NamespacedName, Assumption>);

#[derive(Clone, Debug)]
struct Assumption {
    uid: Option<String>,
    resource_version: Option<String>,
    at: Timestamp,
    /// The watch had shown no such object.
    created: bool,
}

impl Assumed {
    /// Takes what a write of ours returned. It stands until the watch shows the same or a newer version.
    pub(crate) fn assume<O: Keyed>(&mut self, objects: &mut Objects<O>, object: Arc<O>, at: Timestamp) {
        let key = object.key();
        let present = objects.get(&key).map(|present| present.meta());
        if present.is_some_and(|present| !is_older(present, object.meta())) {
            return;
        }
        let created = present.is_none() || self.0.get(&key).is_some_and(|assumption| assumption.created);
        let meta = object.meta();
        let assumption = Assumption {
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            at,
            created,
        };
        self.0.insert(key.clone(), assumption);
        Arc::make_mut(objects).insert(key, object);
    }

    /// Takes what the watch shows, unless an own write is known to be newer.
    pub(crate) fn apply<O: Keyed>(&mut self, objects: &mut Objects<O>, object: Arc<O>) {
        let key = object.key();
        if let Some(assumption) = self.0.get(&key) {
            if assumption.is_newer_than(object.meta()) {
                return;
            }
            self.0.remove(&key);
        }
        Arc::make_mut(objects).insert(key, object);
    }

    /// The watch shows a deletion. One of an earlier object of the same name doesn't touch an own write.
    pub(crate) fn remove<O: Keyed>(&mut self, objects: &mut Objects<O>, object: &O) {
        let (key, uid) = (object.key(), object.meta().uid.as_deref());
        if self.0.get(&key).is_some_and(|assumption| uid.is_some() && assumption.uid.as_deref() != uid) {
            return;
        }
        self.0.remove(&key);
        if objects.contains_key(&key) {
            Arc::make_mut(objects).remove(&key);
        }
    }

    /// The watch was started anew and shows only these: all others are gone, except own writes.
    pub(crate) fn retain<O: Keyed>(&mut self, objects: &mut Objects<O>, keys: &BTreeSet<NamespacedName>) {
        let stays = |key: &NamespacedName| keys.contains(key) || self.0.contains_key(key);
        if !objects.keys().all(stays) {
            Arc::make_mut(objects).retain(|key, _| stays(key));
        }
    }

    /// Gives up own writes made before that time: the watch missed creation and deletion alike.
    pub(crate) fn expire<O: Keyed>(&mut self, objects: &mut Objects<O>, before: Timestamp) {
        let old: Vec<_> = self.0.iter().filter(|(_, assumption)| assumption.at < before).collect();
        let gone: Vec<_> =
            old.iter().filter(|(_, assumption)| assumption.created).map(|(key, _)| *key).collect();
        if !gone.is_empty() {
            let objects = Arc::make_mut(objects);
            for key in gone {
                objects.remove(key);
            }
        }
        self.0.retain(|_, assumption| assumption.at >= before);
    }
}

impl Assumption {
    fn is_newer_than(&self, meta: &ObjectMeta) -> bool {
        match (version(self.resource_version.as_deref()), version(meta.resource_version.as_deref())) {
            (Some(own), Some(shown)) => own > shown,
            _ => false,
        }
    }
}

fn is_older(present: &ObjectMeta, own: &ObjectMeta) -> bool {
    match (version(present.resource_version.as_deref()), version(own.resource_version.as_deref())) {
        (Some(present), Some(own)) => present < own,
        _ => true,
    }
}

/// Versions of one kind are decimal numbers that only grow; Kubernetes promises so since 1.35, and with etcd it was so before.
fn version(text: Option<&str>) -> Option<u128> {
    text?.parse().ok()
}
