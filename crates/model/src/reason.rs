//! Why something can't be had: typed here once; words are made at the edge.

/// The codes of `reasons[].code` and `machineDeployments[].reason` in the simulator's output: an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReasonCode {
    /// The NodePool (or its node class) isn't ready.
    NodePoolNotReady,
    /// A taint isn't tolerated.
    Taints,
    /// Labels and requirements don't meet.
    Requirements,
    /// Too small.
    InsufficientResources,
    /// A topology spread constraint.
    Topology,
    /// Pod affinity or anti-affinity.
    Affinity,
    /// A host port is taken.
    HostPorts,
    /// Volume topology or attach limits.
    Volumes,
    /// A volume's claim, class or PersistentVolume is missing or unusable.
    VolumeMissing,
    /// The NodePool's limits.
    Limits,
    /// `minValues` can't be met.
    MinValues,
    /// Reserved capacity.
    Reserved,
    /// The pod needs dynamic resources.
    DynamicResources,
    /// No offering fits.
    NoOffering,
    /// The MachineDeployment declares no CPU and memory.
    NoCapacityDeclared,
    /// The MachineDeployment is at its maximum size.
    MaxSize,
    /// Something is paused.
    Paused,
    /// A roll-out is under way.
    RollingOut,
    /// Somebody else (a topology) owns the replicas.
    ReplicasManaged,
    /// Excluded by hand.
    Excluded,
    /// Being deleted.
    Deleting,
    /// Cluster API's preflight checks fail.
    PreflightFailing,
    /// Lately out of capacity.
    OutOfCapacity,
    /// A launch timed out lately.
    LaunchTimedOut,
    /// HyperShift's own autoscaling is on.
    HyperShiftAutoscaling,
    /// Two autoscalers on one MachineDeployment.
    TwoAutoscalers,
    /// Somebody else scaled it.
    ScaledByOthers,
    /// An object or annotation can't be read.
    Invalid,
    /// Not looked at.
    NotEvaluated,
}

/// Why an offering can't be had now, with words for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnavailableReason {
    /// The typed reason.
    pub code: ReasonCode,
    /// One sentence naming object, field and value.
    pub message: String,
}
