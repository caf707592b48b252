//! Everything that changes while pods are placed.

use super::amounts::Axes;
use super::bits::Bits;
use super::claim::{Claim, Rooms, Table, Turn, kept, planned};
use super::daemons::Daemons;
use super::demand::Alternative;
use super::domains::Domains;
use super::existing::{Class, Existing};
use super::query::{Lines, Query};
use super::shape::{Catalogues, Compiler, Shape};
use super::states::{StateId, States, WantedId};
use super::template::{self, Shared, Template};
use super::topology::{Field, Group};
use super::warnings::Warnings;
use crate::input::Input;
use crate::plan::{PendingPod, Plan};
use karpenter_capi_model::label::HOSTNAME;
use karpenter_capi_model::node::Node;
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::taint::TaintEffect;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct World<'a> {
    pub(super) input: &'a Input,
    /// The queue's pods, in order.
    pub(super) pods: Vec<&'a Pod>,
    pub(super) shapes: Vec<Shape<'a>>,
    /// Which shape each pod has.
    pub(super) shape_of: Vec<usize>,
    pub(super) axes: Axes,
    pub(super) nodes: Vec<Existing<'a>>,
    pub(super) classes: Vec<Class<'a>>,
    /// NodePools that are provisioned by pods, in the order of trial.
    pub(super) pools: Vec<&'a NodePool>,
    /// The usable ones among them, in the same order.
    pub(super) templates: Vec<Template<'a>>,
    pub(super) shared: Shared<'a>,
    pub(super) domains: Domains,
    pub(super) states: States,
    /// For each template the state of a claim before its first pod.
    pub(super) bases: Vec<Option<StateId>>,
    pub(super) catalogues: Catalogues,
    pub(super) groups: Vec<Group>,
    pub(super) repulsions: Vec<Group>,
    /// For each filter its alternatives.
    pub(super) filters: Vec<Vec<Alternative>>,
    pub(super) filtered: FxHashMap<(usize, StateId), bool>,
    /// Numbers of requirements to be in exactly one domain, by key and domain.
    pub(super) pins: FxHashMap<(usize, usize), WantedId>,
    /// By template, tolerations and whether `PreferNoSchedule` is borne: slots whose taints are tolerated.
    pub(super) tolerated: FxHashMap<(usize, usize, bool), Bits>,
    pub(super) claims: Vec<Claim<'a>>,
    pub(super) rooms: Rooms,
    pub(super) lines: Lines,
    /// By topology key and domain: claims that are bound to it.
    pub(super) claims_in: Vec<Vec<u32>>,
    /// Claims in the order in which they were opened or changed.
    pub(super) log: Vec<usize>,
    /// By shape and level.
    pub(super) queries: Vec<Vec<Query>>,
    /// For each shape the set of wishes with which its last pod found that it has to wait for reserved capacity.
    pub(super) waits_at: Vec<Option<usize>>,
    /// Some slot has no price.
    pub(super) some_unpriced: bool,
    pub(super) warnings: Warnings,
    /// Sets that are used again and again.
    pub(super) scratch: [Bits; 3],
    /// What a claim without pods uses.
    pub(super) no_use: Vec<i64>,
}

