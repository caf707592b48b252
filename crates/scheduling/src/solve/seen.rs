//! What real machines turned out to have.

use crate::input::Input;
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::node::Node;
use karpenter_capi_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};
use std::collections::BTreeMap;

/// What real machines of each MachineDeployment turned out to have: a promise that is known to be too good would make node
/// after node that its pod doesn't fit.
pub(super) struct Seen<'a>(BTreeMap<&'a NamespacedName, Vec<&'a Node>>);

impl<'a> Seen<'a> {
    pub(super) fn new(input: &'a Input) -> Self {
        let mut nodes: BTreeMap<&NamespacedName, Vec<&Node>> = BTreeMap::new();
        for node in input.nodes.iter().filter(|node| node.has_node && node.initialized) {
            if let Some(deployment) = &node.machine_deployment {
                nodes.entry(deployment).or_default().push(node);
            }
        }
        Self(nodes)
    }

    /// The largest allocatable seen on machines like the type's; None where there is none.
    pub(super) fn cap(&self, of_type: &InstanceType) -> Option<Resources> {
        let nodes = self.0.get(of_type.machine_deployment.as_ref()?)?;
        nodes
            .iter()
            .filter(|node| node.is_like(of_type))
            .map(|node| node.allocatable.clone())
            .reduce(|a, b| a.max(&b))
    }
}

/// What a machine is promised to have, no more than was seen.
pub(super) fn capped(promised: &Resources, cap: &Resources) -> Resources {
    let mut real = promised.clone();
    for name in [CPU, MEMORY, EPHEMERAL_STORAGE, PODS] {
        real.set(name, promised.get(name).min(cap.get(name)));
    }
    real
}
