//! A NodePool and the node template in it.

use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::taint::Taint;
use std::collections::BTreeMap;

/// A NodePool, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePool {
    /// Its name.
    pub name: String,
    /// Higher is tried first; ties by name, descending, as upstream.
    pub weight: i32,
    /// Template labels together with `karpenter.sh/nodepool` and the node class label.
    pub labels: BTreeMap<String, String>,
    /// Template annotations.
    pub annotations: BTreeMap<String, String>,
    /// Template requirements together with those from the labels.
    pub requirements: Requirements,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Taints that something removes while the node starts.
    pub startup_taints: Vec<Taint>,
    /// `spec.limits`, by resource name; `nodes` apart. None: not limited.
    pub limits: Option<Resources>,
    /// `spec.limits.nodes`.
    pub node_limit: Option<i64>,
    /// What the pool's nodes and claims use now, each claim at its type's capacity, launched or not.
    pub usage: Resources,
    /// Nodes and claims that count for `limits.nodes`.
    pub node_count: i64,
    /// `spec.replicas` is set: provisioned by number, not by pods.
    pub is_static: bool,
    /// Why the pool can't be used now; None when it is ready.
    pub not_ready: Option<String>,
    /// Provisioning is paused (annotation `karpenter.cluster.x-k8s.io/paused: all`, not yet past `paused-until`).
    pub paused: bool,
}
