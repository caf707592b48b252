//! The operator: it plans from what it sees, and makes the plan's writes one by one, each with its precondition. Planning anew drops
//! what is left of a plan: a crash.

use super::super::{
    ClaimRef, Entry, Ledger, MachineRef, NamespacedName, Observed, OwnPause, Step, Write, at, step,
};
use super::{Claim, GONE, Note, Planned, Rest, State};
use crate::ledger::observed::{ClaimView, MachineDeploymentView, MachineSetView, MachineView};

const NOW: i64 = 1_000;

fn claim_ref(index: u8) -> ClaimRef {
    ClaimRef { name: format!("{index:02}"), uid: format!("{index:02}-claim-uid-") }
}

fn machine_name(index: u8) -> NamespacedName {
    NamespacedName::new("d", format!("{index:02}"))
}

fn index_of(text: &str) -> u8 {
    text[..2].parse().unwrap_or(GONE)
}

fn entries(ledger: &Ledger) -> u8 {
    ledger.iter().fold(0, |all, entry| all | 1 << index_of(&entry.to_string()))
}

impl Planned {
    fn of(write: &Write) -> Self {
        let claim = |claim: &ClaimRef| index_of(&claim.uid);
        let machine = |machine: &MachineRef| index_of(&machine.uid);
        let small = |number: i64| i8::try_from(number).unwrap();
        match write {
            Write::Bind { machine: m, claim: c } => Self::Bind { machine: machine(m), claim: claim(c) },
            Write::RecordMachine { claim: c, machine } => {
                Self::Record { claim: claim(c), machine: index_of(&machine.name) }
            }
            Write::EndClaim { claim: c, .. } => Self::End { claim: claim(c) },
            Write::ExcludeDrain { machine: m } => Self::Exclude { machine: machine(m) },
            Write::DeleteMachine { machine: m } => Self::Delete { machine: machine(m) },
            Write::UpdateLedger { ledger, replicas, end_pause, .. } => Self::Ledger {
                entries: entries(ledger),
                replicas: replicas.map(small),
                end_pause: *end_pause,
            },
            Write::Pause { pause, .. } => Self::Pause(Note {
                claim: index_of(&pause.claim_uid),
                set: index_of(&pause.machine_set),
                target: small(pause.target),
            }),
            Write::MarkMachine { machine: m } => Self::Mark { machine: machine(m) },
            Write::ScaleMachineSet { name, replicas, .. } => {
                Self::ScaleSet { set: index_of(name), replicas: small(*replicas) }
            }
            Write::CreateSuccessor { claim: c } => Self::Succeed { claim: claim(c) },
            Write::Forget { machine: m } => Self::Forget { machine: machine(m) },
            Write::ReleaseHook { machine: m } => Self::Release { machine: machine(m) },
            Write::FinishClaim { claim: c } => Self::Finish { claim: claim(c) },
        }
    }

    pub(super) fn names(self, index: u8) -> bool {
        match self {
            Self::Bind { claim, .. }
            | Self::Record { claim, .. }
            | Self::End { claim }
            | Self::Succeed { claim }
            | Self::Finish { claim } => claim == index,
            Self::Pause(note) => note.claim == index,
            Self::Ledger { entries, .. } => entries & (1 << index) != 0,
            _ => false,
        }
    }
}

impl State {
    fn deployment_view(&self) -> MachineDeploymentView {
        let counted = (0_u8..).zip(&self.claims).filter(|(_, claim)| claim.counted);
        let entries: Vec<Entry> = counted.map(|(index, _)| Entry::of_uid(&claim_ref(index).uid)).collect();
        MachineDeploymentView {
            name: NamespacedName::new("d", "m"),
            resource_version: String::new(),
            replicas: self.replicas.into(),
            ledger: Ledger::default().changed(&entries, []),
            deleting: self.deleting,
            observed: self.observed && self.passed_on == self.replicas,
            hosted: self.hosted,
            rolling_update: self.rolling_update,
            paused: (self.paused && self.note.is_none()).then(|| "paused".into()),
            own_pause: self.note.map(|note| OwnPause {
                claim_uid: if note.claim == GONE { "gone".into() } else { claim_ref(note.claim).uid },
                machine_set: if note.set == GONE { "gone".into() } else { format!("{:02}", note.set) },
                target: note.target.into(),
                lifted: !self.paused,
            }),
            pause_acknowledged: self.pause_seen,
            max_size: None,
            unavailable: None,
        }
    }

