//! A NodePool prepared for opening claims: its instance types, what DaemonSets take of each, and what its limits leave.

use super::amounts::{Axes, FitTable};
use super::bits::Bits;
use super::daemons::Daemons;
use super::headroom::Headroom;
use super::limits::Limits;
use super::reserved::Reservations;
use super::seen::{Seen, capped};
use crate::input::Input;
use karpenter_capi_model::instance_type::{InstanceType, Offering, order_prices};
use karpenter_capi_model::label;
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::pod::HostPort;
use karpenter_capi_model::reason::UnavailableReason;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_model::taint::{Taint, Toleration, untolerated};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

/// A usable NodePool.
pub(super) struct Template<'a> {
    pub(super) pool: &'a NodePool,
    pub(super) keys: Keys,
    pub(super) candidates: Vec<Candidate<'a>>,
    /// Every offering of every candidate, what is launched first standing first.
    pub(super) slots: Vec<Slot>,
    /// So many slots, the first ones, have a price.
    pub(super) priced: usize,
    /// Slots that can be had now.
    pub(super) available: Bits,
    /// Slots of reserved capacity.
    pub(super) reserved: Bits,
    /// Some type has taints of its own.
    pub(super) has_taints: bool,
    /// Which slots have room for what; shared by NodePools that offer the same.
    pub(super) fit: Rc<FitTable>,
    pub(super) limits: Limits,
    /// Nodes and claims, those opened in this solve included.
    pub(super) nodes: i64,
}

/// One offering of one candidate.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// Index in [`Template::candidates`].
    pub(super) candidate: usize,
    /// Index for [`Candidate::offering`].
    pub(super) offering: usize,
    /// Which headroom it takes.
    pub(super) headroom: usize,
    /// Which reservation it takes.
    pub(super) reservation: Option<usize>,
}

/// An instance type of a NodePool.
pub(super) struct Candidate<'a> {
    pub(super) of_type: &'a Arc<InstanceType>,
    /// The type's taints that don't go away while the node starts.
    pub(super) taints: Vec<Taint>,
    /// What DaemonSets take.
    pub(super) daemons: Resources,
    /// Host ports that they take.
    pub(super) daemon_ports: Vec<&'a HostPort>,
    /// Each offering in order of preference.
    offerings: Vec<Choice<'a>>,
    /// Which headroom it shares.
    pub(super) headroom: usize,
    /// Real machines turned out smaller than promised.
    pub(super) seen_smaller: bool,
}

struct Choice<'a> {
    offering: &'a Offering,
    /// Allocatable less DaemonSets; negative where these don't fit by themselves.
    room: Resources,
}

/// Which label keys the instance type decides, and not the NodePool.
pub(super) struct Keys(BTreeSet<String>);

impl Keys {
    /// Well-known keys, those that the caller names, and those that some type of the pool defines.
    fn new(input: &Input, types: &[Arc<InstanceType>]) -> Self {
        let mut keys = label::well_known();
        keys.extend(input.well_known_labels.iter().cloned());
        for of_type in types {
            let offered = of_type.offerings.iter().flat_map(|offering| offering.requirements.iter());
            keys.extend(
                of_type.requirements.iter().chain(offered).map(|requirement| requirement.key().to_owned()),
            );
        }
        Self(keys)
    }

    /// The keys that a pod may ask for though the NodePool doesn't define them.
    pub(super) const fn of_types(&self) -> &BTreeSet<String> {
        &self.0
    }

    /// Whether the operator writes the label on the Node, because the NodePool says so.
    pub(super) fn is_written_by(&self, pool: &NodePool, key: &str) -> bool {
        pool.labels.contains_key(key) || (pool.requirements.contains_key(key) && !self.0.contains(key))
    }
}

/// The first requirement that machines of this type (got by this offering) don't meet.
///
/// A label that the type doesn't define is one that its nodes lack, unless the NodePool has it written. Without an offering,
/// keys that some offering defines are left to the choice of the offering.
pub(super) fn conflict<'r>(
    of_type: &InstanceType,
    offering: Option<&Offering>,
    wanted: &'r Requirements,
    pool: &NodePool,
    keys: &Keys,
) -> Option<&'r Requirement> {
    wanted.iter().find(|requirement| {
        let key = requirement.key();
        let own = of_type.requirements.get(key);
        let offered = offering.and_then(|offering| offering.requirements.get(key));
        if own.is_none() && offered.is_none() {
            let later =
                offering.is_none() && of_type.offerings.iter().any(|one| one.requirements.contains_key(key));
            return !(requirement.allows_absence() || later || keys.is_written_by(pool, key));
        }
        [own, offered].into_iter().flatten().any(|defined| !defined.meets(requirement))
    })
}

/// What is asked of a machine: the pods of a claim with the one that joins.
pub(super) struct Ask<'a> {
    pub(super) requirements: &'a Requirements,
    pub(super) requests: &'a Resources,
    /// Of the pod that joins; those before it have been asked.
    pub(super) tolerations: &'a [Toleration],
    pub(super) prefer_too: bool,
}

