//! What a drain waits for, in words.

use crate::drain::{Drain, PodRef};

/// At most this many names; a condition isn't the place for more.
const SHOWN: usize = 10;

/// Protected pods first, each with what protects it: they are what a person can do something about.
pub(super) fn waited_for(drain: &Drain) -> String {
    let is_held = |pod: &PodRef| drain.held.iter().any(|(held, _)| held == pod);
    let held = drain.held.iter().map(|(pod, why)| format!("{pod}, which {why}"));
    let others = drain.waiting.iter().filter(|pod| !is_held(pod)).map(|pod| {
        if drain.terminating.contains(pod) { format!("{pod}, which is terminating") } else { pod.to_string() }
    });
    listed(held.chain(others))
}

pub(super) fn held(drain: &Drain) -> String {
    listed(drain.held.iter().map(|(pod, why)| format!("{pod} {why}")))
}

fn listed(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    match all.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}
