//! Labels: keys, values with a fixed meaning, and the groups that the rules speak of.

/// Name of the NodePool that a NodeClaim or Node belongs to.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// `"true"` on a Node that is ready and whose startup taints are gone.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// `"true"` on a Node that has got its labels and taints.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// `"true"` on a Node whose taints are written by somebody else.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// How the machine is paid for; values below.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// Value of [`CAPACITY_TYPE`]: paid by use, stays.
pub const CAPACITY_TYPE_ON_DEMAND: &str = "on-demand";
/// Value of [`CAPACITY_TYPE`]: cheaper, may be taken back.
pub const CAPACITY_TYPE_SPOT: &str = "spot";
/// Value of [`CAPACITY_TYPE`]: paid for already.
pub const CAPACITY_TYPE_RESERVED: &str = "reserved";
/// Every value of [`CAPACITY_TYPE`].
pub const CAPACITY_TYPES: &[&str] = &[CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_RESERVED, CAPACITY_TYPE_SPOT];
/// Name of the node class; by upstream's rule the key is `<group>/<kind in lower case>`.
pub const NODECLASS: &str = "karpenter.cluster.x-k8s.io/clusterapinodeclass";
/// Keeps load balancers away from a Node that is drained; its value is [`EXCLUDE_BALANCERS_VALUE`].
pub const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Value of [`EXCLUDE_BALANCERS`], so that a label that a person set is told apart.
pub const EXCLUDE_BALANCERS_VALUE: &str = "karpenter";

/// Failure zone.
pub const TOPOLOGY_ZONE: &str = "topology.kubernetes.io/zone";
/// Region.
pub const TOPOLOGY_REGION: &str = "topology.kubernetes.io/region";
/// Name of the instance type: here, what a MachineDeployment makes.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Processor architecture in Go's words: `amd64`, `arm64`, `ppc64le`, `s390x`.
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system in Go's words: `linux`, `windows`.
pub const OS: &str = "kubernetes.io/os";
/// The Node's own name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Windows build number.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// On a MachineDeployment, with an empty value: Karpenter may use it.
pub const MEMBER: &str = "node.cluster.x-k8s.io/karpenter-member";
/// Cluster API: name of the Cluster.
pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// Cluster API: name of the MachineDeployment, on its MachineSets and Machines.
pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
/// Cluster API: name of the MachineSet, on its Machines.
pub const SET_NAME: &str = "cluster.x-k8s.io/set-name";
/// Cluster API: the object comes from the Cluster's topology.
pub const TOPOLOGY_OWNED: &str = "topology.cluster.x-k8s.io/owned";
/// Cluster API: name within the Cluster's topology of the MachineDeployment.
pub const TOPOLOGY_DEPLOYMENT_NAME: &str = "topology.cluster.x-k8s.io/deployment-name";
/// Cluster API: a control-plane Machine.
pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
/// Cluster API: how a pod is drained; values [`DRAIN_SKIP`] and [`DRAIN_WAIT_COMPLETED`].
pub const DRAIN: &str = "cluster.x-k8s.io/drain";
/// Value of [`DRAIN`]: the pod is neither evicted nor waited for.
pub const DRAIN_SKIP: &str = "skip";
/// Value of [`DRAIN`]: the pod isn't evicted, but waited for.
pub const DRAIN_WAIT_COMPLETED: &str = "wait-completed";
/// Cluster API: the Node can be taken back by the cloud at any time.
pub const INTERRUPTIBLE: &str = "cluster.x-k8s.io/interruptible";

/// Domains whose keys a user may not set on templates or requirements, with [`UNRESTRICTED`] as the exceptions.
pub const RESTRICTED_DOMAINS: &[&str] = &["karpenter.sh"];
/// Keys that a user may not set on templates or requirements.
pub const RESTRICTED: &[&str] = &[HOSTNAME];
/// Keys of a restricted domain that may be used all the same.
pub const UNRESTRICTED: &[&str] = &[CAPACITY_TYPE, NODEPOOL];
/// Keys that a node may lack in a template, since the instance type or the registration gives them; sorted.
pub const WELL_KNOWN: &[&str] =
    &[CAPACITY_TYPE, NODEPOOL, ARCH, OS, INSTANCE_TYPE, WINDOWS_BUILD, TOPOLOGY_REGION, TOPOLOGY_ZONE];
/// Older keys and what they are read as.
pub const NORMALIZED: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
    ("beta.kubernetes.io/os", OS),
    ("failure-domain.beta.kubernetes.io/region", TOPOLOGY_REGION),
    ("failure-domain.beta.kubernetes.io/zone", TOPOLOGY_ZONE),
];
/// Domains, with their subdomains except of the roles, whose labels Cluster API copies from a Machine to its Node.
pub const SYNCED_BY_CAPI_DOMAINS: &[&str] =
    &["node-restriction.kubernetes.io", NODE_ROLE_DOMAIN, "node.cluster.x-k8s.io"];
/// Domain of the labels that name a Node's role.
pub const NODE_ROLE_DOMAIN: &str = "node-role.kubernetes.io";

/// The key that `key` is read as: an alias of an older Kubernetes gives its successor, every other key itself.
pub fn normalized(key: &str) -> &str {
    NORMALIZED.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, stable)| stable)
}

/// Whether `key` is one of [`WELL_KNOWN`].
pub fn is_well_known(key: &str) -> bool {
    WELL_KNOWN.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_read_as_their_successors() {
        assert_eq!(normalized("beta.kubernetes.io/arch"), ARCH);
        assert_eq!(normalized("failure-domain.beta.kubernetes.io/zone"), TOPOLOGY_ZONE);
        assert_eq!(normalized("example.com/a"), "example.com/a");
        assert!(NORMALIZED.iter().all(|(_, stable)| is_well_known(stable)));
    }

    #[test]
    fn lists_are_sorted() {
        assert!(WELL_KNOWN.is_sorted());
        assert!(NORMALIZED.is_sorted());
        assert!(CAPACITY_TYPES.is_sorted());
    }
}
