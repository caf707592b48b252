//! In which domain a claim will be: counted as soon as it is known, and decided as late as can be.
//!
//! A claim is left as open as its pods allow, so that more pods find a cheap machine together. Only when a pod asks what is where must the claims
//! be settled that have pods which it asks about; each then becomes what it would be launched as now.

use super::bits::Bits;
use super::place::Errand;
use super::states::StateId;
use super::topology::{Field, Group};
use super::world::World;
use karpenter_capi_model::requirement::Requirement;

impl World<'_> {
    /// Counts a pod that was placed in a claim, and those before it of which it has become known where they are.
    pub(super) fn note_in_claim(&mut self, shape: usize, claim: usize) {
        let host = self.host(claim);
        let mut open = std::mem::take(&mut self.claims[claim].unsettled);
        for index in 0..self.shapes[shape].counted_by.len() {
            let group = self.shapes[shape].counted_by[index];
            if self.state_takes_part(self.groups[group].filter, self.claims[claim].state) {
                match self.groups[group].field {
                    Field::Host => self.groups[group].add(host),
                    Field::Key(_) => open.push((false, group)),
                }
            }
        }
        for index in 0..self.shapes[shape].repels.len() {
            let repulsion = self.shapes[shape].repels[index];
            match self.repulsions[repulsion].field {
                Field::Host => self.repulsions[repulsion].add(host),
                Field::Key(_) => open.push((true, repulsion)),
            }
        }
        let known = open.len();
        self.count_known(claim, open);
        if known > 0 {
            for index in 0..self.claims[claim].unsettled.len() {
                let (repulsion, number) = self.claims[claim].unsettled[index];
                let group = if repulsion { &mut self.repulsions[number] } else { &mut self.groups[number] };
                if group.unsettled.last() != Some(&claim) {
                    group.unsettled.push(claim);
                }
            }
        }
    }

    /// Counts what can be counted of what is open in a claim; the rest stays open.
    fn count_known(&mut self, claim: usize, mut open: Vec<(bool, usize)>) {
        open.retain(|(repulsion, number)| {
            let field = if *repulsion { self.repulsions[*number].field } else { self.groups[*number].field };
            let whereabouts = field.key().map(|key| self.whereabouts(claim, key));
            let group = if *repulsion { &mut self.repulsions[*number] } else { &mut self.groups[*number] };
            match whereabouts {
                Some(Whereabouts::In(domain)) => group.add(domain),
                Some(Whereabouts::Nowhere) => group.add_nowhere(),
                _ => return true,
            }
            false
        });
        self.claims[claim].unsettled = open;
    }

    /// Settles the claims that have pods which this pod's rules ask about.
    pub(super) fn settle_for(&mut self, errand: Errand) {
        for index in 0..self.shapes[errand.shape].levels[errand.level].by_key.len() {
            let ruling = self.shapes[errand.shape].levels[errand.level].by_key[index];
            let Some(key) = ruling.key.filter(|_| ruling.required) else { continue };
            let all: &mut Vec<Group> = if ruling.repulsion { &mut self.repulsions } else { &mut self.groups };
            let mut open = std::mem::take(&mut all[ruling.constraint.group].unsettled);
            open.retain(|claim| {
                self.whereabouts(*claim, key) == Whereabouts::Open && !self.settle(*claim, key)
            });
            let all: &mut Vec<Group> = if ruling.repulsion { &mut self.repulsions } else { &mut self.groups };
            all[ruling.constraint.group].unsettled = open;
        }
    }

    /// Makes a claim what it would be launched as now, as far as the key goes; or the next best, where that would leave too little choice for
    /// a minimum of values. False where nothing would do.
    fn settle(&mut self, claim: usize, key: usize) -> bool {
        let state = self.claims[claim].state;
        let ways = self.ways(claim, key);
        ways.into_iter().any(|domain| {
            let pin = if let Some(domain) = domain {
                self.pin(key, domain)
            } else {
                let bare = Requirement::does_not_exist(self.domains.name(key));
                self.states.number_of(bare)
            };
            let pinned = self.states.with(&self.templates, &self.domains, state, pin);
            pinned.is_some_and(|pinned| self.become_pinned(claim, pinned))
        })
    }

    /// The domains that a claim may be in, None standing for none: the one where it would be launched now first.
    fn ways(&self, claim: usize, key: usize) -> Vec<Option<usize>> {
        let own = &self.claims[claim];
        let state = self.states.get(own.state);
        let template = state.template;
        let mut slots = own.slots.clone();
        if slots.intersects(&self.templates[template].reserved) {
            // What is reserved is launched first.
            slots.keep(&self.templates[template].reserved);
        }
        let of_domain = |domain: &usize| self.domains.slots(template, key, *domain);
        let mut domains: Vec<usize> =
            state.domains[key].iter().filter(|domain| of_domain(domain).intersects(&own.slots)).collect();
        domains.sort_by_key(|domain| {
            let first = of_domain(domain).first_common(&slots);
            (first.is_none(), first)
        });
        let mut ways: Vec<Option<usize>> = domains.into_iter().map(Some).collect();
        let first =
            ways.first().copied().flatten().and_then(|domain| of_domain(&domain).first_common(&slots));
        let mut bare = slots;
        state.domains[key].iter().for_each(|domain| bare.drop_all(of_domain(&domain)));
        if let Some(slot) = bare.first() {
            let cheapest = first.is_none_or(|first| slot < first);
            ways.insert(if cheapest { 0 } else { ways.len() }, None);
        }
        ways
    }

    fn become_pinned(&mut self, claim: usize, pinned: StateId) -> bool {
        let mut slots = self.claims[claim].slots.clone();
        slots.keep(&self.states.get(pinned).slots);
        if slots.is_empty() || self.with_min_values(Some(claim), pinned, &slots).is_none() {
            return false;
        }
        let template = &self.templates[self.states.get(pinned).template];
        let own = &mut self.claims[claim];
        let before = own.slots.first().map(|slot| template.slots[slot].headroom);
        if let Some(first) = slots.first() {
            self.shared.headroom.hold(template.slots[first].headroom, before);
        }
        let stood = Some((own.state, own.turn));
        let before = std::mem::replace(&mut own.state, pinned);
        own.slots = slots;
        own.turn = own.turn.changed();
        self.lines.put(claim, stood, (own.state, own.turn));
        self.shared.reservations.hold(&mut own.held, &own.slots, template);
        self.rooms.add(claim, &self.no_use, template, &own.slots);
        self.log.push(claim);
        self.count_claim(Some(before), pinned);
        let open = std::mem::take(&mut self.claims[claim].unsettled);
        self.count_known(claim, open);
        true
    }

    /// Counts a claim in the domains that its state has become bound to.
    pub(super) fn count_claim(&mut self, before: Option<StateId>, now: StateId) {
        if before == Some(now) {
            return;
        }
        for key in 0..self.domains.len() {
            let bound = |state: StateId| {
                let domains = &self.states.get(state).domains[key];
                domains.first().filter(|_| domains.count() == 1)
            };
            if let Some(domain) = bound(now).filter(|_| before.and_then(bound).is_none()) {
                self.claims_in[key][domain] += 1;
            }
        }
    }

    fn whereabouts(&self, claim: usize, key: usize) -> Whereabouts {
        let (claim, state) = (&self.claims[claim], self.states.get(self.claims[claim].state));
        if !state.absent[key] && state.domains[key].count() == 1 {
            return state.domains[key].first().map_or(Whereabouts::Nowhere, Whereabouts::In);
        }
        let slots = |domain: usize| self.domains.slots(state.template, key, domain);
        let mut possible = state.domains[key].iter().filter(|domain| slots(*domain).intersects(&claim.slots));
        let (first, second) = (possible.next(), possible.next());
        if second.is_some() {
            return Whereabouts::Open;
        }
        let bare = state.absent[key] && {
            let mut bare: Bits = claim.slots.clone();
            state.domains[key].iter().for_each(|domain| bare.drop_all(slots(domain)));
            !bare.is_empty()
        };
        match (first, bare) {
            (Some(domain), false) => Whereabouts::In(domain),
            (None, _) => Whereabouts::Nowhere,
            (Some(_), true) => Whereabouts::Open,
        }
    }
}

/// Where a claim will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    In(usize),
    /// It will not have the label.
    Nowhere,
    Open,
}
