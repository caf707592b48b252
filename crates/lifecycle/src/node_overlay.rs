//! The status of a NodeOverlay: whether it counts.

use crate::conditions::{State, clipped, root};
use jiff::Timestamp;
use karpenter_capi_api::condition::{self, Condition};
use karpenter_capi_api::names::conditions;
use karpenter_capi_api::node_overlay::{NodeOverlay, NodeOverlayStatus};

/// Why an overlay doesn't count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// In one word.
    pub reason: &'static str,
    /// For people.
    pub message: &'a str,
}

/// The status that the overlay should have, or None if it has it already.
pub fn desired_status(
    overlay: &NodeOverlay,
    refusal: Option<Refusal<'_>>,
    now: Timestamp,
) -> Option<NodeOverlayStatus> {
    let mut status = overlay.status.clone().unwrap_or_default();
    let generation = overlay.metadata.generation;
    let set = |all: &mut Vec<Condition>, type_: &str, state: &State| {
        condition::set(all, type_, state.status, state.reason, &state.message, now, generation)
    };
    let validation =
        refusal.map_or_else(State::yes, |refusal| State::no(refusal.reason, clipped(refusal.message)));
    let mut changed = set(&mut status.conditions, conditions::VALIDATION_SUCCEEDED, &validation);
    let ready = root(&status.conditions, &[conditions::VALIDATION_SUCCEEDED]);
    changed |= set(&mut status.conditions, conditions::READY, &ready);
    changed.then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_capi_api::names::conditions::reasons;

    fn overlay(status: Option<NodeOverlayStatus>) -> NodeOverlay {
        let mut overlay = NodeOverlay::new("o", karpenter_capi_api::node_overlay::NodeOverlaySpec::default());
        overlay.metadata.generation = Some(3);
        overlay.status = status;
        overlay
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn told(status: &NodeOverlayStatus) -> Vec<(&str, &str, &str)> {
        let all = status.conditions.iter();
        all.map(|each| (each.type_.as_str(), each.status.as_str(), each.reason.as_str())).collect()
    }

    #[test]
    fn an_overlay_that_counts_is_ready() {
        let status = desired_status(&overlay(None), None, at(1)).unwrap();
        assert_eq!(
            told(&status),
            [("ValidationSucceeded", "True", "ValidationSucceeded"), ("Ready", "True", "Ready")]
        );
        assert_eq!(status.conditions[0].observed_generation, Some(3));
        assert_eq!(desired_status(&overlay(Some(status)), None, at(9)), None, "nothing is written twice");
    }

    #[test]
    fn a_conflict_is_told_and_taken_back() {
        let refusal = Refusal { reason: reasons::CONFLICT, message: "conflict with another overlay: b" };
        let status = desired_status(&overlay(None), Some(refusal), at(1)).unwrap();
        assert_eq!(
            told(&status),
            [("ValidationSucceeded", "False", "Conflict"), ("Ready", "False", "UnhealthyDependents")]
        );
        assert_eq!(status.conditions[0].message, refusal.message);
        let back = desired_status(&overlay(Some(status)), None, at(2)).unwrap();
        assert!(told(&back).iter().all(|(_, status, _)| *status == "True"), "{back:?}");
    }
}
