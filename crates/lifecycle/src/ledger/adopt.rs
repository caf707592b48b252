//! Machines that were there before: taken over without a change of the number, and left behind in the same way.

use super::observed::ClaimView;
use super::{EndReason, Entry, Observed, Step, Write};

/// Lets claims in that adopt a Machine; those that can't have theirs end. Returns whether the MachineDeployment was patched.
pub(super) fn adopt(observed: &Observed<'_>, step: &mut Step) -> bool {
    let Some(deployment) = observed.machine_deployment else {
        return false;
    };
    if deployment.paused.is_some() || deployment.deleting {
        return false;
    }
    let waiting = observed.claims.iter().filter(|claim| {
        claim.adopts.is_some()
            && !claim.deleting
            && !observed.is_counted(claim)
            && observed.machine_of(claim).is_none()
    });
    let bound_now: Vec<&str> = step
        .writes
        .iter()
        .filter_map(|write| match write {
            Write::Bind { machine, .. } => Some(machine.uid.as_str()),
            _ => None,
        })
        .collect();
    // Made for a claim that waits, which gets it in this very step: the next one refuses it.
    let waiting: Vec<&ClaimView> =
        waiting.filter(|claim| claim.adopts.as_deref().is_none_or(|uid| !bound_now.contains(&uid))).collect();
    let mut floor = deployment.floor();
    let mut entering: Vec<&Entry> = Vec::new();
    let mut taken: Vec<&str> = Vec::new();
    for claim in waiting {
        let uid = claim.adopts.as_deref().unwrap_or_default();
        match refusal(observed, claim, uid, floor, &taken) {
            None => {
                floor -= 1;
                taken.push(uid);
                entering.push(&claim.entry);
            }
            Some(message) => super::enter::end(step, claim, EndReason::AdoptionRefused, &message),
        }
    }
    if entering.is_empty() {
        return false;
    }
    step.writes.push(Write::UpdateLedger {
        resource_version: deployment.resource_version.clone(),
        ledger: deployment.ledger.changed(entering, []),
        replicas: None,
        end_pause: false,
    });
    true
}

fn refusal(
    observed: &Observed<'_>,
    claim: &ClaimView,
    uid: &str,
    floor: i64,
    taken: &[&str],
) -> Option<String> {
    let Some(machine) = observed.machines.iter().find(|machine| machine.machine.uid == uid) else {
        return Some(format!("there is no Machine with UID {uid} to adopt"));
    };
    let name = &machine.machine.name;
    if machine.deleting {
        Some(format!("Machine {name} is being deleted and can't be adopted"))
    } else if machine.claim.is_some() || taken.contains(&uid) {
        Some(format!("Machine {name} has a claim already"))
    } else if claim.machine.is_some() {
        Some("it had a Machine before and can't adopt another".to_owned())
    } else if floor < 1 {
        Some(format!("every Machine of the MachineDeployment is claimed, so {name} can't be adopted"))
    } else {
        None
    }
}

/// Takes the entries out of claims that leave their Machine behind; the number stays. Returns whether there was such a patch.
pub(super) fn release(observed: &Observed<'_>, step: &mut Step) -> bool {
    let Some(deployment) = observed.machine_deployment.filter(|deployment| deployment.paused.is_none())
    else {
        return false;
    };
    let leaving: Vec<&Entry> =
        released(observed).filter(|claim| observed.is_counted(claim)).map(|claim| &claim.entry).collect();
    if leaving.is_empty() {
        return false;
    }
    step.writes.push(Write::UpdateLedger {
        resource_version: deployment.resource_version.clone(),
        ledger: deployment.ledger.changed([], leaving),
        replicas: None,
        end_pause: false,
    });
    true
}

/// Takes our keys off the Machines of such claims, once they are no longer counted.
pub(super) fn forget(observed: &Observed<'_>, step: &mut Step) {
    for claim in released(observed).filter(|claim| !observed.is_counted(claim)) {
        if let Some(machine) = observed.machine_of(claim).filter(|machine| !machine.deleting) {
            step.writes.push(Write::Forget { machine: machine.machine.clone() });
        }
    }
}

/// Claims that are deleted and leave their Machine behind, once nothing of ours is on the Node; one without a Machine leaves by the
/// ordinary way. A Machine that somebody deletes meanwhile isn't ours any more, and Cluster API makes it anew.
fn released<'a>(observed: &'a Observed<'_>) -> impl Iterator<Item = &'a ClaimView> {
    let bound = |claim: &&ClaimView| observed.machine_of(claim).is_some();
    observed
        .claims
        .iter()
        .filter(|claim| claim.deleting && claim.keeps_machine && claim.drained)
        .filter(bound)
}
