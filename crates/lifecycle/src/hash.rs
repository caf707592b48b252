//! The hash of a NodePool's template, by which a claim is known to be made from an older one.
//!
//! Byte for byte upstream's version `v3`: Go's `hashstructure` v2 (format 2, slices as sets, zero values ignored) over
//! `spec.template`, so that claims which upstream Karpenter made are taken over without being replaced. Requirements are not
//! hashed: whether a node still meets them is compared label by label.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Taint;
use karpenter_capi_api::condition;
use karpenter_capi_api::duration::DurationError;
use karpenter_capi_api::names::{annotations, conditions, labels};
use karpenter_capi_api::v1::{
    NodeClaim, NodeClaimTemplate, NodeClaimTemplateSpec, NodeClassReference, NodePool, ObjectMetaTemplate,
};

/// Annotations to be set, by key.
pub type Annotations = BTreeMap<String, String>;

/// Which hash annotations are to be written. Only keys whose value changes are named; all others stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashAnnotations {
    /// On NodeClaims, by name. They are written first: once the NodePool carries the new version, its claims count as migrated.
    pub node_claims: BTreeMap<String, Annotations>,
    /// On the NodePool, after every claim has been written.
    pub node_pool: Annotations,
}

impl HashAnnotations {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.node_claims.is_empty() && self.node_pool.is_empty()
    }
}

/// The hash of a NodePool's template, version [`annotations::NODEPOOL_HASH_VERSION_VALUE`]: a decimal number of 64 bits.
///
/// An `expireAfter` that isn't set is hashed as its default, which the API server fills in. A duration that can't be read (the
/// pool isn't valid then) is hashed by its text.
pub fn node_pool_hash(pool: &NodePool) -> String {
    template_hash(&pool.spec.template, ABSENT).to_string()
}

/// The hash annotations of a NodePool and its NodeClaims, brought up to date.
///
/// Where the NodePool carries another version, a new way of hashing has come with this program: claims get the new version, and
/// with it the new hash, lest the whole fleet look drifted. A claim that is Drifted keeps its hash, since it can't be told whether
/// it would be drifted by the new one. Claims of other pools are passed over; a pool of another node class is left alone.
pub fn hash_annotations<'a>(
    pool: &NodePool,
    claims: impl IntoIterator<Item = &'a NodeClaim>,
) -> HashAnnotations {
    let mut updates = HashAnnotations::default();
    let Some(pool_name) = &pool.metadata.name else {
        return updates;
    };
    if !pool.spec.template.spec.node_class_ref.is_ours() {
        return updates;
    }
    let hash = node_pool_hash(pool);
    let of_pool = pool.metadata.annotations.as_ref();
    if value(of_pool, annotations::NODEPOOL_HASH_VERSION) != Some(annotations::NODEPOOL_HASH_VERSION_VALUE) {
        for claim in claims {
            let belongs = value(claim.metadata.labels.as_ref(), labels::NODEPOOL) == Some(pool_name);
            let Some(name) = &claim.metadata.name else {
                continue;
            };
            if !belongs || !claim.spec.node_class_ref.is_ours() {
                continue;
            }
            let migrated = migrated(claim, &hash);
            if !migrated.is_empty() {
                updates.node_claims.insert(name.clone(), migrated);
            }
        }
    }
    updates.node_pool = changed(of_pool, &hash, true);
    updates
}

fn migrated(claim: &NodeClaim, hash: &str) -> Annotations {
    let present = claim.metadata.annotations.as_ref();
    if value(present, annotations::NODEPOOL_HASH_VERSION) == Some(annotations::NODEPOOL_HASH_VERSION_VALUE) {
        return Annotations::new();
    }
    let drifted = claim
        .status
        .as_ref()
        .is_some_and(|status| condition::is_true(&status.conditions, conditions::DRIFTED));
    changed(present, hash, !drifted)
}

