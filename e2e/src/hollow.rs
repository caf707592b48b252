//! A Cluster API infrastructure provider whose cloud is hollow: a machine is a Node object and nothing behind it.
//!
//! [`install`] applies the kinds, [`Provider::start`] plays the cloud until its handle is dropped, and [`cluster`] and
//! [`machine_deployment`] make the manifests. What a machine does is in its template's
//! `spec.template.spec` ([`HollowMachineSpec`]), what it shall do differently in annotations of the single `HollowMachine`
//! ([`annotations`]).

mod behaviour;
mod kinds;
mod manifests;
mod node;
mod provider;
pub mod topology;

pub use behaviour::annotations;
pub use kinds::{
    Delays, Endpoint, HollowCluster, HollowClusterSpec, HollowClusterStatus, HollowControlPlane,
    HollowControlPlaneSpec, HollowControlPlaneStatus, HollowMachine, HollowMachineSpec, HollowMachineStatus,
    HollowMachineTemplate, HollowMachineTemplateResource, HollowMachineTemplateSpec,
    HollowMachineTemplateStatus, Initialization, InstanceState, MachineAddress, NodeInfo, NodeTaint,
};
pub use manifests::{
    MachineDeploymentOptions, VERSION, apply_machine_deployment, cluster, install, machine_deployment,
};
pub use provider::{Provider, ProviderOptions};
