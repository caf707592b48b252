//! What the bench found.

use crate::growth::Step;
use crate::ours::Ours;
use crate::peer::Theirs;
use karpenter_capi_conformance::answer::Answer;
use serde::{Deserialize, Serialize};

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) compared: Vec<Compared>,
    pub(crate) growth: Vec<Step>,
}

/// Both solvers on one document.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) document: String,
    pub(crate) ours: Ours,
    pub(crate) theirs: Option<Theirs>,
}

/// What was decided, in numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    pub(crate) pods_placed: usize,
    pub(crate) node_claims: usize,
    /// Of all claims, each at its cheapest instance type.
    pub(crate) total_price: f64,
}

impl Outcome {
    pub(crate) fn of(answer: &Answer) -> Self {
        Self {
            pods_placed: answer.placed().len(),
            node_claims: answer.node_claims.len(),
            total_price: answer.total_price(),
        }
    }
}
