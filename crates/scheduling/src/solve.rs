//! The solver.
//!
//! Pods are taken in order of size. Each is tried, wish by wish, on existing nodes and claims in flight, on the claims opened
//! so far (fewest pods first), then with a new claim of the first NodePool that can serve it. A pod without a place goes to the
//! end of the queue, until a whole round brings nothing.

mod claim;
mod daemons;
mod demand;
mod existing;
mod headroom;
mod min_values;
mod reasons;
mod template;
mod warnings;

use crate::input::Input;
use crate::plan::{PendingPod, Plan};
use crate::screen::Screen;
use claim::{Attempt, Claim, Prices};
use daemons::Daemons;
use demand::{Demand, Level};
use existing::Existing;
use headroom::Headroom;
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::taint::{Taint, TaintEffect};
use std::collections::VecDeque;
use template::Template;

pub(crate) use demand::alternatives;

/// Decides for each pod of the input where it goes, or why it has no place. Never fails: what can't be read or judged is a
/// reason of the pods or NodePools that it concerns.
///
/// * NodePools are tried by weight, then by name, both descending; the first that can serve the pod makes the claim.
/// * A pod for which an earlier pass made a claim goes there, if it still fits, before any other pod is placed.
/// * A claim keeps every instance type that would serve its pods; the cheapest is what gets launched.
/// * A type without a price comes after all that have one: a pod opens a claim of its own rather than leave another claim with
///   such types only, as long as the new claim would have a price.
/// * Headroom is held for the cheapest type of each claim. A pod may join only if the type that is the cheapest then has
///   room; the hold moves along, and what it leaves is free for others in the same solve.
/// * A NodePool's limits are charged when a claim opens, with the most of each resource that any of its types has, so that
///   they hold whatever the claim becomes; `limits.nodes` is charged with one.
/// * A label that an instance type doesn't define is one that its nodes lack, unless the NodePool's template sets it, or its
///   requirements name a key that no instance type of the pool defines: then the operator writes it.
/// * Real machines that turned out smaller than promised lower what their MachineDeployment is expected to give.
pub fn solve(input: &Input) -> Plan {
    solve_while(input, &|| true)
}

/// As [`solve`], as long as `go_on` says so: it is asked again and again while pods are placed, and once it says no, the pods that
/// have no place yet are left with the reason `NotEvaluated`. What was placed until then is a plan that can be carried out.
pub fn solve_while(input: &Input, go_on: &dyn Fn() -> bool) -> Plan {
    let mut pods: Vec<&Pod> = input.pods.iter().map(|pod| &**pod).collect();
    pods.sort_by(|a, b| demand::order(a, b));
    let screen = Screen::new(input);
    let mut world = World::new(input);
    let mut queue = VecDeque::new();
    let mut pending = Vec::new();
    for (position, pod) in pods.into_iter().enumerate() {
        match screen.refuse(pod) {
            Some((code, message)) => pending.push((position, reasons::of_the_pod(pod, code, message))),
            None => queue.push_back((position, world.demand(pod))),
        }
    }
    let queue = world.place_nominated(queue);
    let mut left = world.place_all(queue, go_on);
    left.sort_by_key(|(position, _)| *position);
    for (position, demand) in &left {
        pending.push((*position, reasons::explain(&world, demand)));
    }
    pending.sort_by_key(|(position, _)| *position);
    world.into_plan(pending.into_iter().map(|(_, pending)| pending).collect())
}

/// Everything that changes while pods are placed.
struct World<'a> {
    input: &'a Input,
    nodes: Vec<Existing<'a>>,
    /// NodePools that are provisioned by pods, in the order of trial.
    pools: Vec<&'a NodePool>,
    /// The usable ones among them, in the same order.
    templates: Vec<Template<'a>>,
    headroom: Headroom<'a>,
    claims: Vec<Claim>,
    /// Indices of claims, fewest pods first; the order among equals is that of before.
    sequence: Vec<usize>,
    warnings: warnings::Warnings,
    /// Some taint is `PreferNoSchedule`.
    some_prefer: bool,
    /// Pods in claims opened here, for the hint about undeclared taints.
    on_new: Vec<&'a Pod>,
}

impl<'a> World<'a> {
    fn new(input: &'a Input) -> Self {
        let daemons = Daemons::new(&input.daemon_pods);
        let mut headroom = Headroom::default();
        let pools = template::in_order(input);
        let templates = Template::all(input, &pools, &daemons, &mut headroom);
        let nodes = Existing::all(input, &daemons);
        let of_pools = templates.iter().flat_map(|template| {
            let of_types = template.candidates.iter().flat_map(|candidate| &candidate.taints);
            template.pool.taints.iter().chain(of_types)
        });
        let of_nodes = nodes.iter().flat_map(|existing| &existing.node.taints);
        let some_prefer =
            of_pools.chain(of_nodes).any(|taint: &Taint| taint.effect == TaintEffect::PreferNoSchedule);
        let mut warnings = warnings::Warnings::default();
        warnings.note_pools(&templates);
        Self {
            input,
            nodes,
            pools,
            templates,
            headroom,
            claims: Vec::new(),
            sequence: Vec::new(),
            warnings,
            some_prefer,
            on_new: Vec::new(),
        }
    }

