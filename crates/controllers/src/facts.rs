//! What is known of MachineDeployments and NodePools besides their objects, for a while.
//!
//! It is lost with the process: then an offering is tried once more, which is what a person would do after a restart. A pool's
//! registration health is taken up again from its condition.

use jiff::{SignedDuration, Timestamp};
use karpenter_capi_api::v1::NodePool;
use karpenter_capi_catalog::{Facts, Until};
use karpenter_capi_lifecycle::claim::{Failure, back_off};
use karpenter_capi_lifecycle::node_pool::Registrations;
use karpenter_capi_model::name::NamespacedName;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// How long an offering is left alone after something that says nothing of the next try.
const BACK_OFF: SignedDuration = SignedDuration::from_mins(3);

/// Facts by MachineDeployment, results by NodePool.
#[derive(Debug, Default)]
pub(crate) struct FactBook(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    facts: BTreeMap<NamespacedName, Facts>,
    streaks: BTreeMap<(NamespacedName, Failure), Streak>,
    /// What an API server refuses, in words.
    refusals: BTreeMap<NamespacedName, String>,
    /// By the pool's UID.
    pools: BTreeMap<String, Registrations>,
}

/// Equal failures in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Streak {
    /// Claims that failed.
    pub(crate) claims: u32,
    /// Tries: claims that fail while the offering is out already belong to the try before.
    tries: u32,
    /// The offering is out until then.
    pub(crate) until: Timestamp,
}

/// What was learnt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lesson {
    OutOfCapacity,
    ScaledByOthers,
}

impl FactBook {
    /// All that is known now.
    pub(crate) fn all(&self) -> BTreeMap<NamespacedName, Facts> {
        self.0.lock().facts.clone()
    }

    /// What is known of one MachineDeployment.
    pub(crate) fn of(&self, deployment: &NamespacedName) -> Facts {
        self.0.lock().facts.get(deployment).cloned().unwrap_or_default()
    }

    /// Takes the offering out for a short while. Returns whether it was in for all that was known of that kind.
    pub(crate) fn learn(
        &self,
        deployment: &NamespacedName,
        lesson: Lesson,
        message: String,
        now: Timestamp,
    ) -> bool {
        let mut book = self.0.lock();
        let facts = book.facts.entry(deployment.clone()).or_default();
        let fact = match lesson {
            Lesson::OutOfCapacity => &mut facts.out_of_capacity,
            Lesson::ScaledByOthers => &mut facts.scaled_by_others,
        };
        let news = fact.as_ref().is_none_or(|known| known.until <= now);
        extend(fact, later(now, BACK_OFF), message);
        news
    }

    /// A claim on the MachineDeployment has failed: takes the offering out, the longer the more often it has failed in this way.
    pub(crate) fn failed(
        &self,
        deployment: &NamespacedName,
        failure: Failure,
        message: String,
        now: Timestamp,
    ) -> Streak {
        let mut book = self.0.lock();
        let streak = book.streaks.entry((deployment.clone(), failure)).or_default();
        streak.claims += 1;
        if streak.tries == 0 || now >= streak.until {
            streak.tries += 1;
            streak.until = later(now, back_off(streak.tries));
        }
        let streak = *streak;
        let facts = book.facts.entry(deployment.clone()).or_default();
        let fact = match failure {
            Failure::InsufficientCapacity => &mut facts.out_of_capacity,
            _ => &mut facts.launch_timed_out,
        };
        extend(fact, streak.until, message);
        streak
    }

    /// An API server refuses what is to be written for the MachineDeployment. Returns whether that is news.
    pub(crate) fn refused(&self, deployment: &NamespacedName, message: &str) -> bool {
        let before = self.0.lock().refusals.insert(deployment.clone(), message.to_owned());
        before.as_deref() != Some(message)
    }

    /// Everything could be written for the MachineDeployment. Returns whether something was refused before.
    pub(crate) fn accepted(&self, deployment: &NamespacedName) -> bool {
        self.0.lock().refusals.remove(deployment).is_some()
    }

    /// What an API server refuses for the MachineDeployment at present.
    pub(crate) fn refusal(&self, deployment: &NamespacedName) -> Option<String> {
        self.0.lock().refusals.get(deployment).cloned()
    }

