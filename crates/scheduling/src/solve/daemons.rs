//! DaemonSets: what every node carries before any pod of a user.

use super::demand::alternatives;
use super::template::{Keys, conflict};
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::node::Node;
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::pod::{HostPort, Pod};
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_model::taint::{Taint, untolerated};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One pod for each DaemonSet, with its OR-ed alternatives.
pub(super) struct Daemons<'a>(Vec<(&'a Pod, Vec<Requirements>)>);

impl<'a> Daemons<'a> {
    pub(super) fn new(pods: &'a [Arc<Pod>]) -> Self {
        Self(pods.iter().map(|pod| (&**pod, alternatives(pod))).collect())
    }

    /// What the DaemonSets will take of a machine of this type in this pool: resources and host ports. Each is judged by itself against this one type,
    /// so that the order of types and DaemonSets never matters.
    pub(super) fn on_type(
        &self,
        pool: &NodePool,
        keys: &Keys,
        of_type: &InstanceType,
        taints: &[Taint],
    ) -> (Resources, Vec<&'a HostPort>) {
        let (mut sum, mut ports) = (Resources::ZERO, Vec::new());
        for (pod, alternatives) in &self.0 {
            let runs = untolerated(pool.taints.iter().chain(taints), &pod.tolerations, true).is_none()
                && alternatives.iter().any(|wanted| {
                    pool.requirements.first_conflict(wanted, keys.of_types()).is_none()
                        && conflict(of_type, None, &pool.requirements.and(wanted), pool, keys).is_none()
                });
            if runs {
                sum.add(&pod.requests);
                ports.extend(&pod.host_ports);
            }
        }
        (sum, ports)
    }

    /// What the DaemonSets that don't run on the node yet will still take of it: resources and host ports.
    pub(super) fn missing_on(&self, node: &Node, bound: &[Arc<Pod>]) -> (Resources, Vec<&'a HostPort>) {
        let running: BTreeSet<(&str, &str)> =
            bound.iter().filter(|pod| pod.is_daemon()).map(|pod| identity(pod)).collect();
        let (mut sum, mut ports) = (Resources::ZERO, Vec::new());
        for (pod, alternatives) in &self.0 {
            let runs = untolerated(&node.taints, &pod.tolerations, true).is_none()
                && alternatives.iter().any(|wanted| wanted.met_by(&node.labels).is_ok());
            if runs && !running.contains(&identity(pod)) {
                sum.add(&pod.requests);
                ports.extend(&pod.host_ports);
            }
        }
        (sum, ports)
    }
}

/// Namespace and name of the DaemonSet; the pod's own name where no owner is given.
fn identity(pod: &Pod) -> (&str, &str) {
    let name = pod.owner.as_ref().map_or(&pod.name.name, |owner| &owner.name);
    (&pod.name.namespace, name)
}
