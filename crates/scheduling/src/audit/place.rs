//! Who is where when the plan has come true, and which topology domains that is.

use super::options::Machine;
use super::{Auditor, claims};
use crate::plan::PlannedNodeClaim;
use karpenter_capi_model::label::HOSTNAME;
use karpenter_capi_model::node::Node;
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::pod::{Pod, PodAffinityTerm};
use std::collections::{BTreeMap, BTreeSet};

/// Where pods are.
pub(super) enum Place<'a> {
    /// A node, or a claim in flight.
    Node(&'a Node),
    /// A claim of the plan.
    Claim { subject: String, claim: &'a PlannedNodeClaim, pool: &'a NodePool },
}

/// A pod in the final state.
pub(super) struct Resident<'a> {
    pub(super) pod: &'a Pod,
    /// Index into [`Residents::places`].
    pub(super) place: usize,
    /// The plan puts it there; else it holds the place already.
    pub(super) placed: bool,
}

/// What a node's label with a topology key is or may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Domains {
    /// The values that are possible.
    pub(super) values: BTreeSet<String>,
    /// The label may be absent: no domain.
    pub(super) may_lack: bool,
    /// Any other value is possible as well.
    pub(super) open: bool,
    /// The value under the option that will be launched.
    pub(super) chosen: Option<String>,
}

impl Domains {
    fn one(value: String) -> Self {
        Self { values: [value.clone()].into(), chosen: Some(value), ..Self::default() }
    }

    /// The only possible value.
    pub(super) fn pinned(&self) -> Option<&str> {
        let only = self.values.first().filter(|_| self.values.len() == 1);
        only.filter(|_| !self.may_lack && !self.open).map(String::as_str)
    }
}

/// The final state.
pub(super) struct Residents<'a> {
    pub(super) places: Vec<Place<'a>>,
    pub(super) all: Vec<Resident<'a>>,
    /// By topology key, for each place.
    domains: BTreeMap<String, Vec<Domains>>,
}

impl Residents<'_> {
    /// For each place what its label with a topology key may be.
    pub(super) fn domains(&self, key: &str) -> &[Domains] {
        self.domains.get(key).map_or(&[], Vec::as_slice)
    }

    pub(super) fn name_of(&self, place: usize) -> String {
        match self.places.get(place) {
            Some(Place::Node(node)) => node.name.clone(),
            Some(Place::Claim { subject, .. }) => subject.clone(),
            None => String::new(),
        }
    }
}

impl<'a> Auditor<'a> {
    /// Collects the final state. A pod that the plan is about doesn't hold its former place any more, and a terminal pod none.
    /// Domains are those of the topology keys of pods in it, and of one more.
    pub(super) fn residents(&self, also: Option<&str>) -> Residents<'a> {
        let mut places = Vec::new();
        let mut all = Vec::new();
        for node in &self.input.nodes {
            let place = places.len();
            places.push(Place::Node(node));
            let stays = |pod: &&Pod| !pod.is_terminal() && !self.pods.contains_key(&pod.name);
            all.extend(self.bound_to(node).filter(stays).map(|pod| Resident { pod, place, placed: false }));
            let placements = self.plan.placements.iter().filter(|placement| placement.node == node.name);
            let added = placements.flat_map(|placement| self.known(&placement.pods));
            all.extend(added.map(|pod| Resident { pod, place, placed: true }));
        }
        for (index, claim) in self.plan.node_claims.iter().enumerate() {
            if let Some(pool) = self.pool(&claim.node_pool) {
                let place = places.len();
                places.push(Place::Claim { subject: claims::subject(index, claim), claim, pool });
                all.extend(self.known(&claim.pods).into_iter().map(|pod| Resident {
                    pod,
                    place,
                    placed: true,
                }));
            }
        }
        let keys = topology_keys(&all).into_iter().chain(also);
        let domains = keys
            .map(|key| (key.to_owned(), places.iter().map(|place| self.domains_of(place, key)).collect()))
            .collect();
        Residents { places, all, domains }
    }

    /// A machine that doesn't exist yet has a host name of its own, and so has a claim in flight.
    fn domains_of(&self, place: &Place<'_>, key: &str) -> Domains {
        match place {
            Place::Node(node) => match node.labels.get(key) {
                Some(value) => Domains::one(value.clone()),
                None if key == HOSTNAME => Domains::one(node.name.clone()),
                None => Domains { may_lack: true, ..Domains::default() },
            },
            Place::Claim { subject, .. } if key == HOSTNAME => Domains::one(subject.clone()),
            Place::Claim { claim, pool, .. } => {
                let mut domains = Domains::default();
                for (index, option) in claim.options.iter().enumerate() {
                    let label = self.label_of(&Machine::of_option(claim, pool, option), key);
                    domains.may_lack |= label.allows_absence();
                    if label.is_enumerated() {
                        domains.values.extend(label.values().map(str::to_owned));
                    } else {
                        domains.open = true;
                    }
                    if index == 0 {
                        domains.chosen = label.single_value().map(str::to_owned);
                    }
                }
                domains
            }
        }
    }

    /// Whether a term of `owner` selects `other`: labels and namespace. A term without a selector selects nothing.
    pub(super) fn selects(&self, owner: &Pod, term: &PodAffinityTerm, other: &Pod) -> bool {
        if !term.selector.as_ref().is_some_and(|selector| selector.matches(&other.labels)) {
            return false;
        }
        let namespace = &other.name.namespace;
        let listed = term.namespaces.contains(namespace);
        match &term.namespace_selector {
            Some(selector) => {
                let none = BTreeMap::new();
                listed || selector.matches(self.input.namespaces.get(namespace).unwrap_or(&none))
            }
            None if term.namespaces.is_empty() => owner.name.namespace == *namespace,
            None => listed,
        }
    }
}

/// The topology keys that a required constraint of some pod names.
fn topology_keys<'p>(all: &[Resident<'p>]) -> BTreeSet<&'p str> {
    let mut keys = BTreeSet::new();
    for Resident { pod, .. } in all {
        let terms = pod.pod_affinity.iter().chain(&pod.pod_anti_affinity);
        keys.extend(terms.map(|term| term.topology_key.as_str()));
        let spread = pod.topology_spread.iter().filter(|constraint| constraint.required);
        keys.extend(spread.map(|constraint| constraint.topology_key.as_str()));
    }
    keys
}
