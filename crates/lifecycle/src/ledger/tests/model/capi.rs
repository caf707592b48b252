//! Cluster API's controllers, by what was measured of version 1.14 and by its source: each transition is one controller's reconcile,
//! or one of its writes where others can come in between.

use super::{Action, Machine, Rest, Set, State};

const MAX_SURGE: i8 = 1;

impl State {
    pub(super) fn capi_actions(&self, actions: &mut Vec<Action>) {
        let before = actions.len();
        self.controller_actions(actions);
        if self.slow && actions.len() > before {
            return;
        }
        for (index, _) in
            (0_u8..).zip(&self.machines).filter(|(_, machine)| !machine.deleting && !machine.ready)
        {
            actions.push(Action::Join(index));
        }
    }

    fn controller_actions(&self, actions: &mut Vec<Action>) {
        for (index, machine) in (0_u8..).zip(&self.machines) {
            if machine.deleting && (!machine.acknowledged || !machine.hooked) {
                actions.push(Action::MachineController(index));
            }
        }
        if self.gone {
            return;
        }
        if self.paused != self.pause_seen {
            actions.push(Action::SeePause);
        }
        if self.deployment_has_work() {
            actions.push(Action::DeploymentController);
        }
        if self.hosted && self.passed_on != self.replicas {
            actions.push(Action::HyperShift);
        }
        if self.deleting {
            return;
        }
        for set in 0..u8::try_from(self.sets.len()).unwrap() {
            self.set_actions(set, actions);
        }
    }

    /// Nothing is left to do for Cluster API, Nodes that are to join apart.
    pub(super) fn capi_is_idle(&self) -> bool {
        let mut actions = Vec::new();
        self.controller_actions(&mut actions);
        actions.is_empty()
    }

    fn of_set(&self, set: u8) -> impl Iterator<Item = (u8, &Machine)> {
        (0_u8..).zip(&self.machines).filter(move |(_, machine)| machine.set == set && !machine.gone)
    }

    fn set_actions(&self, index: u8, actions: &mut Vec<Action>) {
        let set = &self.sets[usize::from(index)];
        let there = i8::try_from(self.of_set(index).count()).unwrap();
        // Under OnDelete an older MachineSet makes no Machines.
        let makes = self.rolling_update || usize::from(index) + 1 == self.sets.len();
        if there < set.replicas && makes && !self.blocked {
            actions.push(Action::Make(index));
            return;
        }
        let before = actions.len();
        self.victims(index, there - set.replicas, false, actions);
        let idle = actions.len() == before;
        if self.of_set(index).any(|(_, machine)| machine.deleting && !machine.known) {
            self.victims(index, there - set.replicas, true, actions);
        }
        if idle && (set.status != there || !set.observed) {
            actions.push(Action::SetStatus(index));
        }
    }

    /// Those that may be taken next: already deleting ones count first, then marked ones, then those without a Node, then any.
    fn victims(&self, set: u8, surplus: i8, lagging: bool, actions: &mut Vec<Action>) {
        let going = |machine: &Machine| machine.deleting && (machine.known || !lagging);
        let known = i8::try_from(self.of_set(set).filter(|(_, machine)| going(machine)).count()).unwrap();
        if surplus <= known {
            return;
        }
        let class = |machine: &Machine| (!machine.marked, machine.ready);
        let staying = || self.of_set(set).filter(|(_, machine)| !going(machine));
        let first = staying().map(|(_, machine)| class(machine)).min();
        for (index, machine) in staying().filter(|(_, machine)| Some(class(machine)) == first) {
            if !machine.deleting {
                actions.push(Action::Take { set, machine: index, lagging });
            }
        }
    }

    fn deployment_has_work(&self) -> bool {
        if self.deleting {
            return self.machines.iter().any(|machine| !machine.deleting) || self.machines.is_empty();
        }
        // While it knows a pause it does nothing; a pause that it doesn't know yet stops nothing.
        if self.pause_seen {
            return false;
        }
        let mut after = self.clone();
        after.reconcile_deployment();
        after.sets != self.sets || after.observed != self.observed || after.new_template != self.new_template
    }

