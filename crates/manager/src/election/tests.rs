use super::*;

const TIMING: Timing = Timing::DEFAULT;

/// A person who plays through time; `at` is in seconds.
struct Clock(Instant);

impl Clock {
    fn at(&self, seconds: u64) -> Now {
        Now {
            instant: self.0 + Duration::from_secs(seconds),
            wall: Timestamp::from_second(1_800_000_000).unwrap() + Duration::from_secs(seconds),
        }
    }
}

fn clock() -> Clock {
    Clock(Instant::now())
}

fn candidate(identity: &str) -> Candidate {
    Candidate::new(identity.to_owned(), TIMING)
}

fn held(version: &str, holder: &str) -> Lease {
    Lease {
        version: version.to_owned(),
        record: Record {
            holder: holder.to_owned(),
            duration: Some(Duration::from_secs(15)),
            acquired: Some(Timestamp::UNIX_EPOCH),
            renewed: Some(Timestamp::UNIX_EPOCH),
            transitions: 4,
        },
    }
}

/// Plays the API server for a write.
fn accept(candidate: &mut Candidate, step: Step, version: &str, started: Instant) -> Lease {
    let record = match step {
        Step::Create(record) | Step::Write { record, .. } => record,
        other => panic!("no write: {other:?}"),
    };
    let lease = Lease { version: version.to_owned(), record };
    candidate.written(lease.clone(), started);
    lease
}

/// A candidate who has led since second 0.
fn leader(clock: &Clock) -> (Candidate, Lease) {
    let mut a = candidate("a");
    let step = a.decide(None, clock.at(0));
    let lease = accept(&mut a, step, "1", clock.at(0).instant);
    (a, lease)
}

#[test]
fn a_missing_lease_is_created() {
    let clock = clock();
    let mut a = candidate("a");
    assert_eq!(a.leads_until(), None);
    let Step::Create(record) = a.decide(None, clock.at(0)) else {
        panic!("not created");
    };
    assert_eq!((record.holder.as_str(), record.transitions), ("a", 0));
    assert_eq!(record.duration, Some(Duration::from_secs(15)));
    assert_eq!(a.leads_until(), None, "nothing was written yet");
}

#[test]
fn a_held_lease_is_taken_only_after_it_has_not_changed_for_its_duration() {
    let clock = clock();
    let mut b = candidate("b");
    for second in 0..15 {
        assert_eq!(b.decide(Some(held("7", "a")), clock.at(second)), Step::Wait { holder: "a".into() });
    }
    let Step::Write { over, record } = b.decide(Some(held("7", "a")), clock.at(15)) else {
        panic!("not taken");
    };
    assert_eq!(over, "7", "the write names the version that was seen");
    assert_eq!((record.holder.as_str(), record.transitions), ("b", 5));
    assert_eq!(record.acquired, Some(clock.at(15).wall));
}

#[test]
fn every_change_of_a_held_lease_starts_the_wait_anew() {
    let clock = clock();
    let mut b = candidate("b");
    assert!(matches!(b.decide(Some(held("7", "a")), clock.at(0)), Step::Wait { .. }));
    assert!(matches!(b.decide(Some(held("8", "a")), clock.at(14)), Step::Wait { .. }));
    assert!(matches!(b.decide(Some(held("8", "a")), clock.at(28)), Step::Wait { .. }));
    assert!(matches!(b.decide(Some(held("8", "a")), clock.at(29)), Step::Write { .. }));
}

#[test]
fn a_clock_that_runs_ahead_of_the_holders_does_not_take_the_lease() {
    let clock = clock();
    // The holder's renewTime is years in the past by our wall clock; only what we see by ourselves counts.
    let mut b = candidate("b");
    assert!(matches!(b.decide(Some(held("7", "a")), clock.at(0)), Step::Wait { .. }));
    // And one that lies in the future doesn't keep a dead holder alive.
    let mut dead = held("7", "a");
    dead.record.renewed = Some(clock.at(1_000_000).wall);
    let mut c = candidate("c");
    assert!(matches!(c.decide(Some(dead.clone()), clock.at(0)), Step::Wait { .. }));
    assert!(matches!(c.decide(Some(dead), clock.at(16)), Step::Write { .. }));
}