    fn demand(&self, pod: &'a Pod) -> Demand<'a> {
        Demand::new(pod, self.input.options.preference_policy, self.some_prefer)
    }

    /// Places pods on the claims that earlier passes made for them, where they still fit, and returns the others.
    fn place_nominated(&mut self, queue: VecDeque<(usize, Demand<'a>)>) -> VecDeque<(usize, Demand<'a>)> {
        let mut others = VecDeque::with_capacity(queue.len());
        for (position, demand) in queue {
            let claim = self.input.nominations.get(&demand.pod.uid);
            if !claim.is_some_and(|claim| self.place_on_claim(&demand, claim)) {
                others.push_back((position, demand));
            }
        }
        others
    }

    fn place_on_claim(&mut self, demand: &Demand<'a>, claim: &str) -> bool {
        let Some(existing) =
            self.nodes.iter_mut().find(|existing| existing.node.node_claim.as_deref() == Some(claim))
        else {
            return false;
        };
        let fits = demand.levels().iter().any(|level| existing.accepts(demand.pod, level));
        if fits {
            existing.place(demand.pod);
        }
        fits
    }

    /// Places what can be placed and returns the rest.
    fn place_all(
        &mut self,
        mut queue: VecDeque<(usize, Demand<'a>)>,
        go_on: &dyn Fn() -> bool,
    ) -> Vec<(usize, Demand<'a>)> {
        let mut without_progress = 0;
        while go_on()
            && let Some((position, demand)) = queue.pop_front()
        {
            if self.place(&demand) {
                without_progress = 0;
                continue;
            }
            queue.push_back((position, demand));
            without_progress += 1;
            if without_progress >= queue.len() {
                break;
            }
        }
        queue.into()
    }

    fn place(&mut self, demand: &Demand<'a>) -> bool {
        for level in demand.levels() {
            let placed = self.place_on_existing(demand.pod, level)
                || self.place_in_claim(demand.pod, level, Prices::StayKnown)
                || self.place_in_new_claim(demand.pod, level, Prices::StayKnown)
                || self.place_in_claim(demand.pod, level, Prices::Any)
                || self.place_in_new_claim(demand.pod, level, Prices::Any);
            if placed {
                if let Some(given_up) = &level.given_up {
                    self.warnings.given_up(demand.pod, given_up);
                }
                return true;
            }
        }
        false
    }

    fn place_on_existing(&mut self, pod: &Pod, level: &Level) -> bool {
        let found = self.nodes.iter_mut().find(|existing| existing.accepts(pod, level));
        found.is_some_and(|existing| {
            existing.place(pod);
            true
        })
    }

    fn place_in_claim(&mut self, pod: &'a Pod, level: &Level, prices: Prices) -> bool {
        let (claims, templates) = (&self.claims, &self.templates);
        self.sequence.sort_by_key(|index| claims.get(*index).map_or(0, |claim| claim.pods.len()));
        let attempt = Attempt { pod, level, options: &self.input.options, headroom: &self.headroom };
        let found = self.sequence.iter().find_map(|index| {
            let claim = claims.get(*index)?;
            let template = templates.get(claim.template)?;
            let state = attempt.join(template, claim)?;
            (prices == Prices::Any || claim.stays_priced(template, &state)).then_some((*index, state))
        });
        let Some((index, state)) = found else { return false };
        let Some(claim) = self.claims.get_mut(index) else {
            return false;
        };
        let Some(template) = self.templates.get(claim.template) else {
            return false;
        };
        let before = claim.held(template);
        claim.add(template, state, pod);
        if let Some(held) = claim.held(template) {
            self.headroom.hold(held, before);
        }
        self.on_new.push(pod);
        true
    }

    fn place_in_new_claim(&mut self, pod: &'a Pod, level: &Level, prices: Prices) -> bool {
        let attempt = Attempt { pod, level, options: &self.input.options, headroom: &self.headroom };
        let opened = self
            .templates
            .iter()
            .enumerate()
            .find_map(|(index, template)| Some((index, attempt.open(template)?)));
        let Some((index, state)) = opened else {
            return false;
        };
        let is_priced = self.templates.get(index).is_some_and(|template| state.is_priced(template));
        if prices == Prices::StayKnown && !is_priced {
            return false;
        }
        let Some(template) = self.templates.get_mut(index) else {
            return false;
        };
        if let Some(held) = state.held(template) {
            self.headroom.hold(held, None);
        }
        self.sequence.push(self.claims.len());
        self.claims.push(Claim::open(index, template, state, pod));
        self.on_new.push(pod);
        true
    }

    fn into_plan(mut self, pending: Vec<PendingPod>) -> Plan {
        self.warnings.note_undeclared_taints(&self.nodes, &self.templates, &self.on_new);
        let mut node_claims = Vec::new();
        for claim in self.claims {
            if let Some(template) = self.templates.get(claim.template) {
                let planned = claim.planned(template, &self.input.options);
                self.warnings.note_relaxed(&planned, template.pool);
                node_claims.push(planned);
            }
        }
        let placements = Existing::placements(self.nodes);
        Plan { node_claims, placements, pending, warnings: self.warnings.into_sorted() }
    }
}
