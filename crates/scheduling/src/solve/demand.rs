//! What pods ask for, and in which order their wishes are given up.

use super::states::{States, WantedId};
use crate::input::PreferencePolicy;
use karpenter_capi_model::label::{HOSTNAME, restricted};
use karpenter_capi_model::pod::{Pod, PodAffinityTerm, PreferredTerm, TopologySpreadConstraint};
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use std::cmp::{Ordering, Reverse};

/// One set of wishes that hold together.
pub(super) struct Wishes<'a> {
    /// Wished node affinity: the heaviest that hasn't been given up.
    pub(super) node: Option<&'a Requirements>,
    /// Wished pod affinity.
    pub(super) near: Vec<&'a PodAffinityTerm>,
    /// Wished pod anti-affinity.
    pub(super) away: Vec<&'a PodAffinityTerm>,
    /// Spreads, required and wished.
    pub(super) spread: Vec<&'a TopologySpreadConstraint>,
    /// `PreferNoSchedule` taints are borne.
    pub(super) prefer_too: bool,
    /// What has been given up to come here; empty at first.
    pub(super) given_up: Option<String>,
}

/// The wishes of a pod, from all of them to what it can't do without, in upstream's order: pod affinity, pod anti-affinity, node affinity,
/// each the heaviest first; spreads; clean nodes (`prefers_last`: some taint is `PreferNoSchedule`).
pub(super) fn relaxations(pod: &Pod, policy: PreferencePolicy, prefers_last: bool) -> Vec<Wishes<'_>> {
    let respected = policy == PreferencePolicy::Respect;
    let mut near = heaviest_first(&pod.preferred_pod_affinity, respected);
    let mut away = heaviest_first(&pod.preferred_pod_anti_affinity, respected);
    let mut node = heaviest_first(&pod.preferred_node_affinity, respected);
    let mut spread: Vec<&TopologySpreadConstraint> =
        pod.topology_spread.iter().filter(|constraint| constraint.required || respected).collect();
    let mut all = Vec::new();
    let mut given_up = None;
    let terms = |wishes: &[&'_ PreferredTerm<PodAffinityTerm>]| wishes.len();
    loop {
        all.push(Wishes {
            node: node.first().map(|wish| &wish.term),
            near: near.iter().map(|wish| &wish.term).collect(),
            away: away.iter().map(|wish| &wish.term).collect(),
            spread: spread.clone(),
            prefer_too: false,
            given_up: given_up.take(),
        });
        let soft = spread.iter().position(|constraint| !constraint.required);
        given_up = if terms(&near) > 0 {
            Some(format!("preferred pod affinity over {}", words(near.remove(0))))
        } else if terms(&away) > 0 {
            Some(format!("preferred pod anti-affinity over {}", words(away.remove(0))))
        } else if !node.is_empty() {
            let wish = node.remove(0);
            Some(format!("preferred node affinity {} (weight {})", wish.term, wish.weight))
        } else if let Some(index) = soft {
            let constraint = spread.swap_remove(index);
            Some(format!("spread over {}", constraint.topology_key))
        } else {
            break;
        };
    }
    if prefers_last && let Some(last) = all.last() {
        let given_up = Some("avoiding PreferNoSchedule taints".to_owned());
        let spread = last.spread.clone();
        all.push(Wishes {
            node: None,
            near: Vec::new(),
            away: Vec::new(),
            spread,
            prefer_too: true,
            given_up,
        });
    }
    all
}

fn heaviest_first<T: Ord>(wishes: &[PreferredTerm<T>], respected: bool) -> Vec<&PreferredTerm<T>> {
    let mut sorted: Vec<&PreferredTerm<T>> = wishes.iter().filter(|_| respected).collect();
    sorted.sort_by(|a, b| Reverse(a.weight).cmp(&Reverse(b.weight)).then_with(|| a.term.cmp(&b.term)));
    sorted
}

fn words(wish: &PreferredTerm<PodAffinityTerm>) -> String {
    format!("{} (weight {})", wish.term.topology_key, wish.weight)
}

/// One of the OR-ed alternatives of what a node must be.
pub(super) struct Alternative {
    /// All but the host name.
    pub(super) wanted: WantedId,
    /// On the host name.
    pub(super) hostname: Option<Requirement>,
    /// A key that only a controller sets: no node that doesn't exist yet can be promised to meet it.
    refused: Option<Requirement>,
}

impl Alternative {
    fn new(requirements: Requirements, states: &mut States) -> Self {
        let refused = requirements.iter().find(|requirement| {
            restricted(requirement.key()).is_some() && !is_met_by_any_host_name(requirement)
        });
        let (refused, hostname) = (refused.cloned(), requirements.get(HOSTNAME).cloned());
        let mut without = requirements;
        without.retain_keys(|key| key != HOSTNAME);
        Self { wanted: states.number(&without), hostname, refused }
    }

    /// What a new node must meet, or the requirement that none can.
    pub(super) const fn on_new(&self) -> Result<WantedId, &Requirement> {
        match &self.refused {
            None => Ok(self.wanted),
            Some(requirement) => Err(requirement),
        }
    }

    /// All of these that don't contradict themselves; sorted, without duplicates.
    pub(super) fn all(all: impl Iterator<Item = Requirements>, states: &mut States) -> Vec<Self> {
        let mut kept: Vec<Requirements> = all.filter(|one| one.contradiction().is_none()).collect();
        kept.sort_unstable();
        kept.dedup();
        kept.into_iter().map(|one| Self::new(one, states)).collect()
    }
}

/// A host name that doesn't exist yet differs from every one that a pod can name.
fn is_met_by_any_host_name(requirement: &Requirement) -> bool {
    requirement.key() == HOSTNAME
        && !requirement.is_enumerated()
        && requirement.values().all(|value| value.parse::<i64>().is_err() || !requirement.has(value))
        && requirement.has("a-name-that-no-node-has-yet")
}

/// The node selector with each of the required terms.
pub(crate) fn alternatives(pod: &Pod) -> Vec<Requirements> {
    if pod.required_node_affinity.is_empty() {
        return vec![pod.node_selector.clone()];
    }
    pod.required_node_affinity.iter().map(|term| pod.node_selector.and(term)).collect()
}

/// The order in which pods are placed: CPU, then memory, larger first; then age, UID and name.
pub(super) fn order(a: &Pod, b: &Pod) -> Ordering {
    let size = |pod: &Pod| (Reverse(pod.requests.cpu()), Reverse(pod.requests.memory()));
    size(a)
        .cmp(&size(b))
        .then_with(|| a.created.cmp(&b.created))
        .then_with(|| a.uid.cmp(&b.uid))
        .then_with(|| a.name.cmp(&b.name))
}