#[test]
fn the_holders_own_duration_counts() {
    let clock = clock();
    let mut lease = held("7", "a");
    lease.record.duration = Some(Duration::from_mins(1));
    let mut b = candidate("b");
    assert!(matches!(b.decide(Some(lease.clone()), clock.at(0)), Step::Wait { .. }));
    assert!(matches!(b.decide(Some(lease.clone()), clock.at(59)), Step::Wait { .. }));
    assert!(matches!(b.decide(Some(lease), clock.at(60)), Step::Write { .. }));
}

#[test]
fn a_lease_that_was_given_back_is_taken_at_once() {
    let clock = clock();
    let (mut a, _) = leader(&clock);
    let (over, record) = a.release(clock.at(3).wall).unwrap();
    assert_eq!(over, "1");
    assert_eq!(a.leads_until(), None);
    assert!(a.release(clock.at(3).wall).is_none(), "it is given back once");
    let mut b = candidate("b");
    let released = Lease { version: "2".into(), record };
    let Step::Write { record, .. } = b.decide(Some(released), clock.at(4)) else {
        panic!("not taken");
    };
    assert_eq!((record.holder.as_str(), record.transitions), ("b", 1));
}

#[test]
fn a_renewal_keeps_the_beginning_and_moves_the_end() {
    let clock = clock();
    let (mut a, created) = leader(&clock);
    assert_eq!(a.leads_until(), Some(clock.at(10).instant));
    let step = a.decide(a.known(), clock.at(2));
    let renewed = accept(&mut a, step, "2", clock.at(2).instant);
    assert_eq!(renewed.record.acquired, created.record.acquired);
    assert_eq!(renewed.record.renewed, Some(clock.at(2).wall));
    assert_eq!(renewed.record.transitions, 0);
    assert_eq!(a.leads_until(), Some(clock.at(12).instant));
}

#[test]
fn a_leader_whose_renewals_fail_ends_before_anybody_can_take_over() {
    let clock = clock();
    let (mut a, lease) = leader(&clock);
    // b sees it at the earliest when it was written.
    let mut b = candidate("b");
    assert!(matches!(b.decide(Some(lease.clone()), clock.at(0)), Step::Wait { .. }));
    // Renewals of a are decided on but never answered.
    for second in [2, 4, 6, 8] {
        let _ = a.decide(a.known(), clock.at(second));
    }
    let end = a.leads_until().unwrap();
    assert_eq!(end, clock.at(10).instant);
    let taken =
        (0..60).find(|second| matches!(b.decide(Some(lease.clone()), clock.at(*second)), Step::Write { .. }));
    assert!(clock.at(taken.unwrap()).instant >= end + TIMING.lease.saturating_sub(TIMING.renew_within));
}

#[test]
fn a_leader_that_finds_somebody_else_stops_at_once() {
    let clock = clock();
    let (mut a, _) = leader(&clock);
    a.conflicted();
    assert_eq!(a.known(), None, "after a conflict the Lease is read again");
    assert_eq!(a.decide(Some(held("9", "b")), clock.at(3)), Step::Deposed { holder: "b".into() });
    assert_eq!(a.leads_until(), None);
}

#[test]
fn a_lease_that_was_deleted_is_created_again_by_its_holder() {
    let clock = clock();
    let (mut a, _) = leader(&clock);
    a.conflicted();
    assert!(matches!(a.decide(None, clock.at(3)), Step::Create(_)));
}

#[test]
fn of_two_that_see_it_free_only_one_gets_through() {
    let clock = clock();
    let free = held("7", "");
    let (mut a, mut b) = (candidate("a"), candidate("b"));
    let (first, second) = (a.decide(Some(free.clone()), clock.at(0)), b.decide(Some(free), clock.at(0)));
    let version = |step: &Step| match step {
        Step::Write { over, .. } => over.clone(),
        other => panic!("no write: {other:?}"),
    };
    // Both name the same version, so the API server accepts one.
    assert_eq!(version(&first), version(&second));
    let lease = accept(&mut a, first, "8", clock.at(0).instant);
    b.conflicted();
    assert_eq!(b.decide(Some(lease), clock.at(0)), Step::Wait { holder: "a".into() });
}
