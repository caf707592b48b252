//! Existing nodes and claims in flight.

use super::{Auditor, hard_taint, node_constraints_hold, sum};
use karpenter_capi_model::node::Node;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::requirement::Requirement;
use std::sync::Arc;

impl<'a> Auditor<'a> {
    pub(super) fn placements(&mut self) {
        for placement in &self.plan.placements {
            let subject = format!("Node/{}", placement.node);
            let Some(node) = self.node(&placement.node) else {
                self.blame(subject, "takes pods but isn't in the input");
                continue;
            };
            if node.marked_for_deletion {
                self.blame(&subject, "takes pods though it is going");
            }
            if placement.in_flight == node.has_node {
                self.blame(&subject, "is said to be in flight and isn't, or the other way round");
            }
            let pods = self.known(&placement.pods);
            for pod in &pods {
                self.may_be_placed(pod);
                self.volumes_can_be_read(pod);
                self.may_run_on(pod, node);
                for name in self.out_of_reach(pod, |wanted| label_meets(node, wanted)) {
                    self.blame_pod(pod, format!("can't reach its volume {name} from {}", node.name));
                }
            }
            self.has_room(node, &pods);
            self.may_attach(node, &pods);
            let others: Vec<&Pod> = self.bound_to(node).chain(self.daemons_to_come(node)).collect();
            self.host_ports(&subject, &pods, &others);
        }
    }

    pub(super) fn node(&self, name: &str) -> Option<&'a Node> {
        self.input.nodes.iter().find(|node| node.name == name)
    }

    /// Pods that hold a place on the node.
    pub(super) fn bound_to(&self, node: &Node) -> impl Iterator<Item = &'a Pod> + use<'a> {
        let bound: &'a [Arc<Pod>] = self.input.bound_pods.get(&node.name).map_or(&[], Vec::as_slice);
        bound.iter().map(|pod| &**pod)
    }

    fn may_run_on(&mut self, pod: &Pod, node: &Node) {
        if let Some(taint) = hard_taint(pod, &node.taints) {
            self.blame_pod(pod, format!("is on {} in spite of taint {taint}", node.name));
        }
        if !node_constraints_hold(pod, |wanted| label_meets(node, wanted)) {
            self.blame_pod(pod, format!("is on {}, whose labels don't meet its affinity", node.name));
        }
    }

    /// Only resources that a placed pod asks for count: a node may be overcommitted by others already.
    fn has_room(&mut self, node: &Node, added: &[&Pod]) {
        let used = sum(self.bound_to(node).chain(self.daemons_to_come(node)));
        let wanted = sum(added.iter().copied());
        for (name, amount) in wanted.iter() {
            let (used, there) = (used.get(name), node.allocatable.get(name));
            if used.saturating_add(amount) > there {
                self.blame(
                    format!("Node/{}", node.name),
                    format!("{name}: {used} in use and {amount} placed are more than {there}"),
                );
            }
        }
    }

    /// Pods of DaemonSets that the node will get and doesn't have yet.
    pub(super) fn daemons_to_come(&self, node: &'a Node) -> impl Iterator<Item = &'a Pod> + use<'a> {
        let owner_name =
            |pod: &Pod| pod.owner.as_ref().map_or(pod.name.name.clone(), |owner| owner.name.clone());
        let running: Vec<_> = self
            .bound_to(node)
            .filter(|pod| pod.is_daemon())
            .map(|pod| (pod.name.namespace.clone(), owner_name(pod)))
            .collect();
        self.input.daemon_pods.iter().map(|daemon| &**daemon).filter(move |daemon| {
            hard_taint(daemon, &node.taints).is_none()
                && node_constraints_hold(daemon, |wanted| label_meets(node, wanted))
                && !running.contains(&(daemon.name.namespace.clone(), owner_name(daemon)))
        })
    }
}

/// Whether the node's labels meet a requirement, as kube-scheduler judges it.
pub(super) fn label_meets(node: &Node, wanted: &Requirement) -> bool {
    match node.labels.get(wanted.key()) {
        Some(value) => wanted.has(value),
        None => wanted.allows_absence(),
    }
}
