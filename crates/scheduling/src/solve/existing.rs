//! Nodes that exist and claims in flight.

use super::daemons::Daemons;
use super::demand::Level;
use crate::input::Input;
use crate::plan::Placement;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::node::Node;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_model::taint::untolerated;

/// A node with what is left of it.
pub(super) struct Existing<'a> {
    pub(super) node: &'a Node,
    /// Allocatable less bound pods and DaemonSets that are still to come; never negative, so that a pod which doesn't ask for
    /// an overcommitted resource still fits.
    pub(super) remaining: Resources,
    pods: Vec<NamespacedName>,
}

impl<'a> Existing<'a> {
    /// Nodes that may take pods: initialized ones first, then by name.
    pub(super) fn all(input: &'a Input, daemons: &Daemons<'_>) -> Vec<Self> {
        let mut nodes: Vec<&Node> = input.nodes.iter().filter(|node| !node.marked_for_deletion).collect();
        nodes.sort_by(|a, b| b.initialized.cmp(&a.initialized).then_with(|| a.name.cmp(&b.name)));
        let left = |node: &'a Node| {
            let bound = input.bound_pods.get(&node.name).map_or(&[][..], Vec::as_slice);
            let mut used = daemons.missing_on(node, bound);
            for pod in bound {
                used.add(&pod.requests);
            }
            node.allocatable.minus(&used).clamped()
        };
        nodes.into_iter().map(|node| Self { node, remaining: left(node), pods: Vec::new() }).collect()
    }

    /// Whether the pod may run here. Labels are taken strictly: what a node lacks, it lacks.
    pub(super) fn accepts(&self, pod: &Pod, level: &Level) -> bool {
        pod.requests.fits(&self.remaining)
            && untolerated(&self.node.taints, &pod.tolerations, level.prefer_too).is_none()
            && self.meets(level)
    }

    /// Whether the labels meet one of the alternatives.
    pub(super) fn meets(&self, level: &Level) -> bool {
        level.alternatives.iter().any(|wanted| wanted.requirements.met_by(&self.node.labels).is_ok())
    }

    pub(super) fn place(&mut self, pod: &Pod) {
        self.remaining = self.remaining.minus(&pod.requests);
        self.pods.push(pod.name.clone());
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
