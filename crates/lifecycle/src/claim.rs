//! A NodeClaim's own way: Launched, Registered, Initialized; and when it is deleted: Drained, VolumesDetached, InstanceTerminating.
//!
//! Which Machine it has, and how that is given back, is the ledger's matter.

mod progress;
mod termination;

pub use progress::{Observed, Promise, Step, Timeouts, progress};
pub use termination::{Terminating, Termination, blocking_attachments, is_drained, terminate};

use jiff::Timestamp;
use karpenter_capi_api::condition::{self, Condition, FALSE, TRUE, UNKNOWN};
use karpenter_capi_api::names::conditions;

/// Why a claim ends for taking too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimedOut {
    /// No Machine with infrastructure in time.
    Launch,
    /// No Node in time.
    Registration,
}

/// Sets the root condition from the three that make it up.
fn set_ready(all: &mut Vec<Condition>, now: Timestamp, generation: Option<i64>) {
    let parts = [conditions::LAUNCHED, conditions::REGISTERED, conditions::INITIALIZED];
    let missing: Vec<&str> = parts.iter().copied().filter(|part| !condition::is_true(all, part)).collect();
    let failed = missing.iter().any(|part| condition::is_false(all, part));
    if missing.is_empty() {
        condition::set(all, conditions::READY, TRUE, conditions::READY, "", now, generation);
    } else {
        let status = if failed { FALSE } else { UNKNOWN };
        let message = format!("waiting for {}", missing.join(", "));
        condition::set(all, conditions::READY, status, "UnhealthyDependents", &message, now, generation);
    }
}

#[cfg(test)]
mod tests;
