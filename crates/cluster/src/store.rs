//! Objects of one kind, with own writes assumed until the watch shows them.

use crate::object::HasMeta;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Objects by key; a snapshot shares the map until the next change.
pub(crate) type Objects<K, O> = Arc<BTreeMap<K, Arc<O>>>;

/// Own writes that the watch hasn't shown yet.
#[derive(Clone, Debug)]
pub(crate) struct Assumed<K>(BTreeMap<K, Assumption>);

#[derive(Clone, Debug)]
struct Assumption {
    uid: Option<String>,
    resource_version: Option<String>,
    at: Timestamp,
}

impl<K> Default for Assumed<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Assumed<K> {
    /// Takes what a write of ours returned. It stands until the watch shows the same or a newer version.
    pub(crate) fn assume<O: HasMeta>(&mut self, objects: &mut Objects<K, O>, key: K, object: Arc<O>, at: Timestamp) {
        let present = objects.get(&key).map(|present| present.meta());
        if present.is_some_and(|present| !is_older(present, object.meta())) {
            return;
        }
        let meta = object.meta();
        let assumption =
            Assumption { uid: meta.uid.clone(), resource_version: meta.resource_version.clone(), at };
        self.0.insert(key.clone(), assumption);
        Arc::make_mut(objects).insert(key, object);
    }

    /// Takes what the watch shows, unless an own write is known to be newer.
    pub(crate) fn apply<O: HasMeta>(&mut self, objects: &mut Objects<K, O>, key: K, object: Arc<O>) {
        if let Some(assumption) = self.0.get(&key) {
            if assumption.is_newer_than(object.meta()) {
                return;
            }
            self.0.remove(&key);
        }
        Arc::make_mut(objects).insert(key, object);
    }

    /// The watch shows a deletion. One of an earlier object of the same name doesn't touch an own write.
    pub(crate) fn remove<O: HasMeta>(&mut self, objects: &mut Objects<K, O>, key: &K, uid: Option<&str>) {
        if self.0.get(key).is_some_and(|assumption| uid.is_some() && assumption.uid.as_deref() != uid) {
            return;
        }
        self.0.remove(key);
        if objects.contains_key(key) {
            Arc::make_mut(objects).remove(key);
        }
    }

    /// The watch was started anew and shows only these: all others are gone, except own writes.
    pub(crate) fn retain<O: HasMeta>(&mut self, objects: &mut Objects<K, O>, keys: &BTreeSet<K>) {
        let gone: Vec<K> =
            objects.keys().filter(|key| !keys.contains(*key) && !self.0.contains_key(*key)).cloned().collect();
        if !gone.is_empty() {
            let objects = Arc::make_mut(objects);
            for key in gone {
                objects.remove(&key);
            }
        }
    }

    /// Gives up own writes made before that time: the watch missed creation and deletion alike. Returns whether there were any.
    pub(crate) fn expire<O: HasMeta>(&mut self, objects: &mut Objects<K, O>, before: Timestamp) -> bool {
        let old: Vec<K> =
            self.0.iter().filter(|(_, assumption)| assumption.at < before).map(|(key, _)| key.clone()).collect();
        for key in &old {
            self.0.remove(key);
            Arc::make_mut(objects).remove(key);
        }
        !old.is_empty()
    }
}

impl Assumption {
    fn is_newer_than(&self, meta: &ObjectMeta) -> bool {
        if self.uid != meta.uid {
            // Another object of the same name: what is created later has the greater version.
            return version(self.resource_version.as_deref()) > version(meta.resource_version.as_deref());
        }
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

/// Versions of one resource are decimal numbers that only grow; Kubernetes promises so since 1.35, and etcd did so before.
fn version(text: Option<&str>) -> Option<u128> {
    text?.parse().ok()
}
