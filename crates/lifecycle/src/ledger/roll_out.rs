//! Roll-outs by Cluster API: each claim whose Machine is replaced gets a successor, which takes its place in the ledger.

use super::observed::{ClaimView, MachineDeploymentView, MachineView};
use super::{EndReason, Entry, Observed, Step, Write};

/// How far a claim's succession is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Succession {
    /// Its Machine isn't going because of a roll-out.
    Not,
    /// It still has its place, or its successor is yet to be made.
    Pending,
    /// Its successor has its place.
    Done,
}

/// How far the succession of a claim is whose Machine is going.
pub(super) fn succession(observed: &Observed<'_>, claim: &ClaimView, machine: &MachineView) -> Succession {
    let successor = successor_of(observed, claim);
    if successor.is_some_and(|successor| observed.is_counted(successor)) {
        return Succession::Done;
    }
    if observed.is_counted(claim) && is_replaced(observed, machine) {
        Succession::Pending
    } else {
        Succession::Not
    }
}

/// Makes successors, and swaps them in, all in one patch that doesn't change the number. Returns whether there was such a patch.
pub(super) fn succeed(observed: &Observed<'_>, step: &mut Step) -> bool {
    let open = |deployment: &&MachineDeploymentView| deployment.paused.is_none() && !deployment.deleting;
    let Some(deployment) = observed.machine_deployment.filter(open) else {
        return false;
    };
    let (mut entering, mut leaving): (Vec<&Entry>, Vec<&Entry>) = (Vec::new(), Vec::new());
    for claim in observed.claims.iter().filter(|claim| !claim.deleting) {
        let Some(machine) = observed.machine_of(claim).filter(|machine| machine.deleting) else {
            continue;
        };
        if succession(observed, claim, machine) != Succession::Pending {
            continue;
        }
        match successor_of(observed, claim) {
            None => step.writes.push(Write::CreateSuccessor { claim: claim.claim.clone() }),
            Some(successor) => {
                entering.push(&successor.entry);
                leaving.push(&claim.entry);
            }
        }
    }
    end_stranded(observed, step);
    if entering.is_empty() {
        return false;
    }
    step.writes.push(Write::UpdateLedger {
        resource_version: deployment.resource_version.clone(),
        ledger: deployment.ledger.changed(entering, leaving),
        replicas: None,
        end_pause: false,
    });
    true
}

/// A successor whose predecessor has left the ledger otherwise can never enter.
fn end_stranded(observed: &Observed<'_>, step: &mut Step) {
    for successor in observed.claims.iter().filter(|claim| !claim.deleting && !observed.is_counted(claim)) {
        let Some(uid) = &successor.replaces else { continue };
        let predecessor = observed.claims.iter().find(|claim| claim.claim.uid == *uid);
        if predecessor.is_none_or(|predecessor| predecessor.deleting || !observed.is_counted(predecessor)) {
            super::enter::end(
                step,
                successor,
                EndReason::InsufficientCapacity,
                "the claim that it was to succeed has ended",
            );
        }
    }
}

fn successor_of<'a>(observed: &'a Observed<'_>, claim: &ClaimView) -> Option<&'a ClaimView> {
    observed.claims.iter().find(|other| !other.deleting && other.replaces.as_ref() == Some(&claim.claim.uid))
}

/// A Machine of an older revision that goes while Cluster API rolls out.
fn is_replaced(observed: &Observed<'_>, machine: &MachineView) -> bool {
    let newest = observed.newest_set().map(|set| &set.name);
    observed.rolling_out() && machine.machine_set.as_ref() != newest
}
