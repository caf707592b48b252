//! What keeps a deleted claim's Machine from being given back, told on the claim with its age.

use jiff::Timestamp;
use karpenter_capi_api::condition::{self, UNKNOWN};
use karpenter_capi_api::names::conditions::{self, reasons};
use karpenter_capi_api::v1::{NodeClaim, NodeClaimStatus};

/// Why a claim's end doesn't go on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldUp<'a> {
    /// Its MachineDeployment must get into another state first: a roll-out is under way, it is paused.
    AwaitingMachineDeployment(&'a str),
    /// An API server refuses what is to be written.
    RequestRefused(&'a str),
}

impl<'a> HeldUp<'a> {
    /// The reason in one word, for conditions and events.
    pub fn reason(self) -> &'static str {
        match self {
            Self::AwaitingMachineDeployment(_) => reasons::AWAITING_MACHINE_DEPLOYMENT,
            Self::RequestRefused(_) => reasons::REQUEST_REFUSED,
        }
    }

    /// One sentence.
    pub fn message(self) -> &'a str {
        match self {
            Self::AwaitingMachineDeployment(message) | Self::RequestRefused(message) => message,
        }
    }
}

/// The status of a deleted claim with what holds it up, or with nothing of that any more; None if it says so already. The condition's
/// transition time tells since when it waits; it stays when only the reason changes.
pub fn held_up(claim: &NodeClaim, why: Option<HeldUp<'_>>, now: Timestamp) -> Option<NodeClaimStatus> {
    let mut status = claim.status.clone().unwrap_or_default();
    let present = condition::find(&status.conditions, conditions::INSTANCE_TERMINATING);
    let changed = match (why, present) {
        // That the deletion was asked for stays true.
        (_, Some(present)) if present.status == condition::TRUE => false,
        (Some(why), _) => condition::set(
            &mut status.conditions,
            conditions::INSTANCE_TERMINATING,
            UNKNOWN,
            why.reason(),
            why.message(),
            now,
            claim.metadata.generation,
        ),
        (None, _) => condition::remove(&mut status.conditions, conditions::INSTANCE_TERMINATING),
    };
    changed.then_some(status)
}
