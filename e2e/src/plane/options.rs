//! What a control plane shall consist of.

use std::{collections::BTreeMap, time::Duration};

use super::{Component, Served};

/// What a control plane shall consist of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Part of the state folder's name, so that people recognise it.
    pub name: String,
    /// Whether Cluster API's CRDs, webhooks and core manager are there.
    pub cluster_api: bool,
    /// In which versions Cluster API's kinds are served.
    pub served: Served,
    /// Whether kwok makes Nodes and pods ready.
    pub kwok: bool,
    /// How long a Node's lease lasts; the node lifecycle controller looks at leases to see whether a Node is alive.
    pub node_lease: Duration,
    /// More arguments for a component; they come last, so they override.
    pub arguments: BTreeMap<Component, Vec<String>>,
}

impl Options {
    /// A management and workload cluster in one: kwok and Cluster API.
    pub fn complete(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            cluster_api: true,
            served: Served::AllVersions,
            kwok: true,
            node_lease: Duration::from_secs(40),
            arguments: BTreeMap::new(),
        }
    }

    /// A workload cluster: kwok, no Cluster API.
    pub fn workload_only(name: &str) -> Self {
        Self { cluster_api: false, ..Self::complete(name) }
    }

    /// A management cluster: Cluster API, no Nodes.
    pub fn management_only(name: &str) -> Self {
        Self { kwok: false, ..Self::complete(name) }
    }

    /// An API server, the controller manager and the scheduler only.
    pub fn bare(name: &str) -> Self {
        Self { kwok: false, cluster_api: false, ..Self::complete(name) }
    }

    /// The same with one more argument for a component, such as `--v=4`.
    #[must_use]
    pub fn with_argument(mut self, component: Component, argument: &str) -> Self {
        self.arguments.entry(component).or_default().push(argument.to_owned());
        self
    }
}
