//! A small model of Cluster API, people and the operator around one MachineDeployment, whose states can be compared and hashed.
//!
//! Nothing has a name or an age of its own: what is chosen by name is chosen in every possible way, and states that differ only in
//! names are one. resourceVersions are reduced to the question whether an object has changed since the operator's plan was made.

mod capi;
mod end_state;
mod mixer;
mod operator;
mod people;

use mixer::Mixer;
use std::hash::{Hash, Hasher};

/// Index of something that no longer exists.
pub(super) const GONE: u8 = u8::MAX;

/// What people may still do, each so many times.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct People {
    pub(super) creates: u8,
    pub(super) deletes: u8,
    pub(super) ups: u8,
    pub(super) downs: u8,
    pub(super) kills: u8,
    pub(super) templates: u8,
    pub(super) pauses: u8,
    pub(super) lifts: u8,
    pub(super) vanishes: u8,
    pub(super) adopts: u8,
    pub(super) releases: u8,
    pub(super) removals: u8,
    pub(super) blocks: u8,
    /// Behind HyperShift's back.
    pub(super) behind: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Set {
    pub(super) replicas: i8,
    pub(super) status: i8,
    pub(super) observed: bool,
    pub(super) fresh: bool,
    pub(super) gone: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Machine {
    pub(super) set: u8,
    /// It was there long before every claim.
    pub(super) old: bool,
    pub(super) deleting: bool,
    pub(super) acknowledged: bool,
    /// Its MachineSet knows of the deletion in any case.
    pub(super) known: bool,
    /// It has a Node.
    pub(super) ready: bool,
    pub(super) claim: Option<u8>,
    pub(super) hooked: bool,
    pub(super) excluded: bool,
    pub(super) marked: bool,
    pub(super) fresh: bool,
    pub(super) gone: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Claim {
    /// False: the object is gone, and only its entry or its Machine is left.
    pub(super) exists: bool,
    pub(super) counted: bool,
    pub(super) deleting: bool,
    pub(super) drained: bool,
    pub(super) keeps: bool,
    pub(super) machine: Option<u8>,
    pub(super) adopts: Option<u8>,
    pub(super) replaces: Option<u8>,
}

/// Our own pause's note.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Note {
    pub(super) claim: u8,
    pub(super) set: u8,
    pub(super) target: i8,
}

/// How long the operator has seen it at rest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Rest {
    Not,
    Recent,
    Long,
}

/// A write that was decided and not made yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Planned {
    Bind { machine: u8, claim: u8 },
    Record { claim: u8, machine: u8 },
    End { claim: u8 },
    Exclude { machine: u8 },
    Delete { machine: u8 },
    Ledger { entries: u8, replicas: Option<i8>, end_pause: bool },
    Pause(Note),
    Mark { machine: u8 },
    ScaleSet { set: u8, replicas: i8 },
    Succeed { claim: u8 },
    Forget { machine: u8 },
    Release { machine: u8 },
    Finish { claim: u8 },
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct State {
    pub(super) rolling_update: bool,
    pub(super) replicas: i8,
    /// Number and ledger stand on a HyperShift NodePool, whose number HyperShift passes on.
    pub(super) hosted: bool,
    /// The MachineDeployment's own number.
    pub(super) passed_on: i8,
    pub(super) observed: bool,
    /// The template was changed, and its MachineSet isn't made yet.
    pub(super) new_template: bool,
    /// There has been a roll-out.
    pub(super) rolled: bool,
    /// The annotation that pauses.
    pub(super) paused: bool,
    pub(super) note: Option<Note>,
    /// The MachineDeployment controller knows the pause (`Paused=True`).
    pub(super) pause_seen: bool,
    pub(super) deleting: bool,
    pub(super) gone: bool,
    /// No Machine can be made, as under a failing preflight check.
    pub(super) blocked: bool,
    /// Machines get their Nodes only when Cluster API's controllers have nothing else to do, and their status is known.
    pub(super) slow: bool,
    pub(super) fresh: bool,
    /// Oldest first.
    pub(super) sets: Vec<Set>,
    pub(super) machines: Vec<Machine>,
    pub(super) claims: Vec<Claim>,
    pub(super) rest: Rest,
    pub(super) plan: Vec<Planned>,
    pub(super) people: People,
    /// What the floor must be, by what people did.
    pub(super) floor: i8,
    /// Machines that people's scaling down may still cost, by Cluster API's choice.
    pub(super) credits: i8,
    /// Entries that may leave with 0 because people's scaling down took their Machine.
    pub(super) slack: i8,
}

