//! Where everything ends when people stop and everybody else goes on.

use super::{Action, Rest, State, people::Person};

impl State {
    /// One round in which everybody has his turn. The same state: everything is at rest.
    pub(in super::super) fn round(&self) -> Result<Self, String> {
        let mut state = self.clone();
        if state.paused && state.note.is_none() {
            state = state.after(Action::Person(Person::Unpauses))?;
        }
        if state.blocked {
            state = state.after(Action::Person(Person::Unblocks))?;
        }
        state = state.after(Action::Plan)?;
        while !state.plan.is_empty() {
            state = state.after(Action::Write)?;
        }
        for _ in 0..40 {
            let mut actions = Vec::new();
            state.claim_actions(&mut actions);
            actions.retain(|action| matches!(action, Action::Drain(_)));
            state.capi_actions(&mut actions);
            let Some(action) = actions.first() else { break };
            state = state.after(*action)?;
        }
        if state == *self {
            let mut actions = Vec::new();
            state.claim_actions(&mut actions);
            if let Some(action) = actions.first() {
                state = state.after(*action)?;
            }
        }
        Ok(state)
    }

    /// The ledger's invariants at rest.
    pub(in super::super) fn check_end(&self) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("at rest: {what}"));
        let live = self.machines.iter().filter(|machine| !machine.deleting).count();
        if self.machines.len() != live {
            return wrong("a Machine is held for ever");
        }
        if self.claims.iter().any(|claim| !claim.exists) {
            return wrong("an entry or a Machine without its claim");
        }
        if self.claims.iter().any(|claim| claim.deleting) {
            return wrong("a claim that doesn't end");
        }
        if !self.gone {
            if self.paused || self.note.is_some() {
                return wrong("a pause was left behind");
            }
            if usize::try_from(self.replicas) != Ok(live) {
                return wrong("Machines and replicas differ");
            }
            if self.passed_on != self.replicas {
                return wrong("the number wasn't passed on");
            }
            if self.replicas - self.ledger() != self.floor {
                return wrong("the floor moved");
            }
        }
        for (index, claim) in (0_u8..).zip(&self.claims) {
            let machine = (0_u8..).zip(&self.machines).find(|(_, machine)| machine.claim == Some(index));
            let Some((position, machine)) = machine else {
                return wrong("a claim without Machine");
            };
            if !claim.counted || claim.machine != Some(position) || !machine.hooked {
                return wrong("a claim that isn't counted, doesn't name its Machine, or has no hook on it");
            }
        }
        for machine in &self.machines {
            if machine.excluded || machine.marked || machine.claim.is_none() && machine.hooked {
                return wrong("a mark or hook was left behind");
            }
        }
        debug_assert!(
            self.rest != Rest::Not || self.gone,
            "nothing is at rest that the operator doesn't see so"
        );
        Ok(())
    }
}
