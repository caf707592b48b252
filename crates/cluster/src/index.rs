//! The index that watches (or files) feed and snapshots are taken from.

use crate::object::{Kind, Object, each_kind};
use crate::snapshot::Snapshot;
use crate::store::Assumed;
use jiff::Timestamp;
use karpenter_capi_model::name::NamespacedName;
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Everything that is known of the cluster, for many writers and readers at once. No method waits for anything but the others.
///
/// Objects are shared with the snapshots; the first change of a kind after a snapshot copies that kind's map, not its objects.
#[derive(Debug, Default)]
pub struct Index(RwLock<Inner>);

#[derive(Debug, Default)]
struct Inner {
    current: Arc<Snapshot>,
    assumed: BTreeMap<Kind, Assumed>,
    synced: BTreeSet<Kind>,
    version: u64,
}

impl Index {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a watch shows: a new or changed object. An older version than an own write is passed over.
    pub fn apply(&self, object: impl Into<Object>) {
        self.0.write().apply(object.into());
    }

    /// What a watch shows: the object is gone.
    pub fn remove(&self, object: &Object) {
        self.0.write().remove(object);
    }

    /// What a write of ours returned. It counts at once, and until the watch shows the same or a newer version.
    pub fn assume(&self, object: impl Into<Object>, now: Timestamp) {
        self.0.write().assume(object.into(), now);
    }

    /// A watch of that kind was started anew and has shown exactly these objects: all others are gone, except own writes.
    pub fn retain(&self, kind: Kind, keys: &BTreeSet<NamespacedName>) {
        let mut inner = self.0.write();
        inner.retain(kind, keys);
        inner.synced.insert(kind);
    }

    /// Gives up own writes made before that time which no watch has shown: creation and deletion were both missed.
    pub fn expire_assumed(&self, before: Timestamp) {
        self.0.write().expire(before);
    }

    /// Whether every one of the kinds was shown completely once.
    pub fn is_synced(&self, kinds: impl IntoIterator<Item = Kind>) -> bool {
        let inner = self.0.read();
        kinds.into_iter().all(|kind| inner.synced.contains(&kind))
    }

    /// The picture now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.read().current)
    }

    /// Grows with every change.
    pub fn version(&self) -> u64 {
        self.0.read().version
    }
}

/// Takes what is in files.
impl FromIterator<Object> for Index {
    fn from_iter<I: IntoIterator<Item = Object>>(objects: I) -> Self {
        let mut inner = Inner::default();
        for object in objects {
            inner.apply(object);
        }
        Self(RwLock::new(inner))
    }
}

macro_rules! dispatch {
    ($($variant:ident($type:ty), $field:ident;)+) => {
        impl Inner {
            fn apply(&mut self, object: Object) {
                self.version += 1;
                let current = Arc::make_mut(&mut self.current);
                let assumed = self.assumed.entry(object.kind()).or_default();
                match object {
                    $(Object::$variant(object) => assumed.apply(&mut current.$field, object),)+
                }
            }

            fn remove(&mut self, object: &Object) {
                self.version += 1;
                let current = Arc::make_mut(&mut self.current);
                let assumed = self.assumed.entry(object.kind()).or_default();
                match object {
                    $(Object::$variant(object) => assumed.remove(&mut current.$field, object.as_ref()),)+
                }
            }

            fn assume(&mut self, object: Object, now: Timestamp) {
                self.version += 1;
                let current = Arc::make_mut(&mut self.current);
                let assumed = self.assumed.entry(object.kind()).or_default();
                match object {
                    $(Object::$variant(object) => assumed.assume(&mut current.$field, object, now),)+
                }
            }

            fn retain(&mut self, kind: Kind, keys: &BTreeSet<NamespacedName>) {
                self.version += 1;
                let current = Arc::make_mut(&mut self.current);
                let assumed = self.assumed.entry(kind).or_default();
                match kind {
                    $(Kind::$variant => assumed.retain(&mut current.$field, keys),)+
                }
            }

            fn expire(&mut self, before: Timestamp) {
                self.version += 1;
                let current = Arc::make_mut(&mut self.current);
                for (kind, assumed) in &mut self.assumed {
                    match kind {
                        $(Kind::$variant => assumed.expire(&mut current.$field, before),)+
                    }
                }
            }
        }
    };
}

each_kind!(dispatch);

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_capi_api::v1::NodeClaim;

    fn claim(name: &str, uid: &str, version: &str) -> NodeClaim {
        let mut claim = NodeClaim::new(name, karpenter_capi_api::v1::NodeClaimSpec::default());
        claim.metadata.uid = Some(uid.to_owned());
        claim.metadata.resource_version = Some(version.to_owned());
        claim
    }

    fn versions(index: &Index) -> Vec<String> {
        let claims = index.snapshot().node_claims.clone();
        claims.values().map(|claim| claim.metadata.resource_version.clone().unwrap()).collect()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_own_write_counts_before_the_watch_shows_it() {
        let index = Index::new();
        index.assume(claim("a", "u1", "9"), at(0));
        assert_eq!(versions(&index), ["9"]);
    }

    #[test]
    fn an_older_version_from_the_watch_does_not_undo_an_own_write() {
        let index = Index::new();
        index.apply(claim("a", "u1", "9"));
        index.assume(claim("a", "u1", "100"), at(0));
        index.apply(claim("a", "u1", "10"));
        assert_eq!(versions(&index), ["100"], "versions are numbers, not texts");
        index.apply(claim("a", "u1", "101"));
        index.apply(claim("a", "u1", "102"));
        assert_eq!(versions(&index), ["102"]);
    }

    #[test]
    fn a_write_that_the_watch_has_overtaken_is_not_assumed() {
        let index = Index::new();
        index.apply(claim("a", "u1", "12"));
        index.assume(claim("a", "u1", "11"), at(0));
        assert_eq!(versions(&index), ["12"]);
    }

    #[test]
    fn a_deletion_drops_an_own_write_of_the_same_object_only() {
        let index = Index::new();
        index.assume(claim("a", "u2", "20"), at(0));
        index.remove(&Object::from(claim("a", "u1", "19")));
        assert_eq!(versions(&index), ["20"], "the deletion is of an earlier object of that name");
        index.remove(&Object::from(claim("a", "u2", "21")));
        assert_eq!(versions(&index), [""; 0]);
    }

    #[test]
    fn own_writes_survive_a_new_list_until_they_expire() {
        let index = Index::new();
        index.apply(claim("gone", "u0", "1"));
        index.assume(claim("new", "u1", "5"), at(10));
        assert!(!index.is_synced([Kind::NodeClaim]));
        index.retain(Kind::NodeClaim, &BTreeSet::new());
        assert!(index.is_synced([Kind::NodeClaim]));
        assert_eq!(versions(&index), ["5"]);
        index.expire_assumed(at(10));
        assert_eq!(versions(&index), ["5"]);
        index.expire_assumed(at(11));
        assert_eq!(versions(&index), [""; 0]);
    }

    #[test]
    fn an_expired_change_of_a_known_object_leaves_the_object() {
        let index = Index::new();
        index.apply(claim("a", "u1", "1"));
        index.assume(claim("a", "u1", "2"), at(0));
        index.expire_assumed(at(99));
        assert_eq!(versions(&index), ["2"]);
    }

    #[test]
    fn a_snapshot_does_not_change_any_more() {
        let index = Index::new();
        index.apply(claim("a", "u1", "1"));
        let before = index.snapshot();
        index.apply(claim("b", "u2", "2"));
        assert_eq!((before.node_claims.len(), index.snapshot().node_claims.len()), (1, 2));
    }
}
