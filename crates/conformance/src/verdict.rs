//! Whether a plan is as good as the recorded answer.

use crate::answer::{Answer, TOLERANCE};
use karpenter_capi_scheduling::audit;
use karpenter_capi_scheduling::input::Input;
use karpenter_capi_scheduling::plan::Plan;

/// What comparing a plan with the recorded answer came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every pod is where it was recorded, and every claim is as recorded.
    Equal,
    /// It differs and is no worse: it breaks no rule, places as many pods or more, and if as many, costs no more. How it differs.
    Better(String),
    /// It is neither, for a reason that is written down: the recorded answer is wrong. Which defect.
    Listed(String),
    /// It is worse, and what is worse.
    Worse(Vec<String>),
}

impl Verdict {
    /// A word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Better(_) => "better",
            Self::Listed(_) => "listed",
            Self::Worse(_) => "worse",
        }
    }

    /// What is to be said of it; empty for equal ones.
    pub fn words(&self) -> String {
        match self {
            Self::Equal => String::new(),
            Self::Better(how) | Self::Listed(how) => how.clone(),
            Self::Worse(faults) => faults.join("; "),
        }
    }
}

/// Compares. A plan that breaks a rule is worse even if the recorded answer breaks it, too.
pub fn judge(input: &Input, plan: &Plan, recorded: &Answer) -> Verdict {
    let ours = Answer::of_plan(plan);
    let mut faults: Vec<String> = audit(input, plan)
        .iter()
        .map(|violation| format!("{} {}", violation.subject, violation.message))
        .collect();
    if faults.is_empty() && ours.is_same(recorded) {
        return Verdict::Equal;
    }
    let (placed, expected) = (ours.placed().len(), recorded.placed().len());
    let (price, limit) = (ours.total_price(), recorded.total_price());
    if placed < expected {
        faults.push(format!("{placed} pods have a place, {expected} were recorded"));
    } else if placed == expected && price > limit + TOLERANCE {
        faults.push(format!("{price:.6} dollars an hour, {limit:.6} were recorded"));
    }
    if !faults.is_empty() {
        return Verdict::Worse(faults);
    }
    Verdict::Better(if placed > expected {
        format!("{placed} pods instead of {expected}")
    } else if price < limit - TOLERANCE {
        format!("{price:.6} dollars an hour instead of {limit:.6}")
    } else {
        "as many pods at the same price".to_owned()
    })
}