    pub(super) fn cluster_api(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::MachineController(index) => {
                let machine = &mut self.machines[usize::from(index)];
                machine.fresh = false;
                machine.gone = machine.acknowledged;
                machine.acknowledged = true;
                machine.known = true;
            }
            Action::Join(index) => {
                self.machines[usize::from(index)].ready = true;
                self.machines[usize::from(index)].fresh = false;
            }
            Action::Make(set) => self.machines.push(Machine {
                set,
                old: false,
                deleting: false,
                acknowledged: false,
                known: false,
                ready: false,
                claim: None,
                hooked: false,
                excluded: false,
                marked: false,
                fresh: true,
                gone: false,
            }),
            Action::Take { set, machine, .. } => return self.take(set, machine),
            Action::SetStatus(set) => {
                let there = i8::try_from(self.of_set(set).count()).unwrap();
                let set = &mut self.sets[usize::from(set)];
                set.status = there;
                set.observed = true;
                set.fresh = false;
                // The MachineDeployment's status follows, before a Node can have joined.
                self.fresh &= !self.slow || self.hosted;
            }
            Action::SeePause => {
                self.pause_seen = self.paused;
                self.touch();
            }
            Action::HyperShift => {
                self.passed_on = self.replicas;
                self.observed = false;
            }
            Action::DeploymentController if self.deleting => {
                self.machines.iter_mut().for_each(|machine| machine.deleting = true);
                self.gone = self.machines.is_empty();
                if self.gone {
                    self.sets.clear();
                    self.claims.iter_mut().for_each(|claim| claim.counted = false);
                    self.note = None;
                    self.paused = false;
                    self.pause_seen = false;
                    self.rest = Rest::Not;
                }
                self.fresh = false;
            }
            Action::DeploymentController => {
                self.reconcile_deployment();
                self.touch();
            }
            _ => {}
        }
        Ok(())
    }

    /// The MachineDeployment has a new version, which counts for our next patch unless that one goes to a NodePool.
    pub(super) fn touch(&mut self) {
        self.fresh &= self.hosted;
    }

    /// A MachineSet takes a Machine; somebody must have wanted that.
    fn take(&mut self, set: u8, index: u8) -> Result<(), String> {
        let rolls_out = self.rolling_update && usize::from(set) + 1 < self.sets.len();
        let machine = &mut self.machines[usize::from(index)];
        machine.deleting = true;
        machine.known = true;
        machine.fresh = false;
        // One that was made after all for a claim that had given up waiting, and that nobody has.
        let spare = self.slow && machine.claim.is_none() && !machine.ready && !machine.old;
        let claim = machine.claim.and_then(|claim| self.claims.get(usize::from(claim)));
        let given_up =
            machine.marked && claim.is_some_and(|claim| !claim.exists || claim.deleting && claim.drained);
        // A lower number that HyperShift passes on when a roll-out has begun: the roll-out has remade what we gave back.
        let remade = self.hosted && self.rolled && machine.claim.is_none() && !machine.old;
        if given_up || rolls_out || spare || remade {
            return Ok(());
        }
        self.credits -= 1;
        if self.credits < 0 {
            return Err("Cluster API took a Machine that nobody asked to give up".into());
        }
        Ok(())
    }

    fn reconcile_deployment(&mut self) {
        if self.new_template {
            self.new_template = false;
            self.sets.push(Set { replicas: 0, status: 0, observed: true, fresh: true, gone: false });
        }
        let Some((newest, old)) = self.sets.len().checked_sub(1).map(|last| (last, 0..last)) else {
            return;
        };
        let before: Vec<i8> = self.sets.iter().map(|set| set.replicas).collect();
        let mut wanted = before.clone();
        let occupied: i8 = self.sets.iter().map(|set| set.replicas.max(set.status)).sum();
        let limit = self.passed_on + if self.rolling_update { MAX_SURGE } else { 0 };
        if wanted[newest] > self.passed_on {
            wanted[newest] = self.passed_on;
        } else if occupied < limit {
            wanted[newest] += (limit - occupied).min(self.passed_on - wanted[newest]);
        }
        if self.rolling_update {
            self.lower_old_rolling(&mut wanted);
        } else {
            self.lower_old_on_delete(&mut wanted);
        }
        for (index, set) in self.sets.iter_mut().enumerate() {
            if set.replicas != wanted[index] {
                set.replicas = wanted[index];
                set.observed = false;
                set.fresh = false;
            }
        }
        self.observed = true;
        let empty = |state: &Self, index: usize| {
            let set = &state.sets[index];
            set.replicas == 0
                && set.status == 0
                && set.observed
                && state.of_set(u8::try_from(index).unwrap()).next().is_none()
        };
        if old.clone().all(|index| empty(self, index)) {
            old.for_each(|index| self.sets[index].gone = true);
        }
    }

    fn lower_old_on_delete(&self, wanted: &mut [i8]) {
        let newest = wanted.len() - 1;
        let mut due = (wanted.iter().sum::<i8>() - self.passed_on).max(0);
        for (number, set) in wanted.iter_mut().zip(&self.sets).take(newest) {
            // Replicas without Machines: somebody deleted those.
            let vacant = (*number - set.status).max(0);
            *number -= vacant;
            due -= vacant;
        }
        for number in wanted.iter_mut().take(newest) {
            let step = (*number).min(due.max(0));
            *number -= step;
            due -= step;
        }
    }

    fn lower_old_rolling(&self, wanted: &mut [i8]) {
        let newest = wanted.len() - 1;
        let available = |index: usize| {
            let index = u8::try_from(index).unwrap();
            i8::try_from(self.of_set(index).filter(|(_, machine)| machine.ready && !machine.deleting).count())
                .unwrap()
        };
        let total: i8 = self.sets.iter().map(|set| set.replicas).sum();
        let pending: i8 = self
            .sets
            .iter()
            .zip(wanted.iter())
            .map(|(set, intent)| (set.status - (*intent).min(set.replicas)).max(0))
            .sum();
        let mut due = (total - pending - self.passed_on).max(0);
        let mut up: i8 = (0..=newest).map(available).sum();
        for only_unavailable in [true, false] {
            for (index, number) in wanted.iter_mut().enumerate().take(newest) {
                let most = if only_unavailable { (*number - available(index)).max(0) } else { *number };
                let mut step = most.min(due).max(0);
                if available(index) > 0 {
                    step = step.min((up - self.passed_on).max(0));
                    up -= step;
                }
                *number -= step;
                due -= step;
            }
        }
        // Neither up nor down: one that is not available goes.
        let stuck = self
            .sets
            .iter()
            .zip(wanted.iter())
            .all(|(set, intent)| set.replicas == *intent && set.status == *intent);
        let new_is_up = available(newest) >= wanted[newest];
        let broken = (0..newest).find(|index| wanted[*index] > available(*index));
        if let (true, true, Some(index)) = (stuck, new_is_up, broken) {
            wanted[index] -= 1;
        }
    }
}
