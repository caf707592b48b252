//! Leader election by a Lease: what to do, decided without a clock or a network.
//!
//! The rules are client-go's. A Lease that somebody else holds is taken only when it hasn't changed for its whole duration *by
//! our own clock since we saw it*, so clocks of different machines need not agree. The holder gives up earlier: after
//! [`Timing::renew_within`] from the start of its last renewal that succeeded. So two never lead at once.

pub(crate) mod lease;

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Durations of an election.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// How long a Lease that isn't renewed stays its holder's.
    pub(crate) lease: Duration,
    /// How long its holder leads after a renewal; shorter than `lease`.
    pub(crate) renew_within: Duration,
    /// Time between two attempts.
    pub(crate) retry: Duration,
}

impl Timing {
    /// controller-runtime's, as the flags have them.
    #[cfg(test)]
    pub(crate) const DEFAULT: Self = Self {
        lease: Duration::from_secs(15),
        renew_within: Duration::from_secs(10),
        retry: Duration::from_secs(2),
    };
}

/// What a Lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Empty if it was given back.
    pub(crate) holder: String,
    pub(crate) duration: Option<Duration>,
    pub(crate) acquired: Option<Timestamp>,
    pub(crate) renewed: Option<Timestamp>,
    pub(crate) transitions: i32,
}

/// A Lease with the `resourceVersion` that a write must name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) version: String,
    pub(crate) record: Record,
}

/// The time by both clocks: the one that only runs forward decides, the other is for people who read the Lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    pub(crate) wall: Timestamp,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is no Lease: create it.
    Create(Record),
    /// Write this over that version of it.
    Write {
        /// `resourceVersion`.
        over: String,
        record: Record,
    },
    /// Somebody else leads.
    Wait {
        /// Who.
        holder: String,
    },
    /// We led, and somebody else has the Lease: stop at once.
    Deposed {
        /// Who.
        holder: String,
    },
}

/// One who would lead.
#[derive(Debug)]
pub(crate) struct Candidate {
    identity: String,
    timing: Timing,
    /// The Lease as last seen, and since when it has looked like that.
    seen: Option<(Lease, Instant)>,
    /// Start of the last write that made us its holder.
    renewed: Option<Instant>,
}

impl Candidate {
    pub(crate) fn new(identity: String, timing: Timing) -> Self {
        Self { identity, timing, seen: None, renewed: None }
    }

    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    pub(crate) fn timing(&self) -> Timing {
        self.timing
    }

    /// Until when we lead, if we do.
    pub(crate) fn leads_until(&self) -> Option<Instant> {
        Some(self.renewed? + self.timing.renew_within)
    }

    /// While we lead, the Lease as we wrote it is renewed without reading it first; a conflict tells if it has changed.
    pub(crate) fn known(&self) -> Option<Lease> {
        self.renewed?;
        self.seen.as_ref().map(|(lease, _)| lease.clone())
    }

    /// What to do about the Lease that was read (or, see [`Candidate::known`], remembered).
    pub(crate) fn decide(&mut self, lease: Option<Lease>, now: Now) -> Step {
        let Some(lease) = lease else {
            self.seen = None;
            return Step::Create(self.claim(None, now));
        };
        let since = match &self.seen {
            Some((seen, since)) if *seen == lease => *since,
            _ => now.instant,
        };
        let record = lease.record.clone();
        let over = lease.version.clone();
        self.seen = Some((lease, since));
        if record.holder.is_empty() || record.holder == self.identity {
            return Step::Write { over, record: self.claim(Some(&record), now) };
        }
        if self.renewed.take().is_some() {
            return Step::Deposed { holder: record.holder };
        }
        let duration = record.duration.unwrap_or(self.timing.lease);
        if now.instant < since + duration {
            return Step::Wait { holder: record.holder };
        }
        Step::Write { over, record: self.claim(Some(&record), now) }
    }

    /// A write that was decided on has succeeded; `started` is a time before it was sent.
    pub(crate) fn written(&mut self, lease: Lease, started: Instant) {
        self.renewed = (lease.record.holder == self.identity).then_some(started);
        self.seen = Some((lease, started));
    }

    /// The Lease was changed by somebody else: what is remembered of it is of no use for a write.
    pub(crate) fn conflicted(&mut self) {
        self.seen = None;
    }

    /// The record by which the Lease is given back, if it is ours. Its duration of a second is client-go's, so that others who
    /// only look at the times can take it as well.
    pub(crate) fn release(&mut self, wall: Timestamp) -> Option<(String, Record)> {
        self.renewed.take()?;
        let (lease, _) = self.seen.take()?;
        let record = Record {
            holder: String::new(),
            duration: Some(Duration::from_secs(1)),
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: lease.record.transitions,
        };
        Some((lease.version, record))
    }

    /// The record by which we are the holder.
    fn claim(&self, old: Option<&Record>, now: Now) -> Record {
        let ours = old.filter(|record| record.holder == self.identity);
        Record {
            holder: self.identity.clone(),
            duration: Some(self.timing.lease),
            acquired: ours.and_then(|record| record.acquired).or(Some(now.wall)),
            renewed: Some(now.wall),
            transitions: match (old, ours) {
                (None, _) => 0,
                (Some(record), Some(_)) => record.transitions,
                (Some(record), None) => record.transitions.saturating_add(1),
            },
        }
    }
}

#[cfg(test)]
mod tests;
