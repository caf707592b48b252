//! Every name that is shared with other programs, each exactly once.
//!
//! Names of upstream Karpenter, Cluster API and the Cluster Autoscaler are kept where the meaning is the same, so that
//! dashboards, alerts and habits carry over. Our own stand under [`GROUP`].

pub mod annotations;
pub mod conditions;
pub mod labels;

/// API group of NodePool, NodeClaim and NodeOverlay.
pub const KARPENTER_GROUP: &str = "karpenter.sh";
/// API group of `ClusterAPINodeClass`, and the prefix of our own annotations.
pub const GROUP: &str = "karpenter.cluster.x-k8s.io";
/// API group of Cluster API's core kinds.
pub const CAPI_GROUP: &str = "cluster.x-k8s.io";
/// API group of CapacityBuffer.
pub const AUTOSCALING_GROUP: &str = "autoscaling.x-k8s.io";
/// API group of HyperShift's NodePool.
pub const HYPERSHIFT_GROUP: &str = "hypershift.openshift.io";

/// Kind of the node class that `nodeClassRef` must name for an object to be ours.
pub const NODE_CLASS_KIND: &str = "ClusterAPINodeClass";

/// Keys of taints.
pub mod taints {
    /// Effect `NoSchedule`: the node is about to go. Its daemon pods stay.
    pub const DISRUPTED: &str = "karpenter.sh/disrupted";
    /// Effect `NoExecute`: the node's labels and taints have not been written yet.
    pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
    /// Put on by Cluster API's bootstrap, effect `NoSchedule`, and taken off when the Machine's labels were synced.
    pub const CAPI_UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";
    /// Put on by Cluster API during a roll-out, effect `PreferNoSchedule`.
    pub const CAPI_OUTDATED_REVISION: &str = "node.cluster.x-k8s.io/outdated-revision";
    /// Node lifecycle controller, effects `NoSchedule` and `NoExecute`.
    pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
    /// Node lifecycle controller, effects `NoSchedule` and `NoExecute`.
    pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    /// Cordoned, effect `NoSchedule`.
    pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
    /// External cloud provider, value `true`, effect `NoSchedule`: the cloud controller manager hasn't seen the node.
    pub const CLOUD_PROVIDER_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
    /// Node readiness gates: every key under this prefix is temporary.
    pub const READINESS_PREFIX: &str = "readiness.k8s.io/";
    /// The Cluster Autoscaler's mark, effect `NoSchedule`.
    pub const CLUSTER_AUTOSCALER_TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
    /// The Cluster Autoscaler's mark, effect `PreferNoSchedule`.
    pub const CLUSTER_AUTOSCALER_DELETION_CANDIDATE: &str = "DeletionCandidateOfClusterAutoscaler";

    /// Taint effect: pods that don't tolerate it aren't scheduled.
    pub const NO_SCHEDULE: &str = "NoSchedule";
    /// Taint effect: as `NoSchedule`, but only a preference.
    pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
    /// Taint effect: pods that don't tolerate it are evicted, too.
    pub const NO_EXECUTE: &str = "NoExecute";
}

/// Finalizers.
pub mod finalizers {
    /// On NodeClaims and Nodes: drain first, then give the Machine back.
    pub const TERMINATION: &str = "karpenter.sh/termination";
    /// On a `ClusterAPINodeClass`, while NodeClaims refer to it.
    pub const NODE_CLASS: &str = "karpenter.cluster.x-k8s.io/termination";
}

/// Field managers of server-side apply, one per controller.
pub mod managers {
    /// Creates NodeClaims.
    pub const PROVISIONER: &str = "karpenter-capi-provisioner";
    /// Status and metadata of NodeClaims, and the metadata of their Nodes.
    pub const NODECLAIM: &str = "karpenter-capi-nodeclaim";
    /// Ledgers and replicas of MachineDeployments, bindings on Machines and NodeClaims.
    pub const LEDGER: &str = "karpenter-capi-ledger";
    /// Only the pre-terminate hook on Machines: an apply that omits a key removes it, so the hook has its own manager.
    pub const HOOK: &str = "karpenter-capi-hook";
    /// Status and metadata of NodePools.
    pub const NODEPOOL: &str = "karpenter-capi-nodepool";
    /// Status and metadata of `ClusterAPINodeClass`es.
    pub const NODECLASS: &str = "karpenter-capi-nodeclass";
    /// Status of NodeOverlays.
    pub const NODEOVERLAY: &str = "karpenter-capi-nodeoverlay";
    /// Status of CapacityBuffers.
    pub const CAPACITYBUFFER: &str = "karpenter-capi-capacitybuffer";
    /// Draining and giving back.
    pub const TERMINATION: &str = "karpenter-capi-termination";
    /// `karpenter-capi doctor --release-hooks`, run by a person.
    pub const DOCTOR: &str = "karpenter-capi-doctor";
}
