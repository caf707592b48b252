//! Which slots of a claim would serve it with one more pod.

use super::bits::Bits;
use super::claim::types;
use super::min_values;
use super::place::Errand;
use super::states::StateId;
use super::world::World;
use crate::input::{MinValuesPolicy, ReservedOfferingMode};
use karpenter_capi_model::taint::untolerated;

/// What a claim would be with a pod.
pub(super) struct Fit {
    pub(super) state: StateId,
    /// The slot that would be launched.
    pub(super) first: usize,
}

/// How a pod and a claim get on.
pub(super) enum Answer {
    /// The slots are in the first of the world's sets.
    Serves(Fit),
    /// Whatever else is placed.
    Never,
    NotNow,
    /// Only reserved capacity would serve, and others hold it.
    Waits,
}

impl Answer {
    /// The more hopeful of two refusals.
    const fn or(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Never, Self::NotNow | Self::Waits) | (Self::NotNow, Self::Waits) => other,
            _ => self,
        }
    }
}

impl World<'_> {
    /// What a claim (None: one to be opened) would be with the pod, the best over the pod's alternatives. `joined` are the states that follow
    /// from these, `targets` what topology allows of each.
    pub(super) fn best(
        &mut self,
        errand: Errand,
        claim: Option<usize>,
        joined: &[StateId],
        targets: &[Vec<StateId>],
    ) -> Answer {
        let mut worst = Answer::Never;
        let mut best: Option<Fit> = None;
        for (state, targets) in joined.iter().zip(targets) {
            if targets.is_empty() {
                worst = worst.or(Answer::NotNow);
                continue;
            }
            match self.fit(errand, claim, *state, targets) {
                Answer::Serves(fit) if best.as_ref().is_none_or(|best| fit.first < best.first) => {
                    self.scratch.swap(0, 1);
                    best = Some(fit);
                }
                other => worst = worst.or(other),
            }
        }
        best.map_or(worst, Answer::Serves)
    }

    /// As [`Self::best`] for one alternative; the slots are left in the second set.
    fn fit(&mut self, errand: Errand, claim: Option<usize>, joined: StateId, targets: &[StateId]) -> Answer {
        let mut slots = std::mem::take(&mut self.scratch[2]);
        let answer = self.narrow(errand, claim, joined, &mut slots);
        let answer = match answer {
            Some(refusal) => refusal,
            None => self.first_target(claim, targets, &slots),
        };
        self.scratch[2] = slots;
        answer
    }

    /// Leaves the slots that serve, topology aside; else why there are none.
    fn narrow(
        &mut self,
        errand: Errand,
        claim: Option<usize>,
        joined: StateId,
        slots: &mut Bits,
    ) -> Option<Answer> {
        let number = self.states.get(joined).template;
        let shape = &self.shapes[errand.shape];
        let prefer_too = shape.levels[errand.level].prefer_too;
        let template = &self.templates[number];
        slots.copy(&self.states.get(joined).slots);
        if let Some(claim) = claim {
            slots.keep(&self.claims[claim].slots);
            template.fit.keep_fitting(slots, self.rooms.used(claim), &shape.requests);
        } else {
            template.fit.keep_fitting(slots, &self.no_use, &shape.requests);
        }
        if !shape.ports.is_empty() {
            self.drop_daemon_ports(errand, number, slots);
        }
        if template.has_taints {
            let (tolerations, sample) = (shape.tolerations, shape.sample);
            let tolerated = self.tolerated.entry((number, tolerations, prefer_too)).or_insert_with(|| {
                let fine = |slot: &usize| {
                    untolerated(&template.candidate(*slot).taints, &sample.tolerations, prefer_too).is_none()
                };
                Bits::of(template.slots.len(), (0..template.slots.len()).filter(fine))
            });
            slots.keep(tolerated);
        }
        if slots.is_empty() {
            return Some(Answer::Never);
        }
        self.drop_scarce(claim, number, slots)
    }

    fn drop_daemon_ports(&self, errand: Errand, template: usize, slots: &mut Bits) {
        let template = &self.templates[template];
        let conflicts = |slot: usize| {
            let ports = &template.candidate(slot).daemon_ports;
            super::existing::conflict(self.shapes[errand.shape].ports, ports)
        };
        slots.retain(|slot| !conflicts(slot));
    }

    /// Takes the slots away that limits or maximum sizes forbid.
    fn drop_scarce(&self, claim: Option<usize>, template: usize, slots: &mut Bits) -> Option<Answer> {
        let template = &self.templates[template];
        if claim.is_none() {
            template.limits.keep_within(slots);
        }
        let own = claim.and_then(|claim| self.claims[claim].slots.first());
        self.shared.headroom.keep_allowed(
            slots,
            &template.slots,
            own.map(|slot| template.slots[slot].headroom),
        );
        slots.is_empty().then_some(Answer::NotNow)
    }

    /// Takes the slots away whose reservations others hold. In strict mode false where a claim would lose all that are reserved by that.
    fn keep_reserved(&self, claim: Option<usize>, target: StateId, slots: &mut Bits) -> bool {
        let reservations = &self.shared.reservations;
        if reservations.is_empty() {
            return true;
        }
        let template = &self.templates[self.states.get(target).template];
        let held = claim.map_or(&[][..], |claim| &self.claims[claim].held);
        let before = slots.intersects(&template.reserved);
        if before {
            reservations.keep_free(slots, &template.reserved, &template.slots, held);
        }
        let lost = (before || !held.is_empty()) && !slots.intersects(&template.reserved);
        !lost || self.input.options.reserved_offering_mode == ReservedOfferingMode::Fallback
    }

    /// The first of the states that topology allows that some of the slots meet.
    fn first_target(&mut self, claim: Option<usize>, targets: &[StateId], slots: &Bits) -> Answer {
        let mut refusal = Answer::NotNow;
        for target in targets {
            let mut left = std::mem::take(&mut self.scratch[1]);
            left.copy(slots);
            left.keep(&self.states.get(*target).slots);
            let free = left.is_empty() || self.keep_reserved(claim, *target, &mut left);
            let state =
                if left.is_empty() || !free { None } else { self.with_min_values(claim, *target, &left) };
            let first = self.launched(self.states.get(*target).template, &left);
            self.scratch[1] = left;
            if let (Some(state), Some(first)) = (state, first) {
                return Answer::Serves(Fit { state, first });
            }
            if !free {
                refusal = Answer::Waits;
            }
        }
        refusal
    }

    /// The slot of a NodePool that would be launched: what is reserved, where something is.
    pub(super) fn launched(&self, template: usize, slots: &Bits) -> Option<usize> {
        slots.first_common(&self.templates[template].reserved).or_else(|| slots.first())
    }

    /// The state, if enough different values are left, or for a claim to be opened the state with lower minima where that is asked for.
    pub(super) fn with_min_values(
        &mut self,
        claim: Option<usize>,
        target: StateId,
        slots: &Bits,
    ) -> Option<StateId> {
        let state = self.states.get(target);
        if !state.has_min_values {
            return Some(target);
        }
        let cap = self.input.options.max_instance_types;
        let types = types(&self.templates[state.template], slots);
        if min_values::select(&types, &state.requirements, cap).is_ok() {
            return Some(target);
        }
        if claim.is_some() || self.input.options.min_values_policy == MinValuesPolicy::Strict {
            return None;
        }
        let relaxed = min_values::relaxed(&types, &state.requirements, cap);
        Some(self.states.relaxed(target, relaxed))
    }
}
