//! A NodeClaim's own way: Launched, Registered, Initialized; and when it is deleted: Drained, VolumesDetached, InstanceTerminating.
//!
//! Which Machine it has, and how that is given back, is the ledger's matter.

mod end;
mod failure;
mod held_up;
mod progress;
mod termination;
mod words;

pub use end::{NODE_GONE_AFTER, TROUBLE_GRACE};
pub use failure::{Failure, back_off};
pub use held_up::{HeldUp, held_up};
pub use progress::{Observed, Promise, Step, Timeouts, progress};
pub use termination::{
    Notice, Terminating, Termination, UNREACHABLE_VOLUME_WAIT, blocking_attachments, is_drained, terminate,
};

use jiff::Timestamp;
use karpenter_capi_api::condition::{self, Condition, FALSE, TRUE, UNKNOWN};
use karpenter_capi_api::names::{annotations, conditions, finalizers};
use karpenter_capi_api::v1::NodeClaim;
use serde_json::{Value, json};

/// Whether the claim, when it is deleted, leaves its Machine and Node as they are.
pub fn keeps_machine(claim: &NodeClaim) -> bool {
    let all = claim.metadata.annotations.as_ref();
    all.and_then(|all| all.get(annotations::RELEASE)).map(String::as_str) == Some("true")
}

/// A merge patch of the metadata alone that puts our finalizer on the claim, or takes it off; None when it is so. A whole update
/// would send the spec as well, which is immutable and may have been stored before the schema had a default.
pub fn finalizer_patch(claim: &NodeClaim, wanted: bool) -> Option<Value> {
    let mut all = claim.metadata.finalizers.clone().unwrap_or_default();
    let present = all.iter().any(|finalizer| finalizer == finalizers::TERMINATION);
    if present == wanted {
        return None;
    }
    if wanted {
        all.push(finalizers::TERMINATION.to_owned());
    } else {
        all.retain(|finalizer| finalizer != finalizers::TERMINATION);
    }
    Some(json!({ "metadata": {
        "uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version, "finalizers": all,
    } }))
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
