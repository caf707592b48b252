//! Who is where before the first pod is placed, and what is added on nodes. What is added in claims is in [`super::settle`].

use super::bits::Bits;
use super::states::StateId;
use super::topology::{Field, Group};
use super::world::World;
use karpenter_capi_model::taint::{Taint, untolerated};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

impl World<'_> {
    /// For each spread over a key the domains that nodes which take part are in, or may be in. Spreads are many, filters few.
    pub(super) fn find_eligible(&mut self) {
        let mut by_filter: FxHashMap<usize, Vec<Bits>> = FxHashMap::default();
        for number in 0..self.groups.len() {
            let (Field::Key(key), filter) = (self.groups[number].field, self.groups[number].filter) else {
                continue;
            };
            let eligible = by_filter.entry(filter).or_insert_with(|| self.eligible(filter));
            self.groups[number].eligible.copy(&eligible[key]);
        }
    }

    /// For each topology key the domains of nodes that take part in spreads with this filter, those that exist and those to come.
    fn eligible(&mut self, filter: usize) -> Vec<Bits> {
        let keys = 0..self.domains.len();
        let mut eligible: Vec<Bits> = keys.clone().map(|key| Bits::empty(self.domains.count(key))).collect();
        for node in (0..self.nodes.len()).filter(|node| self.takes_part(filter, *node)) {
            for (key, domain) in self.classes[self.nodes[node].class].domains.iter().enumerate() {
                if let Some(domain) = domain {
                    eligible[key].insert(*domain);
                }
            }
        }
        for base in self.bases.clone().into_iter().flatten() {
            for state in self.filtered_states(filter, base) {
                for key in keys.clone() {
                    eligible[key].add_all(&self.states.get(state).domains[key]);
                }
            }
        }
        eligible
    }

    /// The states of claims that take part in spreads with this filter, of those that come from a state.
    fn filtered_states(&mut self, filter: usize, from: StateId) -> Vec<StateId> {
        let template = &self.templates[self.states.get(from).template];
        if let Some(tolerations) = &self.catalogues.filters[filter].tolerations {
            let slots = &self.states.get(from).slots;
            let tolerated = |taints: &[Taint]| untolerated(taints, tolerations, true).is_none();
            let some = slots.iter().any(|slot| tolerated(&template.candidate(slot).taints));
            if !tolerated(&template.pool.taints) || !some {
                return Vec::new();
            }
        }
        let alternatives = &self.filters[filter];
        if self.catalogues.filters[filter].alternatives.is_empty() {
            return vec![from];
        }
        let wanted = alternatives.iter().filter_map(|one| one.on_new().ok());
        wanted.filter_map(|wanted| self.states.with(&self.templates, &self.domains, from, wanted)).collect()
    }

    /// Whether a claim of this state takes part in spreads with this filter.
    pub(super) fn state_takes_part(&mut self, filter: usize, state: StateId) -> bool {
        if filter == 0 {
            return true;
        }
        if let Some(known) = self.filtered.get(&(filter, state)) {
            return *known;
        }
        let takes_part = !self.filtered_states(filter, state).is_empty();
        self.filtered.insert((filter, state), takes_part);
        takes_part
    }

    /// Whether a node takes part in spreads with this filter.
    fn takes_part(&self, filter: usize, node: usize) -> bool {
        let (filter, node) = (&self.catalogues.filters[filter], self.nodes[node].node);
        let bears = filter.tolerations.as_ref();
        bears.is_none_or(|tolerations| untolerated(&node.taints, tolerations, true).is_none())
            && (filter.alternatives.is_empty()
                || filter.alternatives.iter().any(|one| one.met_by(&node.labels).is_ok()))
    }

    /// Counts the pods that hold a place, but for those that look for another now.
    pub(super) fn count_bound(&mut self, repelling: &BTreeMap<&str, Vec<usize>>) {
        let moving: BTreeSet<&str> = self.input.pods.iter().map(|pod| pod.uid.as_str()).collect();
        let nodes: BTreeMap<&str, usize> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(index, existing)| (existing.node.name.as_str(), index))
            .collect();
        for (name, pods) in &self.input.bound_pods {
            let Some(node) = nodes.get(name.as_str()).copied() else { continue };
            for pod in pods.iter().filter(|pod| !moving.contains(pod.uid.as_str()) && !pod.is_terminal()) {
                if pod.deleting.is_none() {
                    for group in self.catalogues.groups.matching(pod, &self.input.namespaces) {
                        self.count_on_node(group, node);
                    }
                }
                for repulsion in repelling.get(pod.uid.as_str()).into_iter().flatten() {
                    self.repel_on_node(*repulsion, node);
                }
            }
        }
    }

    fn count_on_node(&mut self, group: usize, node: usize) {
        if self.takes_part(self.groups[group].filter, node) {
            let place = self.place_of(self.groups[group].field, node);
            count(&mut self.groups[group], place);
        }
    }

    fn repel_on_node(&mut self, repulsion: usize, node: usize) {
        let place = self.place_of(self.repulsions[repulsion].field, node);
        count(&mut self.repulsions[repulsion], place);
    }

    fn place_of(&self, field: Field, node: usize) -> Option<usize> {
        match field {
            Field::Host => Some(node),
            Field::Key(key) => self.classes[self.nodes[node].class].domains[key],
        }
    }

    /// Counts a pod that was placed on a node.
    pub(super) fn note_on_node(&mut self, shape: usize, node: usize) {
        for index in 0..self.shapes[shape].counted_by.len() {
            self.count_on_node(self.shapes[shape].counted_by[index], node);
        }
        for index in 0..self.shapes[shape].repels.len() {
            self.repel_on_node(self.shapes[shape].repels[index], node);
        }
    }
}

fn count(group: &mut Group, place: Option<usize>) {
    match place {
        Some(place) => group.add(place),
        None => group.add_nowhere(),
    }
}
