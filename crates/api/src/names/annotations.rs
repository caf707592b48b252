//! Annotations: keys, and values with a fixed meaning.

/// On a pod, Node or NodeClaim: `"true"`, or on a pod a Go duration since its start; no voluntary disruption.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// On NodePools and NodeClaims: hash of the NodePool's template.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of the algorithm behind [`NODEPOOL_HASH`].
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// The value of [`NODEPOOL_HASH_VERSION`] that goes with upstream's present algorithm.
pub const NODEPOOL_HASH_VERSION_VALUE: &str = "v3";
/// On a NodeClaim that is deleted: RFC 3339 time at which its node goes in any case.
pub const NODECLAIM_TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// On a NodeClaim: `"true"` if `minValues` had to be lowered for it.
pub const NODECLAIM_MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// On a NodeClaim: `"true"` if its price is one that a NodeOverlay set.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// On a NodeClaim: `"true"` if a NodeOverlay added to its capacity.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// On a NodePool: settings of an older provider API.
pub const COMPATIBILITY_PROVIDER: &str = "compatibility.karpenter.sh/provider";

/// MachineDeployment: the ledger, first 13 characters of the UIDs of the counted claims, sorted, comma-separated.
pub const CLAIMS: &str = "karpenter.cluster.x-k8s.io/claims";
/// MachineDeployment: our own pause, `<claim UID>/<MachineSet>/<target replicas>`.
pub const PAUSE_FOR: &str = "karpenter.cluster.x-k8s.io/pause-for";
/// NodeClaim: `namespace/name` of the MachineDeployment that it is assigned to.
pub const MACHINE_DEPLOYMENT: &str = "karpenter.cluster.x-k8s.io/machine-deployment";
/// NodeClaim: `namespace/name` of the Machine that it is bound to. Cluster API puts the same key, with the name only, on Nodes.
pub const MACHINE: &str = "cluster.x-k8s.io/machine";
/// NodeClaim: `namespace/name/UID` of a Machine that is there already.
pub const ADOPT: &str = "karpenter.cluster.x-k8s.io/adopt";
/// NodeClaim: UID of the claim whose place in the ledger it takes.
pub const REPLACES: &str = "karpenter.cluster.x-k8s.io/replaces";
/// NodeClaim: `"true"`: when it is deleted, its Machine stays.
pub const RELEASE: &str = "karpenter.cluster.x-k8s.io/release";
/// Machine: `name/UID` of its claim.
pub const NODECLAIM: &str = "karpenter.cluster.x-k8s.io/nodeclaim";
/// Machine: our guard. While it is there, the infrastructure stays.
pub const PRE_TERMINATE_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/karpenter";
/// Cluster: UID of the workload cluster's `kube-system` namespace; [`WORKLOAD_UID_ACCEPT`] takes a new one.
pub const WORKLOAD_UID: &str = "karpenter.cluster.x-k8s.io/workload-uid";
/// Value of [`WORKLOAD_UID`] by which a person accepts another workload cluster.
pub const WORKLOAD_UID_ACCEPT: &str = "accept";

/// MachineDeployment: US dollars an hour, decimal.
pub const PRICE: &str = "karpenter.cluster.x-k8s.io/price";
/// MachineDeployment: RFC 3339 time at which [`PRICE`] was written.
pub const PRICE_UPDATED_AT: &str = "karpenter.cluster.x-k8s.io/price-updated-at";
/// MachineDeployment: read as price after [`PRICE`].
pub const MACHINE_CURRENT_PRICE: &str = "cluster.x-k8s.io/machine-current-price";
/// MachineDeployment: read as price after [`MACHINE_CURRENT_PRICE`].
pub const CAPACITY_PRICE: &str = "capacity.cluster-autoscaler.kubernetes.io/price";
/// Keys of a price, the strongest first.
pub const PRICE_KEYS: &[&str] = &[PRICE, MACHINE_CURRENT_PRICE, CAPACITY_PRICE];
/// MachineDeployment: `on-demand`, `spot` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.cluster.x-k8s.io/capacity-type";
/// MachineDeployment: the zone of its machines.
pub const ZONE: &str = "karpenter.cluster.x-k8s.io/zone";
/// MachineDeployment: `"false"` takes the offering out; a reason may follow.
pub const AVAILABLE: &str = "karpenter.cluster.x-k8s.io/available";
/// MachineDeployment: resources that the kubelet keeps for Kubernetes, `cpu=100m,memory=255Mi`.
pub const KUBE_RESERVED: &str = "karpenter.cluster.x-k8s.io/kube-reserved";
/// MachineDeployment: resources that the kubelet keeps for the system, `cpu=100m,memory=255Mi`.
pub const SYSTEM_RESERVED: &str = "karpenter.cluster.x-k8s.io/system-reserved";
/// MachineDeployment: resources below which the kubelet evicts, `memory=100Mi`.
pub const EVICTION_THRESHOLD: &str = "karpenter.cluster.x-k8s.io/eviction-threshold";
/// MachineDeployment: a whole number; among equals the higher is taken first.
pub const PRIORITY: &str = "karpenter.cluster.x-k8s.io/priority";
/// NodePool: `disruption` or `all`; see [`PAUSED_UNTIL`].
pub const PAUSED: &str = "karpenter.cluster.x-k8s.io/paused";
/// NodePool: RFC 3339 time at which [`PAUSED`] ends.
pub const PAUSED_UNTIL: &str = "karpenter.cluster.x-k8s.io/paused-until";

