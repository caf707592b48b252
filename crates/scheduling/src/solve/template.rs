//! A NodePool prepared for opening claims: its instance types, what DaemonSets take of each, and what its limits leave.

use super::daemons::Daemons;
use super::headroom::Headroom;
use crate::input::Input;
use karpenter_capi_model::instance_type::{InstanceType, Offering};
use karpenter_capi_model::label;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::node::Node;
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::reason::UnavailableReason;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};
use karpenter_capi_model::taint::{Taint, Toleration, untolerated};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A usable NodePool.
pub(super) struct Template<'a> {
    pub(super) pool: &'a NodePool,
    pub(super) keys: Keys,
    pub(super) candidates: Vec<Candidate<'a>>,
    /// In use now, with the claims opened in this solve at the largest type that each may still become.
    pub(super) used: Resources,
    /// Nodes and claims, those opened in this solve included.
    pub(super) nodes: i64,
}

/// An instance type of a NodePool.
pub(super) struct Candidate<'a> {
    pub(super) of_type: &'a Arc<InstanceType>,
    /// The type's taints that don't go away while the node starts.
    pub(super) taints: Vec<Taint>,
    /// What DaemonSets take.
    pub(super) daemons: Resources,
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
    fn is_written_by(&self, pool: &NodePool, key: &str) -> bool {
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
    Reserved,
    /// What there is room for.
    Room(&'a Resources),
}

impl Refusal<'_> {
    pub(super) const fn rank(&self) -> u8 {
        match self {
            Self::Taint(_) => 0,
            Self::Requirement(_) => 1,
            Self::Offering(_) => 2,
            Self::Unavailable(_) | Self::Reserved => 3,
            Self::Room(_) => 4,
        }
    }
}

impl<'a> Template<'a> {
    /// Those of the NodePools that are ready and not paused, in the given order.
    pub(super) fn all(
        input: &'a Input,
        pools: &[&'a NodePool],
        daemons: &Daemons<'_>,
        headroom: &mut Headroom<'a>,
    ) -> Vec<Self> {
        let seen = Seen::new(input);
        let usable = pools.iter().copied().filter(|pool| pool.not_ready.is_none() && !pool.paused);
        usable
            .map(|pool| {
                let types = input.instance_types.get(&pool.name).map_or(&[][..], Vec::as_slice);
                let keys = Keys::new(input, types);
                let candidate = |of_type: &'a Arc<InstanceType>| {
                    Candidate::new(of_type, pool, &keys, daemons, &seen, headroom)
                };
                let candidates = types.iter().map(candidate).collect();
                Self { pool, candidates, keys, used: pool.usage.clone(), nodes: pool.node_count }
            })
            .collect()
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
        if offering.reservation_capacity.is_some() {
            return Some(Refusal::Reserved);
        }
        (!ask.requests.fits(&choice.room)).then_some(Refusal::Room(&choice.room))
    }

    /// Whether `limits.nodes` allows no further claim.
    pub(super) fn is_full(&self) -> bool {
        self.pool.node_limit.is_some_and(|limit| self.nodes >= limit)
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
        daemons: &Daemons<'_>,
        seen: &Seen<'_>,
        headroom: &mut Headroom<'a>,
    ) -> Self {
        let taints = lasting_taints(of_type, pool);
        let daemons = daemons.on_type(pool, keys, of_type, &taints);
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
        Self { of_type, taints, daemons, offerings, headroom: headroom.register(of_type), seen_smaller }
    }

    /// The offering at an index that [`Template::assess`] gave.
    pub(super) fn offering(&self, index: usize) -> Option<&'a Offering> {
        self.offerings.get(index).map(|choice| choice.offering)
    }

    /// The largest of each resource that any offering has room for.
    pub(super) fn most_room(&self) -> Resources {
        self.offerings.iter().fold(Resources::ZERO, |most, choice| most.max(&choice.room))
    }
}

/// The type's taints without those that go away by themselves, or that the NodePool says something takes away, while the node
/// starts.
fn lasting_taints(of_type: &InstanceType, pool: &NodePool) -> Vec<Taint> {
    let lasting =
        |taint: &&Taint| !taint.is_ephemeral() && !pool.startup_taints.iter().any(|own| own.matches(taint));
    of_type.taints.iter().filter(lasting).cloned().collect()
}

/// What real machines of each MachineDeployment turned out to have: a promise that is known to be too good would make node
/// after node that its pod doesn't fit.
struct Seen<'a>(BTreeMap<&'a NamespacedName, Vec<&'a Node>>);

impl<'a> Seen<'a> {
    fn new(input: &'a Input) -> Self {
        let mut nodes: BTreeMap<&NamespacedName, Vec<&Node>> = BTreeMap::new();
        for node in input.nodes.iter().filter(|node| node.has_node && node.initialized) {
            if let Some(deployment) = &node.machine_deployment {
                nodes.entry(deployment).or_default().push(node);
            }
        }
        Self(nodes)
    }

    /// The largest allocatable seen on machines like the type's; None where there is none.
    fn cap(&self, of_type: &InstanceType) -> Option<Resources> {
        let nodes = self.0.get(of_type.machine_deployment.as_ref()?)?;
        nodes
            .iter()
            .filter(|node| node.is_like(of_type))
            .map(|node| node.allocatable.clone())
            .reduce(|a, b| a.max(&b))
    }
}

fn capped(promised: &Resources, cap: &Resources) -> Resources {
    let mut real = promised.clone();
    for name in [CPU, MEMORY, EPHEMERAL_STORAGE, PODS] {
        real.set(name, promised.get(name).min(cap.get(name)));
    }
    real
}