    fn set_views(&self) -> Vec<MachineSetView> {
        let view = |(index, set): (u8, &super::Set)| MachineSetView {
            name: format!("{index:02}"),
            resource_version: String::new(),
            created: at(i64::from(index) - 9_000),
            revision: index.into(),
            replicas: set.replicas.into(),
            status_replicas: set.status.into(),
            observed: set.observed,
        };
        (0_u8..).zip(&self.sets).map(view).collect()
    }

    fn machine_views(&self) -> Vec<MachineView> {
        let view = |(index, machine): (u8, &super::Machine)| MachineView {
            machine: MachineRef {
                name: machine_name(index),
                uid: format!("{index:02}"),
                resource_version: String::new(),
            },
            created: at(if machine.old { -5_000 } else { 0 }),
            deleting: machine.deleting,
            acknowledged: machine.acknowledged,
            machine_set: Some(format!("{:02}", machine.set)),
            claim: machine.claim.map(claim_ref),
            hooked: machine.hooked,
            drain_excluded: machine.excluded,
            marked: machine.marked,
        };
        (0_u8..).zip(&self.machines).map(view).collect()
    }

    fn claim_views(&self) -> Vec<ClaimView> {
        let named = |index: u8| {
            if index == GONE { NamespacedName::new("d", "gone") } else { machine_name(index) }
        };
        let view = |(index, claim): (u8, &Claim)| {
            let reference = claim_ref(index);
            let entry = Entry::of_uid(&reference.uid);
            if !claim.exists {
                return ClaimView::orphan(reference, entry, at(0));
            }
            ClaimView {
                claim: reference,
                entry,
                created: at(0),
                deleting: claim.deleting,
                machine: claim.machine.map(named),
                drained: claim.drained,
                adopts: claim
                    .adopts
                    .map(|index| if index == GONE { "gone".into() } else { format!("{index:02}") }),
                replaces: claim
                    .replaces
                    .map(|index| if index == GONE { "gone".into() } else { claim_ref(index).uid }),
                keeps_machine: claim.keeps,
                orphan: false,
            }
        };
        (0_u8..).zip(&self.claims).map(view).collect()
    }

    /// What the operator would do now; it also notes since when everything has been at rest.
    pub(in super::super) fn step(&mut self) -> Step {
        let deployment = (!self.gone).then(|| self.deployment_view());
        let (sets, machines, claims) = (self.set_views(), self.machine_views(), self.claim_views());
        let mut observed = Observed {
            now: at(NOW),
            machine_deployment: deployment.as_ref(),
            machine_sets: &sets,
            machines: &machines,
            claims: &claims,
            at_rest_since: None,
        };
        self.rest = if observed.at_rest() { self.rest.max(Rest::Recent) } else { Rest::Not };
        observed.at_rest_since = match self.rest {
            Rest::Not => None,
            Rest::Recent => Some(at(NOW)),
            Rest::Long => Some(at(NOW - 30)),
        };
        step(&observed)
    }

    pub(super) fn make_plan(&mut self) {
        self.plan = self.step().writes.iter().map(Planned::of).collect();
        self.fresh = true;
        self.sets.iter_mut().for_each(|set| set.fresh = true);
        self.machines.iter_mut().for_each(|machine| machine.fresh = true);
    }

    /// Makes the plan's next write; if its precondition fails, what falls with it is dropped, as in [`Write::falls_with`].
    pub(super) fn write(&mut self) -> Result<(), String> {
        let write = self.plan.remove(0);
        let unbound = if let Planned::Bind { machine, .. } = write { Some(machine) } else { None };
        if !self.make(write)? {
            self.plan.retain(|later| match (unbound, later) {
                (None, _) => false,
                (Some(unbound), Planned::Record { machine, .. }) => *machine != unbound,
                (Some(_), _) => true,
            });
        }
        Ok(())
    }

    fn make(&mut self, write: Planned) -> Result<bool, String> {
        match write {
            Planned::Ledger { entries, replicas, end_pause } => {
                return self.update_ledger(entries, replicas, end_pause);
            }
            Planned::Pause(note) => {
                if !self.fresh || self.gone {
                    return Ok(false);
                }
                if self.paused {
                    return Err("paused what somebody else had paused".into());
                }
                self.note = Some(note);
                self.paused = true;
                self.fresh = false;
            }
            Planned::ScaleSet { set, replicas } => {
                let Some(set) = self.sets.get_mut(usize::from(set)).filter(|set| set.fresh) else {
                    return Ok(false);
                };
                set.observed &= set.replicas == replicas;
                set.replicas = replicas;
                set.fresh = false;
            }
            Planned::Record { .. }
            | Planned::End { .. }
            | Planned::Succeed { .. }
            | Planned::Finish { .. } => return self.make_of_claim(write),
            Planned::Delete { machine } => return self.delete_machine(machine),
            Planned::Bind { machine, claim } => {
                return Ok(self.patch_machine(machine, |machine| {
                    machine.claim = Some(claim);
                    machine.hooked = true;
                }));
            }
            Planned::Exclude { machine } => {
                return Ok(self.patch_machine(machine, |machine| machine.excluded = true));
            }
            Planned::Mark { machine } => {
                return Ok(self.patch_machine(machine, |machine| machine.marked = true));
            }
            Planned::Forget { machine } => {
                return Ok(self.patch_machine(machine, |machine| {
                    machine.claim = None;
                    machine.hooked = false;
                }));
            }
            Planned::Release { machine } => {
                return Ok(machine == GONE || self.patch_machine(machine, |machine| machine.hooked = false));
            }
        }
        Ok(true)
    }

