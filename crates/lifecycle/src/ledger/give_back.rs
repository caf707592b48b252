//! Giving back exactly one Machine: delete it under the hook, wait until Cluster API has answered, lower, and when that has settled
//! take the hook off.
//!
//! A deleting Machine is its MachineSet's first choice when the number falls, and counts as a replica until it is gone; so no other
//! Machine is taken and no replacement is made, whenever we crash in between.

use super::bind::unbound_entries;
use super::observed::{ClaimView, MachineView, count};
use super::{Entry, Observed, Step, Waiting, Write};
use jiff::SignedDuration;

/// Cluster API answers within seconds; nothing that we watch need change meanwhile.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(2);

/// Takes the hook off Machines that are no longer counted, or that Cluster API replaces in a roll-out anyway.
pub(super) fn release(observed: &Observed<'_>, step: &mut Step) {
    for machine in held(observed) {
        let Some(owner) = &machine.claim else { continue };
        let gone = observed.machine_deployment.is_none_or(|deployment| deployment.deleting);
        let counted = observed
            .machine_deployment
            .is_some_and(|deployment| deployment.ledger.contains(&Entry::of_uid(&owner.uid)));
        let drained = observed.claim_of(machine).is_none_or(|claim| claim.drained);
        let release = if gone {
            drained
        } else if counted {
            // Lowering would hit another Machine: let this one be remade, and give the remake back when the revisions are one again.
            drained && !observed.lowering_takes(machine)
        } else {
            // In a roll-out the numbers only settle when it is over, and it waits for this very Machine.
            observed.lowered() || drained && observed.rolling_out()
        };
        if release {
            step.writes.push(Write::ReleaseHook { machine: machine.machine.clone() });
        } else {
            step.look_again = Some(LOOK_AGAIN);
        }
    }
}

/// One patch for all Machines whose deletion Cluster API has answered: their entries out, the number down. Returns whether there
/// was one.
pub(super) fn lower(observed: &Observed<'_>, step: &mut Step) -> bool {
    let Some(deployment) = observed.machine_deployment else {
        return false;
    };
    if deployment.paused.is_some() || deployment.deleting {
        return false;
    }
    let due: Vec<(&MachineView, &ClaimView)> = held(observed)
        .filter(|machine| machine.acknowledged && observed.lowering_takes(machine))
        .filter_map(|machine| observed.claim_of(machine).map(|claim| (machine, claim)))
        .filter(|(_, claim)| {
            claim.deleting && claim.drained && !claim.keeps_machine && observed.is_counted(claim)
        })
        .collect();
    // Somebody else's deletion is judged by numbers that must be current.
    let due: Vec<_> =
        due.into_iter().filter(|(machine, _)| machine.drain_excluded || deployment.observed).collect();
    if due.is_empty() {
        return false;
    }
    // Also after a deletion of ours somebody may have scaled down, and have got this Machine for it: the number is his then.
    let lowered = remakes(observed, |machine| !machine.deleting).clamp(0, count(due.iter()));
    // A MachineSet that doesn't know of a deletion yet would take another Machine for it.
    if lowered > 0 && remakes(observed, |machine| !machine.deleting || !machine.acknowledged) < lowered {
        step.look_again = Some(LOOK_AGAIN);
        return false;
    }
    step.writes.push(Write::UpdateLedger {
        resource_version: deployment.resource_version.clone(),
        ledger: deployment.ledger.changed([], due.iter().map(|(_, claim)| &claim.entry)),
        replicas: (lowered > 0).then_some((deployment.replicas - lowered).max(0)),
        end_pause: false,
    });
    step.look_again = Some(LOOK_AGAIN);
    true
}

/// How many Machines Cluster API will make beside those that stay, and beyond those that claims still wait for: each is the
/// replacement of a Machine that is going. None is due where somebody scaled down, and got our Machine by that.
fn remakes(observed: &Observed<'_>, stays: fn(&MachineView) -> bool) -> i64 {
    let Some(deployment) = observed.machine_deployment else {
        return 0;
    };
    let unowned =
        count(observed.machines.iter().filter(|machine| !machine.deleting && !observed.is_ours(machine)));
    let unserved = (count(unbound_entries(observed)) - (unowned - deployment.floor().max(0)).max(0)).max(0);
    let all =
        deployment.replicas - count(observed.machines.iter().filter(|machine| stays(machine))) - unserved;
    // Of several MachineSets only the oldest is lowered: beyond what it wants itself, lowering would take one that stays.
    observed.vacant_in_oldest(stays).map_or(all, |vacant| vacant.min(all))
}

/// Deletes the Machines of claims that are drained. Returns whether the MachineDeployment is to be paused for one of them.
pub(super) fn delete(observed: &Observed<'_>, step: &mut Step) -> bool {
    let Some(deployment) = observed.machine_deployment else {
        return false;
    };
    let mut paused = false;
    for claim in observed.claims.iter().filter(|claim| claim.deleting && !claim.keeps_machine) {
        let Some(machine) = observed.machine_of(claim).filter(|machine| !machine.deleting) else {
            continue;
        };
        let waiting = if let Some(message) = &deployment.paused {
            Some(message.clone())
        } else if !claim.drained {
            None
        } else if deployment.deleting || observed.lowering_takes(machine) {
            give_back(claim, machine, step);
            None
        } else if observed.rolling_out() {
            Some(format!("a roll-out of MachineDeployment {} is under way", deployment.name))
        } else {
            paused = paused || !deployment.hosted && super::revisions::pause(observed, claim, machine, step);
            Some(format!(
                "MachineDeployment {} still has Machines of an older revision, which go first",
                deployment.name
            ))
        };
        step.waiting.extend(waiting.map(|message| Waiting { claim: claim.claim.clone(), message }));
    }
    paused
}

fn give_back(claim: &ClaimView, machine: &MachineView, step: &mut Step) {
    // A Machine without hook was bound by a patch that somebody undid: `bind` renews it, and the deletion waits for that.
    if !machine.hooked {
        return;
    }
    if !machine.drain_excluded && !claim.orphan {
        step.writes.push(Write::ExcludeDrain { machine: machine.machine.clone() });
    }
    step.writes.push(Write::DeleteMachine { machine: machine.machine.clone() });
    step.look_again = Some(LOOK_AGAIN);
}

/// Machines of ours that are deleting and held by our hook.
fn held<'a>(observed: &'a Observed<'_>) -> impl Iterator<Item = &'a MachineView> {
    observed.machines.iter().filter(|machine| machine.deleting && machine.hooked && machine.claim.is_some())
}
