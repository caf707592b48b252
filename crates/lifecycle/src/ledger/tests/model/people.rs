//! What people do, within their budget.

use super::{Action, Claim, GONE, People, State};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Person {
    CreatesClaim,
    DeletesClaim(u8),
    /// Removes a claim's finalizer by hand: its object is gone at once.
    MakesClaimVanish(u8),
    ReleasesClaim(u8),
    CreatesClaimThatAdopts(u8),
    ScalesUp,
    ScalesDown,
    DeletesMachine(u8),
    ChangesTemplate,
    Pauses,
    Unpauses,
    /// Lowers the MachineDeployment's own number, which HyperShift puts back.
    LowersBehindHyperShift,
    /// Lifts the pause that is ours.
    LiftsPause,
    DeletesMachineDeployment,
    /// Something that keeps Machines from being made.
    Blocks,
    Unblocks,
}

impl State {
    pub(super) fn person_actions(&self, actions: &mut Vec<Action>) {
        let People {
            creates,
            deletes,
            ups,
            downs,
            kills,
            templates,
            pauses,
            lifts,
            vanishes,
            adopts,
            releases,
            removals,
            blocks,
            behind,
        } = self.people;
        let mut may = |budget: u8, allowed: bool, person: Person| {
            if budget > 0 && allowed && !self.gone {
                actions.push(Action::Person(person));
            }
        };
        may(creates, self.claims.len() < 6, Person::CreatesClaim);
        for (index, claim) in (0_u8..).zip(&self.claims).filter(|(_, claim)| claim.exists) {
            may(deletes, !claim.deleting, Person::DeletesClaim(index));
            may(releases, !claim.deleting, Person::ReleasesClaim(index));
            may(vanishes, true, Person::MakesClaimVanish(index));
        }
        for (index, machine) in (0_u8..).zip(&self.machines).filter(|(_, machine)| !machine.deleting) {
            may(kills, true, Person::DeletesMachine(index));
            may(
                adopts,
                machine.old && machine.claim.is_none() && self.claims.len() < 6,
                Person::CreatesClaimThatAdopts(index),
            );
        }
        may(ups, true, Person::ScalesUp);
        may(downs, self.replicas > 0, Person::ScalesDown);
        may(behind, self.hosted && self.passed_on > 0, Person::LowersBehindHyperShift);
        may(templates, self.template_may_change(), Person::ChangesTemplate);
        may(pauses, !self.paused, Person::Pauses);
        may(1, self.paused && self.note.is_none(), Person::Unpauses);
        may(lifts, self.paused && self.note.is_some(), Person::LiftsPause);
        may(removals, !self.deleting, Person::DeletesMachineDeployment);
        may(blocks, !self.blocked, Person::Blocks);
        may(1, self.blocked, Person::Unblocks);
    }

    /// Only when everything has settled: a race in Cluster API deletes running Machines otherwise.
    fn template_may_change(&self) -> bool {
        let sum: i8 = self.sets.iter().map(|set| set.replicas).sum();
        self.observed
            && !self.new_template
            && sum == self.passed_on
            && self.sets.iter().all(|set| set.observed && set.status == set.replicas)
    }

    pub(super) fn person(&mut self, person: Person) {
        let people = &mut self.people;
        match person {
            Person::CreatesClaim => {
                people.creates -= 1;
                self.claims.push(Claim { exists: true, ..Claim::default() });
            }
            Person::CreatesClaimThatAdopts(machine) => {
                people.adopts -= 1;
                self.claims.push(Claim { exists: true, adopts: Some(machine), ..Claim::default() });
            }
            Person::DeletesClaim(claim) => {
                people.deletes -= 1;
                self.claims[usize::from(claim)].deleting = true;
            }
            Person::ReleasesClaim(claim) => {
                people.releases -= 1;
                self.claims[usize::from(claim)].deleting = true;
                self.claims[usize::from(claim)].keeps = true;
            }
            Person::MakesClaimVanish(claim) => {
                people.vanishes -= 1;
                let entry = &mut self.claims[usize::from(claim)];
                *entry = Claim { counted: entry.counted, ..Claim::default() };
                for other in self.claims.iter_mut().filter(|other| other.replaces == Some(claim)) {
                    other.replaces = Some(GONE);
                }
            }
            Person::ScalesUp => {
                people.ups -= 1;
                self.floor += 1;
                self.scale(self.replicas + 1);
            }
            Person::ScalesDown => {
                people.downs -= 1;
                self.floor -= 1;
                self.credits += 1;
                self.slack += 1;
                self.scale(self.replicas - 1);
            }
            Person::LowersBehindHyperShift => {
                people.behind -= 1;
                self.credits += 1;
                self.passed_on -= 1;
                self.observed = false;
            }
            Person::DeletesMachine(machine) => {
                people.kills -= 1;
                self.machines[usize::from(machine)].deleting = true;
                self.machines[usize::from(machine)].fresh = false;
            }
            Person::ChangesTemplate => {
                people.templates -= 1;
                self.new_template = true;
                self.rolled = self.rolling_update;
                // HyperShift writes both in one patch.
                self.passed_on = self.replicas;
                self.observed = false;
                self.touch();
            }
            Person::Pauses => {
                people.pauses -= 1;
                self.paused = true;
                self.fresh = false;
            }
            Person::Unpauses => {
                self.paused = false;
                self.fresh = false;
            }
            Person::LiftsPause => {
                people.lifts -= 1;
                self.paused = false;
                self.fresh = false;
            }
            Person::Blocks => {
                people.blocks -= 1;
                self.blocked = true;
            }
            Person::Unblocks => self.blocked = false,
            Person::DeletesMachineDeployment => {
                people.removals -= 1;
                self.deleting = true;
                self.fresh = false;
            }
        }
    }

    pub(super) fn scale(&mut self, replicas: i8) {
        if !self.hosted {
            self.observed &= replicas == self.replicas;
            self.passed_on = replicas;
        }
        self.replicas = replicas;
        self.fresh = false;
    }
}
