//! The solver.
//!
//! Pods are taken in order of size. Each is tried, wish by wish, on existing nodes and claims in flight, on the claims opened
//! so far (fewest pods first), then with a new claim of the first NodePool that can serve it. A pod without a place goes to the
//! end of the queue, until a whole round brings nothing.

mod amounts;
mod bits;
mod claim;
mod counting;
mod daemons;
mod demand;
mod domains;
mod existing;
mod fit;
mod headroom;
mod limits;
mod min_values;
mod nodes;
mod place;
mod query;
mod reasons;
mod reserved;
mod seen;
mod settle;
mod shape;
mod states;
mod targets;
mod template;
mod topology;
mod volumes;
mod warnings;
mod world;

use crate::input::Input;
use crate::plan::Plan;
use crate::screen::Screen;
use karpenter_capi_model::pod::Pod;
use place::Outcome;
use query::Query;
use std::collections::VecDeque;
use world::World;

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
///   they hold whatever the claim becomes; `limits.nodes` is charged with one. When pods are left, the claims are charged anew with what
///   their pods have left of them.
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
    let (mut judged, mut pending) = (Vec::new(), Vec::new());
    for (position, pod) in pods.into_iter().enumerate() {
        match screen.refuse(pod) {
            Some((code, message)) => pending.push((position, reasons::of_the_pod(pod, code, message))),
            None => judged.push((position, pod)),
        }
    }
    let mut world = World::new(input, judged.iter().map(|(_, pod)| *pod).collect());
    let queue = world.place_nominated();
    let (left, ended) = world.place_all(queue, go_on);
    let mut explained = reasons::Explained::default();
    for pod in left {
        let why = if ended { explained.why(&mut world, pod) } else { reasons::not_evaluated(judged[pod].1) };
        pending.push((judged[pod].0, why));
    }
    pending.sort_by_key(|(position, _)| *position);
    world.into_plan(pending.into_iter().map(|(_, pending)| pending).collect())
}

impl World<'_> {
    /// Places pods on the claims that earlier passes made for them, where they still fit, and returns the others.
    fn place_nominated(&mut self) -> VecDeque<usize> {
        let by_claim = existing::by_claim(&self.nodes);
        let mut others = VecDeque::with_capacity(self.pods.len());
        for pod in 0..self.pods.len() {
            let nominated = self.input.nominations.get(&self.pods[pod].uid);
            let node = nominated.and_then(|claim| by_claim.get(claim.as_str()).copied());
            let levels = 0..self.shapes[self.shape_of[pod]].levels.len();
            match node.filter(|node| levels.into_iter().any(|level| self.node_takes(pod, level, *node))) {
                Some(node) => self.put_on_node(pod, node),
                None => others.push_back(pod),
            }
        }
        others
    }

    /// Places what can be placed and returns the rest, in order, and whether every one of them was tried.
    fn place_all(&mut self, queue: VecDeque<usize>, go_on: &dyn Fn() -> bool) -> (Vec<usize>, bool) {
        let mut left = self.place_round(queue, go_on);
        while left.1 && !left.0.is_empty() && self.recharge() {
            left = self.place_round(left.0.into(), go_on);
        }
        left
    }

    fn place_round(&mut self, mut queue: VecDeque<usize>, go_on: &dyn Fn() -> bool) -> (Vec<usize>, bool) {
        // For each shape how much had been placed when it last found nothing: the next pod of it needn't try until there is more.
        let mut failed: Vec<Option<usize>> = vec![None; self.shapes.len()];
        let mut waiting = vec![0_usize; self.shapes.len()];
        for pod in &queue {
            waiting[self.shape_of[*pod]] += 1;
        }
        let (mut placed, mut without_progress) = (0, 0);
        let mut ended = true;
        while let Some(pod) = queue.pop_front() {
            if !go_on() {
                queue.push_front(pod);
                ended = false;
                break;
            }
            let shape = self.shape_of[pod];
            let hopeless = failed[shape] == Some(placed) && !self.shapes[shape].has_attachments;
            if !hopeless && self.place(pod) == Outcome::Placed {
                placed += 1;
                without_progress = 0;
                waiting[shape] -= 1;
                if waiting[shape] == 0 {
                    // What is known for the shape helps nobody any more.
                    self.queries[shape].iter_mut().for_each(|query| *query = Query::default());
                }
                continue;
            }
            failed[shape] = Some(placed);
            queue.push_back(pod);
            without_progress += 1;
            if without_progress >= queue.len() {
                break;
            }
        }
        let mut left: Vec<usize> = queue.into();
        left.sort_unstable();
        (left, ended)
    }
}
