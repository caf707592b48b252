//! Where pods of one shape may go, remembered from one pod to the next.
//!
//! Rooms only shrink and counts only grow. So what has no room for a pod has none for the next of its shape, and isn't looked at again. Claims
//! are held by their state, since what is required of them decides, for all of one state at once, whether a pod may go there now.

use super::claim::{Claim, Turn};
use super::states::StateId;
use super::targets::Allowed;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is known about the places for one shape with one set of wishes.
#[derive(Default)]
pub(super) struct Query {
    /// Made at the first use.
    pub(super) nodes: Option<Vec<NodePart>>,
    pub(super) openings: Option<Vec<Opening>>,
    /// What topology allows, and as of which version of the counts.
    pub(super) allowed: Vec<Allowed>,
    pub(super) as_of: Option<u64>,
    parts: Vec<ClaimPart>,
    numbers: FxHashMap<StateId, usize>,
    /// How much of the log of changed claims has been read.
    read: usize,
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

/// Claims of one state.
pub(super) struct ClaimPart {
    /// For each alternative that the state can take, the state that follows; empty: pods never go here.
    pub(super) joined: Vec<StateId>,
    /// For each of these the states that topology allows, as of some version of the counts.
    pub(super) targets: Vec<Vec<StateId>>,
    pub(super) as_of: Option<u64>,
    /// By turn. Entries of claims that have changed since are stale.
    pub(super) waiting: BinaryHeap<Reverse<(Turn, usize)>>,
}

impl Query {
    pub(super) fn allowed_and_parts(&mut self) -> (&[Allowed], &mut [ClaimPart]) {
        (&self.allowed, &mut self.parts)
    }

    pub(super) fn parts(&mut self) -> &mut [ClaimPart] {
        &mut self.parts
    }

    /// Takes note of claims that were opened or changed since the last time. `joined`: what follows from a state, asked once for each.
    pub(super) fn catch_up(
        &mut self,
        claims: &[Claim<'_>],
        log: &[usize],
        may_take: &dyn Fn(usize) -> bool,
        joined: &mut dyn FnMut(StateId) -> Vec<StateId>,
    ) {
        let behind = log.len() - self.read;
        if behind > claims.len() {
            (0..claims.len()).for_each(|claim| self.note(claims, claim, may_take, joined));
        } else {
            for claim in &log[self.read..] {
                self.note(claims, *claim, may_take, joined);
            }
        }
        self.read = log.len();
    }

    fn note(
        &mut self,
        claims: &[Claim<'_>],
        claim: usize,
        may_take: &dyn Fn(usize) -> bool,
        joined: &mut dyn FnMut(StateId) -> Vec<StateId>,
    ) {
        if !may_take(claim) {
            return;
        }
        let state = claims[claim].state;
        let next = self.parts.len();
        let part = *self.numbers.entry(state).or_insert(next);
        if part == next {
            let joined = joined(state);
            let waiting = BinaryHeap::new();
            self.parts.push(ClaimPart { joined, targets: Vec::new(), as_of: None, waiting });
        }
        if !self.parts[part].joined.is_empty() {
            self.parts[part].waiting.push(Reverse((claims[claim].turn, claim)));
        }
    }
}

impl ClaimPart {
    /// Whether topology allows none of its claims.
    pub(super) fn is_closed(&self) -> bool {
        self.targets.iter().all(Vec::is_empty)
    }

    /// The claim whose turn it is.
    pub(super) fn first(&mut self, claims: &[Claim<'_>]) -> Option<(Turn, usize)> {
        while let Some(Reverse((turn, claim))) = self.waiting.peek().copied() {
            if claims[claim].turn == turn {
                return Some((turn, claim));
            }
            self.waiting.pop();
        }
        None
    }
}
