//! Existing nodes and claims in flight.

use super::{Auditor, hard_taint, node_constraints_hold, sum};
use karpenter_capi_model::node::Node;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::resources::Resources;
use std::sync::Arc;

impl Auditor<'_> {
    pub(super) fn placements(&mut self) {
        for placement in &self.plan.placements {
            let subject = format!("Node/{}", placement.node);
            let Some(node) = self.input.nodes.iter().find(|node| node.name == placement.node) else {
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
                self.may_run_on(pod, node);
            }
            self.has_room(node, &pods);
        }
    }

    fn may_run_on(&mut self, pod: &Pod, node: &Node) {
        if let Some(taint) = hard_taint(pod, &node.taints) {
            self.blame(format!("Pod/{}", pod.name), format!("is on {} in spite of taint {taint}", node.name));
        }
        let holds = node_constraints_hold(pod, |requirement| match node.labels.get(requirement.key()) {
            Some(value) => requirement.has(value),
            None => requirement.allows_absence(),
        });
        if !holds {
            self.blame(
                format!("Pod/{}", pod.name),
                format!("is on {}, whose labels don't meet its affinity", node.name),
            );
        }
    }

    fn has_room(&mut self, node: &Node, added: &[&Pod]) {
        let bound = self.input.bound_pods.get(&node.name).map_or(&[][..], Vec::as_slice);
        let used = sum(bound.iter().map(|pod| &**pod)).plus(&self.daemons_to_come(node, bound));
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

    fn daemons_to_come(&self, node: &Node, bound: &[Arc<Pod>]) -> Resources {
        let owner_name =
            |pod: &Pod| pod.owner.as_ref().map_or(pod.name.name.clone(), |owner| owner.name.clone());
        let to_come = self.input.daemon_pods.iter().filter(|daemon| {
            let runs = bound.iter().any(|pod| {
                pod.is_daemon()
                    && pod.name.namespace == daemon.name.namespace
                    && owner_name(pod) == owner_name(daemon)
            });
            let may_run = hard_taint(daemon, &node.taints).is_none()
                && node_constraints_hold(daemon, |requirement| match node.labels.get(requirement.key()) {
                    Some(value) => requirement.has(value),
                    None => requirement.allows_absence(),
                });
            may_run && !runs
        });
        sum(to_come.map(|pod| &**pod))
    }
}