    fn make_of_claim(&mut self, write: Planned) -> Result<bool, String> {
        match write {
            Planned::Record { claim, machine } => {
                if let Some(claim) = self.claims.get_mut(usize::from(claim)).filter(|claim| claim.exists) {
                    claim.machine = Some(machine);
                }
            }
            Planned::End { claim } => {
                if let Some(claim) = self.claims.get_mut(usize::from(claim)).filter(|claim| claim.exists) {
                    claim.deleting = true;
                }
            }
            Planned::Succeed { claim }
                if self.claims.get(usize::from(claim)).is_some_and(|claim| claim.exists) =>
            {
                self.claims.push(Claim { exists: true, replaces: Some(claim), ..Claim::default() });
            }
            Planned::Finish { claim } => {
                if self.machine_of(claim).is_some() {
                    return Err("finished a claim that holds a Machine".into());
                }
                if let Some(claim) = self.claims.get_mut(usize::from(claim)) {
                    if claim.counted {
                        return Err("finished a claim that is counted".into());
                    }
                    claim.exists = false;
                }
            }
            _ => {}
        }
        Ok(true)
    }

    fn patch_machine(&mut self, index: u8, change: impl FnOnce(&mut super::Machine)) -> bool {
        let Some(machine) = self.machines.get_mut(usize::from(index)).filter(|machine| machine.fresh) else {
            return false;
        };
        change(machine);
        machine.fresh = false;
        true
    }

    fn delete_machine(&mut self, index: u8) -> Result<bool, String> {
        let Some(machine) = self.machines.get_mut(usize::from(index)) else {
            return Ok(true);
        };
        let claim = machine.claim.and_then(|claim| self.claims.get(usize::from(claim)));
        let asked =
            claim.is_some_and(|claim| !claim.exists || claim.deleting && claim.drained && !claim.keeps);
        if !asked {
            return Err("deleted a Machine that nobody asked to give up".into());
        }
        if !machine.hooked {
            return Err("deleted a Machine without the hook".into());
        }
        machine.fresh &= machine.deleting;
        machine.deleting = true;
        Ok(true)
    }

    /// The one patch; it must not move the floor but where that is its purpose.
    fn update_ledger(&mut self, entries: u8, replicas: Option<i8>, end_pause: bool) -> Result<bool, String> {
        if !self.fresh || self.gone {
            return Ok(false);
        }
        if self.paused && self.note.is_none() {
            return Err("wrote to a MachineDeployment that somebody paused".into());
        }
        let before = self.replicas - self.ledger();
        let mut moved = 0;
        let entering =
            (0..).zip(&self.claims).filter(|(index, claim)| entries & (1 << index) != 0 && !claim.counted);
        let succeeded: Vec<u8> = entering.filter_map(|(_, claim)| claim.replaces).collect();
        for index in 0..self.claims.len() {
            let counted = entries & (1 << index) != 0;
            let machine = self.machine_of(u8::try_from(index).unwrap()).copied();
            let claim = &mut self.claims[index];
            match (claim.counted, counted) {
                (false, true) if claim.adopts.is_some() => moved -= 1,
                (true, false)
                    if claim.keeps
                        && replicas.is_none()
                        && !succeeded.iter().any(|old| usize::from(*old) == index) =>
                {
                    moved += 1;
                }
                (true, false) if claim.adopts.is_some() && machine.is_none() && replicas.is_none() => {
                    moved += 1;
                }
                _ => {}
            }
            claim.counted = counted;
        }
        if end_pause {
            self.note = None;
            self.paused = false;
        }
        self.scale(replicas.unwrap_or(self.replicas));
        self.floor += moved;
        let unasked = self.replicas - self.ledger() - before - moved;
        if unasked != 0 {
            self.floor += unasked;
            self.slack -= unasked;
            if unasked < 0 || self.slack < 0 {
                return Err(format!("our own patch moved the floor by {unasked}"));
            }
        }
        Ok(true)
    }
}