/// One transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Plan,
    Write,
    Drain(u8),
    /// Half a minute goes by in which Cluster API has nothing to do.
    Time,
    /// The claim was not bound within its time limit.
    TimeOut(u8),
    MachineController(u8),
    Join(u8),
    /// The MachineSet controller makes a Machine, or takes that one.
    Make(u8),
    Take {
        set: u8,
        machine: u8,
        lagging: bool,
    },
    SetStatus(u8),
    DeploymentController,
    HyperShift,
    SeePause,
    Person(people::Person),
}

impl State {
    pub(super) fn new(rolling_update: bool, floor: u8, people: People) -> Self {
        let machine = Machine {
            set: 0,
            old: true,
            deleting: false,
            acknowledged: false,
            known: false,
            ready: true,
            claim: None,
            hooked: false,
            excluded: false,
            marked: false,
            fresh: true,
            gone: false,
        };
        let replicas = i8::try_from(floor).unwrap();
        Self {
            rolling_update,
            replicas,
            hosted: false,
            passed_on: replicas,
            observed: true,
            new_template: false,
            rolled: false,
            paused: false,
            note: None,
            pause_seen: false,
            deleting: false,
            gone: false,
            blocked: false,
            slow: people.blocks > 0,
            fresh: true,
            sets: vec![Set { replicas, status: replicas, observed: true, fresh: true, gone: false }],
            machines: vec![machine; usize::from(floor)],
            claims: vec![],
            rest: Rest::Not,
            plan: vec![],
            people,
            floor: replicas,
            credits: 0,
            slack: 0,
        }
    }

    /// Every transition that changes anything, with what it leads to; an error is a broken property.
    pub(super) fn successors(&self) -> Vec<(Action, Result<Self, String>)> {
        let mut actions = vec![Action::Plan];
        if !self.plan.is_empty() {
            actions.push(Action::Write);
        }
        self.claim_actions(&mut actions);
        self.capi_actions(&mut actions);
        self.person_actions(&mut actions);
        actions.into_iter().map(|action| (action, self.after(action))).collect()
    }

    pub(super) fn after(&self, action: Action) -> Result<Self, String> {
        let mut next = self.clone();
        match action {
            Action::Plan => next.make_plan(),
            Action::Write => next.write()?,
            Action::Drain(claim) => next.claims[usize::from(claim)].drained = true,
            Action::Time => next.rest = Rest::Long,
            Action::TimeOut(claim) => next.claims[usize::from(claim)].deleting = true,
            Action::Person(person) => next.person(person),
            _ => next.cluster_api(action)?,
        }
        next.canonical();
        next.check()?;
        Ok(next)
    }

    fn claim_actions(&self, actions: &mut Vec<Action>) {
        for (index, claim) in (0_u8..).zip(&self.claims).filter(|(_, claim)| claim.exists) {
            if claim.deleting && !claim.drained {
                actions.push(Action::Drain(index));
            }
            let waits = !claim.deleting && claim.counted && self.machine_of(index).is_none();
            if waits && self.rest == Rest::Long && self.capi_is_idle() {
                actions.push(Action::TimeOut(index));
            }
        }
        if self.rest == Rest::Recent && self.capi_is_idle() {
            actions.push(Action::Time);
        }
    }