/// Why a type doesn't serve, in the order in which it is looked at; made into words by [`super::reasons`].
pub(super) enum Refusal<'a> {
    Taint(&'a Taint),
    Requirement(&'a Requirement),
    /// No offering meets the requirement; None: there is no offering at all.
    Offering(Option<&'a Requirement>),
    Unavailable(&'a UnavailableReason),
    /// What there is room for.
    Room(&'a Resources),
}

impl Refusal<'_> {
    pub(super) const fn rank(&self) -> u8 {
        match self {
            Self::Taint(_) => 0,
            Self::Requirement(_) => 1,
            Self::Offering(_) => 2,
            Self::Unavailable(_) => 3,
            Self::Room(_) => 4,
        }
    }
}

impl<'a> Template<'a> {
    /// Those of the NodePools that are ready and not paused, in the given order.
    pub(super) fn all(
        input: &'a Input,
        pools: &[&'a NodePool],
        daemons: &Daemons<'a>,
        axes: &Axes,
        shared: &mut Shared<'a>,
    ) -> Vec<Self> {
        let seen = Seen::new(input);
        let usable = pools.iter().copied().filter(|pool| pool.not_ready.is_none() && !pool.paused);
        usable
            .map(|pool| {
                let types = input.instance_types.get(&pool.name).map_or(&[][..], Vec::as_slice);
                let keys = Keys::new(input, types);
                let candidate = |of_type: &'a Arc<InstanceType>| {
                    Candidate::new(of_type, pool, &keys, daemons, &seen, &mut shared.headroom)
                };
                let candidates = types.iter().map(candidate).collect();
                Self::new(pool, keys, candidates, axes, shared)
            })
            .collect()
    }

    fn new(
        pool: &'a NodePool,
        keys: Keys,
        candidates: Vec<Candidate<'a>>,
        axes: &Axes,
        shared: &mut Shared<'a>,
    ) -> Self {
        let mut slots: Vec<Slot> = Vec::new();
        for (index, candidate) in candidates.iter().enumerate() {
            for (offering, choice) in candidate.offerings.iter().enumerate() {
                slots.push(Slot {
                    candidate: index,
                    offering,
                    headroom: candidate.headroom,
                    reservation: shared.reservations.register(choice.offering),
                });
            }
        }
        let choice = |slot: &Slot| &candidates[slot.candidate].offerings[slot.offering];
        let of_type = |slot: &Slot| candidates[slot.candidate].of_type;
        slots.sort_by(|a, b| {
            let (one, other) = (of_type(a), of_type(b));
            order_prices(choice(a).offering.price, choice(b).offering.price)
                .then_with(|| Reverse(one.priority).cmp(&Reverse(other.priority)))
                .then_with(|| one.name.cmp(&other.name))
                .then_with(|| one.machine_deployment.cmp(&other.machine_deployment))
                .then_with(|| a.offering.cmp(&b.offering))
        });
        let which = |wanted: &dyn Fn(&Slot) -> bool| {
            let numbers = slots.iter().enumerate().filter(|(_, slot)| wanted(slot)).map(|(index, _)| index);
            Bits::of(slots.len(), numbers)
        };
        let priced = which(&|slot| choice(slot).offering.price.is_some()).count();
        let available = which(&|slot| {
            let room = &choice(slot).room;
            choice(slot).offering.unavailable.is_none() && room.iter().all(|(_, amount)| amount >= 0)
        });
        let reserved = which(&|slot| slot.reservation.is_some());
        let rooms: Vec<Vec<i64>> = slots.iter().map(|slot| axes.row(&choice(slot).room)).collect();
        let fit = shared.fit(rooms, axes);
        let capacity = |slot: &Slot| &candidates[slot.candidate].of_type.capacity;
        let limits = Limits::new(pool, slots.iter().map(capacity));
        let nodes = pool.node_count;
        let has_taints = candidates.iter().any(|candidate| !candidate.taints.is_empty());
        Self { pool, keys, candidates, slots, priced, available, reserved, has_taints, fit, limits, nodes }
    }

    /// The candidate of a slot.
    pub(super) fn candidate(&self, slot: usize) -> &Candidate<'a> {
        &self.candidates[self.slots[slot].candidate]
    }

    /// The offering of a slot.
    pub(super) fn offering(&self, slot: usize) -> &'a Offering {
        let Slot { candidate, offering, .. } = self.slots[slot];
        self.candidates[candidate].offerings[offering].offering
    }

    /// All slots of the types of these.
    pub(super) fn of_types(&self, some: &[usize]) -> Bits {
        let wanted = Bits::of(self.candidates.len(), some.iter().map(|slot| self.slots[*slot].candidate));
        let all = self.slots.iter().enumerate().filter(|(_, slot)| wanted.contains(slot.candidate));
        Bits::of(self.slots.len(), all.map(|(index, _)| index))
    }

    /// The first slot of each type among the slots: the best first.
    pub(super) fn best_of_each(&self, slots: &Bits) -> Vec<usize> {
        let mut seen = Bits::empty(self.candidates.len());
        let mut best = Vec::new();
        for slot in slots.iter() {
            let candidate = self.slots[slot].candidate;
            if !seen.contains(candidate) {
                seen.insert(candidate);
                best.push(slot);
            }
        }
        best
    }

    /// The best offering of a candidate for what is asked: its index, or why there is none.
    pub(super) fn assess<'s>(
        &'s self,
        candidate: &'s Candidate<'_>,
        ask: &Ask<'s>,
    ) -> Result<usize, Refusal<'s>> {
        if let Some(taint) = untolerated(&candidate.taints, ask.tolerations, ask.prefer_too) {
            return Err(Refusal::Taint(taint));
        }
        if let Some(requirement) = conflict(candidate.of_type, None, ask.requirements, self.pool, &self.keys)
        {
            return Err(Refusal::Requirement(requirement));
        }
        let mut furthest = Refusal::Offering(None);
        for (index, choice) in candidate.offerings.iter().enumerate() {
            let Some(refusal) = self.refuse(candidate, choice, ask) else {
                return Ok(index);
            };
            if refusal.rank() > furthest.rank() || matches!(furthest, Refusal::Offering(None)) {
                furthest = refusal;
            }
        }
        Err(furthest)
    }

    fn refuse<'s>(
        &'s self,
        candidate: &Candidate<'_>,
        choice: &'s Choice<'_>,
        ask: &Ask<'s>,
    ) -> Option<Refusal<'s>> {
        let offering = choice.offering;
        if let Some(wanted) =
            conflict(candidate.of_type, Some(offering), ask.requirements, self.pool, &self.keys)
        {
            return Some(Refusal::Offering(Some(wanted)));
        }
        if let Some(reason) = &offering.unavailable {
            return Some(Refusal::Unavailable(reason));
        }
        (!ask.requests.fits(&choice.room)).then_some(Refusal::Room(&choice.room))
    }

    /// Whether `limits.nodes` allows no further claim.
    pub(super) fn is_full(&self) -> bool {
        self.pool.node_limit.is_some_and(|limit| self.nodes >= limit)
    }
}

