//! Where a pod goes: nodes first, then claims opened so far, then a claim of its own.

use super::amounts::fits;
use super::claim::Turn;
use super::domains::Domains;
use super::existing::{Verdict, conflict};
use super::fit::{Answer, Fit};
use super::query::{ClaimPart, Opening, Query};
use super::shape::{Level, Ruling, Shape};
use super::states::{StateId, States};
use super::targets::Allowed;
use super::template::Template;
use super::topology::Group;
use super::world::World;
use karpenter_capi_model::taint::untolerated;

/// Which claims a pod may join or open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prices {
    /// Those whose cheapest slot has a price then, or had none before.
    StayKnown,
    /// Any.
    Any,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Placed,
    NoPlace,
    /// Only reserved capacity would serve, and all of it is held: the pod waits, whatever else it could have.
    Waits,
}

/// A pod on its way.
#[derive(Clone, Copy)]
pub(super) struct Errand {
    pub(super) pod: usize,
    pub(super) shape: usize,
    pub(super) level: usize,
    pub(super) prices: Prices,
}

impl World<'_> {
    /// Finds a place for a pod, giving up its wishes one after the other.
    pub(super) fn place(&mut self, pod: usize) -> Outcome {
        let shape = self.shape_of[pod];
        let mut waits = None;
        for level in 0..self.shapes[shape].levels.len() {
            let mut query = std::mem::take(&mut self.queries[shape][level]);
            let outcome = self.place_at(pod, shape, level, waits.is_none(), &mut query);
            self.queries[shape][level] = query;
            match outcome {
                Outcome::NoPlace => {}
                Outcome::Waits => waits = waits.or(Some(level)),
                Outcome::Placed => {
                    if let Some(given_up) = &self.shapes[shape].levels[level].given_up {
                        self.warnings.given_up(self.pods[pod], given_up);
                    }
                    return Outcome::Placed;
                }
            }
        }
        self.waits_at[shape] = waits;
        waits.map_or(Outcome::NoPlace, |_| Outcome::Waits)
    }

    /// `may_open`: the pod doesn't wait for reserved capacity yet. Who waits takes what is there, but nothing new.
    fn place_at(
        &mut self,
        pod: usize,
        shape: usize,
        level: usize,
        may_open: bool,
        query: &mut Query,
    ) -> Outcome {
        if self.shapes[shape].levels[level].alternatives.is_empty() {
            return Outcome::NoPlace;
        }
        let errand = |prices| Errand { pod, shape, level, prices };
        self.settle_for(errand(Prices::Any));
        self.look_around(errand(Prices::Any), query);
        if let Some(node) = self.find_node(errand(Prices::Any), query) {
            self.put_on_node(pod, node);
            return Outcome::Placed;
        }
        let stages: &[Prices] =
            if self.some_unpriced { &[Prices::StayKnown, Prices::Any] } else { &[Prices::Any] };
        for prices in stages {
            if self.join(errand(*prices), query) {
                return Outcome::Placed;
            }
            if may_open {
                match self.open(errand(*prices), query) {
                    Outcome::NoPlace => {}
                    ended => return ended,
                }
            }
        }
        Outcome::NoPlace
    }

    pub(super) fn put_on_node(&mut self, pod: usize, node: usize) {
        let shape = self.shape_of[pod];
        self.nodes[node].place(self.input, self.pods[pod], &self.shapes[shape]);
        self.note_on_node(shape, node);
    }

    pub(super) fn group_of(&self, ruling: &Ruling) -> &Group {
        let groups = if ruling.repulsion { &self.repulsions } else { &self.groups };
        &groups[ruling.constraint.group]
    }

    pub(super) fn domains_allow(&self, level: &Level, domains: &[Option<usize>]) -> bool {
        level.by_key.iter().all(|ruling| match ruling.key.and_then(|key| domains[key]) {
            Some(domain) => ruling.constraint.allows(self.group_of(ruling), domain),
            None => !ruling.constraint.needs_label(),
        })
    }

    /// Whether a host is allowed by what is counted by host.
    pub(super) fn host_allows(&self, level: &Level, host: usize) -> Verdict {
        let mut verdict = Verdict::Yes;
        for ruling in &level.by_host {
            let group = self.group_of(ruling);
            if !ruling.constraint.allows(group, host) {
                if !ruling.constraint.may_change(group) {
                    return Verdict::Never;
                }
                verdict = Verdict::NotNow;
            }
        }
        verdict
    }

    /// Puts the pod into the first claim that takes it.
    fn join(&mut self, errand: Errand, query: &mut Query) -> bool {
        self.catch_up(errand, query);
        query.parts().iter_mut().for_each(ClaimPart::begin);
        while let Some((part, place)) = self.next_claim(query) {
            let part = &mut query.parts()[part];
            match self.claim_takes(errand, place.1, &part.joined, &part.targets) {
                Answer::Serves(fit) => {
                    self.put_in_claim(errand, place.1, &fit);
                    return true;
                }
                Answer::Never => part.pass(place),
                Answer::NotNow | Answer::Waits => part.put_off(place),
            }
        }
        false
    }

    fn catch_up(&mut self, errand: Errand, query: &mut Query) {
        let Self { shapes, states, templates, domains, .. } = self;
        let shape = &shapes[errand.shape];
        let mut joined = |state| joined(states, (templates, domains), shape, errand.level, state);
        query.catch_up((&self.lines, &self.claims, &self.log), &mut joined);
    }

    /// Looks up what topology allows, if anything has changed.
    fn look_around(&self, errand: Errand, query: &mut Query) {
        let rulings = &self.shapes[errand.shape].levels[errand.level].by_key;
        // Versions only grow, and so does their sum.
        let version = rulings.iter().map(|ruling| self.group_of(ruling).version).sum();
        if query.as_of != Some(version) {
            query.as_of = Some(version);
            query.allowed = self.allowed(errand);
        }
    }

    /// The claim whose turn it is, among those whose state allows the pod now.
    fn next_claim(&mut self, query: &mut Query) -> Option<(usize, (Turn, usize))> {
        loop {
            let mut next: Option<(usize, (Turn, usize))> = None;
            let as_of = query.as_of;
            let (allowed, parts) = query.allowed_and_parts();
            for (index, (part, line)) in parts.iter_mut().zip(&self.lines.all).enumerate() {
                if part.joined.is_empty() || (part.as_of == as_of && part.is_closed()) {
                    continue;
                }
                let Some(first) = part.first(line, &self.claims) else { continue };
                if next.is_none_or(|(_, turn)| first < turn)
                    && part.joined.iter().any(|state| self.may_target(*state, allowed))
                {
                    next = Some((index, first));
                }
            }
            let (index, _) = next?;
            let part = &mut parts[index];
            if part.as_of != as_of {
                part.as_of = as_of;
                part.targets = part.joined.iter().map(|state| self.targets(*state, allowed)).collect();
            }
            if !part.is_closed() {
                return next;
            }
        }
    }

    fn claim_takes(
        &mut self,
        errand: Errand,
        claim: usize,
        joined: &[StateId],
        targets: &[Vec<StateId>],
    ) -> Answer {
        let host = self.host(claim);
        if !fits(&self.shapes[errand.shape].requests, self.rooms.left(claim)) {
            return Answer::Never;
        }
        match self.host_allows(&self.shapes[errand.shape].levels[errand.level], host) {
            Verdict::Yes => {}
            Verdict::Never => return Answer::Never,
            Verdict::NotNow => return Answer::NotNow,
        }
        if conflict(self.shapes[errand.shape].ports, &self.claims[claim].ports) {
            return Answer::Never;
        }
        let answer = self.best(errand, Some(claim), joined, targets);
        if let Answer::Serves(fit) = &answer {
            let template = &self.templates[self.states.get(fit.state).template];
            let was_priced = self.claims[claim].slots.first().is_some_and(|slot| slot < template.priced);
            if errand.prices == Prices::StayKnown && was_priced && fit.first >= template.priced {
                return Answer::NotNow;
            }
        }
        answer
    }

    fn put_in_claim(&mut self, errand: Errand, claim: usize, fit: &Fit) {
        let shape = &self.shapes[errand.shape];
        let state = fit.state;
        let template = &self.templates[self.states.get(state).template];
        let own = &mut self.claims[claim];
        let is_new = own.pods.is_empty();
        let before = own.slots.first().filter(|_| !is_new).map(|slot| template.slots[slot].headroom);
        let stood = Some((own.state, own.turn)).filter(|_| !is_new);
        own.state = state;
        own.slots.copy(&self.scratch[0]);
        self.shared.headroom.hold(template.slots[fit.first].headroom, before);
        self.shared.reservations.hold(&mut own.held, &own.slots, template);
        own.ports.extend(shape.ports);
        own.pods.push(u32::try_from(errand.pod).unwrap_or(u32::MAX));
        let moment = i64::try_from(self.log.len()).unwrap_or(i64::MAX);
        own.turn = if is_new { Turn::first(moment) } else { own.turn.next(moment) };
        self.lines.put(claim, stood, (own.state, own.turn));
        self.rooms.add(claim, &shape.requests, template, &own.slots);
        self.log.push(claim);
        self.count_claim(stood.map(|(state, _)| state), state);
        self.note_in_claim(errand.shape, claim);
    }

    /// Opens a claim for the pod, of the first NodePool that can serve it.
    fn open(&mut self, errand: Errand, query: &mut Query) -> Outcome {
        if query.openings.is_none() {
            query.openings = Some(self.openings(errand));
        }
        let openings = query.openings.take().unwrap_or_default();
        let mut outcome = Outcome::NoPlace;
        for opening in &openings {
            match self.open_in(errand, opening, &query.allowed) {
                Outcome::NoPlace => {}
                ended => {
                    outcome = ended;
                    break;
                }
            }
        }
        query.openings = Some(openings);
        outcome
    }

    fn openings(&mut self, errand: Errand) -> Vec<Opening> {
        let mut openings = Vec::new();
        for template in 0..self.templates.len() {
            let Some(base) = self.bases[template] else { continue };
            let known = (&self.templates[..], &self.domains);
            let joined = joined(&mut self.states, known, &self.shapes[errand.shape], errand.level, base);
            if !joined.is_empty() {
                openings.push(Opening { template, joined });
            }
        }
        openings
    }

    fn open_in(&mut self, errand: Errand, opening: &Opening, allowed: &[Allowed]) -> Outcome {
        if self.templates[opening.template].is_full() || !self.new_host_will_do(errand) {
            return Outcome::NoPlace;
        }
        let targets: Vec<Vec<StateId>> =
            opening.joined.iter().map(|state| self.targets(*state, allowed)).collect();
        let fit = match self.best(errand, None, &opening.joined, &targets) {
            Answer::Serves(fit) => fit,
            Answer::Waits => return Outcome::Waits,
            Answer::Never | Answer::NotNow => return Outcome::NoPlace,
        };
        let template = &mut self.templates[opening.template];
        if errand.prices == Prices::StayKnown && fit.first >= template.priced {
            return Outcome::NoPlace;
        }
        template.limits.charge(&self.scratch[0]);
        template.nodes = template.nodes.saturating_add(1);
        let claim = self.opened(fit.state, self.scratch[0].clone());
        self.claims.push(claim);
        self.rooms.open();
        self.put_in_claim(errand, self.claims.len() - 1, &fit);
        Outcome::Placed
    }

    /// Whether a host that doesn't exist yet is allowed by what is counted by host.
    pub(super) fn new_host_will_do(&self, errand: Errand) -> bool {
        let level = &self.shapes[errand.shape].levels[errand.level];
        self.host_allows(level, self.host(self.claims.len())) == Verdict::Yes
    }
}

/// For each alternative that a claim of `state` can take, the state that follows; none where the pod doesn't tolerate the NodePool.
fn joined(
    states: &mut States,
    (templates, domains): (&[Template<'_>], &Domains),
    shape: &Shape<'_>,
    level: usize,
    state: StateId,
) -> Vec<StateId> {
    let level = &shape.levels[level];
    let taints = &templates[states.get(state).template].pool.taints;
    if untolerated(taints, &shape.sample.tolerations, level.prefer_too).is_some() {
        return Vec::new();
    }
    let wanted = level.alternatives.iter().filter_map(|one| one.on_new().ok());
    wanted.filter_map(|wanted| states.with(templates, domains, state, wanted)).collect()
}
