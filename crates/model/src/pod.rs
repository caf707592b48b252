//! A pod, as far as scheduling looks at it.

use crate::name::NamespacedName;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::selector::LabelSelector;
use crate::taint::Toleration;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

mod affinity;
mod from_api;
mod labels;
pub mod requests;

pub use from_api::{apply_limit_ranges, from_api};

/// A pod with everything that scheduling may look at; built once from the API object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub name: NamespacedName,
    /// The API server's UID; `namespace/name` where a file has none.
    pub uid: String,
    /// The pod's labels. Pods of one workload share them, since a map of its own would be the larger half of most pods.
    pub labels: Arc<BTreeMap<String, String>>,
    /// Effective requests, sidecars, overhead and `pods: 1` included.
    pub requests: Resources,
    /// `spec.nodeSelector`, keys normalised.
    pub node_selector: Requirements,
    /// Required node affinity terms: alternatives. Empty: no constraint.
    pub required_node_affinity: Vec<Requirements>,
    /// Preferred node affinity terms.
    pub preferred_node_affinity: Vec<PreferredTerm<Requirements>>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Topology spread constraints.
    pub topology_spread: Vec<TopologySpreadConstraint>,
    /// Required pod affinity terms.
    pub pod_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod affinity terms.
    pub preferred_pod_affinity: Vec<PreferredTerm<PodAffinityTerm>>,
    /// Required pod anti-affinity terms.
    pub pod_anti_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod anti-affinity terms.
    pub preferred_pod_anti_affinity: Vec<PreferredTerm<PodAffinityTerm>>,
    /// `PersistentVolumeClaim`s that the pod mounts (ephemeral volumes by their generated claim name).
    pub volume_claims: Vec<NamespacedName>,
    /// Host ports of containers and restartable init containers.
    pub host_ports: Vec<HostPort>,
    /// True when the pod asks for dynamic resources (`spec.resourceClaims`).
    pub needs_dynamic_resources: bool,
    /// The controlling owner.
    pub owner: Option<Box<Owner>>,
    /// `spec.priority`.
    pub priority: Option<i32>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// `spec.nodeName`.
    pub node_name: Option<String>,
    /// `status.phase`.
    pub phase: PodPhase,
    /// `metadata.deletionTimestamp`.
    pub deleting: Option<Timestamp>,
    /// `spec.schedulingGates` is not empty: nobody may place it yet.
    pub gated: bool,
    /// `status.nominatedNodeName`.
    pub nominated_node_name: Option<String>,
    /// Condition PodScheduled=False with reason Unschedulable.
    pub marked_unschedulable: bool,
    /// What could not be read; the pod is refused with the first of them, others are not held up.
    pub invalid: Vec<String>,
}

/// A term with its weight (1 to 100).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PreferredTerm<T> {
    /// The higher, the more wanted.
    pub weight: i32,
    /// The term.
    pub term: T,
}

/// The controller that owns a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// `apps/v1` and so on.
    pub api_version: String,
    /// `ReplicaSet` and so on.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's UID.
    pub uid: String,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPhase {
    /// Not running yet, or no phase given.
    Pending,
    /// Running.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// The kubelet can't be asked.
    Unknown,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopologySpreadConstraint {
    /// Node label key.
    pub topology_key: String,
    /// At least 1.
    pub max_skew: i32,
    /// `whenUnsatisfiable: DoNotSchedule`; false is `ScheduleAnyway`.
    pub required: bool,
    /// None matches nothing. `matchLabelKeys` are merged in already.
    pub selector: Option<LabelSelector>,
    /// Fewer eligible domains count as a global minimum of 0.
    pub min_domains: Option<i32>,
    /// `nodeAffinityPolicy: Honor` (the default).
    pub honor_node_affinity: bool,
    /// `nodeTaintsPolicy: Honor`.
    pub honor_node_taints: bool,
}

/// A pod affinity or anti-affinity term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodAffinityTerm {
    /// Node label key.
    pub topology_key: String,
    /// None matches nothing. `matchLabelKeys` and `mismatchLabelKeys` are merged in already.
    pub selector: Option<LabelSelector>,
    /// Named namespaces.
    pub namespaces: Vec<String>,
    /// Namespaces by label; both empty and None means the pod's own namespace.
    pub namespace_selector: Option<LabelSelector>,
}

/// A host port in use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Empty, `0.0.0.0` and `::` are wildcards.
    pub ip: String,
    /// 1 to 65535.
    pub port: i32,
    /// TCP, UDP or SCTP.
    pub protocol: String,
}

impl HostPort {
    /// Whether two pods of one node can't have both.
    pub fn conflicts(&self, other: &Self) -> bool {
        let everywhere = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || everywhere(&self.ip) || everywhere(&other.ip))
    }
}

impl Pod {
    /// Ended, well or badly: it holds nothing any more.
    pub const fn is_terminal(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Owned by a DaemonSet, which makes a pod for each node by itself.
    pub fn is_daemon(&self) -> bool {
        self.owner
            .as_ref()
            .is_some_and(|owner| owner.kind == "DaemonSet" && owner.api_version.starts_with("apps/"))
    }

    /// Owned by a Node: a static pod's mirror.
    pub fn is_mirror(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.kind == "Node" && owner.api_version == "v1")
    }

    /// Whether it will need another place when its node goes: it neither ends nor belongs to its node, and if it is going
    /// already, a `StatefulSet` will make it again under the same name.
    pub fn is_reschedulable(&self) -> bool {
        let comes_back = self.owner.as_ref().is_some_and(|owner| owner.kind == "StatefulSet");
        !self.is_terminal()
            && !self.is_daemon()
            && !self.is_mirror()
            && (self.deleting.is_none() || comes_back)
    }

    /// Whether provisioning should find it a place: not bound, nominated, gated, ended or going, and nobody else's business.
    ///
    /// `needs_mark` asks for the scheduler's mark (condition `PodScheduled=False`, reason `Unschedulable`), as a live cluster
    /// has it; files rarely do.
    pub fn is_provisionable(&self, needs_mark: bool) -> bool {
        self.node_name.is_none()
            && self.nominated_node_name.is_none()
            && !self.gated
            && !self.is_terminal()
            && self.deleting.is_none()
            && !self.is_daemon()
            && !self.is_mirror()
            && (self.marked_unschedulable || !needs_mark)
    }
}