/// What NodePools have in common.
#[derive(Default)]
pub(super) struct Shared<'a> {
    pub(super) headroom: Headroom<'a>,
    pub(super) reservations: Reservations<'a>,
    tables: HashMap<Vec<Vec<i64>>, Rc<FitTable>>,
}

impl<'a> Shared<'a> {
    /// `key`: the label by which offerings of one reservation are told.
    pub(super) fn new(key: &'a str) -> Self {
        Self { reservations: Reservations::new(key), ..Self::default() }
    }

    fn fit(&mut self, rooms: Vec<Vec<i64>>, axes: &Axes) -> Rc<FitTable> {
        if let Some(table) = self.tables.get(&rooms) {
            return Rc::clone(table);
        }
        let table = Rc::new(FitTable::new(&rooms, axes.len()));
        self.tables.insert(rooms, Rc::clone(&table));
        table
    }
}

/// All NodePools that are provisioned by pods, in the order of trial: weight descending, then name descending, as upstream.
pub(super) fn in_order(input: &Input) -> Vec<&NodePool> {
    let mut pools: Vec<&NodePool> = input.node_pools.iter().filter(|pool| !pool.is_static).collect();
    pools.sort_by_key(|pool| (Reverse(pool.weight), Reverse(pool.name.as_str())));
    pools
}

impl<'a> Candidate<'a> {
    fn new(
        of_type: &'a Arc<InstanceType>,
        pool: &NodePool,
        keys: &Keys,
        daemons: &Daemons<'a>,
        seen: &Seen<'_>,
        headroom: &mut Headroom<'a>,
    ) -> Self {
        let taints = lasting_taints(of_type, pool);
        let (daemons, daemon_ports) = daemons.on_type(pool, keys, of_type, &taints);
        let cap = seen.cap(of_type);
        let mut seen_smaller = false;
        let mut sorted: Vec<&Offering> = of_type.offerings.iter().collect();
        sorted.sort_by(|a, b| Offering::order(a, b));
        let offerings = sorted
            .into_iter()
            .map(|offering| {
                let promised = of_type.allocatable_by(offering);
                let real = cap.as_ref().map_or_else(|| promised.clone(), |cap| capped(&promised, cap));
                seen_smaller |= real != promised;
                Choice { offering, room: real.minus(&daemons) }
            })
            .collect();
        let headroom = headroom.register(of_type);
        Self { of_type, taints, daemons, daemon_ports, offerings, headroom, seen_smaller }
    }
}

/// The type's taints without those that go away by themselves, or that the NodePool says something takes away, while the node
/// starts.
fn lasting_taints(of_type: &InstanceType, pool: &NodePool) -> Vec<Taint> {
    let lasting =
        |taint: &&Taint| !taint.is_ephemeral() && !pool.startup_taints.iter().any(|own| own.matches(taint));
    of_type.taints.iter().filter(lasting).cloned().collect()
}
