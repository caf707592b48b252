//! The parts of Cluster API's kinds that are read or patched, in the shape of `v1beta2`, whichever version is served.
//!
//! Every type reads `v1beta1` as well as `v1beta2`. It serialises in the shape of `v1beta2`, for stores and files; a cluster
//! is only ever written by patches, since most fields of the real objects are missing here. Fields that aren't needed are
//! passed over, whatever is in them.

mod cluster;
mod lenient;
mod machine;
mod machine_deployment;
mod machine_drain_rule;
mod machine_set;
mod owner;
mod reference;
mod template;

use std::fmt;

pub use cluster::{
    ClassReference, Cluster, ClusterInitialization, ClusterSpec, ClusterStatus, Topology,
    TopologyMachineDeployment, Workers,
};
pub use machine::{
    Bootstrap, Initialization, Machine, MachineDeletionSpec, MachineDeletionStatus, MachineSpec,
    MachineStatus, MachineTaint, NodeInfo, NodeRef,
};
pub use machine_deployment::{
    MachineDeployment, MachineDeploymentSpec, MachineDeploymentStatus, MachineTemplate, ObjectMetaTemplate,
    RollingUpdate, Rollout, RolloutStrategy, StrategyType,
};
pub use machine_drain_rule::{
    DrainBehavior, DrainMachineSelector, DrainPodSelector, MachineDrainRule, MachineDrainRuleSpec,
    MachineDrainRuleStatus,
};
pub use machine_set::{MachineSet, MachineSetSpec, MachineSetStatus, ReplicaDeletion};
pub use owner::{controller_of_kind, owner_of_kind};
pub use reference::ContractReference;
pub use template::{InfrastructureTemplate, TemplateError};

/// The version of `cluster.x-k8s.io` that is talked: `v1beta2` where it is served, else `v1beta1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapiVersion {
    /// `cluster.x-k8s.io/v1beta1`, up to Cluster API 1.10 the only one.
    V1Beta1,
    /// `cluster.x-k8s.io/v1beta2`.
    #[default]
    V1Beta2,
}

impl CapiVersion {
    /// The version without the group.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }

    /// The version with the group.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1Beta1 => "cluster.x-k8s.io/v1beta1",
            Self::V1Beta2 => "cluster.x-k8s.io/v1beta2",
        }
    }

    /// Reads an object's `apiVersion`; `None` if it is neither of the two.
    pub fn from_api_version(api_version: &str) -> Option<Self> {
        [Self::V1Beta2, Self::V1Beta1].into_iter().find(|version| version.api_version() == api_version)
    }
}

impl fmt::Display for CapiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Defines a kind of `cluster.x-k8s.io`: the object, its `kube::Resource`, and how it is read and written.
macro_rules! capi_kind {
    ($(#[$meta:meta])* $name:ident, $plural:literal, $spec:ident, $status:ident) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        pub struct $name {
            /// Name, namespace, labels, annotations, owners, deletion.
            #[serde(default)]
            pub metadata: kube::core::ObjectMeta,
            /// What is asked for.
            #[serde(default)]
            pub spec: $spec,
            /// What was seen.
            #[serde(default)]
            pub status: $status,
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let mut object = serializer.serialize_struct(stringify!($name), 5)?;
                object.serialize_field("apiVersion", crate::capi::CapiVersion::V1Beta2.api_version())?;
                object.serialize_field("kind", stringify!($name))?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                object.serialize_field("status", &self.status)?;
                object.end()
            }
        }

        impl kube::core::Resource for $name {
            type DynamicType = crate::capi::CapiVersion;
            type Scope = kube::core::DynamicResourceScope;

            fn kind(_: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group(_: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                crate::names::CAPI_GROUP.into()
            }

            fn version(version: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                version.as_str().into()
            }

            fn plural(_: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
pub(crate) use capi_kind;

#[cfg(test)]
mod tests;
