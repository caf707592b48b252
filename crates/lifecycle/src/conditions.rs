//! What the statuses of our kinds have in common.

use karpenter_capi_api::condition::{self, Condition};

/// The longest that one part of a message may be, in characters: an annotation that is quoted may have 256 KiB.
const PART_LIMIT: usize = 1024;
/// The longest that the parts of a message may be together, in bytes. The API server takes 32768 characters.
const LIST_LIMIT: usize = 8192;
/// Reason of `Ready`: a dependent is `False`.
const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// Reason of `Ready`: no dependent is `False`, but not all are `True`.
const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

/// What a condition is to say.
pub(crate) struct State {
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl State {
    /// True, with the condition's type as its reason.
    pub(crate) fn yes() -> Self {
        Self { status: condition::TRUE, reason: "", message: String::new() }
    }

    pub(crate) fn no(reason: &'static str, message: String) -> Self {
        Self { status: condition::FALSE, reason, message }
    }
}

/// Status of a root condition: `True` if all its dependents are, `False` if one is, else `Unknown`. Missing is `Unknown`.
pub(crate) fn root_status(conditions: &[Condition], dependents: &[&str]) -> &'static str {
    if dependents.iter().all(|dependent| condition::is_true(conditions, dependent)) {
        condition::TRUE
    } else if dependents.iter().any(|dependent| condition::is_false(conditions, dependent)) {
        condition::FALSE
    } else {
        condition::UNKNOWN
    }
}

/// `Ready`, by the rule and in the words of upstream: `Type=Status` of every dependent that isn't `True`, the latest to change
/// first.
pub(crate) fn root(all: &[Condition], dependents: &[&str]) -> State {
    let mut unhealthy: Vec<&Condition> = dependents
        .iter()
        .filter_map(|dependent| condition::find(all, dependent))
        .filter(|condition| condition.status != condition::TRUE)
        .collect();
    unhealthy.sort_by_key(|condition| std::cmp::Reverse(condition.last_transition_time.0));
    let told: Vec<String> =
        unhealthy.iter().map(|condition| format!("{}={}", condition.type_, condition.status)).collect();
    match root_status(all, dependents) {
        condition::TRUE => State::yes(),
        condition::FALSE => State::no(UNHEALTHY_DEPENDENTS, told.join(", ")),
        status => State { status, reason: RECONCILING_DEPENDENTS, message: told.join(", ") },
    }
}

/// The text, or as much of it as a status should hold and how much is left out.
pub(crate) fn clipped(text: &str) -> String {
    match text.char_indices().nth(PART_LIMIT) {
        None => text.to_owned(),
        Some((end, _)) => {
            let (kept, rest) = text.split_at(end);
            format!("{kept}… ({} more characters)", rest.chars().count())
        }
    }
}

/// The parts, joined by semicolons; if there are too many, how many more there are.
pub(crate) fn listed(parts: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    let mut left_out = 0_usize;
    for part in parts {
        let part = clipped(&part);
        if left_out > 0 || text.len() + part.len() > LIST_LIMIT {
            left_out += 1;
            continue;
        }
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&part);
    }
    if left_out > 0 { format!("{text}; and {left_out} more") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_says_how_much_is_left_out() {
        assert_eq!(listed(["a".to_owned(), "b".to_owned()]), "a; b");
        let clip = clipped(&"ü".repeat(PART_LIMIT + 7));
        assert!(clip.ends_with("ü… (7 more characters)"), "{clip}");
        let many = listed((0..1000).map(|index| format!("{index:0100}")));
        assert!(many.len() < 2 * LIST_LIMIT);
        let shown = many.split("; ").count() - 1;
        assert!(many.ends_with(&format!("; and {} more", 1000 - shown)), "{many}");
    }
}
