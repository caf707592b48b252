//! The kinds of objects that the picture consists of.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::capi::{Cluster, InfrastructureTemplate, Machine, MachineDeployment, MachineSet};
use karpenter_capi_api::v1::{NodeClaim, NodePool};
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::pod::Pod as ModelPod;
use std::fmt;
use std::sync::Arc;

/// A pod as the API server has it and as scheduling sees it, converted once when it comes in.
#[derive(Clone, Debug)]
pub struct PodRecord {
    /// The API object.
    pub object: Pod,
    /// The same, parsed.
    pub model: Arc<ModelPod>,
}

impl From<Pod> for PodRecord {
    fn from(object: Pod) -> Self {
        let model = Arc::new(ModelPod::from_api(&object));
        Self { object, model }
    }
}

/// Gives access to an object's metadata, whatever its kind.
pub trait HasMeta {
    /// `metadata`.
    fn meta(&self) -> &ObjectMeta;
}

impl HasMeta for PodRecord {
    fn meta(&self) -> &ObjectMeta {
        &self.object.metadata
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident($type:ty), $field:ident;)+) => {
        /// An object of a kind that the picture consists of.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "each variant is the kind of the same name")]
        pub enum Object {
            $($(#[$doc])* $variant(Arc<$type>),)+
        }

        /// The kinds of [`Object`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "each variant is the kind of the same name")]
        pub enum Kind {
            $($variant,)+
        }

        impl Object {
            /// Its kind.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$variant(_) => Kind::$variant,)+
                }
            }

            /// Its metadata.
            pub fn meta(&self) -> &ObjectMeta {
                match self {
                    $(Self::$variant(object) => HasMeta::meta(object.as_ref()),)+
                }
            }
        }

        impl fmt::Display for Kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => stringify!($variant),)+
                })
            }
        }

        $(impl From<$type> for Object {
            fn from(object: $type) -> Self {
                Self::$variant(Arc::new(object))
            }
        })+

        pub(crate) use each_kind;
    };
}

/// Calls a macro with every kind, its type and its field in the snapshot.
macro_rules! each_kind {
    ($callback:ident) => {
        $callback! {
            Pod(PodRecord), pods;
            Node(Node), nodes;
            DaemonSet(DaemonSet), daemon_sets;
            Deployment(Deployment), deployments;
            ReplicaSet(ReplicaSet), replica_sets;
            StatefulSet(StatefulSet), stateful_sets;
            PersistentVolume(PersistentVolume), persistent_volumes;
            PersistentVolumeClaim(PersistentVolumeClaim), persistent_volume_claims;
            StorageClass(StorageClass), storage_classes;
            CSINode(CSINode), csi_nodes;
            VolumeAttachment(VolumeAttachment), volume_attachments;
            PodDisruptionBudget(PodDisruptionBudget), pod_disruption_budgets;
            PriorityClass(PriorityClass), priority_classes;
            Namespace(Namespace), namespaces;
            LimitRange(LimitRange), limit_ranges;
            RuntimeClass(RuntimeClass), runtime_classes;
            Service(Service), services;
            NodePool(NodePool), node_pools;
            NodeClaim(NodeClaim), node_claims;
            ClusterAPINodeClass(ClusterAPINodeClass), node_classes;
            Cluster(Cluster), clusters;
            MachineDeployment(MachineDeployment), machine_deployments;
            MachineSet(MachineSet), machine_sets;
            Machine(Machine), machines;
            InfrastructureTemplate(InfrastructureTemplate), infrastructure_templates;
        }
    };
}
pub(crate) use each_kind;

each_kind!(kinds);
