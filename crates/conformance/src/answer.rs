//! An answer to a document: as it was recorded, or as a plan gives it.

use crate::document::DocumentError;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::price::Price;
use karpenter_capi_model::quantity::Rounding;
use karpenter_capi_model::resources::read_amount;
use karpenter_capi_scheduling::plan::{PendingPod, Plan, PlannedNodeClaim};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Prices that differ by less are the same: sums of floats differ in their last digits.
pub(crate) const TOLERANCE: f64 = 1e-9;

/// What became of each pod.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Sorted by NodePool, then pods.
    pub node_claims: Vec<Claim>,
    /// Sorted pods by the name of the existing node or claim in flight.
    pub placements: BTreeMap<String, Vec<String>>,
    /// Pods without a place, and why in words.
    pub errors: BTreeMap<String, String>,
}

/// A claim to be made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// The NodePool.
    pub node_pool: String,
    /// `namespace/name`, sorted.
    pub pods: Vec<String>,
    /// As text, sorted by key.
    pub requirements: Vec<String>,
    /// Cheapest first.
    pub instance_types: Vec<String>,
    /// Of pods and DaemonSets.
    pub requests: BTreeMap<String, i64>,
    /// What the cheapest of the instance types costs an hour.
    pub price: f64,
}

impl Claim {
    fn sort_key(&self) -> (&str, &[String]) {
        (&self.node_pool, &self.pods)
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.price - other.price).abs() < TOLERANCE
            && self.sort_key() == other.sort_key()
            && self.requirements == other.requirements
            && self.instance_types == other.instance_types
            && self.requests == other.requests
    }
}

impl Answer {
    /// Reads a recorded answer.
    pub fn recorded(value: &Value) -> Result<Self, DocumentError> {
        let claims = value["nodeClaims"].as_array().ok_or_else(|| {
            DocumentError::new("nodeClaims", "is missing: this is no answer to a solve document")
        })?;
        let mut answer = Self {
            node_claims: claims.iter().map(recorded_claim).collect::<Result<_, _>>()?,
            placements: value["existingNodes"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(node, pods)| (node.clone(), sorted(texts(pods))))
                .collect(),
            errors: match &value["podErrors"] {
                Value::Array(pods) => {
                    pods.iter().filter_map(Value::as_str).map(|pod| (pod.to_owned(), String::new())).collect()
                }
                words => words
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(pod, why)| (pod.clone(), why.as_str().unwrap_or_default().to_owned()))
                    .collect(),
            },
        };
        answer.sort();
        Ok(answer)
    }

    /// What a plan says.
    pub fn of_plan(plan: &Plan) -> Self {
        let mut answer = Self {
            node_claims: plan.node_claims.iter().map(planned_claim).collect(),
            placements: plan
                .placements
                .iter()
                .filter(|placement| !placement.pods.is_empty())
                .map(|placement| (placement.node.clone(), names(&placement.pods)))
                .collect(),
            errors: plan.pending.iter().map(|pending| (pending.pod.to_string(), reasons(pending))).collect(),
        };
        answer.sort();
        answer
    }

    fn sort(&mut self) {
        self.node_claims.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    }

    /// The pods that have a place.
    pub fn placed(&self) -> BTreeSet<&str> {
        let claimed = self.node_claims.iter().flat_map(|claim| &claim.pods);
        self.placements.values().flatten().chain(claimed).map(String::as_str).collect()
    }

    /// What all claims cost an hour, each at its cheapest instance type.
    pub fn total_price(&self) -> f64 {
        self.node_claims.iter().map(|claim| claim.price).sum()
    }

    /// Whether both say the same of every pod, node and claim; words aside.
    pub fn is_same(&self, other: &Self) -> bool {
        self.placements == other.placements
            && self.errors.keys().eq(other.errors.keys())
            && self.node_claims.len() == other.node_claims.len()
            && self.node_claims.iter().zip(&other.node_claims).all(|(own, other)| own.is_like(other))
    }
}

fn recorded_claim(value: &Value) -> Result<Claim, DocumentError> {
    let mut requests = BTreeMap::new();
    for (name, amount) in value["requests"].as_object().into_iter().flatten() {
        let amount = read_amount(name, amount.as_str().unwrap_or_default(), Rounding::Up)
            .map_err(|error| DocumentError::new("nodeClaims[].requests", error))?;
        if amount != 0 {
            requests.insert(name.clone(), amount);
        }
    }
    Ok(Claim {
        node_pool: value["nodePool"].as_str().unwrap_or_default().to_owned(),
        pods: sorted(texts(&value["pods"])),
        requirements: texts(&value["requirements"]),
        instance_types: texts(&value["instanceTypes"]),
        requests,
        price: value["cheapestPrice"]
            .as_f64()
            .ok_or_else(|| DocumentError::new("nodeClaims[].cheapestPrice", "is missing"))?,
    })
}

fn planned_claim(claim: &PlannedNodeClaim) -> Claim {
    Claim {
        node_pool: claim.node_pool.clone(),
        pods: names(&claim.pods),
        requirements: claim.requirements.iter().map(ToString::to_string).collect(),
        instance_types: claim.options.iter().map(|option| option.instance_type.name.clone()).collect(),
        requests: claim
            .requests
            .iter()
            .filter(|(_, amount)| *amount != 0)
            .map(|(name, amount)| (name.to_owned(), amount))
            .collect(),
        // A claim that nothing can serve costs what nobody would pay, so that it never makes an answer better.
        price: cheapest(claim).map_or(f64::INFINITY, Price::to_f64),
    }
}

/// The cheapest offering that can be had and that the claim's requirements leave, found without the plan's own choice.
fn cheapest(claim: &PlannedNodeClaim) -> Option<Price> {
    let offerings = claim.options.iter().flat_map(|option| &option.instance_type.offerings);
    let fitting = offerings.filter(|offering| {
        offering.is_available() && claim.requirements.intersects(&offering.requirements).is_ok()
    });
    fitting.filter_map(|offering| offering.price).min()
}

fn reasons(pending: &PendingPod) -> String {
    let words: Vec<String> = pending
        .reasons
        .iter()
        .map(|reason| {
            let place: Vec<&str> = [&reason.node_pool, &reason.instance_type]
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect();
            format!(
                "{}{}{}: {}",
                place.join("/"),
                if place.is_empty() { "" } else { " " },
                reason.code,
                reason.message
            )
        })
        .collect();
    words.join("; ")
}

fn names(pods: &[NamespacedName]) -> Vec<String> {
    sorted(pods.iter().map(ToString::to_string).collect())
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list
}
