//! What topology allows of a claim: for each topology key the domains that it may be in.

use super::bits::Bits;
use super::place::Errand;
use super::shape::Ruling;
use super::states::StateId;
use super::topology::Rule;
use super::world::World;
use karpenter_capi_model::requirement::Requirement;
use std::cmp::Ordering;

/// What is decided about one key.
struct Choice {
    /// Domains that are allowed, and that a machine of the state may be in.
    allowed: Bits,
    /// A machine without the label will do.
    bare: bool,
    /// It has to be one of them, as each further pod counts.
    single: bool,
}

impl World<'_> {
    /// The states that a claim of `state` would have with the pod in it, what is wanted most first; none: it can't take the pod now.
    pub(super) fn targets(&mut self, state: StateId, errand: Errand) -> Vec<StateId> {
        let shape = &self.shapes[errand.shape];
        let level = &shape.levels[errand.level];
        let mut keys: Vec<usize> = level.by_key.iter().filter_map(|ruling| ruling.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut targets = vec![state];
        for key in keys {
            targets = targets.into_iter().flat_map(|state| self.targets_by(state, errand, key)).collect();
        }
        targets
    }

    fn targets_by(&mut self, state: StateId, errand: Errand, key: usize) -> Vec<StateId> {
        let choice = self.choose(state, errand, key);
        let (possible, may_lack) = {
            let state = self.states.get(state);
            (&state.domains[key], state.absent[key])
        };
        let untouched = choice.allowed == *possible && choice.bare == may_lack;
        let ways = choice.allowed.count() + usize::from(choice.bare);
        if untouched && (ways == 1 || !choice.single) {
            return vec![state];
        }
        if choice.single {
            return self.singles(state, errand, key, &choice);
        }
        let mut found = Vec::new();
        if !choice.allowed.is_empty() {
            let values: Vec<&str> = choice.allowed.iter().map(|domain| self.domains.value(key, domain)).collect();
            let within = Requirement::one_of(self.domains.name(key), &values);
            found.extend(self.required(state, within));
        }
        if choice.bare {
            found.extend(self.required(state, Requirement::does_not_exist(self.domains.name(key))));
        }
        found.sort_by_key(|state| self.states.get(*state).slots.first());
        found
    }

    fn choose(&self, state: StateId, errand: Errand, key: usize) -> Choice {
        let shape = &self.shapes[errand.shape];
        let rulings = shape.levels[errand.level].by_key.iter().filter(|ruling| ruling.key == Some(key));
        let state = self.states.get(state);
        let mut choice = Choice {
            allowed: state.domains[key].clone(),
            bare: state.absent[key],
            single: false,
        };
        for ruling in rulings {
            let group = self.group_of(ruling);
            let refused: Vec<usize> =
                choice.allowed.iter().filter(|domain| !ruling.constraint.allows(group, *domain)).collect();
            refused.into_iter().for_each(|domain| choice.allowed.remove(domain));
            choice.bare &= !ruling.constraint.needs_label();
            choice.single |= matches!(ruling.constraint.rule, Rule::Spread { .. });
        }
        choice
    }

    /// One state for each domain: the emptiest first where pods are spread, then what is launched cheapest.
    fn singles(&mut self, state: StateId, errand: Errand, key: usize, choice: &Choice) -> Vec<StateId> {
        let mut domains: Vec<usize> = choice.allowed.iter().collect();
        let spreads: Vec<Ruling> = self.shapes[errand.shape].levels[errand.level]
            .by_key
            .iter()
            .filter(|ruling| ruling.key == Some(key) && matches!(ruling.constraint.rule, Rule::Spread { .. }))
            .copied()
            .collect();
        let number = self.states.get(state).template;
        let world = &*self;
        let counts = |domain: usize| spreads.iter().map(move |ruling| world.group_of(ruling).count(domain));
        let cheapest = |domain| world.domains.slots(number, key, domain).first_common(&world.states.get(state).slots);
        domains.sort_by(|a, b| match counts(*a).cmp(counts(*b)) {
            Ordering::Equal => cheapest(*a).cmp(&cheapest(*b)).then(a.cmp(b)),
            unequal => unequal,
        });
        let mut found = Vec::new();
        for domain in domains {
            let pin = self.pin(key, domain);
            found.extend(self.states.with(&self.templates, &self.domains, state, pin));
        }
        if choice.bare {
            found.extend(self.required(state, Requirement::does_not_exist(self.domains.name(key))));
        }
        found
    }

    fn required(&mut self, state: StateId, requirement: Requirement) -> Option<StateId> {
        let wanted = self.states.number(&std::iter::once(requirement).collect());
        self.states.with(&self.templates, &self.domains, state, wanted)
    }
}
