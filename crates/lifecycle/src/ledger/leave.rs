//! Entries that leave without a Machine, and claims that hold nothing any more.

use super::bind::unbound_entries;
use super::observed::{ClaimView, count};
use super::{LEAVE_AFTER_REST, Observed, Step, Waiting, Write};

/// Lets entries of ending claims out for which no Machine was made. Returns whether there were any.
///
/// A Machine that exists is bound and given back instead; only when everything has been at rest for a while and Machines are still
/// missing, lowering takes none.
pub(super) fn leave(observed: &Observed<'_>, step: &mut Step) -> bool {
    let Some(deployment) = observed.machine_deployment else {
        return false;
    };
    if deployment.paused.is_some() || deployment.deleting {
        return false;
    }
    let bound_now = |claim: &ClaimView| {
        step.writes
            .iter()
            .any(|write| matches!(write, Write::Bind { claim: bound, .. } if *bound == claim.claim))
    };
    let leaving: Vec<&ClaimView> =
        unbound_entries(observed).filter(|claim| claim.deleting && !bound_now(claim)).collect();
    if leaving.is_empty() {
        return false;
    }
    let long_at_rest = observed.at_rest()
        && observed.at_rest_since.is_some_and(|since| observed.now.duration_since(since) >= LEAVE_AFTER_REST);
    if !long_at_rest || observed.rolling_out() {
        step.look_again = Some(LEAVE_AFTER_REST / 6);
        return false;
    }
    let missing = (deployment.replicas - observed.live()).max(0);
    let lowered = missing.min(count(leaving.iter()));
    // Of several MachineSets the oldest is lowered, where it may be another that has yet to make its Machine.
    if lowered > observed.vacant_in_oldest(|machine| !machine.deleting).unwrap_or(missing) {
        let message = format!(
            "MachineDeployment {} still has Machines of an older revision, which would go first",
            deployment.name
        );
        step.waiting.extend(
            leaving.iter().map(|claim| Waiting { claim: claim.claim.clone(), message: message.clone() }),
        );
        return false;
    }
    step.writes.push(Write::UpdateLedger {
        resource_version: deployment.resource_version.clone(),
        ledger: deployment.ledger.changed([], leaving.iter().map(|claim| &claim.entry)),
        replicas: (lowered > 0).then_some(deployment.replicas - lowered),
        end_pause: false,
    });
    true
}

/// Ending claims that have neither entry nor Machine.
pub(super) fn finish(observed: &Observed<'_>, step: &mut Step) {
    for claim in observed.claims.iter().filter(|claim| claim.deleting) {
        let counted =
            observed.machine_deployment.is_some_and(|deployment| deployment.ledger.contains(&claim.entry));
        if !counted && observed.machine_of(claim).is_none() {
            step.writes.push(Write::FinishClaim { claim: claim.claim.clone() });
        }
    }
}
