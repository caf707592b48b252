//! Which clusters, and how they are reached: kubectl's flags for two clusters.

use super::picture::{Read, Unread, Wanted};
use anyhow::{Context, bail};
use karpenter_capi_access::{Access, Place, Role, Trouble, Wording, kinds, within};
use karpenter_capi_api::capi::{CapiVersion, Cluster};
use kube::api::ListParams;
use kube::{Api, Client};
use std::path::PathBuf;
use std::time::Duration;

/// A request gets so long.
const PATIENCE: Duration = Duration::from_secs(30);

const RIGHTS: &str = "docs/doctor.md lists the rights that it needs";
const WORKLOAD: Wording =
    Wording { kubeconfig: "--kubeconfig (KUBECONFIG)", context: "--context (KUBE_CONTEXT)", rights: RIGHTS };
const MANAGEMENT: Wording = Wording {
    kubeconfig: "--management-kubeconfig (CLUSTER_API_KUBECONFIG)",
    context: "--management-context (CLUSTER_API_CONTEXT)",
    rights: RIGHTS,
};

/// Which clusters. Variables are those of the operator.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Clusters")]
pub(crate) struct Clusters {
    /// Kubeconfig of the workload cluster, where pods and nodes are [default: ~/.kube/config; in a pod, its service account]
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of --kubeconfig [default: its current-context]
    #[arg(long, env = "KUBE_CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// Kubeconfig of the management cluster, where Cluster API's objects are [default: the workload cluster is that too]
    #[arg(
        long,
        visible_alias = "cluster-api-kubeconfig",
        env = "CLUSTER_API_KUBECONFIG",
        value_name = "FILE"
    )]
    management_kubeconfig: Option<PathBuf>,
    /// Context of --management-kubeconfig, or of the workload cluster's kubeconfig where only this is set
    #[arg(long, visible_alias = "cluster-api-context", env = "CLUSTER_API_CONTEXT", value_name = "NAME")]
    management_context: Option<String>,
    /// Namespace of Cluster API's Cluster [default: that of the management cluster's context]
    #[arg(long, env = "CLUSTER_NAMESPACE", value_name = "NAME")]
    cluster_namespace: Option<String>,
    /// Name of Cluster API's Cluster [default: the only one of the namespace]
    #[arg(long, env = "CLUSTER_NAME", value_name = "NAME")]
    cluster_name: Option<String>,
    /// Name of the operator's Lease [default: karpenter-capi- and the name of the Cluster]
    #[arg(long, env = "LEADER_ELECTION_NAME", value_name = "NAME")]
    leader_election_name: Option<String>,
    /// Namespace of the operator's Lease in the workload cluster [default: it is looked for in all]
    #[arg(long, env = "LEADER_ELECTION_NAMESPACE", value_name = "NAME")]
    pub(super) leader_election_namespace: Option<String>,
}

/// A cluster that can be asked.
#[derive(Clone)]
pub(crate) struct Connection {
    access: Access,
    pub(crate) client: Client,
}

impl Clusters {
    /// Where the workload cluster is described; none is the pod's own.
    fn workload_place(&self) -> anyhow::Result<Option<Place>> {
        let usual = || {
            let path = std::env::home_dir()?.join(".kube/config");
            path.exists().then_some(path)
        };
        let path = self.kubeconfig.clone().or_else(usual);
        if path.is_none() && self.context.is_some() {
            bail!("--context is set, but there is no kubeconfig whose context it could be: set --kubeconfig");
        }
        Ok(path.map(|path| Place { path, context: self.context.clone() }))
    }

    /// Where the management cluster is described, if it is another one.
    fn management_place(&self) -> anyhow::Result<Option<Place>> {
        let context = self.management_context.clone();
        if let Some(path) = &self.management_kubeconfig {
            return Ok(Some(Place { path: path.clone(), context }));
        }
        let Some(context) = context else {
            return Ok(None);
        };
        match self.workload_place()? {
            Some(Place { path, .. }) => Ok(Some(Place { path, context: Some(context) })),
            None => bail!(
                "--management-context is set, but there is no kubeconfig whose context it could be: set --management-kubeconfig"
            ),
        }
    }

    pub(crate) async fn workload(&self) -> anyhow::Result<Connection> {
        Connection::open(Role::Workload, self.workload_place()?, WORKLOAD).await
    }

    pub(crate) async fn management(&self) -> anyhow::Result<Connection> {
        match self.management_place()? {
            Some(place) => Connection::open(Role::Management, Some(place), MANAGEMENT).await,
            None => Ok(self.workload().await?.as_management()),
        }
    }

    /// Both; one that is both is asked under one name, so that a request that fails is told once.
    pub(crate) async fn both(&self) -> anyhow::Result<(Connection, Connection)> {
        let workload = self.workload().await?;
        let management = match self.management_place()? {
            Some(_) => self.management().await?,
            None => workload.clone(),
        };
        Ok((workload, management))
    }

    /// The Cluster to look at: what the flags say, else the only one of the namespace. Several are an error of usage.
    pub(crate) async fn wanted(
        &self,
        management: &Connection,
        version: Option<CapiVersion>,
    ) -> anyhow::Result<(Wanted, Option<Unread>)> {
        let namespace = self.cluster_namespace.clone();
        let namespace = namespace.unwrap_or_else(|| management.access.default_namespace().to_owned());
        let wanted = |name| Wanted { namespace: namespace.clone(), name };
        if self.cluster_name.is_some() {
            return Ok((wanted(self.cluster_name.clone()), None));
        }
        let Some(version) = version else {
            return Ok((wanted(None), None));
        };
        let api: Api<Cluster> = Api::namespaced_with(management.client.clone(), &namespace, &version);
        let clusters = match management.ask(api.list_metadata(&ListParams::default())).await {
            Ok(clusters) => clusters.items,
            Err(unread) => return Ok((wanted(None), Some(unread))),
        };
        let mut names: Vec<String> =
            clusters.into_iter().filter_map(|cluster| cluster.metadata.name).collect();
        if names.len() > 1 {
            bail!(
                "namespace {namespace} has {} Clusters: {}; choose one with --cluster-name",
                names.len(),
                names.join(", ")
            );
        }
        Ok((wanted(names.pop()), None))
    }

    /// Name of the operator's Lease.
    pub(crate) fn lease_name(&self, cluster: &str) -> String {
        self.leader_election_name.clone().unwrap_or_else(|| format!("karpenter-capi-{cluster}"))
    }
}

impl Connection {
    async fn open(role: Role, place: Option<Place>, wording: Wording) -> anyhow::Result<Self> {
        let access = Access::load(role, place, wording).await.context("no cluster was asked")?;
        let client = access.client()?;
        Ok(Self { access, client })
    }

    fn as_management(&self) -> Self {
        Self { access: self.access.as_role(Role::Management), client: self.client.clone() }
    }

    /// Sends a request; the error is a whole sentence.
    pub(crate) async fn ask<T>(&self, request: impl Future<Output = Result<T, kube::Error>>) -> Read<T> {
        within(PATIENCE, request).await.map_err(|trouble| self.failed(&trouble))
    }

    pub(crate) fn failed(&self, trouble: &Trouble) -> Unread {
        Unread::Failed(self.access.explain(trouble))
    }

    pub(crate) fn not_served(&self, kind: &str) -> Unread {
        Unread::NotServed(format!("{}: the kind {kind} isn't served", self.access))
    }

    /// Cluster API, if it is served.
    pub(crate) async fn cluster_api(&self) -> Read<Option<kinds::ClusterApi>> {
        self.ask(kinds::cluster_api(&self.client)).await
    }
}
