//! Conditions, read leniently: only `type`, `status` and `lastTransitionTime` must be there.
//!
//! Upstream's NodeClaims may carry an empty reason, and Cluster API's `v1beta1` conditions have none when they are `True`;
//! the strict type of Kubernetes refuses both.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

/// Value of [`Condition::status`].
pub const TRUE: &str = "True";
/// Value of [`Condition::status`].
pub const FALSE: &str = "False";
/// Value of [`Condition::status`].
pub const UNKNOWN: &str = "Unknown";

/// One aspect of an object's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about, in CamelCase.
    #[serde(rename = "type")]
    pub type_: String,
    /// [`TRUE`], [`FALSE`] or [`UNKNOWN`].
    pub status: String,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// Why, in one CamelCase word; may be empty.
    #[serde(default)]
    pub reason: String,
    /// Why, for people; may be empty.
    #[serde(default)]
    pub message: String,
    /// `metadata.generation` of the object that the condition speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The condition of that type, if there is one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of that type is there and `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == TRUE)
}

/// Whether the condition of that type is there and `False`.
pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == FALSE)
}

/// Sets the condition of that type, keeping `lastTransitionTime` while `status` stays the same. Returns whether anything
/// changed. An empty reason becomes the type, since the schema of NodePools demands one (as upstream does it).
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
    generation: Option<i64>,
) -> bool {
    let reason = if reason.is_empty() { type_ } else { reason };
    let mut wanted = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: Time(now),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
    };
    match conditions.iter_mut().find(|condition| condition.type_ == type_) {
        None => conditions.push(wanted),
        Some(present) => {
            if present.status == wanted.status {
                wanted.last_transition_time = present.last_transition_time.clone();
            }
            if *present == wanted {
                return false;
            }
            *present = wanted;
        }
    }
    true
}

/// Removes the condition of that type. Returns whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn same_status_keeps_its_transition_time() {
        let mut conditions = vec![];
        assert!(set(&mut conditions, "Launched", UNKNOWN, "LaunchFailed", "no quota", at(10), Some(1)));
        assert!(set(&mut conditions, "Launched", UNKNOWN, "LaunchFailed", "no network", at(20), Some(2)));
        let condition = find(&conditions, "Launched").unwrap();
        assert_eq!(condition.last_transition_time.0, at(10));
        assert_eq!(condition.message, "no network");
        assert_eq!(condition.observed_generation, Some(2));
    }

    #[test]
    fn other_status_gets_a_new_transition_time() {
        let mut conditions = vec![];
        set(&mut conditions, "Launched", UNKNOWN, "LaunchFailed", "", at(10), None);
        set(&mut conditions, "Launched", TRUE, "", "", at(20), None);
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].last_transition_time.0, at(20));
        assert_eq!(conditions[0].reason, "Launched");
        assert!(is_true(&conditions, "Launched"));
        assert!(!is_false(&conditions, "Launched"));
    }

    #[test]
    fn setting_what_is_there_already_changes_nothing() {
        let mut conditions = vec![];
        set(&mut conditions, "Ready", TRUE, "Ready", "", at(10), Some(1));
        assert!(!set(&mut conditions, "Ready", TRUE, "Ready", "", at(99), Some(1)));
        assert!(remove(&mut conditions, "Ready"));
        assert!(!remove(&mut conditions, "Ready"));
    }

    #[test]
    fn a_condition_without_reason_and_message_is_read() {
        let condition: Condition = serde_json::from_str(
            r#"{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","severity":"Info"}"#,
        )
        .unwrap();
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("", ""));
    }
}
