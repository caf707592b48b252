//! Cluster API's measured rules in memory, for one MachineDeployment with one MachineSet, and the operator's writes with their
//! preconditions.

use super::*;
use crate::ledger::observed::{ClaimView, MachineDeploymentView, MachineSetView, MachineView};

pub(super) struct World {
    pub(super) now: i64,
    pub(super) deployment: MachineDeploymentView,
    pub(super) sets: Vec<MachineSetView>,
    pub(super) machines: Vec<MachineView>,
    pub(super) claims: Vec<ClaimView>,
    pub(super) at_rest_since: Option<Timestamp>,
    /// Machines that Cluster API chose when it shrank a MachineSet, by name, with whether a claim that stays held it.
    pub(super) shrunk: Vec<(String, bool)>,
    pub(super) made: i64,
    version: u64,
}

impl World {
    pub(super) fn with_floor(floor: i64) -> Self {
        let mut world = Self {
            now: 0,
            deployment: MachineDeploymentView {
                name: NamespacedName::new("default", "m1"),
                resource_version: "1".into(),
                replicas: floor,
                ledger: Ledger::default(),
                deleting: false,
                observed: true,
                hosted: false,
                rolling_update: true,
                paused: None,
                own_pause: None,
                pause_acknowledged: false,
                max_size: None,
                unavailable: None,
            },
            sets: vec![MachineSetView {
                name: "set-a".into(),
                resource_version: "1".into(),
                created: at(-10_000),
                revision: 1,
                replicas: floor,
                status_replicas: floor,
                observed: true,
            }],
            machines: vec![],
            claims: vec![],
            at_rest_since: None,
            shrunk: vec![],
            made: 0,
            version: 1,
        };
        for _ in 0..floor {
            world.make_machine("set-a", -5_000);
        }
        world
    }

    /// As [`World::with_floor`], with these claims served.
    pub(super) fn with_claims(floor: i64, names: &[&str]) -> Self {
        let mut world = Self::with_floor(floor);
        for name in names {
            world.claim(name);
        }
        world.quiesce();
        world
    }

