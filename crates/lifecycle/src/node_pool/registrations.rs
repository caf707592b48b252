//! Whether a pool's nodes come up: the last few results, as upstream counts them.

use jiff::Timestamp;
use karpenter_capi_api::condition::{self, Condition, FALSE, TRUE};
use karpenter_capi_api::names::conditions;
use std::collections::VecDeque;

/// So many results count.
const REMEMBERED: usize = 4;
/// With so many failures among them the pool is unhealthy.
const UNHEALTHY: usize = 2;

/// The last results of a pool's claims, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registrations {
    /// None is a success.
    results: VecDeque<Option<Failed>>,
}

/// Why a claim's node didn't come up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// One word in CamelCase.
    pub reason: String,
    /// For people, with the MachineDeployment and how often in a row.
    pub message: String,
}

impl Registrations {
    /// What a condition that an earlier process wrote stands for.
    pub fn of_condition(conditions: &[Condition]) -> Self {
        let mut own = Self::default();
        if let Some(told) = condition::find(conditions, conditions::NODE_REGISTRATION_HEALTHY) {
            if told.status == TRUE {
                own.add(None);
            } else if told.status == FALSE {
                let failed = Failed { reason: told.reason.clone(), message: told.message.clone() };
                (0..UNHEALTHY).for_each(|_| own.add(Some(failed.clone())));
            }
        }
        own
    }

    /// A node of the pool was registered.
    pub fn succeeded(&mut self) {
        self.add(None);
    }

    /// A node of the pool didn't come up.
    pub fn failed(&mut self, failed: Failed) {
        self.add(Some(failed));
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    fn add(&mut self, result: Option<Failed>) {
        if self.results.len() == REMEMBERED {
            self.results.pop_front();
        }
        self.results.push_back(result);
    }

    /// Writes the condition; nothing while nothing is known.
    pub(super) fn tell(&self, all: &mut Vec<Condition>, now: Timestamp, generation: Option<i64>) {
        let kind = conditions::NODE_REGISTRATION_HEALTHY;
        if self.results.is_empty() {
            return;
        }
        let failures = || self.results.iter().flatten();
        match failures().next_back().filter(|_| failures().count() >= UNHEALTHY) {
            None => condition::set(all, kind, TRUE, kind, "", now, generation),
            Some(last) => condition::set(all, kind, FALSE, &last.reason, &last.message, now, generation),
        };
    }
}
