//! A claim that is being filled.
//!
//! A claim keeps every instance type that could still serve its pods; more pods narrow them. The cheapest is what will be
//! launched. What that means for scarce things:
//! * *Headroom* (maximum size of a MachineDeployment) is held for the cheapest type only. When a pod that joins moves the claim
//!   to another MachineDeployment, that one must have room, else the pod can't join; the first one's room is free again.
//!   A type without room at the time drops out of the claim.
//! * *Limits* of the NodePool are charged when the claim is opened, with the most of each resource that any of its types has,
//!   as upstream does: whatever the claim becomes, the limit holds. `limits.nodes` is charged with one.

use super::demand::{Alternative, Level};
use super::headroom::Headroom;
use super::min_values;
use super::template::{Ask, Candidate, Template};
use crate::input::{MinValuesPolicy, Options};
use crate::plan::{InstanceOption, PlannedNodeClaim};
use karpenter_capi_model::instance_type::{InstanceType, order_prices};
use karpenter_capi_model::label::restricted;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_model::taint::untolerated;
use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

/// A claim opened in this solve.
pub(super) struct Claim {
    /// Index of its NodePool.
    pub(super) template: usize,
    pub(super) pods: Vec<NamespacedName>,
    state: State,
    /// The most that any of its types has room for; a quick look before the long one.
    most_room: Resources,
}

/// What a claim is with a certain set of pods.
pub(super) struct State {
    requirements: Requirements,
    /// Of the pods, without DaemonSets.
    requests: Resources,
    /// Types that serve, best first; never empty.
    served: Vec<Served>,
    relaxed: bool,
}

/// A type that serves, with its best offering.
#[derive(Clone, Copy)]
struct Served {
    candidate: usize,
    offering: usize,
}

/// Which claims a pod may join or open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prices {
    /// Those whose cheapest type has a price then, or had none before.
    StayKnown,
    /// Any.
    Any,
}

/// What a claim is tried with.
pub(super) struct Attempt<'a> {
    pub(super) pod: &'a Pod,
    pub(super) level: &'a Level,
    pub(super) options: &'a Options,
    pub(super) headroom: &'a Headroom<'a>,
}

impl Attempt<'_> {
    /// A claim of this NodePool for the pod alone: the best over the pod's alternatives.
    pub(super) fn open(&self, template: &Template<'_>) -> Option<State> {
        if template.is_full() || self.is_repelled(template) {
            return None;
        }
        let all: Vec<usize> = (0..template.candidates.len()).collect();
        let base = &template.pool.requirements;
        let states = self.level.alternatives.iter().filter_map(|alternative| {
            let state = self.with(template, base, alternative, &self.pod.requests, &all, None)?;
            self.check_min_values(
                template,
                state,
                self.options.min_values_policy == MinValuesPolicy::BestEffort,
            )
        });
        best(template, states)
    }

    /// The claim with the pod: the best over the pod's alternatives.
    pub(super) fn join(&self, template: &Template<'_>, claim: &Claim) -> Option<State> {
        let requests = claim.state.requests.plus(&self.pod.requests);
        if !requests.fits(&claim.most_room) || self.is_repelled(template) {
            return None;
        }
        let among: Vec<usize> = claim.state.served.iter().map(|served| served.candidate).collect();
        let own = claim.held(template);
        let states = self.level.alternatives.iter().filter_map(|alternative| {
            let state =
                self.with(template, &claim.state.requirements, alternative, &requests, &among, own)?;
            let state = State { relaxed: claim.state.relaxed, ..state };
            self.check_min_values(template, state, false)
        });
        best(template, states)
    }

    fn is_repelled(&self, template: &Template<'_>) -> bool {
        untolerated(&template.pool.taints, &self.pod.tolerations, self.level.prefer_too).is_some()
    }

    /// What is left of the types `among` with this alternative. `own` is the headroom held already; None also means that the
    /// claim is new, so that limits are asked.
    fn with(
        &self,
        template: &Template<'_>,
        base: &Requirements,
        alternative: &Alternative,
        requests: &Resources,
        among: &[usize],
        own: Option<usize>,
    ) -> Option<State> {
        let wanted = alternative.on_new().ok()?;
        if base.first_conflict(wanted, template.keys.of_types()).is_some() {
            return None;
        }
        let requirements = base.and(wanted);
        let ask = Ask {
            requirements: &requirements,
            requests,
            tolerations: &self.pod.tolerations,
            prefer_too: self.level.prefer_too,
        };
        let mut served = Vec::new();
        for index in among {
            let Some(candidate) = template.candidates.get(*index) else {
                continue;
            };
            if !self.headroom.allows(candidate.headroom, own)
                || (own.is_none() && exceeds(template, candidate))
            {
                continue;
            }
            if let Ok(offering) = template.assess(candidate, &ask) {
                served.push(Served { candidate: *index, offering });
            }
        }
        served.sort_by(|a, b| order(template, *a, *b));
        let requests = requests.clone();
        (!served.is_empty()).then_some(State { requirements, requests, served, relaxed: false })
    }

    fn check_min_values(&self, template: &Template<'_>, mut state: State, may_relax: bool) -> Option<State> {
        let cap = self.options.max_instance_types;
        let types = types(template, &state.served);
        if min_values::select(&types, &state.requirements, cap).is_ok() {
            return Some(state);
        }
        if !may_relax {
            return None;
        }
        state.requirements = min_values::relaxed(&types, &state.requirements, cap);
        state.relaxed = true;
        Some(state)
    }
}

