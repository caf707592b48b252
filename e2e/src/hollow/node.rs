//! The Node that a machine becomes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use kube::{ResourceExt, api::ObjectMeta};

use super::{
    kinds::{HollowMachine, NodeTaint},
    manifests::VERSION,
};

/// The taint that keeps pods away until Cluster API has synced the labels of a Machine to its Node.
pub(super) const UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";
const UNREGISTERED: &str = "karpenter.sh/unregistered";
pub(super) const ARCH: &str = "kubernetes.io/arch";
pub(super) const OS: &str = "kubernetes.io/os";

/// The provider ID of a machine.
pub(super) fn provider_id(machine: &HollowMachine) -> String {
    format!("hollow://{}/{}", machine.namespace().unwrap_or_default(), machine.name_any())
}

/// The Node as its kubelet would register it.
pub(super) fn of(machine: &HollowMachine) -> Node {
    let name = machine.name_any();
    let spec = &machine.spec;
    let mut labels = BTreeMap::from([
        (ARCH.to_owned(), "amd64".to_owned()),
        (OS.to_owned(), "linux".to_owned()),
        ("kubernetes.io/hostname".to_owned(), name.clone()),
    ]);
    labels.extend(spec.labels.clone());
    let mut taints: Vec<Taint> = match &spec.taints {
        Some(taints) => taints.iter().map(Taint::from).collect(),
        None => vec![Taint::from(&NodeTaint::new(UNINITIALIZED, "NoSchedule"))],
    };
    if spec.unregistered_taint {
        taints.push(Taint::from(&NodeTaint::new(UNREGISTERED, "NoExecute")));
    }
    let allocatable = if spec.allocatable.is_empty() { &spec.capacity } else { &spec.allocatable };
    let version = spec.kubelet_version.clone().unwrap_or_else(|| VERSION.to_owned());
    Node {
        spec: Some(NodeSpec {
            provider_id: Some(provider_id(machine)),
            taints: Some(taints),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: Some(spec.capacity.clone()),
            allocatable: Some(allocatable.clone()),
            node_info: Some(NodeSystemInfo {
                architecture: labels.get(ARCH).cloned().unwrap_or_default(),
                operating_system: labels.get(OS).cloned().unwrap_or_default(),
                kubelet_version: version,
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        }),
        metadata: ObjectMeta { name: Some(name), labels: Some(labels), ..ObjectMeta::default() },
    }
}
