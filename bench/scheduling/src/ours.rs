//! Our solver on a document.

use crate::measure::{Spread, Time, allocations, timed};
use crate::report::Outcome;
use anyhow::{Result, ensure};
use karpenter_capi_conformance::answer::Answer;
use karpenter_capi_conformance::document::Document;
use karpenter_capi_scheduling::{audit, solve};
use serde::Serialize;
use serde_json::Value;

/// What several runs of one document came to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ours {
    pub(crate) pods: usize,
    pub(crate) runs: u32,
    /// API objects to the input of `solve`.
    pub(crate) model: Spread,
    /// `solve`.
    pub(crate) solve: Spread,
    /// Both, run by run.
    pub(crate) sum: Spread,
    /// During `solve`.
    pub(crate) allocations: usize,
    pub(crate) outcome: Outcome,
}

pub(crate) fn measure(document: &Value, runs: u32) -> Result<Ours> {
    let document = Document::parse(document)?;
    let (mut models, mut solves, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    let mut last = None;
    for _ in 0..runs {
        let objects = document.clone();
        let (input, model): (_, Time) = timed(|| objects.into_input());
        let ((plan, allocated), solve) = timed(|| allocations(|| solve(&input)));
        models.push(model);
        solves.push(solve);
        sums.push(model.plus(solve));
        last = Some((input, plan, allocated));
    }
    let Some((input, plan, allocated)) = last else {
        anyhow::bail!("no run was asked for");
    };
    let violations = audit(&input, &plan);
    ensure!(violations.is_empty(), "the plan breaks a rule: {:?}", violations.first());
    Ok(Ours {
        pods: document.pod_count(),
        runs,
        model: Spread::of(&models),
        solve: Spread::of(&solves),
        sum: Spread::of(&sums),
        allocations: allocated,
        outcome: Outcome::of(&Answer::of_plan(&plan)),
    })
}