impl<'a> World<'a> {
    /// `pods`: those that may be judged, in the order of the queue.
    pub(super) fn new(input: &'a Input, pods: Vec<&'a Pod>) -> Self {
        let axes = Axes::of(pods.iter().copied());
        let daemons = Daemons::new(&input.daemon_pods);
        let mut shared = Shared::new(&input.reservation_id_label);
        let pools = template::in_order(input);
        let templates = Template::all(input, &pools, &daemons, &axes, &mut shared);
        let nodes = Existing::in_order(input);
        let domains = Domains::new(topology_keys(input, &pods), &templates, &nodes);
        let mut states = States::default();
        let prefers = prefers(&templates, &nodes);
        let mut compiler = Compiler::new(input, &axes, &domains, &mut states, prefers);
        let repelling = compiler.bound_repulsions();
        let (shapes, shape_of) = compiler.shapes(&pods);
        let catalogues = compiler.catalogues;
        let filters = filters(&catalogues, &mut states);
        let mut keys: BTreeSet<&str> = states.keys();
        keys.extend((0..domains.len()).map(|key| domains.name(key)));
        let (classes, class_of) = Class::all(&nodes, &keys, &domains);
        let existing = nodes.iter().zip(class_of);
        let existing = existing.map(|(node, class)| Existing::new(input, &daemons, &axes, node, class));
        let nodes: Vec<Existing<'a>> = existing.collect();
        let bases = (0..templates.len()).map(|index| states.base(&templates, &domains, index)).collect();
        let (no_use, waits_at) = (vec![0; axes.len()], vec![None; shapes.len()]);
        let mut warnings = Warnings::default();
        warnings.note_pools(&templates);
        let mut world = Self {
            some_unpriced: templates.iter().any(|template| template.priced < template.slots.len()),
            rooms: Rooms::new(axes.len()),
            lines: Lines::default(),
            claims_in: (0..domains.len()).map(|key| vec![0; domains.count(key)]).collect(),
            queries: shapes
                .iter()
                .map(|shape| shape.levels.iter().map(|_| Query::default()).collect())
                .collect(),
            groups: groups(catalogues.groups.iter().copied(), &domains),
            repulsions: groups(catalogues.repulsions.iter().map(|field| (*field, 0)), &domains),
            input,
            pods,
            shapes,
            shape_of,
            axes,
            nodes,
            classes,
            pools,
            templates,
            shared,
            domains,
            states,
            bases,
            catalogues,
            filters,
            filtered: FxHashMap::default(),
            pins: FxHashMap::default(),
            tolerated: FxHashMap::default(),
            claims: Vec::new(),
            log: Vec::new(),
            warnings,
            scratch: Default::default(),
            no_use,
            waits_at,
        };
        world.find_eligible();
        world.count_bound(&repelling);
        world
    }

    /// The number by which a claim is a host.
    pub(super) fn host(&self, claim: usize) -> usize {
        self.nodes.len() + claim
    }

    /// The number of a requirement to be in one domain.
    pub(super) fn pin(&mut self, key: usize, domain: usize) -> WantedId {
        if let Some(pin) = self.pins.get(&(key, domain)) {
            return *pin;
        }
        let requirement = Requirement::one_of(self.domains.name(key), &[self.domains.value(key, domain)]);
        let pin = self.states.number_of(requirement);
        self.pins.insert((key, domain), pin);
        pin
    }

    pub(super) fn into_plan(mut self, pending: Vec<PendingPod>) -> Plan {
        let on_new: Vec<&Pod> =
            self.claims.iter().flat_map(|claim| &claim.pods).map(|pod| self.pods[*pod as usize]).collect();
        self.warnings.note_undeclared_taints(&self.nodes, &self.axes, &self.templates, &on_new);
        let reservation = |index: usize| self.shared.reservations.name(index).to_owned();
        let reservation = (self.shared.reservations.key(), &reservation as &dyn Fn(usize) -> String);
        let options = &self.input.options;
        let mut listed: Vec<Bits> =
            self.templates.iter().map(|template| Bits::empty(template.slots.len())).collect();
        let mut all_kept = Vec::with_capacity(self.claims.len());
        for claim in &self.claims {
            let state = self.states.get(claim.state);
            let kept = kept(claim, state, &self.templates[state.template], options);
            for slot in &kept {
                listed[state.template].insert(*slot);
            }
            all_kept.push(kept);
        }
        let tables: Vec<Table> = self
            .templates
            .iter()
            .zip(&listed)
            .map(|(template, listed)| Table::new(template, listed))
            .collect();
        let mut node_claims = Vec::with_capacity(self.claims.len());
        for (claim, kept) in self.claims.iter().zip(all_kept) {
            let state = self.states.get(claim.state);
            let (template, table) = (&self.templates[state.template], &tables[state.template]);
            let planned = planned((claim, state, template), kept, &self.pods, options, table, reservation);
            self.warnings.note_relaxed(&planned, template.pool);
            node_claims.push(planned);
        }
        let placements = Existing::placements(self.nodes);
        Plan { node_claims, placements, pending, warnings: self.warnings.into_sorted() }
    }

