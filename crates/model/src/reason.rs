//! Why something can't be had: typed here once; words are made at the edge.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The codes of `reasons[].code` and `machineDeployments[].reason` in the simulator's output: an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// A volume's claim, class or `PersistentVolume` is missing or unusable.
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

impl ReasonCode {
    /// Every code, in the order of the documentation.
    pub const ALL: [Self; 29] = [
        Self::NodePoolNotReady,
        Self::Taints,
        Self::Requirements,
        Self::InsufficientResources,
        Self::Topology,
        Self::Affinity,
        Self::HostPorts,
        Self::Volumes,
        Self::VolumeMissing,
        Self::Limits,
        Self::MinValues,
        Self::Reserved,
        Self::DynamicResources,
        Self::NoOffering,
        Self::NoCapacityDeclared,
        Self::MaxSize,
        Self::Paused,
        Self::RollingOut,
        Self::ReplicasManaged,
        Self::Excluded,
        Self::Deleting,
        Self::PreflightFailing,
        Self::OutOfCapacity,
        Self::LaunchTimedOut,
        Self::HyperShiftAutoscaling,
        Self::TwoAutoscalers,
        Self::ScaledByOthers,
        Self::Invalid,
        Self::NotEvaluated,
    ];

    /// The code as it stands in the simulator's output and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodePoolNotReady => "NodePoolNotReady",
            Self::Taints => "Taints",
            Self::Requirements => "Requirements",
            Self::InsufficientResources => "InsufficientResources",
            Self::Topology => "Topology",
            Self::Affinity => "Affinity",
            Self::HostPorts => "HostPorts",
            Self::Volumes => "Volumes",
            Self::VolumeMissing => "VolumeMissing",
            Self::Limits => "Limits",
            Self::MinValues => "MinValues",
            Self::Reserved => "Reserved",
            Self::DynamicResources => "DynamicResources",
            Self::NoOffering => "NoOffering",
            Self::NoCapacityDeclared => "NoCapacityDeclared",
            Self::MaxSize => "MaxSize",
            Self::Paused => "Paused",
            Self::RollingOut => "RollingOut",
            Self::ReplicasManaged => "ReplicasManaged",
            Self::Excluded => "Excluded",
            Self::Deleting => "Deleting",
            Self::PreflightFailing => "PreflightFailing",
            Self::OutOfCapacity => "OutOfCapacity",
            Self::LaunchTimedOut => "LaunchTimedOut",
            Self::HyperShiftAutoscaling => "HyperShiftAutoscaling",
            Self::TwoAutoscalers => "TwoAutoscalers",
            Self::ScaledByOthers => "ScaledByOthers",
            Self::Invalid => "Invalid",
            Self::NotEvaluated => "NotEvaluated",
        }
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an offering can't be had now, with words for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnavailableReason {
    /// The typed reason.
    pub code: ReasonCode,
    /// One sentence naming object, field and value.
    pub message: String,
}

impl UnavailableReason {
    /// Joins the two.
    pub fn new(code: ReasonCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_written_alike_everywhere() {
        for code in ReasonCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), serde_json::json!(code.as_str()));
        }
    }
}
