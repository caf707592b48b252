//! Both clusters, as they were read at one time.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_capi_api::capi::{Cluster, Machine, MachineDeployment, MachineSet};
use karpenter_capi_api::hypershift;
use karpenter_capi_api::v1::{NodeClaim, NodePool};
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;

/// What a request has brought, or why it brought nothing.
pub(crate) type Read<T> = Result<T, Unread>;

/// Why something isn't known; a whole sentence each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The request failed.
    Failed(String),
    /// The API server doesn't know the kind.
    NotServed(String),
}

impl Unread {
    /// The sentence.
    pub(crate) fn sentence(self) -> String {
        match self {
            Self::Failed(sentence) | Self::NotServed(sentence) => sentence,
        }
    }
}

/// All objects of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Listed<T> {
    pub(crate) objects: Vec<T>,
    pub(crate) broken: Vec<Broken>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { objects: Vec::new(), broken: Vec::new() }
    }
}

/// An object that isn't of the form that its kind has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// `Kind name` or `Kind namespace/name`.
    pub(crate) object: String,
    /// Field and what is wrong with it.
    pub(crate) problem: String,
}

/// Which Cluster is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) namespace: String,
    /// None: it wasn't said, and the namespace has none, or can't be read.
    pub(crate) name: Option<String>,
}

/// Everything.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) now: Timestamp,
    pub(crate) wanted: Wanted,
    pub(crate) workload: Workload,
    /// None: Cluster API isn't served.
    pub(crate) management: Read<Option<Management>>,
}

/// The workload cluster.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    /// The custom resources that this version brings, each as it is installed.
    pub(crate) definitions: Vec<Definition>,
    /// UID of `kube-system`.
    pub(crate) uid: Read<Option<String>>,
    /// Leases of the operator's name, in whatever namespace.
    pub(crate) leases: Read<Vec<Lease>>,
    pub(crate) node_pools: Read<Listed<NodePool>>,
    pub(crate) node_classes: Read<Listed<ClusterAPINodeClass>>,
    /// Of every provider.
    pub(crate) claims: Read<Listed<NodeClaim>>,
    pub(crate) nodes: Read<Listed<Node>>,
}

/// A custom resource as this version brings it, and as it is installed.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) shipped: CustomResourceDefinition,
    pub(crate) installed: Read<Option<CustomResourceDefinition>>,
}

/// The management cluster, as far as the Cluster goes.
#[derive(Clone, Debug)]
pub(crate) struct Management {
    /// Kinds of Cluster API that are not served.
    pub(crate) missing: Vec<String>,
    pub(crate) cluster: Read<Option<Cluster>>,
    pub(crate) machine_deployments: Read<Listed<MachineDeployment>>,
    /// Those that own the replicas of some of them.
    pub(crate) hypershift_node_pools: Read<Vec<hypershift::NodePool>>,
    pub(crate) machine_sets: Read<Listed<MachineSet>>,
    pub(crate) machines: Read<Listed<Machine>>,
}
