//! Condition types and reasons.

/// Root condition of every kind of ours: `True` when all the others that count are.
pub const READY: &str = "Ready";

/// NodePool and NodeOverlay: its spec passed the checks that the schema can't express.
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
/// NodePool: the node class exists and is ready.
pub const NODE_CLASS_READY: &str = "NodeClassReady";
/// NodePool: its nodes register. Informational.
pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

/// NodeClaim: a Machine is bound and its infrastructure is there.
pub const LAUNCHED: &str = "Launched";
/// NodeClaim: the Node is there and has got its labels and taints.
pub const REGISTERED: &str = "Registered";
/// NodeClaim: the Node is ready and its startup taints are gone.
pub const INITIALIZED: &str = "Initialized";
/// NodeClaim: quiet for `consolidateAfter`.
pub const CONSOLIDATABLE: &str = "Consolidatable";
/// NodeClaim: no longer what its NodePool or MachineDeployment asks for.
pub const DRIFTED: &str = "Drifted";
/// NodeClaim: its pods are gone.
pub const DRAINED: &str = "Drained";
/// NodeClaim: its volumes are detached.
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
/// NodeClaim: the Machine's deletion was asked for.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// NodeClaim: the Node has the capacity that was expected.
pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
/// NodeClaim: why it is disrupted.
pub const DISRUPTION_REASON: &str = "DisruptionReason";

/// `ClusterAPINodeClass`: at least one MachineDeployment can be used.
pub const MACHINE_DEPLOYMENTS_READY: &str = "MachineDeploymentsReady";

/// CapacityBuffer: it is known what its pods are like and how many there are.
pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
/// CapacityBuffer: its room is there, or on its way.
pub const PROVISIONING: &str = "Provisioning";
/// CapacityBuffer: limits of NodePools keep room from being made.
pub const LIMITED_BY_QUOTAS: &str = "LimitedByQuotas";

/// Cluster API, Machine: deletion has been acknowledged, and how far it is.
pub const CAPI_DELETING: &str = "Deleting";
/// Cluster API: the controller has seen the pause.
pub const CAPI_PAUSED: &str = "Paused";
/// Cluster API, MachineDeployment: a roll-out is under way.
pub const CAPI_ROLLING_OUT: &str = "RollingOut";
/// Cluster API, MachineDeployment and MachineSet: replicas are being added, or why they can't be.
pub const CAPI_SCALING_UP: &str = "ScalingUp";
/// Cluster API, Machine: it is what its MachineDeployment asks for.
pub const CAPI_UP_TO_DATE: &str = "UpToDate";
/// Cluster API, Machine: its infrastructure is there.
pub const CAPI_INFRASTRUCTURE_READY: &str = "InfrastructureReady";
/// Cluster API, Machine: its bootstrap data is there.
pub const CAPI_BOOTSTRAP_CONFIG_READY: &str = "BootstrapConfigReady";
/// Cluster API, Machine: its Node is ready.
pub const CAPI_NODE_READY: &str = "NodeReady";
/// Cluster API, Machine: a health check has found it unhealthy when `False`.
pub const CAPI_HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";

/// Reasons, for conditions and events.
pub mod reasons {
    /// NodePool: a field is refused.
    pub const NODE_POOL_VALIDATION_FAILED: &str = "NodePoolValidationFailed";
    /// NodeOverlay: a field is refused.
    pub const RUNTIME_VALIDATION: &str = "RuntimeValidation";
    /// NodeOverlay: another one of the same weight says something about the same thing.
    pub const CONFLICT: &str = "Conflict";
    /// NodePool: the node class isn't there.
    pub const NODE_CLASS_NOT_FOUND: &str = "NodeClassNotFound";
    /// NodePool: the node class isn't ready.
    pub const NODE_CLASS_NOT_READY: &str = "NodeClassNotReady";
    /// NodeClaim: the Machine couldn't be had.
    pub const LAUNCH_FAILED: &str = "LaunchFailed";
    /// NodeClaim: capacity of its MachineDeployment couldn't be had.
    pub const INSUFFICIENT_CAPACITY: &str = "InsufficientCapacity";
    /// NodeClaim: there is no such Node yet.
    pub const NODE_NOT_FOUND: &str = "NodeNotFound";
    /// NodeClaim: several Nodes have its provider ID.
    pub const MULTIPLE_NODES_FOUND: &str = "MultipleNodesFound";
    /// NodeClaim: the Node isn't ready.
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    /// NodeClaim: startup taints are still there.
    pub const STARTUP_TAINTS_EXIST: &str = "StartupTaintsExist";
    /// NodeClaim: taints of a starting Node are still there.
    pub const KNOWN_EPHEMERAL_TAINTS_EXIST: &str = "KnownEphemeralTaintsExist";
    /// NodeClaim: a resource that was asked for isn't registered by the Node.
    pub const RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
    /// MachineDeployment: somebody took Machines that belong to claims.
    pub const SCALED_BY_OTHERS: &str = "ScaledByOthers";
    /// NodeClaim: its MachineDeployment must get into another state before its Machine can be given back.
    pub const AWAITING_MACHINE_DEPLOYMENT: &str = "AwaitingMachineDeployment";
    /// NodeClaim: an API server refuses what is to be written for it.
    pub const REQUEST_REFUSED: &str = "RequestRefused";
    /// NodeClaim: blocked, since lowering would hit an older MachineSet first.
    pub const OLDER_REVISION_FIRST: &str = "OlderRevisionFirst";
    /// MachineDeployment: HyperShift scales it itself.
    pub const HYPERSHIFT_AUTOSCALING: &str = "HyperShiftAutoscaling";
    /// `ClusterAPINodeClass`: no MachineDeployment is selected.
    pub const NO_MACHINE_DEPLOYMENTS: &str = "NoMachineDeployments";
    /// `ClusterAPINodeClass`: MachineDeployments are selected, but none can be used.
    pub const NO_USABLE_MACHINE_DEPLOYMENTS: &str = "NoUsableMachineDeployments";
}
