//! What a pod asks for, and in which order its wishes are given up.

use crate::input::PreferencePolicy;
use karpenter_capi_model::label::{HOSTNAME, restricted};
use karpenter_capi_model::pod::{Pod, PreferredTerm};
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use std::cmp::{Ordering, Reverse};

/// A pod and its levels of wishes.
pub(super) struct Demand<'a> {
    pub(super) pod: &'a Pod,
    /// Tried in order until one finds a place. The last one is what the pod can't do without.
    levels: Vec<Level>,
}

/// One set of wishes that hold together.
pub(super) struct Level {
    /// OR-ed: any of them will do. Sorted, so that the order in the manifest never matters. Empty: they contradict themselves.
    pub(super) alternatives: Vec<Alternative>,
    /// `PreferNoSchedule` taints are borne.
    pub(super) prefer_too: bool,
    /// What has been given up to come here; empty at first.
    pub(super) given_up: Option<String>,
}

/// One of the OR-ed alternatives.
pub(super) struct Alternative {
    /// What an existing node's labels must meet.
    pub(super) requirements: Requirements,
    /// What a node that doesn't exist yet must meet, where that differs or can't be had.
    on_new: OnNew,
}

enum OnNew {
    Same,
    /// Without the host name, which nothing can be known of.
    Without(Requirements),
    /// The requirement on a key that only a controller sets.
    Refused(Requirement),
}

impl Alternative {
    fn new(requirements: Requirements) -> Self {
        let refused = requirements.iter().find(|requirement| {
            restricted(requirement.key()).is_some() && !is_met_by_any_host_name(requirement)
        });
        let on_new = match refused {
            Some(requirement) => OnNew::Refused(requirement.clone()),
            None if requirements.contains_key(HOSTNAME) => {
                let mut without = requirements.clone();
                without.retain_keys(|key| key != HOSTNAME);
                OnNew::Without(without)
            }
            None => OnNew::Same,
        };
        Self { requirements, on_new }
    }

    /// What a new node must meet, or the requirement that none can.
    pub(super) fn on_new(&self) -> Result<&Requirements, &Requirement> {
        match &self.on_new {
            OnNew::Same => Ok(&self.requirements),
            OnNew::Without(without) => Ok(without),
            OnNew::Refused(requirement) => Err(requirement),
        }
    }
}

/// A host name that doesn't exist yet differs from every one that a pod can name.
fn is_met_by_any_host_name(requirement: &Requirement) -> bool {
    requirement.key() == HOSTNAME
        && !requirement.is_enumerated()
        && requirement.values().all(|value| value.parse::<i64>().is_err() || !requirement.has(value))
        && requirement.has("a-name-that-no-node-has-yet")
}

impl<'a> Demand<'a> {
    /// `tolerates_last`: some taint is `PreferNoSchedule`, so that bearing it is worth a last try.
    pub(super) fn new(pod: &'a Pod, policy: PreferencePolicy, tolerates_last: bool) -> Self {
        let hard = alternatives(pod);
        let mut levels = Vec::new();
        if policy == PreferencePolicy::Respect {
            let mut preferred: Vec<&PreferredTerm<Requirements>> =
                pod.preferred_node_affinity.iter().collect();
            preferred
                .sort_by(|a, b| Reverse(a.weight).cmp(&Reverse(b.weight)).then_with(|| a.term.cmp(&b.term)));
            for (index, wish) in preferred.iter().enumerate() {
                let alternatives = consistent(hard.iter().map(|requirements| requirements.and(&wish.term)));
                let given_up = index.checked_sub(1).and_then(|before| preferred.get(before));
                levels.push(Level {
                    alternatives,
                    prefer_too: false,
                    given_up: given_up.map(|wish| words(wish)),
                });
            }
        }
        let given_up = (!levels.is_empty()).then(|| "every preferred node affinity".to_owned());
        levels.push(Level { alternatives: consistent(hard.iter().cloned()), prefer_too: false, given_up });
        if tolerates_last {
            let given_up = Some("avoiding PreferNoSchedule taints".to_owned());
            levels.push(Level { alternatives: consistent(hard.into_iter()), prefer_too: true, given_up });
        }
        Self { pod, levels }
    }

    pub(super) fn levels(&self) -> &[Level] {
        &self.levels
    }
}

fn words(wish: &PreferredTerm<Requirements>) -> String {
    format!("preferred node affinity {} (weight {})", wish.term, wish.weight)
}

/// The node selector with each of the required terms.
pub(crate) fn alternatives(pod: &Pod) -> Vec<Requirements> {
    if pod.required_node_affinity.is_empty() {
        return vec![pod.node_selector.clone()];
    }
    pod.required_node_affinity.iter().map(|term| pod.node_selector.and(term)).collect()
}

/// Without those that contradict themselves; sorted, without duplicates.
fn consistent(all: impl Iterator<Item = Requirements>) -> Vec<Alternative> {
    let mut kept: Vec<Requirements> = all.filter(|one| one.contradiction().is_none()).collect();
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(Alternative::new).collect()
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