    pub(super) fn machine_of(&self, claim: u8) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.claim == Some(claim))
    }

    pub(super) fn ledger(&self) -> i8 {
        i8::try_from(self.claims.iter().filter(|claim| claim.counted).count()).unwrap()
    }

    /// What must hold in every state.
    fn check(&self) -> Result<(), String> {
        for claim in 0..u8::try_from(self.claims.len()).unwrap() {
            if self.machines.iter().filter(|machine| machine.claim == Some(claim)).count() > 1 {
                return Err("one claim has two Machines".into());
            }
        }
        // A released claim that only has to be finished still names the Machine that it left behind.
        let holding = |claim: &&Claim| claim.exists && !(claim.keeps && claim.deleting && !claim.counted);
        for machine in 0..u8::try_from(self.machines.len()).unwrap() {
            if self.claims.iter().filter(holding).filter(|claim| claim.machine == Some(machine)).count() > 1 {
                return Err("two claims have one Machine".into());
            }
        }
        Ok(())
    }

    /// Drops what is gone, and sorts the rest, so that states which differ in names only become one.
    fn canonical(&mut self) {
        if self.plan.is_empty() {
            self.fresh = true;
            self.sets.iter_mut().for_each(|set| set.fresh = true);
            self.machines.iter_mut().for_each(|machine| machine.fresh = true);
        }
        let sets = order(&self.sets, |_, set| !set.gone, |_, _| 0);
        self.sets = sets.iter().map(|index| self.sets[*index]).collect();
        self.rename(Some(&renaming(&sets)), None, None);
        let held = |index: usize, claim: &Claim| {
            let index = u8::try_from(index).unwrap();
            claim.exists
                || claim.counted
                || self.machine_of(index).is_some()
                || self.plan.iter().any(|write| write.names(index))
        };
        let claims = order(&self.claims, held, |index, claim| {
            let index = u8::try_from(index).unwrap();
            let machine = self.machine_of(index).map(|machine| Machine { claim: None, ..*machine });
            let bare = Claim { machine: None, adopts: None, replaces: None, ..*claim };
            let named = self.note.is_some_and(|note| note.claim == index);
            (
                bare,
                claim.machine.map(|m| m == GONE),
                claim.adopts.map(|m| m == GONE),
                claim.replaces,
                named,
                machine,
            )
        });
        self.claims = claims.iter().map(|index| self.claims[*index]).collect();
        self.rename(None, Some(&renaming(&claims)), None);
        let machines = order(&self.machines, |_, machine| !machine.gone, |_, machine| *machine);
        self.machines = machines.iter().map(|index| self.machines[*index]).collect();
        self.rename(None, None, Some(&renaming(&machines)));
    }

    fn rename(&mut self, sets: Option<&[u8; 16]>, claims: Option<&[u8; 16]>, machines: Option<&[u8; 16]>) {
        let by = |map: Option<&[u8; 16]>, index: &mut u8| {
            if let Some(map) = map {
                *index = map.get(usize::from(*index)).copied().unwrap_or(GONE);
            }
        };
        for machine in &mut self.machines {
            by(sets, &mut machine.set);
            machine.claim.iter_mut().for_each(|claim| by(claims, claim));
        }
        for claim in &mut self.claims {
            claim.machine.iter_mut().for_each(|machine| by(machines, machine));
            claim.adopts.iter_mut().for_each(|machine| by(machines, machine));
            claim.replaces.iter_mut().for_each(|other| by(claims, other));
        }
        if let Some(note) = &mut self.note {
            by(sets, &mut note.set);
            by(claims, &mut note.claim);
        }
        for write in &mut self.plan {
            match write {
                Planned::Bind { machine, claim } | Planned::Record { claim, machine } => {
                    by(machines, machine);
                    by(claims, claim);
                }
                Planned::End { claim } | Planned::Succeed { claim } | Planned::Finish { claim } => {
                    by(claims, claim);
                }
                Planned::Exclude { machine }
                | Planned::Delete { machine }
                | Planned::Mark { machine }
                | Planned::Forget { machine }
                | Planned::Release { machine } => by(machines, machine),
                Planned::Ledger { entries, .. } => {
                    if let Some(map) = claims {
                        *entries = (0..8)
                            .filter(|bit| *entries & (1 << bit) != 0 && map[*bit] != GONE)
                            .fold(0, |all, bit| all | 1 << map[bit]);
                    }
                }
                Planned::Pause(note) => {
                    by(sets, &mut note.set);
                    by(claims, &mut note.claim);
                }
                Planned::ScaleSet { set, .. } => by(sets, set),
            }
        }
    }

    /// A fingerprint; two of some millions of states have the same with a probability below 10⁻⁶.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = Mixer::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// The indices of what stays, in the order of the keys.
fn order<T, K: Ord>(
    all: &[T],
    stays: impl Fn(usize, &T) -> bool,
    key: impl Fn(usize, &T) -> K,
) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..all.len()).filter(|index| stays(*index, &all[*index])).collect();
    kept.sort_by_cached_key(|index| key(*index, &all[*index]));
    kept
}

fn renaming(kept: &[usize]) -> [u8; 16] {
    let mut map = [GONE; 16];
    for (new, old) in (0_u8..).zip(kept) {
        map[*old] = new;
    }
    map
}
