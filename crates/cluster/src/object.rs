//! The kinds of objects that the picture consists of.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::capi::InfrastructureTemplate;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::pod::{self, Pod as ModelPod};
use std::fmt;
use std::sync::Arc;

/// A pod as the API server has it and as scheduling sees it, converted once when it comes in.
#[derive(Clone, Debug)]
pub struct PodRecord {
    /// The API object.
    pub object: k8s_openapi::api::core::v1::Pod,
    /// The same, parsed.
    pub model: Arc<ModelPod>,
}

impl From<k8s_openapi::api::core::v1::Pod> for PodRecord {
    fn from(object: k8s_openapi::api::core::v1::Pod) -> Self {
        let model = Arc::new(pod::from_api(&object));
        Self { object, model }
    }
}

impl From<k8s_openapi::api::core::v1::Pod> for Object {
    fn from(pod: k8s_openapi::api::core::v1::Pod) -> Self {
        Self::from(PodRecord::from(pod))
    }
}

/// What every object has.
pub trait Keyed {
    /// `metadata`.
    fn meta(&self) -> &ObjectMeta;

    /// Namespace (empty for objects without one) and name.
    fn key(&self) -> NamespacedName {
        let meta = self.meta();
        NamespacedName::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

impl Keyed for PodRecord {
    fn meta(&self) -> &ObjectMeta {
        &self.object.metadata
    }
}

impl Keyed for InfrastructureTemplate {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    /// Templates of all kinds are kept together, so the key's name carries kind and group.
    fn key(&self) -> NamespacedName {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        template_key(self.metadata.namespace.as_deref().unwrap_or_default(), self.group(), &self.kind, name)
    }
}

/// The key of an infrastructure template.
pub(crate) fn template_key(namespace: &str, group: &str, kind: &str, name: &str) -> NamespacedName {
    NamespacedName::new(namespace, format!("{kind}.{group}/{name}"))
}

macro_rules! keyed {
    ($($type:ty),+ $(,)?) => {
        $(impl Keyed for $type {
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
        })+
    };
}

keyed!(
    k8s_openapi::api::core::v1::Node,
    k8s_openapi::api::apps::v1::DaemonSet,
    k8s_openapi::api::apps::v1::Deployment,
    k8s_openapi::api::apps::v1::ReplicaSet,
    k8s_openapi::api::apps::v1::StatefulSet,
    k8s_openapi::api::core::v1::PersistentVolume,
    k8s_openapi::api::core::v1::PersistentVolumeClaim,
    k8s_openapi::api::storage::v1::StorageClass,
    k8s_openapi::api::storage::v1::CSINode,
    k8s_openapi::api::storage::v1::VolumeAttachment,
    k8s_openapi::api::policy::v1::PodDisruptionBudget,
    k8s_openapi::api::scheduling::v1::PriorityClass,
    k8s_openapi::api::core::v1::Namespace,
    k8s_openapi::api::core::v1::LimitRange,
    k8s_openapi::api::node::v1::RuntimeClass,
    k8s_openapi::api::core::v1::Service,
    k8s_openapi::api::core::v1::ReplicationController,
    karpenter_capi_api::v1::NodePool,
    karpenter_capi_api::v1::NodeClaim,
    karpenter_capi_api::node_overlay::NodeOverlay,
    karpenter_capi_api::capacity_buffer::CapacityBuffer,
    k8s_openapi::api::core::v1::PodTemplate,
    karpenter_capi_api::v1alpha1::ClusterAPINodeClass,
    karpenter_capi_api::capi::Cluster,
    karpenter_capi_api::capi::MachineDeployment,
    karpenter_capi_api::capi::MachineSet,
    karpenter_capi_api::capi::Machine,
    karpenter_capi_api::capi::MachineDrainRule,
    karpenter_capi_api::hypershift::NodePool,
);

/// Calls a macro with every kind, its type and its field in the snapshot.
macro_rules! each_kind {
    ($callback:ident) => {
        $callback! {
            Pod($crate::object::PodRecord), pods;
            Node(k8s_openapi::api::core::v1::Node), nodes;
            DaemonSet(k8s_openapi::api::apps::v1::DaemonSet), daemon_sets;
            Deployment(k8s_openapi::api::apps::v1::Deployment), deployments;
            ReplicaSet(k8s_openapi::api::apps::v1::ReplicaSet), replica_sets;
            StatefulSet(k8s_openapi::api::apps::v1::StatefulSet), stateful_sets;
            PersistentVolume(k8s_openapi::api::core::v1::PersistentVolume), persistent_volumes;
            PersistentVolumeClaim(k8s_openapi::api::core::v1::PersistentVolumeClaim), persistent_volume_claims;
            StorageClass(k8s_openapi::api::storage::v1::StorageClass), storage_classes;
            CSINode(k8s_openapi::api::storage::v1::CSINode), csi_nodes;
            VolumeAttachment(k8s_openapi::api::storage::v1::VolumeAttachment), volume_attachments;
            PodDisruptionBudget(k8s_openapi::api::policy::v1::PodDisruptionBudget), pod_disruption_budgets;
            PriorityClass(k8s_openapi::api::scheduling::v1::PriorityClass), priority_classes;
            Namespace(k8s_openapi::api::core::v1::Namespace), namespaces;
            LimitRange(k8s_openapi::api::core::v1::LimitRange), limit_ranges;
            RuntimeClass(k8s_openapi::api::node::v1::RuntimeClass), runtime_classes;
            Service(k8s_openapi::api::core::v1::Service), services;
            ReplicationController(k8s_openapi::api::core::v1::ReplicationController), replication_controllers;
            NodePool(karpenter_capi_api::v1::NodePool), node_pools;
            NodeClaim(karpenter_capi_api::v1::NodeClaim), node_claims;
            NodeOverlay(karpenter_capi_api::node_overlay::NodeOverlay), node_overlays;
            CapacityBuffer(karpenter_capi_api::capacity_buffer::CapacityBuffer), capacity_buffers;
            PodTemplate(k8s_openapi::api::core::v1::PodTemplate), pod_templates;
            ClusterAPINodeClass(karpenter_capi_api::v1alpha1::ClusterAPINodeClass), node_classes;
            Cluster(karpenter_capi_api::capi::Cluster), clusters;
            MachineDeployment(karpenter_capi_api::capi::MachineDeployment), machine_deployments;
            MachineSet(karpenter_capi_api::capi::MachineSet), machine_sets;
            Machine(karpenter_capi_api::capi::Machine), machines;
            MachineDrainRule(karpenter_capi_api::capi::MachineDrainRule), machine_drain_rules;
            HyperShiftNodePool(karpenter_capi_api::hypershift::NodePool), hypershift_node_pools;
            InfrastructureTemplate(karpenter_capi_api::capi::InfrastructureTemplate), infrastructure_templates;
        }
    };
}
pub(crate) use each_kind;

macro_rules! kinds {
    ($($variant:ident($type:ty), $field:ident;)+) => {
        /// An object of a kind that the picture consists of.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "each variant is the kind of the same name")]
        pub enum Object {
            $($variant(Arc<$type>),)+
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
                    $(Self::$variant(object) => object.meta(),)+
                }
            }

            /// Namespace (empty for objects without one) and name; infrastructure templates have their kind in the name.
            pub fn key(&self) -> NamespacedName {
                match self {
                    $(Self::$variant(object) => object.key(),)+
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
    };
}

each_kind!(kinds);
