//! Taking one Machine out of a MachineSet that isn't the oldest, under strategy `OnDelete`.
//!
//! Lowering the MachineDeployment always hits the oldest MachineSet. So the MachineDeployment is paused, the MachineSet itself is
//! lowered with the Machine marked, and one patch then sets ledger and number and ends the pause. Measured on Cluster API 1.14. The
//! annotation that notes what the pause is for lets a restart go on from there; a pause without it is somebody else's.

use super::observed::{ClaimView, MachineDeploymentView, MachineSetView, MachineView, OwnPause};
use super::{Observed, Step, Write};
use jiff::SignedDuration;

const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(1);

/// Begins the pause for that claim's Machine. Returns whether it was begun.
pub(super) fn pause(
    observed: &Observed<'_>,
    claim: &ClaimView,
    machine: &MachineView,
    step: &mut Step,
) -> bool {
    let Some(deployment) = observed.machine_deployment else {
        return false;
    };
    let set = observed.machine_sets.iter().find(|set| machine.machine_set.as_ref() == Some(&set.name));
    let Some(set) = set.filter(|set| set.replicas > 0 && observed.settled() && machine.hooked) else {
        return false;
    };
    // One that is going already would be taken in its place.
    if going_in(observed, &set.name).next().is_some() {
        return false;
    }
    if !machine.drain_excluded && !claim.orphan {
        step.writes.push(Write::ExcludeDrain { machine: machine.machine.clone() });
    }
    let pause = OwnPause {
        claim_uid: claim.claim.uid.clone(),
        machine_set: set.name.clone(),
        target: set.replicas - 1,
        lifted: false,
    };
    step.writes.push(Write::Pause { resource_version: deployment.resource_version.clone(), pause });
    step.look_again = Some(LOOK_AGAIN);
    true
}

/// Goes on under our own pause, and with nothing else. Returns whether there is one.
pub(super) fn under_own_pause(observed: &Observed<'_>, step: &mut Step) -> bool {
    let Some(deployment) = observed.machine_deployment else {
        return false;
    };
    let Some(pause) = deployment.own_pause.as_ref().filter(|_| deployment.paused.is_none()) else {
        return false;
    };
    step.look_again = Some(LOOK_AGAIN);
    let machine = observed
        .machines
        .iter()
        .find(|machine| machine.claim.as_ref().is_some_and(|owner| owner.uid == pause.claim_uid));
    let set = observed.machine_sets.iter().find(|set| set.name == pause.machine_set);
    match (machine, set) {
        (Some(machine), Some(set)) if !pause.lifted => {
            if !deployment.pause_acknowledged {
                // Until Cluster API has seen the pause it would put the MachineSet's number back.
            } else if set.replicas > pause.target + 1 {
                // It has moved the number before it saw the pause: the target is no longer by one less.
                end(observed, deployment, None, step);
            } else if set.replicas > pause.target {
                lower(machine, set, pause, step);
            } else if machine.deleting {
                end(observed, deployment, Some(machine), step);
            } else if set.observed {
                // It is content without taking this one: somebody deleted another, which was taken in its place, and which is given
                // back now if it may leave. This one's turn comes again.
                let other = going_in(observed, &set.name).find(|other| may_leave(observed, other));
                end(observed, deployment, other, step);
            }
        }
        // Somebody lifted the pause, or what it was for is gone: the ordinary rules hold again.
        _ => end(observed, deployment, None, step),
    }
    true
}

/// Lowers the MachineSet, once it is sure to take that Machine.
fn lower(machine: &MachineView, set: &MachineSetView, pause: &OwnPause, step: &mut Step) {
    if machine.deleting && !machine.acknowledged {
        // Somebody deleted it, and its MachineSet may not know yet: it would take another.
    } else if !machine.deleting && !machine.marked {
        step.writes.push(Write::MarkMachine { machine: machine.machine.clone() });
    } else {
        step.writes.push(Write::ScaleMachineSet {
            name: set.name.clone(),
            resource_version: set.resource_version.clone(),
            replicas: pause.target,
        });
    }
}

/// Machines of that MachineSet that are going.
fn going_in<'a>(observed: &'a Observed<'_>, set: &'a str) -> impl Iterator<Item = &'a MachineView> {
    observed
        .machines
        .iter()
        .filter(move |machine| machine.deleting && machine.machine_set.as_deref() == Some(set))
}

fn may_leave(observed: &Observed<'_>, machine: &MachineView) -> bool {
    machine.hooked
        && observed
            .claim_of(machine)
            .is_some_and(|claim| claim.deleting && claim.drained && !claim.keeps_machine)
}

fn end(
    observed: &Observed<'_>,
    deployment: &MachineDeploymentView,
    taken: Option<&MachineView>,
    step: &mut Step,
) {
    let claim =
        taken.and_then(|machine| observed.claim_of(machine)).filter(|claim| observed.is_counted(claim));
    step.writes.push(Write::UpdateLedger {
        resource_version: deployment.resource_version.clone(),
        ledger: deployment.ledger.changed([], claim.map(|claim| &claim.entry)),
        replicas: claim.map(|_| (deployment.replicas - 1).max(0)),
        end_pause: true,
    });
}
