//! Where pods of one shape may go, remembered from one pod to the next.
//!
//! Rooms only shrink and counts only grow. So what has no room for a pod has none for the next of its shape, and isn't looked at again. Claims
//! stand in line by their state, since what is required of them decides, for all of one state at once, whether a pod may go there now.

use super::claim::{Claim, Turn};
use super::states::StateId;
use super::targets::Allowed;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Bound::{Excluded, Unbounded};

/// All claims, by state and turn.
#[derive(Default)]
pub(super) struct Lines {
    numbers: FxHashMap<StateId, usize>,
    pub(super) all: Vec<Line>,
}

/// The claims of one state.
pub(super) struct Line {
    pub(super) state: StateId,
    claims: BTreeSet<(Turn, usize)>,
}

impl Lines {
    /// Puts a claim where it belongs, after it was opened or has changed.
    pub(super) fn put(&mut self, claim: usize, before: Option<(StateId, Turn)>, now: (StateId, Turn)) {
        if let Some((state, turn)) = before {
            let line = self.numbers[&state];
            self.all[line].claims.remove(&(turn, claim));
        }
        let next = self.all.len();
        let line = *self.numbers.entry(now.0).or_insert(next);
        if line == next {
            self.all.push(Line { state: now.0, claims: BTreeSet::new() });
        }
        self.all[line].claims.insert((now.1, claim));
    }
}

/// What is known about the places for one shape with one set of wishes.
#[derive(Default)]
pub(super) struct Query {
    /// Made at the first use.
    pub(super) nodes: Option<Vec<NodePart>>,
    pub(super) openings: Option<Vec<Opening>>,
    /// What topology allows, and as of which version of the counts.
    pub(super) allowed: Vec<Allowed>,
    pub(super) as_of: Option<u64>,
    /// For each line, as far as they are known.
    parts: Vec<ClaimPart>,
    /// How much of the log of changed claims has been read; None: no claim was looked at yet.
    read: Option<usize>,
}

/// Nodes of one class that meet the wishes.
pub(super) struct NodePart {
    pub(super) class: usize,
    /// Alternatives that are met.
    pub(super) met: Vec<usize>,
    /// One of them says nothing of the host name.
    pub(super) any_host: bool,
    /// Nodes before this one, by their place in the class, never do.
    pub(super) head: usize,
}

/// A NodePool that might open a claim: for each alternative the state that the claim would have.
pub(super) struct Opening {
    pub(super) template: usize,
    pub(super) joined: Vec<StateId>,
}

/// What is known of a line.
pub(super) struct ClaimPart {
    /// For each alternative that the state can take, the state that follows; empty: pods never go here.
    pub(super) joined: Vec<StateId>,
    /// For each of these the states that topology allows, as of some version of the counts.
    pub(super) targets: Vec<Vec<StateId>>,
    pub(super) as_of: Option<u64>,
    /// Claims of the line before this never do, but for those that have changed since.
    passed: Option<(Turn, usize)>,
    /// Those, by turn; some entries are stale.
    changed: BinaryHeap<Reverse<(Turn, usize)>>,
    /// Claims up to this one won't do for the pod at hand; they may for the next.
    put_off: Option<(Turn, usize)>,
}

impl Query {
    pub(super) fn allowed_and_parts(&mut self) -> (&[Allowed], &mut [ClaimPart]) {
        (&self.allowed, &mut self.parts)
    }

    pub(super) fn parts(&mut self) -> &mut [ClaimPart] {
        &mut self.parts
    }

    /// Takes note of lines that are new, and of claims that have changed since the last time. `joined`: what follows from a state, asked
    /// once for each.
    pub(super) fn catch_up(
        &mut self,
        (lines, claims, log): (&Lines, &[Claim<'_>], &[usize]),
        joined: &mut dyn FnMut(StateId) -> Vec<StateId>,
    ) {
        for line in &lines.all[self.parts.len()..] {
            self.parts.push(ClaimPart {
                joined: joined(line.state),
                targets: Vec::new(),
                as_of: None,
                passed: None,
                changed: BinaryHeap::new(),
                put_off: None,
            });
        }
        if let Some(read) = self.read {
            for claim in &log[read..] {
                let part = &mut self.parts[lines.numbers[&claims[*claim].state]];
                let place = (claims[*claim].turn, *claim);
                if part.passed.is_some_and(|passed| place <= passed) {
                    part.changed.push(Reverse(place));
                }
            }
        }
        self.read = Some(log.len());
    }
}

impl ClaimPart {
    /// Whether topology allows none of its claims.
    pub(super) fn is_closed(&self) -> bool {
        self.targets.iter().all(Vec::is_empty)
    }

    /// Begins anew, for another pod.
    pub(super) const fn begin(&mut self) {
        self.put_off = None;
    }

    /// The claim whose turn it is.
    pub(super) fn first(&mut self, line: &Line, claims: &[Claim<'_>]) -> Option<(Turn, usize)> {
        let is_stale =
            |(turn, claim): (Turn, usize)| claims[claim].turn != turn || claims[claim].state != line.state;
        while self.changed.peek().is_some_and(|Reverse(place)| is_stale(*place)) {
            self.changed.pop();
        }
        let in_line = self.next_in(line);
        let Some(Reverse(changed)) = self.changed.peek().copied() else { return in_line };
        let changed = if Some(changed) > self.put_off {
            Some(changed)
        } else {
            let rest = self.changed.iter().map(|Reverse(place)| *place);
            rest.filter(|place| Some(*place) > self.put_off && !is_stale(*place)).min()
        };
        in_line.into_iter().chain(changed).min()
    }

    fn next_in(&self, line: &Line) -> Option<(Turn, usize)> {
        match self.passed.max(self.put_off) {
            Some(place) => line.claims.range((Excluded(place), Unbounded)).next().copied(),
            None => line.claims.first().copied(),
        }
    }

    /// The claim won't do for the pod at hand.
    pub(super) const fn put_off(&mut self, place: (Turn, usize)) {
        self.put_off = Some(place);
    }

    /// The claim won't do for any pod of the shape, unless it changes.
    pub(super) fn pass(&mut self, place: (Turn, usize)) {
        if self.put_off.is_some() {
            // What was put off stands before it and mustn't be passed.
            self.put_off = Some(place);
        } else if self.changed.peek().is_some_and(|Reverse(first)| *first == place) {
            self.changed.pop();
        } else {
            self.passed = self.passed.max(Some(place));
        }
    }
}