    /// Cuts the claims down to what they will list and charges the limits of their NodePools with that; whether there is room again.
    /// When a claim is opened it isn't known yet what more pods will leave of it, and the most that it can be is charged.
    pub(super) fn recharge(&mut self) -> bool {
        let mut room = false;
        for (number, template) in self.templates.iter_mut().enumerate() {
            if template.limits.is_empty() {
                continue;
            }
            let own = self.claims.iter_mut().filter(|claim| self.states.get(claim.state).template == number);
            let cut = own.map(|claim| {
                let kept = kept(claim, self.states.get(claim.state), template, &self.input.options);
                claim.slots.keep(&template.of_types(&kept));
                claim.slots.clone()
            });
            let cut: Vec<Bits> = cut.collect();
            room |= template.limits.recharge(template.pool, cut.into_iter());
        }
        room
    }

    /// Opens a claim with its first pod.
    pub(super) fn opened(&self, state: StateId, slots: Bits) -> Claim<'a> {
        Claim {
            state,
            slots,
            held: Vec::new(),
            ports: Vec::new(),
            unsettled: Vec::new(),
            pods: Vec::new(),
            turn: Turn::first(i64::try_from(self.log.len()).unwrap_or(i64::MAX)),
        }
    }
}

fn groups(all: impl Iterator<Item = (Field, usize)>, domains: &Domains) -> Vec<Group> {
    all.map(|(field, filter)| {
        let count = if let Field::Key(key) = field { domains.count(key) } else { 0 };
        Group::new(field, filter, count)
    })
    .collect()
}

fn filters(catalogues: &Catalogues, states: &mut States) -> Vec<Vec<Alternative>> {
    let all = catalogues.filters.iter();
    all.map(|filter| Alternative::all(filter.alternatives.iter().cloned(), states)).collect()
}

/// The topology keys, the host name aside, of everything that pods ask for and of what keeps pods away.
fn topology_keys<'a>(input: &'a Input, pods: &[&'a Pod]) -> BTreeSet<&'a str> {
    let mut keys = BTreeSet::new();
    for pod in pods {
        keys.extend(pod.topology_spread.iter().map(|constraint| constraint.topology_key.as_str()));
        let wished = pod.preferred_pod_affinity.iter().chain(&pod.preferred_pod_anti_affinity);
        let terms = pod.pod_affinity.iter().chain(wished.map(|wish| &wish.term));
        keys.extend(terms.map(|term| term.topology_key.as_str()));
    }
    let repelling = pods.iter().copied().chain(input.bound_pods.values().flatten().map(|pod| &**pod));
    keys.extend(repelling.flat_map(|pod| &pod.pod_anti_affinity).map(|term| term.topology_key.as_str()));
    keys.remove(HOSTNAME);
    keys
}

fn prefers(templates: &[Template<'_>], nodes: &[&Node]) -> bool {
    let of_pools = templates.iter().flat_map(|template| {
        let of_types = template.candidates.iter().flat_map(|candidate| &candidate.taints);
        template.pool.taints.iter().chain(of_types)
    });
    let of_nodes = nodes.iter().flat_map(|node| &node.taints);
    of_pools.chain(of_nodes).any(|taint| taint.effect == TaintEffect::PreferNoSchedule)
}

impl<'a> Compiler<'a, '_> {
    /// For each bound pod that keeps others away, by its UID, the repulsions that it carries.
    fn bound_repulsions(&mut self) -> BTreeMap<&'a str, Vec<usize>> {
        let mut found = BTreeMap::new();
        for pod in self.input.bound_pods.values().flatten().filter(|pod| !pod.pod_anti_affinity.is_empty()) {
            let repulsions = self.repulsions_of(pod);
            found.insert(pod.uid.as_str(), repulsions);
        }
        found
    }
}
