//! Everything that a solve may look at.

use jiff::Timestamp;
use karpenter_capi_model::{instance_type::InstanceType, node::Node, node_pool::NodePool, pod::Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An immutable picture of the cluster plus options and the time.
#[derive(Clone, Debug)]
pub struct Input {
    /// The time of the picture.
    pub now: Timestamp,
    /// Policies.
    pub options: Options,
    /// Pods that want a place: pending ones and those of nodes marked for deletion.
    pub pods: Vec<Arc<Pod>>,
    /// Claims that earlier passes made for pods of `pods`, by the pod's UID: such a pod is placed there if it still fits, before
    /// all others. Packed anew, the pods of one pass could take each other's room and need a node more.
    pub nominations: BTreeMap<String, String>,
    /// Pods that hold a place (bound, not terminal), by node name.
    pub bound_pods: BTreeMap<String, Vec<Arc<Pod>>>,
    /// One pod for each DaemonSet.
    pub daemon_pods: Vec<Arc<Pod>>,
    /// Existing nodes and claims in flight.
    pub nodes: Vec<Node>,
    /// Dynamic NodePools.
    pub node_pools: Vec<NodePool>,
    /// Instance types by NodePool name, unavailable offerings included.
    pub instance_types: BTreeMap<String, Vec<Arc<InstanceType>>>,
    /// Namespaces' labels, for namespace selectors.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// Facts about volumes.
    pub volumes: Volumes,
    /// Label keys that are decided by the instance type and not by a NodePool, besides the built-in well-known ones and those
    /// that some instance type defines. Usually empty.
    pub well_known_labels: BTreeSet<String>,
    /// The label by which reserved offerings name their reservation. Empty where the cloud has none: then no offering is
    /// known to share a reservation with another.
    pub reservation_id_label: String,
}

/// Policies; there is no default, so that every caller says what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether preferences count before they are given up.
    pub preference_policy: PreferencePolicy,
    /// What happens when `minValues` can't be met.
    pub min_values_policy: MinValuesPolicy,
    /// What happens when reserved capacity can't be had.
    pub reserved_offering_mode: ReservedOfferingMode,
    /// Most instance types in a claim, cheapest first.
    pub max_instance_types: usize,
}

/// `--preference-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferencePolicy {
    /// Preferences are requirements until nothing fits, then given up one by one.
    Respect,
    /// Preferences are not looked at.
    Ignore,
}

/// `--min-values-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// No claim.
    Strict,
    /// As many distinct values as there are.
    BestEffort,
}

/// How reserved offerings are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedOfferingMode {
    /// Provisioning: waits rather than falls back.
    Strict,
    /// Disruption: falls back.
    Fallback,
}

/// Facts about volumes, by name.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    /// Alternatives for each claim that is usable: each a set of node requirements.
    pub claims: BTreeMap<karpenter_capi_model::name::NamespacedName, VolumeClaim>,
    /// Attach limits by node and CSI driver.
    pub attach_limits: BTreeMap<String, BTreeMap<String, i64>>,
}

/// What is known of a `PersistentVolumeClaim`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeClaim {
    /// It may be mounted.
    Usable {
        /// Alternatives; empty means anywhere.
        alternatives: Vec<karpenter_capi_model::requirements::Requirements>,
        /// The CSI driver that attaches it, where known.
        driver: Option<String>,
    },
    /// It may not, and why.
    Unusable(String),
}
