//! An immutable picture.

use crate::object::{each_kind, template_key};
pub use crate::store::Objects;
use karpenter_capi_api::capi::{ContractReference, InfrastructureTemplate};
use karpenter_capi_api::v1::{NodeClaim, NodePool};
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_model::name::NamespacedName;
use std::sync::Arc;

macro_rules! snapshot {
    ($($variant:ident($type:ty), $field:ident;)+) => {
        /// All objects at one moment; cloning shares them.
        #[derive(Clone, Debug, Default)]
        #[expect(missing_docs, reason = "each field holds the objects of the kind of that name")]
        pub struct Snapshot {
            $(pub $field: Objects<$type>,)+
        }
    };
}

each_kind!(snapshot);

/// The key of an object without a namespace.
pub fn cluster_key(name: &str) -> NamespacedName {
    NamespacedName::new("", name)
}

impl Snapshot {
    /// The Node of that name.
    pub fn node(&self, name: &str) -> Option<&Arc<k8s_openapi::api::core::v1::Node>> {
        self.nodes.get(&cluster_key(name))
    }

    /// The NodeClaim of that name.
    pub fn node_claim(&self, name: &str) -> Option<&Arc<NodeClaim>> {
        self.node_claims.get(&cluster_key(name))
    }

    /// The NodePool of that name.
    pub fn node_pool(&self, name: &str) -> Option<&Arc<NodePool>> {
        self.node_pools.get(&cluster_key(name))
    }

    /// The node class of that name.
    pub fn node_class(&self, name: &str) -> Option<&Arc<ClusterAPINodeClass>> {
        self.node_classes.get(&cluster_key(name))
    }

    /// The infrastructure template that a reference in that namespace names, whatever its version.
    pub fn infrastructure_template(
        &self,
        namespace: &str,
        reference: &ContractReference,
    ) -> Option<&Arc<InfrastructureTemplate>> {
        self.infrastructure_templates.get(&template_key(
            namespace,
            &reference.api_group,
            &reference.kind,
            &reference.name,
        ))
    }
}