/// Cluster Autoscaler: processors, a quantity.
pub const CAPACITY_CPU: &str = "capacity.cluster-autoscaler.kubernetes.io/cpu";
/// Cluster Autoscaler: memory, a quantity.
pub const CAPACITY_MEMORY: &str = "capacity.cluster-autoscaler.kubernetes.io/memory";
/// Cluster Autoscaler: ephemeral storage, a quantity.
pub const CAPACITY_EPHEMERAL_DISK: &str = "capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk";
/// Cluster Autoscaler: number of pods.
pub const CAPACITY_MAX_PODS: &str = "capacity.cluster-autoscaler.kubernetes.io/maxPods";
/// Cluster Autoscaler: resource name of the GPUs.
pub const CAPACITY_GPU_TYPE: &str = "capacity.cluster-autoscaler.kubernetes.io/gpu-type";
/// Cluster Autoscaler: number of GPUs.
pub const CAPACITY_GPU_COUNT: &str = "capacity.cluster-autoscaler.kubernetes.io/gpu-count";
/// Cluster Autoscaler: driver of dynamic resource allocation, instead of [`CAPACITY_GPU_TYPE`].
pub const CAPACITY_DRA_DRIVER: &str = "capacity.cluster-autoscaler.kubernetes.io/dra-driver";
/// Cluster Autoscaler: volume limits, `driver=limit,…`.
pub const CAPACITY_CSI_DRIVER: &str = "capacity.cluster-autoscaler.kubernetes.io/csi-driver";
/// Cluster Autoscaler: labels of the Node, `key=value,…`.
pub const CAPACITY_LABELS: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";
/// Cluster Autoscaler: taints of the Node, `key=value:effect,…`.
pub const CAPACITY_TAINTS: &str = "capacity.cluster-autoscaler.kubernetes.io/taints";
/// Prefix of the Cluster Autoscaler's capacity annotations.
pub const CAPACITY_PREFIX: &str = "capacity.cluster-autoscaler.kubernetes.io/";

/// Cluster Autoscaler: lower bound of its node group.
pub const NODE_GROUP_MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
/// Cluster Autoscaler: upper bound of its node group; a cap on replicas for us as well.
pub const NODE_GROUP_MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
/// Cluster Autoscaler: how long a machine may take, a Go duration; stronger than the node class's timeouts.
pub const MAX_NODE_PROVISION_TIME: &str = "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime";

/// Cluster API: the object isn't reconciled; any value.
pub const CAPI_PAUSED: &str = "cluster.x-k8s.io/paused";
/// Cluster API: the Machine is preferred when its MachineSet shrinks; any value.
pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
/// Cluster API, on a Machine: it doesn't drain; any value.
pub const EXCLUDE_NODE_DRAINING: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
/// Cluster API, on a Machine: it doesn't wait for volumes to be detached; any value.
pub const EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH: &str =
    "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";
/// Cluster API: every annotation under this prefix (or equal to it) holds a Machine back before its infrastructure goes.
pub const PRE_TERMINATE_HOOK_PREFIX: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
/// Cluster API: every annotation under this prefix (or equal to it) holds a Machine back before it is drained.
pub const PRE_DRAIN_HOOK_PREFIX: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
/// Cluster API, on MachineDeployments and MachineSets: number of the revision.
pub const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
/// Cluster API, on a MachineSet: it makes no Machines.
pub const DISABLE_MACHINE_CREATE: &str = "cluster.x-k8s.io/disable-machine-create";
/// Cluster API, on Nodes: namespace of the Cluster.
pub const CLUSTER_NAMESPACE: &str = "cluster.x-k8s.io/cluster-namespace";
/// Cluster API, on Nodes: name of the Cluster.
pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// HyperShift, on a MachineDeployment: `namespace/name` of the HyperShift NodePool that owns its replicas.
pub const HYPERSHIFT_NODE_POOL: &str = "hypershift.openshift.io/nodePool";
