//! What claims require, each set of requirements once.
//!
//! Most claims of a solve require the same few things, and most pods add the same few to them. So the algebra of requirements and its
//! comparison with every instance type are done once for each combination, and a claim only remembers the number of its state.

use super::bits::Bits;
use super::domains::Domains;
use super::template::{Template, conflict};
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Number of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StateId(u32);

/// Number of a set of requirements that is added to states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WantedId(u32);

/// What a claim of one NodePool requires.
pub(super) struct State {
    pub(super) template: usize,
    pub(super) requirements: Requirements,
    /// Slots that meet the requirements and can be had; never empty.
    pub(super) slots: Bits,
    /// For each topology key the domains that one of the slots may be in.
    pub(super) domains: Vec<Bits>,
    /// For each topology key whether one of the slots may have no such label.
    pub(super) absent: Vec<bool>,
    /// Some requirement has a minimum of values.
    pub(super) has_min_values: bool,
    /// A minimum was lowered.
    pub(super) relaxed: bool,
}

/// All states and how one comes from another.
#[derive(Default)]
pub(super) struct States {
    all: Vec<State>,
    /// By NodePool, requirements, and whether a minimum was lowered.
    numbers: FxHashMap<(usize, Requirements, bool), Option<StateId>>,
    next: FxHashMap<(StateId, WantedId), Option<StateId>>,
    wanted: Vec<Requirements>,
    wanted_numbers: FxHashMap<Requirements, WantedId>,
}

impl States {
    pub(super) fn get(&self, id: StateId) -> &State {
        &self.all[id.0 as usize]
    }

    pub(super) fn wanted(&self, id: WantedId) -> &Requirements {
        &self.wanted[id.0 as usize]
    }

    /// The number of a set of requirements.
    pub(super) fn number(&mut self, wanted: &Requirements) -> WantedId {
        if let Some(id) = self.wanted_numbers.get(wanted) {
            return *id;
        }
        let id = WantedId(u32::try_from(self.wanted.len()).unwrap_or(u32::MAX));
        self.wanted.push(wanted.clone());
        self.wanted_numbers.insert(wanted.clone(), id);
        id
    }

    /// The number of one requirement as a set.
    pub(super) fn number_of(&mut self, requirement: Requirement) -> WantedId {
        self.number(&std::iter::once(requirement).collect())
    }

    /// All keys that some set of requirements names.
    pub(super) fn keys(&self) -> BTreeSet<&str> {
        self.wanted.iter().flat_map(|wanted| wanted.iter().map(Requirement::key)).collect()
    }

    /// The state of a claim of this NodePool before any pod has asked for more; None where no machine meets the NodePool.
    pub(super) fn base(
        &mut self,
        templates: &[Template<'_>],
        domains: &Domains,
        template: usize,
    ) -> Option<StateId> {
        let all = &templates[template].available;
        let requirements = templates[template].pool.requirements.clone();
        let changed = requirements.clone();
        self.enter(templates, domains, (template, requirements, false), all.clone(), &changed)
    }

    /// The same state with other minima.
    pub(super) fn relaxed(&mut self, from: StateId, requirements: Requirements) -> StateId {
        let state = self.get(from);
        let key = (state.template, requirements.clone(), true);
        if let Some(Some(known)) = self.numbers.get(&key) {
            return *known;
        }
        let has_min_values = requirements.iter().any(|requirement| requirement.min_values().is_some());
        let relaxed = State {
            template: state.template,
            slots: state.slots.clone(),
            domains: state.domains.clone(),
            absent: state.absent.clone(),
            requirements,
            has_min_values,
            relaxed: true,
        };
        let id = self.add(relaxed);
        self.numbers.insert(key, Some(id));
        id
    }

    /// The state of a claim that a pod with these wishes joins; None where they can't be met.
    pub(super) fn with(
        &mut self,
        templates: &[Template<'_>],
        domains: &Domains,
        from: StateId,
        wanted: WantedId,
    ) -> Option<StateId> {
        if let Some(known) = self.next.get(&(from, wanted)) {
            return *known;
        }
        let next = self.find(templates, domains, from, wanted);
        self.next.insert((from, wanted), next);
        next
    }

    fn find(
        &mut self,
        templates: &[Template<'_>],
        domains: &Domains,
        from: StateId,
        wanted: WantedId,
    ) -> Option<StateId> {
        let (state, wanted) = (self.get(from), self.wanted(wanted));
        if wanted.is_empty() {
            return Some(from);
        }
        let template = &templates[state.template];
        if state.requirements.first_conflict(wanted, template.keys.of_types()).is_some() {
            return None;
        }
        let both = state.requirements.and(wanted);
        if both == state.requirements {
            return Some(from);
        }
        let mut changed = both.clone();
        changed.retain_keys(|key| wanted.contains_key(key));
        let (template, slots, relaxed) = (state.template, state.slots.clone(), state.relaxed);
        self.enter(templates, domains, (template, both, relaxed), slots, &changed)
    }

    fn add(&mut self, state: State) -> StateId {
        self.all.push(state);
        StateId(u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX))
    }

    /// The state with these requirements, of which `changed` are those that haven't been compared with the slots.
    fn enter(
        &mut self,
        templates: &[Template<'_>],
        domains: &Domains,
        key: (usize, Requirements, bool),
        mut slots: Bits,
        changed: &Requirements,
    ) -> Option<StateId> {
        if let Some(known) = self.numbers.get(&key) {
            return *known;
        }
        let template = &templates[key.0];
        keep_meeting(template, &mut slots, changed);
        let id = (!slots.is_empty()).then(|| {
            let (domains, absent) = domains.of(key.0, &key.1, &slots);
            let has_min_values = key.1.iter().any(|requirement| requirement.min_values().is_some());
            let requirements = key.1.clone();
            let relaxed = key.2;
            self.add(State { template: key.0, requirements, slots, domains, absent, has_min_values, relaxed })
        });
        self.numbers.insert(key, id);
        id
    }
}

/// Takes the slots away that don't meet the requirements.
fn keep_meeting(template: &Template<'_>, slots: &mut Bits, wanted: &Requirements) {
    // What no type decides and the NodePool has written is met by every type.
    let mut wanted = wanted.clone();
    wanted.retain_keys(|key| {
        template.keys.of_types().contains(key) || !template.keys.is_written_by(template.pool, key)
    });
    if wanted.is_empty() {
        return;
    }
    let mut types: Vec<Option<bool>> = vec![None; template.candidates.len()];
    let all: Vec<usize> = slots.iter().collect();
    for slot in all {
        let of_type = template.candidate(slot).of_type;
        let meets = |offering| conflict(of_type, offering, &wanted, template.pool, &template.keys).is_none();
        let type_meets = types[template.slots[slot].candidate].get_or_insert_with(|| meets(None));
        if !*type_meets || !meets(Some(template.offering(slot))) {
            slots.remove(slot);
        }
    }
}