    fn bump(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(super) fn make_machine(&mut self, set: &str, created: i64) {
        self.made += 1;
        let resource_version = self.bump();
        self.machines.push(MachineView {
            // Names in another order than ages, as Cluster API's random suffixes are.
            machine: MachineRef {
                name: NamespacedName::new("default", format!("m1-{}-{}", (self.made * 7) % 10, self.made)),
                uid: format!("machine-{}", self.made),
                resource_version,
            },
            created: at(created),
            deleting: false,
            acknowledged: false,
            machine_set: Some(set.to_owned()),
            claim: None,
            hooked: false,
            drain_excluded: false,
            marked: false,
        });
    }

    pub(super) fn claim(&mut self, name: &str) {
        let uid = format!("{name}-uid-000000000000");
        self.claims.push(ClaimView {
            entry: Entry::of_uid(&uid),
            claim: ClaimRef { name: name.to_owned(), uid },
            created: at(self.now),
            deleting: false,
            machine: None,
            drained: false,
            adopts: None,
            replaces: None,
            keeps_machine: false,
            orphan: false,
        });
    }

    pub(super) fn claim_named(&mut self, name: &str) -> &mut ClaimView {
        self.claims.iter_mut().find(|claim| claim.claim.name == name).unwrap()
    }

    pub(super) fn machine_of(&mut self, claim: &str) -> &mut MachineView {
        let carries =
            |machine: &&mut MachineView| machine.claim.as_ref().is_some_and(|owner| owner.name == claim);
        self.machines.iter_mut().find(carries).unwrap()
    }

    /// A second MachineSet, of a newer template, with so many Machines.
    pub(super) fn newer_set(&mut self, machines: i64) {
        self.sets.push(MachineSetView {
            name: "set-b".into(),
            resource_version: "1".into(),
            created: at(self.now),
            revision: 2,
            replicas: machines,
            status_replicas: machines,
            observed: true,
        });
        for _ in 0..machines {
            self.make_machine("set-b", self.now);
        }
    }

    pub(super) fn delete_claim(&mut self, name: &str) {
        for claim in self.claims.iter_mut().filter(|claim| claim.claim.name == name) {
            claim.deleting = true;
        }
    }

    pub(super) fn drain_all(&mut self) {
        for claim in self.claims.iter_mut().filter(|claim| claim.deleting) {
            claim.drained = true;
        }
    }

    pub(super) fn observe(&mut self) -> Step {
        let mut observed = Observed {
            now: at(self.now),
            machine_deployment: Some(&self.deployment),
            machine_sets: &self.sets,
            machines: &self.machines,
            claims: &self.claims,
            at_rest_since: self.at_rest_since,
        };
        let at_rest = observed.at_rest();
        self.at_rest_since = if at_rest { self.at_rest_since.or(Some(at(self.now))) } else { None };
        observed.at_rest_since = self.at_rest_since;
        step(&observed)
    }

    /// Observes, and makes at most `writes` of the writes before it crashes. Returns whether there was anything to write.
    pub(super) fn operate(&mut self, writes: usize) -> bool {
        let step = self.observe();
        let any = !step.writes.is_empty();
        for write in step.writes.into_iter().take(writes) {
            if self.write(write).is_err() {
                break;
            }
        }
        any
    }

    /// Operator and Machine controller work until the number has changed; the MachineDeployment controller hasn't seen it yet.
    pub(super) fn give_back(&mut self) {
        let before = self.deployment.replicas;
        for _ in 0..20 {
            self.operate(usize::MAX);
            if self.deployment.replicas != before {
                return;
            }
            self.reconcile_machines();
        }
        panic!("the number stays {before}: {:?}", self.machines);
    }

    fn machine(&mut self, machine: &MachineRef, same_version: bool) -> Result<&mut MachineView, ()> {
        let found = self.machines.iter_mut().find(|found| found.machine.uid == machine.uid).ok_or(())?;
        if same_version && found.machine.resource_version != machine.resource_version {
            return Err(());
        }
        Ok(found)
    }

    fn claim_mut(&mut self, claim: &ClaimRef) -> Result<&mut ClaimView, ()> {
        self.claims.iter_mut().find(|found| found.claim == *claim).ok_or(())
    }

    pub(super) fn write(&mut self, write: Write) -> Result<(), ()> {
        let version = self.bump();
        match write {
            Write::Bind { machine, claim } => {
                let machine = self.machine(&machine, true)?;
                machine.claim = Some(claim);
                machine.hooked = true;
                machine.machine.resource_version = version;
            }
            Write::RecordMachine { claim, machine } => self.claim_mut(&claim)?.machine = Some(machine),
            Write::EndClaim { claim, .. } => self.claim_mut(&claim)?.deleting = true,
            Write::ExcludeDrain { machine } => {
                let machine = self.machine(&machine, true)?;
                machine.drain_excluded = true;
                machine.machine.resource_version = version;
            }
            Write::DeleteMachine { machine } => self.machine(&machine, false)?.deleting = true,
            Write::UpdateLedger { resource_version, ledger, replicas, end_pause } => {
                if resource_version != self.deployment.resource_version {
                    return Err(());
                }
                self.deployment.ledger = ledger;
                if end_pause {
                    self.deployment.own_pause = None;
                    self.deployment.pause_acknowledged = false;
                }
                self.deployment.resource_version = version;
                if let Some(replicas) = replicas {
                    self.scale(replicas);
                }
            }
            Write::ReleaseHook { machine } => {
                let machine = self.machine(&machine, true)?;
                machine.hooked = false;
                machine.machine.resource_version = version;
            }
            Write::Pause { resource_version, pause } => {
                if resource_version != self.deployment.resource_version {
                    return Err(());
                }
                self.deployment.own_pause = Some(pause);
                self.deployment.resource_version = version;
            }
            Write::MarkMachine { machine } => {
                let machine = self.machine(&machine, true)?;
                machine.marked = true;
                machine.machine.resource_version = version;
            }
            Write::ScaleMachineSet { name, replicas, resource_version } => {
                let set = self.sets.iter_mut().find(|set| set.name == name).ok_or(())?;
                if set.resource_version != resource_version {
                    return Err(());
                }
                set.replicas = replicas;
                set.observed = false;
                set.resource_version = version;
            }
            Write::CreateSuccessor { claim } => {
                let name = format!("{}-next", claim.name);
                self.claim(&name);
                if let Some(successor) = self.claims.last_mut() {
                    successor.replaces = Some(claim.uid);
                }
            }
            Write::Forget { machine } => {
                let machine = self.machine(&machine, true)?;
                machine.claim = None;
                machine.hooked = false;
                machine.machine.resource_version = version;
            }
            Write::FinishClaim { claim } => {
                assert!(
                    !self.deployment.ledger.contains(&Entry::of_uid(&claim.uid)),
                    "a counted claim was finished"
                );
                self.claims.retain(|found| found.claim != claim);
            }
        }
        Ok(())
    }

    pub(super) fn scale(&mut self, replicas: i64) {
        self.deployment.replicas = replicas;
        self.deployment.observed = false;
        self.deployment.resource_version = self.bump();
    }

    /// The MachineDeployment controller, for the first MachineSet. It raises only as far as there is room beside the Machines that are
    /// still there: one more than the number under `RollingUpdate`, none under `OnDelete`.
    pub(super) fn reconcile_deployment(&mut self) {
        if self.deployment.own_pause.as_ref().is_some_and(|pause| !pause.lifted) {
            self.deployment.pause_acknowledged = true;
            return;
        }
        let others: i64 = self.sets.iter().skip(1).map(|set| set.replicas).sum();
        if let Some(set) = self.sets.first_mut() {
            let target = self.deployment.replicas - others;
            let room =
                target + i64::from(self.deployment.rolling_update) - set.replicas.max(set.status_replicas);
            let wanted = if set.replicas > target {
                target
            } else {
                set.replicas + room.clamp(0, target - set.replicas)
            };
            set.observed &= set.replicas == wanted;
            set.replicas = wanted;
        }
        self.deployment.observed = true;
        self.deployment.resource_version = self.bump();
    }

    /// The MachineSet controller. It knows of a deletion at the latest when the Machine controller has answered it; `lagging` lets
    /// it miss those that were not.
    pub(super) fn reconcile_set(&mut self, lagging: bool) {
        for index in 0..self.sets.len() {
            let set = self.sets[index].clone();
            let mine: Vec<usize> = (0..self.machines.len())
                .filter(|m| self.machines[*m].machine_set.as_ref() == Some(&set.name))
                .collect();
            let missing = set.replicas - i64::try_from(mine.len()).unwrap();
            for _ in 0..missing.max(0) {
                self.make_machine(&set.name.clone(), self.now);
            }
            let mut order = mine.clone();
            order.sort_by_key(|m| {
                let machine = &self.machines[*m];
                let known = machine.deleting && (machine.acknowledged || !lagging);
                (!known, !machine.marked, machine.machine.name.clone())
            });
            for victim in order.into_iter().take(usize::try_from((-missing).max(0)).unwrap()) {
                if !self.machines[victim].deleting {
                    let machine = &self.machines[victim];
                    let held = machine.claim.as_ref().is_some_and(|owner| {
                        self.claims.iter().any(|claim| claim.claim == *owner && !claim.deleting)
                    });
                    let name = machine.machine.name.to_string();
                    self.machines[victim].deleting = true;
                    self.shrunk.push((name, held));
                }
            }
            let count = self.machines.iter().filter(|m| m.machine_set.as_ref() == Some(&set.name)).count();
            self.sets[index].status_replicas = i64::try_from(count).unwrap();
            self.sets[index].observed = true;
        }
    }

    /// The Machine controller.
    pub(super) fn reconcile_machines(&mut self) {
        for machine in self.machines.iter_mut().filter(|machine| machine.deleting) {
            machine.acknowledged = true;
        }
        self.machines.retain(|machine| !machine.deleting || machine.hooked);
    }

    pub(super) fn reconcile_all(&mut self) {
        self.reconcile_machines();
        self.reconcile_deployment();
        self.reconcile_set(false);
        self.reconcile_machines();
    }

    /// Everybody works until nothing changes.
    pub(super) fn quiesce(&mut self) {
        let mut idle = 0;
        for _ in 0..300 {
            self.now += 10;
            self.drain_all();
            let busy = self.operate(usize::MAX);
            self.reconcile_all();
            let waiting = self.claims.iter().any(|claim| claim.deleting)
                || self.machines.iter().any(|machine| machine.deleting);
            // The operator may have nothing to write only because it waits for Cluster API.
            idle = if busy || waiting { 0 } else { idle + 1 };
            if idle == 3 {
                return;
            }
        }
        panic!("no end state: {:?}\n{:?}\n{:?}", self.deployment, self.machines, self.claims);
    }

    /// Section 10's invariants, for this one MachineDeployment at rest, with that floor.
    pub(super) fn check(&self, floor: i64) {
        let live = i64::try_from(self.machines.iter().filter(|machine| !machine.deleting).count()).unwrap();
        assert_eq!(self.deployment.floor(), floor, "the floor moved");
        assert_eq!(live, self.deployment.replicas, "Machines and replicas differ");
        assert_eq!(
            self.deployment.ledger.len(),
            i64::try_from(self.claims.len()).unwrap(),
            "entries and claims differ"
        );
        for claim in &self.claims {
            assert!(self.deployment.ledger.contains(&claim.entry), "claim without entry");
            let machines: Vec<_> =
                self.machines.iter().filter(|machine| machine.claim.as_ref() == Some(&claim.claim)).collect();
            assert_eq!(machines.len(), 1, "claim {} has not exactly one Machine", claim.claim.name);
            assert_eq!(claim.machine.as_ref(), Some(&machines[0].machine.name));
            assert!(machines[0].hooked, "a Machine of ours without hook");
        }
        for machine in self.machines.iter().filter(|machine| machine.claim.is_none()) {
            assert!(!machine.hooked && !machine.drain_excluded, "a mark without reason");
        }
    }
}
