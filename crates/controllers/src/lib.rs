//! The reconcilers: each reads, decides by the pure crates, and writes what was decided; nothing is decided here.
//!
//! * [`Operator`] runs them: watches that feed one index, a work queue for each kind of key, the provisioner's loop.
//! * [`metrics`] are upstream Karpenter's by name and meaning, with a few of our own.
//!
//! The crate reads no flags, sets up no process, and knows no cloud.

mod capacity_buffer;
mod catalog;
mod context;
mod error;
mod events;
mod facts;
mod machine_deployment;
pub mod metrics;
mod node;
mod node_claim;
mod node_class;
mod node_overlay;
mod node_pool;
mod operator;
mod optional;
mod patch;
mod provisioner;
mod queue;
mod static_capacity;
mod templates;
mod watch;
mod workload;

pub use error::{Class, Error};
pub use karpenter_capi_cluster::scheduler_config::SchedulerConfig;
pub use karpenter_capi_model::feature_gates::{DEFAULT as DEFAULT_FEATURE_GATES, FeatureGates};
pub use karpenter_capi_scheduling::input::{MinValuesPolicy, PreferencePolicy};
pub use operator::Operator;

use karpenter_capi_api::capi::CapiVersion;
use std::time::Duration;

/// Clients of the two clusters, which may be one.
#[derive(Clone)]
pub struct Clients {
    /// Pods, Nodes, NodePools, NodeClaims.
    pub workload: kube::Client,
    /// MachineDeployments, Machines.
    pub management: kube::Client,
}

/// The part of the management cluster that this operator looks at, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The Cluster's namespace.
    pub namespace: String,
    /// The Cluster's name.
    pub cluster: String,
    /// Namespace of the HyperShift NodePools that own replicas; none: such MachineDeployments are left alone.
    pub hypershift_namespace: Option<String>,
    /// The version of Cluster API that is served.
    pub version: CapiVersion,
}

/// Settings of the reconcilers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A batch of pods ends when no new one has come for this long.
    pub batch_idle: Duration,
    /// A batch of pods ends after this long in any case.
    pub batch_max: Duration,
    /// Whether preferences count before they are given up.
    pub preference_policy: PreferencePolicy,
    /// What happens when `minValues` can't be met.
    pub min_values_policy: MinValuesPolicy,
    /// What pods get that say nothing of it.
    pub scheduler_config: SchedulerConfig,
    /// Millicores that the process may use; how much is done at a time follows from it.
    pub cpu_requests_millicores: u32,
    /// Optional features.
    pub feature_gates: FeatureGates,
}
