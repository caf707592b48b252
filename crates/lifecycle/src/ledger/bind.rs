//! One Machine, one claim: first the claim onto the Machine, with the hook; then the Machine onto the claim.

use super::observed::{ClaimView, MachineView, count};
use super::{MACHINE_MAY_PRECEDE_CLAIM, Observed, Step, Write};
use std::cmp::Reverse;

/// Appends the bindings that are due.
pub(super) fn bind(observed: &Observed<'_>, step: &mut Step) {
    let Some(deployment) = observed.machine_deployment else {
        return;
    };
    if deployment.paused.is_some() || deployment.deleting {
        return;
    }
    renew_hooks(observed, step);
    let mut machines = bindable(observed);
    // Never more than live − floor: the rest is not ours, whoever made it.
    let ours =
        count(observed.machines.iter().filter(|machine| !machine.deleting && observed.is_ours(machine)));
    let room = usize::try_from(observed.live() - deployment.floor() - ours).unwrap_or(0);
    let claims = waiting(observed);
    let (first, rest) = claims.split_at(claims.len().min(room));
    // Who waits longest is served first. Of those the latest gets the newest Machine: it may not have an old one, and the others may.
    let mut first = first.to_vec();
    first.sort_by_key(|claim| (claim.adopts.is_none(), Reverse((claim.created, claim.claim.uid.clone()))));
    let bound_before = machines.len();
    for claim in first.iter().chain(rest) {
        if bound_before - machines.len() == room {
            break;
        }
        let Some(position) = position(observed, &machines, claim) else {
            continue;
        };
        let machine = machines.remove(position);
        step.writes.push(Write::Bind { machine: machine.machine.clone(), claim: claim.claim.clone() });
        if !claim.orphan {
            step.writes.push(Write::RecordMachine {
                claim: claim.claim.clone(),
                machine: machine.machine.name.clone(),
            });
        }
    }
}

/// A Machine that carries a claim which doesn't name it: the second half of a binding that was cut off.
pub(super) fn record(observed: &Observed<'_>, step: &mut Step) {
    for claim in observed.claims.iter().filter(|claim| !claim.orphan) {
        if let Some(machine) = observed.machine_of(claim)
            && claim.machine.as_ref() != Some(&machine.machine.name)
        {
            step.writes.push(Write::RecordMachine {
                claim: claim.claim.clone(),
                machine: machine.machine.name.clone(),
            });
        }
    }
}

/// A live Machine of ours without hook would be replaced as soon as somebody deletes it.
fn renew_hooks(observed: &Observed<'_>, step: &mut Step) {
    for machine in observed.machines.iter().filter(|machine| !machine.deleting && !machine.hooked) {
        if let Some(claim) = observed.claim_of(machine) {
            step.writes.push(Write::Bind { machine: machine.machine.clone(), claim: claim.claim.clone() });
        }
    }
}

/// Unowned Machines, those of the newest MachineSet first, newest first.
fn bindable<'a>(observed: &'a Observed<'_>) -> Vec<&'a MachineView> {
    let set_age = |machine: &MachineView| {
        let set = observed.machine_sets.iter().find(|set| machine.machine_set.as_ref() == Some(&set.name));
        set.map(|set| (set.revision, set.created, set.name.clone()))
    };
    let mut machines: Vec<_> =
        observed.machines.iter().filter(|machine| machine.claim.is_none() && !machine.deleting).collect();
    machines.sort_by_key(|machine| {
        (Reverse(set_age(machine)), Reverse(machine.created), machine.machine.name.clone())
    });
    machines
}

/// Claims with an entry but without a Machine, oldest first; those that end anyway come last, so that a Machine goes to one that
/// lives if it can.
fn waiting<'a>(observed: &'a Observed<'_>) -> Vec<&'a ClaimView> {
    let mut claims: Vec<_> = unbound_entries(observed).collect();
    claims.sort_by_key(|claim| {
        (claim.deleting, claim.adopts.is_none(), claim.created, claim.claim.uid.clone())
    });
    // A claim that lost its Machine ends; only then may its remake be bound to it, to be given back.
    claims.retain(|claim| claim.deleting || claim.machine.is_none());
    claims
}

/// Claims that are counted in the replicas and that no Machine carries.
pub(super) fn unbound_entries<'a>(observed: &'a Observed<'_>) -> impl Iterator<Item = &'a ClaimView> {
    let ledger = observed.machine_deployment.map(|deployment| &deployment.ledger);
    observed.claims.iter().filter(move |claim| {
        ledger.is_some_and(|ledger| ledger.contains(&claim.entry)) && observed.machine_of(claim).is_none()
    })
}

/// Which of the Machines the claim gets.
fn position(observed: &Observed<'_>, machines: &[&MachineView], claim: &ClaimView) -> Option<usize> {
    if let Some(uid) = &claim.adopts {
        return machines.iter().position(|machine| machine.machine.uid == *uid);
    }
    let newest = observed.newest_set().map(|set| set.name.as_str());
    let is_free = |machine: &&MachineView| !is_wanted_for_adoption(observed, machine, Wanted::Entered);
    if claim.replaces.is_some() {
        // The oldest of the newest revision: the one that came in the place of the Machine that went.
        return machines
            .iter()
            .rposition(|machine| is_free(machine) && machine.machine_set.as_deref() == newest);
    }
    let unwanted = |machine: &&MachineView| !is_wanted_for_adoption(observed, machine, Wanted::AskedFor);
    let first = |may: &dyn Fn(&&MachineView) -> bool| {
        machines.iter().position(|machine| may(machine) && made_for(machine, claim))
    };
    // One that was made for this claim is its own, also when a person asks to adopt it; another one leaves that to him.
    first(&unwanted).or_else(|| first(&is_free))
}

/// How much a claim that adopts must have done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// It is there.
    AskedFor,
    /// It has entered.
    Entered,
}

fn is_wanted_for_adoption(observed: &Observed<'_>, machine: &MachineView, how: Wanted) -> bool {
    observed.claims.iter().any(|claim| {
        !claim.deleting
            && claim.adopts.as_ref() == Some(&machine.machine.uid)
            && (how == Wanted::AskedFor || observed.is_counted(claim))
    })
}

/// A Machine that is much older than the claim was there before it, for somebody else.
fn made_for(machine: &MachineView, claim: &ClaimView) -> bool {
    let earliest = claim.created.saturating_sub(MACHINE_MAY_PRECEDE_CLAIM);
    earliest.map_or(true, |earliest| machine.created >= earliest)
}
