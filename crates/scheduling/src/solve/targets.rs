//! What topology allows of a claim: for each topology key the domains that it may be in.

use super::bits::Bits;
use super::place::Errand;
use super::shape::Ruling;
use super::states::StateId;
use super::topology::Rule;
use super::world::World;
use karpenter_capi_model::instance_type::order_prices;
use karpenter_capi_model::requirement::Requirement;
use std::cmp::Ordering;

/// What the rules of a set of wishes say about one topology key, as things stand.
pub(super) struct Allowed {
    pub(super) key: usize,
    /// Domains that will do.
    pub(super) domains: Bits,
    /// A machine without the label will do.
    bare: bool,
    /// It has to be one of them, as each further pod counts.
    single: bool,
    /// For those who spread how many pods there are, by domain.
    crowds: Vec<u32>,
}

impl World<'_> {
    /// What the rules over topology keys allow now, by key.
    pub(super) fn allowed(&self, errand: Errand) -> Vec<Allowed> {
        let rulings = &self.shapes[errand.shape].levels[errand.level].by_key;
        let mut keys: Vec<usize> = rulings.iter().filter_map(|ruling| ruling.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let of_key = |key| rulings.iter().filter(move |ruling| ruling.key == Some(key));
        keys.into_iter().map(|key| self.allowed_by(key, of_key(key))).collect()
    }

    fn allowed_by<'r>(&self, key: usize, rulings: impl Iterator<Item = &'r Ruling>) -> Allowed {
        let count = self.domains.count(key);
        let mut allowed = Allowed {
            key,
            domains: Bits::of(count, 0..count),
            bare: true,
            single: false,
            crowds: vec![0; count],
        };
        for ruling in rulings {
            let group = self.group_of(ruling);
            let fewest = ruling.constraint.fewest(group);
            for domain in 0..count {
                if !ruling.constraint.allows_above(group, domain, fewest) {
                    allowed.domains.remove(domain);
                }
            }
            allowed.bare &= !ruling.constraint.needs_label();
            if matches!(ruling.constraint.rule, Rule::Spread { .. }) {
                // The first spread decides which domain is best; the others only what is allowed.
                if !allowed.single {
                    allowed.crowds = (0..count).map(|domain| group.count(domain)).collect();
                }
                allowed.single = true;
            }
        }
        allowed
    }

    /// Whether a claim of `state` might take the pod, as far as each key goes by itself.
    pub(super) fn may_target(&self, state: StateId, allowed: &[Allowed]) -> bool {
        let state = self.states.get(state);
        allowed.iter().all(|allowed| {
            state.domains[allowed.key].intersects(&allowed.domains)
                || (allowed.bare && state.absent[allowed.key])
        })
    }

    /// The states that a claim of `state` would have with the pod in it, what is wanted most first; none: it can't take the pod now.
    pub(super) fn targets(&mut self, state: StateId, allowed: &[Allowed]) -> Vec<StateId> {
        let mut targets = vec![state];
        for allowed in allowed {
            targets = targets.into_iter().flat_map(|state| self.targets_by(state, allowed)).collect();
        }
        targets
    }

    fn targets_by(&mut self, state: StateId, allowed: &Allowed) -> Vec<StateId> {
        let own = self.states.get(state);
        let (possible, may_lack) = (&own.domains[allowed.key], own.absent[allowed.key]);
        let mut left = possible.clone();
        left.keep(&allowed.domains);
        let bare = may_lack && allowed.bare;
        let untouched = left == *possible && bare == may_lack;
        let ways = left.count() + usize::from(bare);
        if untouched && ways > 0 && (ways == 1 || !allowed.single) {
            return vec![state];
        }
        if allowed.single {
            return self.singles(state, allowed, &left, bare);
        }
        let mut found = Vec::new();
        if !left.is_empty() {
            let values: Vec<&str> =
                left.iter().map(|domain| self.domains.value(allowed.key, domain)).collect();
            let within = Requirement::one_of(self.domains.name(allowed.key), &values);
            found.extend(self.required(state, within));
        }
        if bare {
            found.extend(self.required(state, Requirement::does_not_exist(self.domains.name(allowed.key))));
        }
        found.sort_by_key(|state| self.states.get(*state).slots.first());
        found
    }

    /// One state for each domain: the emptiest first where pods are spread, then what is launched cheapest.
    fn singles(&mut self, state: StateId, allowed: &Allowed, left: &Bits, bare: bool) -> Vec<StateId> {
        let key = allowed.key;
        let mut domains: Vec<usize> = left.iter().collect();
        let own = self.states.get(state);
        domains.sort_by(|a, b| {
            let crowds = allowed.crowds[*a].cmp(&allowed.crowds[*b]);
            crowds.then_with(|| self.better_domain((own.template, key), &own.slots, *a, *b))
        });
        let mut found = Vec::with_capacity(domains.len());
        for domain in domains {
            let pin = self.pin(key, domain);
            found.extend(self.states.with(&self.templates, &self.domains, state, pin));
        }
        if bare {
            found.extend(self.required(state, Requirement::does_not_exist(self.domains.name(key))));
        }
        found
    }

    /// Of two domains the one in which one of the slots is launched cheaper; of equals the one with fewer claims, so that domains fill
    /// evenly and pods that are bound to one find claims there.
    fn better_domain(&self, (template, key): (usize, usize), slots: &Bits, a: usize, b: usize) -> Ordering {
        let price = |domain| {
            let first = self.domains.slots(template, key, domain).first_common(slots);
            first.map(|slot| self.templates[template].offering(slot).price)
        };
        let order = match (price(a), price(b)) {
            (Some(a), Some(b)) => order_prices(a, b),
            (a, b) => a.is_none().cmp(&b.is_none()),
        };
        let claims = &self.claims_in[key];
        order.then_with(|| claims[a].cmp(&claims[b])).then(a.cmp(&b))
    }

    fn required(&mut self, state: StateId, requirement: Requirement) -> Option<StateId> {
        let wanted = self.states.number_of(requirement);
        self.states.with(&self.templates, &self.domains, state, wanted)
    }
}