/// Version and, if wanted, hash, as far as they aren't there yet.
fn changed(present: Option<&Annotations>, hash: &str, with_hash: bool) -> Annotations {
    let version = (annotations::NODEPOOL_HASH_VERSION, annotations::NODEPOOL_HASH_VERSION_VALUE);
    let hash = with_hash.then_some((annotations::NODEPOOL_HASH, hash));
    [Some(version), hash]
        .into_iter()
        .flatten()
        .filter(|(key, wanted)| value(present, key) != Some(*wanted))
        .map(|(key, wanted)| (key.to_owned(), wanted.to_owned()))
        .collect()
}

/// Whether a claim was made from another template than its NodePool has now (upstream's `NodePoolDrifted`).
///
/// "No" while the versions differ or one of the four annotations is missing. Also "no" where the hashes differ only since upstream
/// tells an empty list or map that is written out (`labels: {}`) from one that is missing: they mean the same.
pub fn template_changed(pool: &NodePool, claim: &NodeClaim) -> bool {
    let (of_pool, of_claim) = (pool.metadata.annotations.as_ref(), claim.metadata.annotations.as_ref());
    let both = |key| Some((value(of_pool, key)?, value(of_claim, key)?));
    let (Some(versions), Some(hashes)) =
        (both(annotations::NODEPOOL_HASH_VERSION), both(annotations::NODEPOOL_HASH))
    else {
        return false;
    };
    if versions.0 != versions.1 || hashes.0 == hashes.1 {
        return false;
    }
    // Other versions of the hash can only be compared, not computed.
    let computable = versions.0 == annotations::NODEPOOL_HASH_VERSION_VALUE;
    let spelled = |written| template_hash(&pool.spec.template, written).to_string() == hashes.1;
    !(computable && (ABSENT..=LABELS | ANNOTATIONS | TAINTS | STARTUP_TAINTS).any(spelled))
}

fn value<'a>(map: Option<&'a Annotations>, key: &str) -> Option<&'a str> {
    map?.get(key).map(String::as_str)
}

/// Which empty collections are hashed as being written out; in Go a missing one is nil, which is ignored as a zero value, whereas
/// an empty one is not.
type WrittenOut = u8;
const ABSENT: WrittenOut = 0;
const LABELS: WrittenOut = 1;
const ANNOTATIONS: WrittenOut = 2;
const TAINTS: WrittenOut = 4;
const STARTUP_TAINTS: WrittenOut = 8;

fn template_hash(template: &NodeClaimTemplate, written: WrittenOut) -> u64 {
    StructHash::new("NodeClaimTemplate")
        .field("ObjectMeta", metadata(&template.metadata, written))
        .field("Spec", Some(spec(&template.spec, written)))
        .0
}

fn metadata(metadata: &ObjectMetaTemplate, written: WrittenOut) -> Option<u64> {
    let labels = map(&metadata.labels, written & LABELS != 0);
    let annotations = map(&metadata.annotations, written & ANNOTATIONS != 0);
    if labels.is_none() && annotations.is_none() {
        return None;
    }
    Some(StructHash::new("ObjectMeta").field("Labels", labels).field("Annotations", annotations).0)
}

fn spec(spec: &NodeClaimTemplateSpec, written: WrittenOut) -> u64 {
    let grace = spec.termination_grace_period.as_ref();
    let grace = grace.map(|period| match duration(period.parse(), &period.0) {
        // `metav1.Duration` is a struct around the number, which as zero is left out.
        Ok(nanoseconds) => {
            StructHash::new("Duration").field("Duration", (nanoseconds != 0).then(|| number(nanoseconds))).0
        }
        Err(unreadable) => unreadable,
    });
    let expire_after = spec.effective_expire_after();
    let expire_after =
        expire_after.parse().transpose().map(|parsed| match duration(parsed, &expire_after.0) {
            // Here the struct holds a pointer to the number, so that zero is not left out.
            Ok(nanoseconds) => {
                StructHash::new("NillableDuration").field("Duration", Some(number(nanoseconds))).0
            }
            Err(unreadable) => unreadable,
        });
    StructHash::new("NodeClaimTemplateSpec")
        .field("Taints", taints(&spec.taints, written & TAINTS != 0))
        .field("StartupTaints", taints(&spec.startup_taints, written & STARTUP_TAINTS != 0))
        .field("NodeClassRef", Some(node_class_ref(&spec.node_class_ref)))
        .field("TerminationGracePeriod", grace)
        .field("ExpireAfter", expire_after)
        .0
}

