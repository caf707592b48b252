//! Nodes that exist and claims in flight.

use super::amounts::{Axes, fits};
use super::daemons::Daemons;
use super::demand::Alternative;
use super::domains::Domains;
use super::shape::{Level, Shape};
use super::states::States;
use super::volumes::Attached;
use crate::input::Input;
use crate::plan::Placement;
use karpenter_capi_model::label::HOSTNAME;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::node::Node;
use karpenter_capi_model::pod::{HostPort, Pod};
use karpenter_capi_model::taint::{Taint, untolerated};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// A node with what is left of it.
pub(super) struct Existing<'a> {
    pub(super) node: &'a Node,
    /// Allocatable less bound pods and DaemonSets that are still to come, by [`Axes`]; never negative, so that a pod which doesn't ask
    /// for an overcommitted resource still fits.
    pub(super) remaining: Vec<i64>,
    pub(super) class: usize,
    ports: Vec<&'a HostPort>,
    attached: Option<Attached<'a>>,
    pods: Vec<NamespacedName>,
}

/// What nodes are alike in: everything that pods can ask for, the host name aside.
pub(super) struct Class<'a> {
    /// One of the nodes.
    pub(super) sample: &'a Node,
    /// Its nodes, in the order of trial.
    pub(super) nodes: Vec<usize>,
    /// For each topology key the domain that they are in.
    pub(super) domains: Vec<Option<usize>>,
}

/// How a pod gets on with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Yes,
    /// Whatever else is placed.
    Never,
    NotNow,
}

impl<'a> Existing<'a> {
    /// Nodes that may take pods: initialized ones first, then by name.
    pub(super) fn in_order(input: &'a Input) -> Vec<&'a Node> {
        let mut nodes: Vec<&Node> = input.nodes.iter().filter(|node| !node.marked_for_deletion).collect();
        nodes.sort_by(|a, b| b.initialized.cmp(&a.initialized).then_with(|| a.name.cmp(&b.name)));
        nodes
    }

    pub(super) fn new(
        input: &'a Input,
        daemons: &Daemons<'a>,
        axes: &Axes,
        node: &'a Node,
        class: usize,
    ) -> Self {
        let bound = input.bound_pods.get(&node.name).map_or(&[][..], Vec::as_slice);
        let (mut used, mut ports) = daemons.missing_on(node, bound);
        for pod in bound {
            used.add(&pod.requests);
            ports.extend(&pod.host_ports);
        }
        let remaining = axes.row(&node.allocatable.minus(&used).clamped());
        let attached = Attached::new(input, &node.name);
        Self { node, remaining, class, ports, attached, pods: Vec::new() }
    }

    /// Whether the pod may run here, labels, taints and other pods aside.
    pub(super) fn has_room(&self, input: &Input, pod: &Pod, shape: &Shape<'_>) -> Verdict {
        if !fits(&shape.requests, &self.remaining) || conflict(shape.ports, &self.ports) {
            return Verdict::Never;
        }
        let attachable = !shape.has_attachments
            || self.attached.as_ref().is_none_or(|attached| attached.has_room(input, pod));
        if attachable { Verdict::Yes } else { Verdict::NotNow }
    }

    pub(super) fn place(&mut self, input: &'a Input, pod: &'a Pod, shape: &Shape<'_>) {
        self.remaining.iter_mut().zip(&shape.requests).for_each(|(left, more)| *left -= more);
        self.ports.extend(&pod.host_ports);
        if let Some(attached) = &mut self.attached {
            attached.add(input, pod);
        }
        self.pods.push(pod.name.clone());
    }

    /// Whether the node, as it is called, meets one of these alternatives, which its class meets otherwise.
    pub(super) fn is_called(&self, alternatives: &[usize], level: &Level) -> bool {
        alternatives.iter().any(|index| level.alternatives[*index].allows_host(self.node))
    }

    /// The placements, by node name; nodes without new pods are left out.
    pub(super) fn placements(nodes: Vec<Self>) -> Vec<Placement> {
        let with_pods = nodes.into_iter().filter(|existing| !existing.pods.is_empty());
        let mut placements: Vec<Placement> = with_pods
            .map(|Self { node, pods, .. }| Placement {
                node: node.name.clone(),
                in_flight: !node.has_node,
                pods,
            })
            .collect();
        placements.sort_by(|a, b| a.node.cmp(&b.node));
        placements
    }
}

impl Alternative {
    /// Whether the node is called as is wanted.
    fn allows_host(&self, node: &Node) -> bool {
        let name = node.labels.get(HOSTNAME);
        self.hostname
            .as_ref()
            .is_none_or(|wanted| name.map_or_else(|| wanted.allows_absence(), |name| wanted.has(name)))
    }
}

impl<'a> Class<'a> {
    /// The classes, and which one each node is in. `keys`: what may be asked for.
    pub(super) fn all(
        nodes: &[&'a Node],
        keys: &BTreeSet<&str>,
        domains: &Domains,
    ) -> (Vec<Self>, Vec<usize>) {
        let mut numbers: FxHashMap<(Vec<Option<&String>>, &[Taint]), usize> = FxHashMap::default();
        let mut classes: Vec<Self> = Vec::new();
        let of = nodes.iter().enumerate().map(|(index, node)| {
            let labels = keys.iter().map(|key| node.labels.get(*key)).collect();
            let class = *numbers.entry((labels, node.taints.as_slice())).or_insert_with(|| {
                let domains = domains.of_labels(&node.labels);
                classes.push(Self { sample: node, nodes: Vec::new(), domains });
                classes.len() - 1
            });
            classes[class].nodes.push(index);
            class
        });
        let of = of.collect();
        (classes, of)
    }

    /// The alternatives that the nodes meet, the host name aside. Labels are taken strictly: what a node lacks, it lacks.
    pub(super) fn met(&self, level: &Level, pod: &Pod, states: &States) -> Vec<usize> {
        if untolerated(&self.sample.taints, &pod.tolerations, level.prefer_too).is_some() {
            return Vec::new();
        }
        let meets = |one: &Alternative| states.wanted(one.wanted).met_by(&self.sample.labels).is_ok();
        let all = level.alternatives.iter().enumerate();
        all.filter(|(_, one)| meets(one)).map(|(index, _)| index).collect()
    }
}

/// Whether two pods of one host would want the same port.
pub(super) fn conflict(wanted: &[HostPort], taken: &[&HostPort]) -> bool {
    wanted.iter().any(|port| taken.iter().any(|other| port.conflicts(other)))
}

/// For each node the nodes' index, for those claims that pods may be nominated to.
pub(super) fn by_claim<'a>(nodes: &[Existing<'a>]) -> BTreeMap<&'a str, usize> {
    let named = nodes.iter().enumerate();
    named.filter_map(|(index, existing)| Some((existing.node.node_claim.as_deref()?, index))).collect()
}