    /// A claim on the MachineDeployment has got its Node: failures are counted from none again.
    pub(crate) fn succeeded(&self, deployment: &NamespacedName) {
        self.0.lock().streaks.retain(|(of, _), _| of != deployment);
    }

    /// Adds to what is known of a pool's nodes.
    pub(crate) fn judge(&self, pool: &NodePool, add: impl FnOnce(&mut Registrations)) {
        let mut book = self.0.lock();
        add(results_of(&mut book, pool));
    }

    /// What is known of a pool's nodes; with `anew` that is nothing from now on.
    pub(crate) fn registrations(&self, pool: &NodePool, anew: bool) -> Registrations {
        let mut book = self.0.lock();
        let results = results_of(&mut book, pool);
        if anew {
            *results = Registrations::default();
        }
        results.clone()
    }

    /// A MachineDeployment that is gone is forgotten.
    pub(crate) fn forget(&self, deployment: &NamespacedName) {
        let mut book = self.0.lock();
        book.facts.remove(deployment);
        book.refusals.remove(deployment);
        book.streaks.retain(|(of, _), _| of != deployment);
    }

    /// Pools that are gone are forgotten.
    pub(crate) fn retain_pools(&self, uids: &std::collections::BTreeSet<&str>) {
        self.0.lock().pools.retain(|uid, _| uids.contains(uid.as_str()));
    }
}

fn results_of<'a>(book: &'a mut Book, pool: &NodePool) -> &'a mut Registrations {
    let restored = || {
        let told = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        Registrations::of_condition(told)
    };
    book.pools.entry(pool.metadata.uid.clone().unwrap_or_default()).or_insert_with(restored)
}

/// A fact that holds for longer already isn't shortened.
fn extend(fact: &mut Option<Until>, until: Timestamp, message: String) {
    if fact.as_ref().is_none_or(|present| present.until <= until) {
        *fact = Some(Until { until, message });
    }
}

fn later(now: Timestamp, wait: SignedDuration) -> Timestamp {
    now.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(minute: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + minute * 60).unwrap()
    }

    fn fail(book: &FactBook, failure: Failure, at: i64) -> (u32, i64) {
        let streak = book.failed(&name(), failure, "m".to_owned(), minute(at));
        (streak.claims, (streak.until.as_second() - minute(0).as_second()) / 60)
    }

    fn name() -> NamespacedName {
        NamespacedName::new("default", "a")
    }

    // Public reports kubernetes-sigs/cluster-api#3359 and #11034: machines that can't join were made anew for ever.
    #[test]
    fn equal_failures_take_an_offering_out_for_longer_and_longer() {
        let book = FactBook::default();
        assert_eq!(fail(&book, Failure::RegistrationTimedOut, 0), (1, 3));
        assert_eq!(fail(&book, Failure::RegistrationTimedOut, 18), (2, 24));
        assert_eq!(fail(&book, Failure::RegistrationTimedOut, 40), (3, 52));
        assert_eq!(book.of(&name()).launch_timed_out.unwrap().until, minute(52));
    }

    #[test]
    fn a_lesson_is_news_until_it_is_known_and_again_after_its_back_off() {
        let book = FactBook::default();
        let learn = |at| book.learn(&name(), Lesson::ScaledByOthers, "m".to_owned(), minute(at));
        assert_eq!([learn(0), learn(2), learn(4), learn(7)], [true, false, false, true]);
        assert!(book.learn(&name(), Lesson::OutOfCapacity, "m".to_owned(), minute(7)), "another lesson");
    }

    #[test]
    fn claims_that_fail_together_are_one_try() {
        let book = FactBook::default();
        assert_eq!(fail(&book, Failure::InsufficientCapacity, 0), (1, 3));
        assert_eq!(fail(&book, Failure::InsufficientCapacity, 1), (2, 3));
        assert_eq!(fail(&book, Failure::InsufficientCapacity, 3), (3, 9), "three claims, two tries");
    }

    #[test]
    fn a_node_that_comes_up_and_another_kind_of_failure_begin_anew() {
        let book = FactBook::default();
        fail(&book, Failure::LaunchTimedOut, 0);
        assert_eq!(fail(&book, Failure::InsufficientCapacity, 1), (1, 4));
        book.succeeded(&name());
        assert_eq!(fail(&book, Failure::LaunchTimedOut, 10), (1, 13));
    }
}