/// Whether a machine of this type would pass a limit of the NodePool.
fn exceeds(template: &Template<'_>, candidate: &Candidate<'_>) -> bool {
    template.pool.limits.exceeded(&template.used, &candidate.of_type.capacity).is_some()
}

/// The state whose first type is best; the earlier of equals.
fn best(template: &Template<'_>, states: impl Iterator<Item = State>) -> Option<State> {
    states.reduce(|best, state| {
        let better = match (state.served.first(), best.served.first()) {
            (Some(a), Some(b)) => order(template, *a, *b) == Ordering::Less,
            _ => false,
        };
        if better { state } else { best }
    })
}

/// Cheaper first, an unknown price last; then priority, then name.
fn order(template: &Template<'_>, a: Served, b: Served) -> Ordering {
    let (Some(one), Some(other)) =
        (template.candidates.get(a.candidate), template.candidates.get(b.candidate))
    else {
        return a.candidate.cmp(&b.candidate);
    };
    let price = |candidate: &Candidate<'_>, served: Served| {
        candidate.offering(served.offering).and_then(|offering| offering.price)
    };
    order_prices(price(one, a), price(other, b))
        .then_with(|| Reverse(one.of_type.priority).cmp(&Reverse(other.of_type.priority)))
        .then_with(|| one.of_type.name.cmp(&other.of_type.name))
        .then_with(|| one.of_type.machine_deployment.cmp(&other.of_type.machine_deployment))
}

fn types<'a>(template: &Template<'a>, served: &[Served]) -> Vec<&'a InstanceType> {
    let of =
        |served: &Served| template.candidates.get(served.candidate).map(|candidate| &**candidate.of_type);
    served.iter().filter_map(of).collect()
}

impl Claim {
    /// Opens a claim and charges the NodePool's limits.
    pub(super) fn open(index: usize, template: &mut Template<'_>, state: State, pod: &Pod) -> Self {
        let most = types(template, &state.served)
            .iter()
            .fold(Resources::ZERO, |most, of_type| most.max(&of_type.capacity));
        template.used.add(&most);
        template.nodes = template.nodes.saturating_add(1);
        let most_room = most_room(template, &state);
        Self { template: index, pods: vec![pod.name.clone()], state, most_room }
    }

    pub(super) fn add(&mut self, template: &Template<'_>, state: State, pod: &Pod) {
        self.most_room = most_room(template, &state);
        self.state = state;
        self.pods.push(pod.name.clone());
    }

    /// Whether the pod that would make it `next` leaves it with a price, if it has one.
    pub(super) fn stays_priced(&self, template: &Template<'_>, next: &State) -> bool {
        next.is_priced(template) || !self.state.is_priced(template)
    }

    /// The headroom that it holds: that of the type to launch.
    pub(super) fn held(&self, template: &Template<'_>) -> Option<usize> {
        self.state.held(template)
    }

    /// The finished claim, and which minima were lowered for it.
    pub(super) fn planned(self, template: &Template<'_>, options: &Options) -> PlannedNodeClaim {
        let State { mut requirements, requests, served, relaxed } = self.state;
        let all = types(template, &served);
        let kept = min_values::select(&all, &requirements, options.max_instance_types)
            .unwrap_or_else(|_| (0..all.len().min(options.max_instance_types.max(1))).collect());
        let kept: Vec<Served> = kept.into_iter().filter_map(|index| served.get(index).copied()).collect();
        let daemons = kept.iter().filter_map(|served| template.candidates.get(served.candidate));
        let daemon_requests =
            daemons.map(|candidate| candidate.daemons.clone()).reduce(|a, b| a.min(&b)).unwrap_or_default();
        requirements.retain_keys(|key| restricted(key).is_none());
        PlannedNodeClaim {
            node_pool: template.pool.name.clone(),
            requirements,
            requests: requests.plus(&daemon_requests),
            daemon_requests,
            pods: self.pods,
            options: kept.into_iter().filter_map(|served| option(template, served)).collect(),
            min_values_relaxed: relaxed,
        }
    }
}

impl State {
    /// Whether the price of its cheapest type is known.
    pub(super) fn is_priced(&self, template: &Template<'_>) -> bool {
        let offering = self
            .served
            .first()
            .and_then(|served| template.candidates.get(served.candidate)?.offering(served.offering));
        offering.is_some_and(|offering| offering.price.is_some())
    }

    pub(super) fn held(&self, template: &Template<'_>) -> Option<usize> {
        let first = self.served.first()?;
        template.candidates.get(first.candidate).map(|candidate| candidate.headroom)
    }
}

fn most_room(template: &Template<'_>, state: &State) -> Resources {
    let candidates = state.served.iter().filter_map(|served| template.candidates.get(served.candidate));
    candidates.fold(Resources::ZERO, |most, candidate| most.max(&candidate.most_room()))
}

fn option(template: &Template<'_>, served: Served) -> Option<InstanceOption> {
    let candidate = template.candidates.get(served.candidate)?;
    let offering = candidate.offering(served.offering)?.clone();
    Some(InstanceOption { instance_type: Arc::clone(candidate.of_type), offering })
}