fn node_class_ref(reference: &NodeClassReference) -> u64 {
    StructHash::new("NodeClassReference")
        .field("Kind", not_empty(&reference.kind))
        .field("Name", not_empty(&reference.name))
        .field("Group", not_empty(&reference.group))
        .0
}

/// Nanoseconds, or the hash of what can't be read.
fn duration(parsed: Result<SignedDuration, DurationError>, text: &str) -> Result<i64, u64> {
    let nanoseconds = parsed.ok().and_then(|parsed| i64::try_from(parsed.as_nanos()).ok());
    nanoseconds.ok_or_else(|| fnv(text.as_bytes()))
}

/// A slice as a set. Elements that are the same twice cancel each other out, as they do in Go.
fn taints(taints: &[Taint], written: bool) -> Option<u64> {
    let set = taints.iter().fold(0, |set, taint| set ^ self::taint(taint));
    (written || !taints.is_empty()).then_some(set)
}

fn taint(taint: &Taint) -> u64 {
    StructHash::new("Taint")
        .field("Key", not_empty(&taint.key))
        .field("Value", taint.value.as_deref().and_then(not_empty))
        .field("Effect", not_empty(&taint.effect))
        .field("TimeAdded", taint.time_added.as_ref().map(|added| time(added.0)))
        .0
}

/// `metav1.Time` around Go's binary form of a time in a controller whose local time is UTC: version 1, seconds since the year 1,
/// nanoseconds, and an offset of 0 minutes (not the −1 that says UTC, since the time is converted to local).
fn time(time: Timestamp) -> u64 {
    const YEAR_1_TO_1970: i64 = 62_135_596_800;
    const SECOND: i128 = 1_000_000_000;
    let nanoseconds = time.as_nanosecond();
    let seconds = i64::try_from(nanoseconds.div_euclid(SECOND)).unwrap_or_default();
    let fraction = u32::try_from(nanoseconds.rem_euclid(SECOND)).unwrap_or_default();
    let mut binary = vec![1];
    binary.extend(seconds.saturating_add(YEAR_1_TO_1970).to_be_bytes());
    binary.extend(fraction.to_be_bytes());
    binary.extend([0, 0]);
    StructHash::new("Time").field("Time", Some(fnv(&binary))).0
}

fn map(map: &BTreeMap<String, String>, written: bool) -> Option<u64> {
    let entries = map.iter().map(|(key, value)| ordered(fnv(key.as_bytes()), fnv(value.as_bytes())));
    let set = entries.fold(0, |set, entry| set ^ entry);
    (written || !map.is_empty()).then(|| finished(set))
}

fn not_empty(text: &str) -> Option<u64> {
    (!text.is_empty()).then(|| fnv(text.as_bytes()))
}

fn number(number: i64) -> u64 {
    fnv(&number.to_le_bytes())
}

/// The hash of a struct: its type's name, then its fields. Since the sum is finished after every field, their order counts.
struct StructHash(u64);

impl StructHash {
    fn new(type_name: &str) -> Self {
        Self(fnv(type_name.as_bytes()))
    }

    /// Adds a field, unless its value is Go's zero value.
    fn field(self, name: &str, value: Option<u64>) -> Self {
        value.map_or(Self(self.0), |value| Self(finished(self.0 ^ ordered(fnv(name.as_bytes()), value))))
    }
}

fn ordered(first: u64, second: u64) -> u64 {
    let mut bytes = first.to_le_bytes().to_vec();
    bytes.extend(second.to_le_bytes());
    fnv(&bytes)
}

fn finished(set: u64) -> u64 {
    fnv(&set.to_le_bytes())
}

/// FNV-1 (not FNV-1a) of 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte))
}

#[cfg(test)]
mod tests;
