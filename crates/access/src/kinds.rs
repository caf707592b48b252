//! Which kinds are served, and in which version Cluster API is talked.

use karpenter_capi_api::capi::CapiVersion;
use karpenter_capi_api::names::CAPI_GROUP;
use kube::Client;

/// Kinds of Cluster API that are needed, by their plural names.
const CLUSTER_API: [&str; 4] = ["clusters", "machinedeployments", "machinesets", "machines"];

/// Cluster API as a cluster serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterApi {
    /// The version to talk.
    pub version: CapiVersion,
    /// Kinds that are needed and not served, `plural.group`.
    pub missing: Vec<String>,
}

/// Plural names that are served in a group and version; none if it isn't served at all.
pub async fn served(client: &Client, api_version: &str) -> Result<Option<Vec<String>>, kube::Error> {
    match client.list_api_group_resources(api_version).await {
        Ok(list) => Ok(Some(list.resources.into_iter().map(|resource| resource.name).collect())),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Cluster API in the newest version that we know of those that are served; none if there is none.
pub async fn cluster_api(client: &Client) -> Result<Option<ClusterApi>, kube::Error> {
    for version in [CapiVersion::V1Beta2, CapiVersion::V1Beta1] {
        if let Some(served) = served(client, version.api_version()).await? {
            let missing = CLUSTER_API
                .iter()
                .filter(|plural| !served.iter().any(|kind| kind == *plural))
                .map(|plural| format!("{plural}.{CAPI_GROUP}"))
                .collect();
            return Ok(Some(ClusterApi { version, missing }));
        }
    }
    Ok(None)
}
