//! How time and memory grow with the cluster.

use crate::generator::{Size, document};
use crate::measure::{Time, allocations, heap, rise, timed};
use crate::report::Outcome;
use anyhow::Result;
use karpenter_capi_conformance::answer::Answer;
use karpenter_capi_conformance::document::Document;
use karpenter_capi_scheduling::input::Input;
use karpenter_capi_scheduling::plan::Plan;
use karpenter_capi_scheduling::solve;
use serde::Serialize;

/// Pods and existing nodes, each step ten times the one before.
const CLUSTERS: [(usize, usize); 3] = [(1_000, 100), (10_000, 1_000), (100_000, 10_000)];
/// NodePools, at a thousand pods.
const POOLS: [usize; 3] = [10, 100, 1_000];
const PODS_FOR_POOLS: usize = 1_000;
/// NodePools, while pods and nodes grow.
const FEW_POOLS: usize = 5;
/// A small cluster is solved this often, and its least time counts; a large one once.
const RUNS: usize = 5;
const LARGE: usize = 50_000;

/// One cluster.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) size: Size,
    /// API objects to the input of `solve`.
    pub(crate) model: Time,
    /// `solve`.
    pub(crate) solve: Time,
    /// What the input takes, by pod, without the API objects that it was made from.
    pub(crate) input_bytes: usize,
    /// What `solve` adds to the heap at its height, by pod.
    pub(crate) solve_bytes: usize,
    /// During `solve`, by pod.
    pub(crate) allocations: usize,
    /// The first of a row of steps, which no other is compared with.
    pub(crate) first: bool,
    pub(crate) outcome: Outcome,
}

impl Step {
    pub(crate) fn sum(&self) -> Time {
        self.model.plus(self.solve)
    }
}

pub(crate) fn measure(most_pods: usize) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for pools in POOLS {
        steps.push(step(Size { pods: PODS_FOR_POOLS, nodes: 0, pools }, pools == POOLS[0])?);
    }
    for (pods, nodes) in CLUSTERS.into_iter().filter(|(pods, _)| *pods <= most_pods) {
        steps.push(step(Size { pods, nodes, pools: FEW_POOLS }, pods == CLUSTERS[0].0)?);
    }
    Ok(steps)
}

fn step(size: Size, first: bool) -> Result<Step> {
    eprintln!("growth: {} pods, {} nodes, {} NodePools", size.pods, size.nodes, size.pools);
    let runs = if size.pods >= LARGE { 1 } else { RUNS };
    let mut least = one(size, first)?;
    for _ in 1..runs {
        let next = one(size, first)?;
        if next.sum().cpu < least.sum().cpu {
            least = next;
        }
    }
    Ok(least)
}

fn one(size: Size, first: bool) -> Result<Step> {
    let document = Document::parse(&document(size))?;
    let without_input = heap();
    let objects = document.clone();
    let (input, model) = timed(|| objects.into_input());
    let input_bytes = heap().saturating_sub(without_input);
    let (((plan, made), solve), risen) = rise(|| timed_and_counted(&input));
    Ok(Step {
        size,
        model,
        solve,
        input_bytes: input_bytes / size.pods,
        solve_bytes: risen / size.pods,
        allocations: made / size.pods,
        first,
        outcome: Outcome::of(&Answer::of_plan(&plan)),
    })
}

fn timed_and_counted(input: &Input) -> ((Plan, usize), Time) {
    timed(|| allocations(|| solve(input)))
}
