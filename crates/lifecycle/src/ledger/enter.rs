//! Claims enter the ledger, each with one replica; those that can't be served end, and their pods are solved again.

use super::observed::ClaimView;
use super::{EndReason, Entry, MAX_RAISE, Observed, Step, Write};
use std::cmp::Reverse;

/// Ends the claims that can't be served, or whose Machine is lost.
pub(super) fn end_unserved(observed: &Observed<'_>, step: &mut Step) {
    end_lost(observed, step);
    let Some(deployment) = observed.machine_deployment else {
        for claim in outside(observed) {
            end(step, claim, EndReason::InsufficientCapacity, "its MachineDeployment is gone");
        }
        return;
    };
    if deployment.deleting {
        for claim in outside(observed) {
            let message = format!("MachineDeployment {} is being deleted", deployment.name);
            end(step, claim, EndReason::InsufficientCapacity, &message);
        }
        return;
    }
    let reason = if let Some(message) = &deployment.paused {
        Some(message.clone())
    } else {
        deployment.unavailable.as_ref().map(|reason| reason.message.clone())
    };
    if let Some(message) = reason {
        for claim in entering(observed) {
            end(step, claim, EndReason::InsufficientCapacity, &message);
        }
    }
    end_surplus(observed, step);
}

/// Ends claims whose Machine somebody else took. One whose Machine a roll-out replaces ends when its successor has its place.
fn end_lost(observed: &Observed<'_>, step: &mut Step) {
    for claim in observed.claims.iter().filter(|claim| !claim.deleting && claim.machine.is_some()) {
        match observed.machine_of(claim) {
            None => end(step, claim, EndReason::MachineLost, "its Machine is gone"),
            Some(machine) if machine.deleting => {
                match super::roll_out::succession(observed, claim, machine) {
                    super::roll_out::Succession::Not => {
                        end(
                            step,
                            claim,
                            EndReason::MachineLost,
                            &format!("Machine {} is being deleted", machine.machine.name),
                        );
                    }
                    super::roll_out::Succession::Pending => {}
                    super::roll_out::Succession::Done => {
                        let message = format!("a roll-out replaces Machine {}", machine.machine.name);
                        end(step, claim, EndReason::ReplacedByRollOut, &message);
                    }
                }
            }
            Some(_) => {}
        }
    }
}

/// Somebody lowered the number below that of our claims: as many claims without a Machine end as are too many, newest first.
fn end_surplus(observed: &Observed<'_>, step: &mut Step) {
    let Some(deployment) = observed.machine_deployment.filter(|deployment| deployment.floor() < 0) else {
        return;
    };
    step.scaled_by_others = true;
    // Claims that end already make up for their part of the difference.
    let ending = super::observed::count(
        observed.claims.iter().filter(|claim| claim.deleting && deployment.ledger.contains(&claim.entry)),
    );
    let surplus = usize::try_from(-deployment.floor() - ending).unwrap_or(0);
    let mut unbound: Vec<&ClaimView> = super::bind::unbound_entries(observed)
        .filter(|claim| !claim.deleting && claim.machine.is_none())
        .collect();
    unbound.sort_by_key(|claim| Reverse((claim.created, claim.claim.uid.clone())));
    for claim in unbound.into_iter().take(surplus) {
        let message = format!(
            "somebody set {} to {} replicas, below the {} that are claimed",
            deployment.name,
            deployment.replicas,
            deployment.ledger.len()
        );
        end(step, claim, EndReason::ScaledByOthers, &message);
    }
}

/// Raises for the claims that wait, oldest first, in one patch.
pub(super) fn enter(observed: &Observed<'_>, step: &mut Step) {
    let Some(deployment) = observed.machine_deployment else {
        return;
    };
    let shut = deployment.paused.is_some() || deployment.deleting || deployment.unavailable.is_some();
    if shut || deployment.floor() < 0 {
        return;
    }
    let mut claims: Vec<&ClaimView> = entering(observed).collect();
    claims.sort_by_key(|claim| (claim.created, claim.claim.uid.clone()));
    let room = deployment.max_size.map_or(i64::MAX, |max| (max - deployment.replicas).max(0));
    let served = claims.len().min(usize::try_from(room).unwrap_or(usize::MAX));
    for claim in claims.split_off(served) {
        let message = format!(
            "MachineDeployment {} is at its maximum size of {}",
            deployment.name,
            deployment.max_size.unwrap_or_default()
        );
        end(step, claim, EndReason::InsufficientCapacity, &message);
    }
    // Machines that are still to be made count: the next step waits until they are there.
    let outstanding = (deployment.replicas - observed.live()).max(0);
    claims.truncate(usize::try_from(MAX_RAISE - outstanding).unwrap_or(0));
    if claims.is_empty() {
        return;
    }
    let entries: Vec<&Entry> = claims.iter().map(|claim| &claim.entry).collect();
    step.writes.push(Write::UpdateLedger {
        resource_version: deployment.resource_version.clone(),
        ledger: deployment.ledger.changed(entries, []),
        replicas: Some(deployment.replicas + super::observed::count(claims.iter())),
        end_pause: false,
    });
}

/// Claims that wait to enter with a replica of their own.
fn entering<'a>(observed: &'a Observed<'_>) -> impl Iterator<Item = &'a ClaimView> {
    outside(observed).filter(|claim| claim.adopts.is_none() && claim.replaces.is_none())
}

/// Claims that have no entry and never had a Machine.
fn outside<'a>(observed: &'a Observed<'_>) -> impl Iterator<Item = &'a ClaimView> {
    observed.claims.iter().filter(|claim| {
        !claim.deleting
            && claim.machine.is_none()
            && !observed.is_counted(claim)
            && observed.machine_of(claim).is_none()
    })
}

pub(super) fn end(step: &mut Step, claim: &ClaimView, reason: EndReason, message: &str) {
    step.writes.push(Write::EndClaim { claim: claim.claim.clone(), reason, message: message.to_owned() });
}
