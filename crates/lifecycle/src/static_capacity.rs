//! NodePools with `spec.replicas`: how many claims are missing, and which are too many (upstream's static provisioning and
//! deprovisioning).

mod choice;

pub use choice::{Chosen, choose};

use crate::drain;
use crate::eviction_cost::eviction_cost;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use karpenter_capi_api::condition;
use karpenter_capi_api::names::{conditions, labels};
use karpenter_capi_api::v1::NodeClaim;
use std::cmp::Reverse;

/// The claims of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Those that stay.
    pub running: i64,
    /// Those that are being replaced; they stay until their successors are there.
    pub pending_disruption: i64,
    /// Those that are being deleted.
    pub deleting: i64,
}

/// Counts the claims of ours that belong to the pool of that name.
pub fn count<'a>(pool: &str, claims: impl IntoIterator<Item = &'a NodeClaim>) -> Count {
    let mut count = Count::default();
    for claim in claims.into_iter().filter(|claim| belongs_to(claim, pool)) {
        *match state(claim) {
            State::Running => &mut count.running,
            State::PendingDisruption => &mut count.pending_disruption,
            State::Deleting => &mut count.deleting,
        } += 1;
    }
    count
}

/// How many claims are to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Now.
    pub create: i64,
    /// More, as soon as `limits.nodes` lets them. What is being deleted counts for the limit until it is gone.
    pub held_back: i64,
}

/// What a pool of that many replicas lacks.
pub fn missing(replicas: i64, node_limit: Option<i64>, count: Count) -> Missing {
    let staying = count.running.saturating_add(count.pending_disruption);
    let wanted = replicas.saturating_sub(staying).max(0);
    let room = node_limit
        .map_or(wanted, |limit| limit.saturating_sub(staying).saturating_sub(count.deleting).max(0));
    let create = wanted.min(room);
    Missing { create, held_back: wanted - create }
}

/// A claim and the pods that its node holds.
#[derive(Clone, Debug)]
pub struct Holder<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// Pods that are bound to its Node.
    pub pods: Vec<&'a Pod>,
}

/// The claims that are to go so that `replicas` stay, in this order: those without a machine; those whose node has nothing but
/// daemons; those with pods that may be disrupted, before those with pods that may not; among these the ones that are cheapest to
/// move, and the less so the longer the node has still to live. Of equals the youngest, which has done least.
///
/// `holders` are all claims of the pool. Claims that are going or being replaced are neither counted nor chosen.
pub fn surplus<'a>(replicas: i64, holders: &[Holder<'a>], now: Timestamp) -> Vec<&'a NodeClaim> {
    let mut running: Vec<&Holder<'a>> =
        holders.iter().filter(|holder| state(holder.claim) == State::Running).collect();
    let too_many = running.len().saturating_sub(usize::try_from(replicas.max(0)).unwrap_or(usize::MAX));
    running.sort_by_cached_key(|holder| {
        let created = holder.claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (rank(holder, now), Reverse(created), holder.claim.metadata.name.clone())
    });
    running.into_iter().take(too_many).map(|holder| holder.claim).collect()
}

/// What losing a claim costs; in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Unlaunched,
    Empty,
    Occupied { protected: bool, cost: i128 },
}

fn rank(holder: &Holder<'_>, now: Timestamp) -> Rank {
    let launched = holder.claim.status.as_ref().is_some_and(|status| {
        status.provider_id.as_deref().is_some_and(|provider_id| !provider_id.is_empty())
    });
    if !launched {
        return Rank::Unlaunched;
    }
    let pods: Vec<&Pod> = holder.pods.iter().copied().filter(|pod| !drain::is_terminal(pod)).collect();
    let protected = pods.iter().any(|pod| drain::do_not_disrupt(pod, now));
    // The kubelet's own pods stay with the machine, as daemons do.
    if !protected && pods.iter().all(|pod| drain::is_daemon(pod) || drain::is_mirror(pod)) {
        return Rank::Empty;
    }
    let moving: i64 = pods.iter().fold(0, |sum, pod| sum.saturating_add(eviction_cost(pod)));
    Rank::Occupied { protected, cost: weighed(moving, holder.claim, now) }
}

/// The cost times the part of its life that the node has still before it, in millionths.
fn weighed(cost: i64, claim: &NodeClaim, now: Timestamp) -> i128 {
    const WHOLE: i128 = 1_000_000;
    let lifetime = claim.spec.expire_after.as_ref().and_then(|length| length.parse().ok().flatten());
    let lifetime = lifetime.map(|length| length.as_nanos()).filter(|length| *length > 0);
    let created = claim.metadata.creation_timestamp.as_ref();
    let remaining = match (lifetime, created) {
        (Some(lifetime), Some(created)) => {
            let age = now.duration_since(created.0).as_nanos();
            ((lifetime - age) * WHOLE / lifetime).clamp(0, WHOLE)
        }
        _ => WHOLE,
    };
    i128::from(cost) * remaining
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    PendingDisruption,
    Deleting,
}

fn state(claim: &NodeClaim) -> State {
    let is =
        |type_| claim.status.as_ref().is_some_and(|status| condition::is_true(&status.conditions, type_));
    if claim.metadata.deletion_timestamp.is_some() || is(conditions::INSTANCE_TERMINATING) {
        State::Deleting
    } else if is(conditions::DISRUPTION_REASON) {
        State::PendingDisruption
    } else {
        State::Running
    }
}

/// Whether the claim is ours and of the pool of that name.
pub fn belongs_to(claim: &NodeClaim, pool: &str) -> bool {
    let label = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
    claim.spec.node_class_ref.is_ours() && label.is_some_and(|name| name == pool)
}

#[cfg(test)]
mod tests;
