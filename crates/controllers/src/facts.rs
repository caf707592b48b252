//! What is known of MachineDeployments besides their objects, for a while.
//!
//! It is lost with the process: then an offering is tried once more, which is what a person would do after a restart.

use jiff::{SignedDuration, Timestamp};
use karpenter_capi_catalog::{Facts, Until};
use karpenter_capi_model::name::NamespacedName;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// How long an offering is left alone after a failure.
const BACK_OFF: SignedDuration = SignedDuration::from_mins(3);

/// Facts by MachineDeployment.
#[derive(Debug, Default)]
pub(crate) struct FactBook(Mutex<BTreeMap<NamespacedName, Facts>>);

/// What was learnt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lesson {
    OutOfCapacity,
    LaunchTimedOut,
    ScaledByOthers,
}

impl FactBook {
    /// All that is known now.
    pub(crate) fn all(&self) -> BTreeMap<NamespacedName, Facts> {
        self.0.lock().clone()
    }

    /// What is known of one MachineDeployment.
    pub(crate) fn of(&self, deployment: &NamespacedName) -> Facts {
        self.0.lock().get(deployment).cloned().unwrap_or_default()
    }

    /// Takes the offering out until the back-off is over.
    pub(crate) fn learn(&self, deployment: &NamespacedName, lesson: Lesson, message: String, now: Timestamp) {
        let fact = Some(Until { until: now.saturating_add(BACK_OFF).unwrap_or(Timestamp::MAX), message });
        let mut book = self.0.lock();
        let facts = book.entry(deployment.clone()).or_default();
        match lesson {
            Lesson::OutOfCapacity => facts.out_of_capacity = fact,
            Lesson::LaunchTimedOut => facts.launch_timed_out = fact,
            Lesson::ScaledByOthers => facts.scaled_by_others = fact,
        }
    }

    /// A MachineDeployment that is gone is forgotten.
    pub(crate) fn forget(&self, deployment: &NamespacedName) {
        self.0.lock().remove(deployment);
    }
}
