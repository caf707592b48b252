//! Reading both clusters, as far as they can be read. What fails is part of the picture.

use super::connect::{Clusters, Connection};
use super::picture::{Broken, Definition, Listed, Management, Picture, Read, Unread, Wanted, Workload};
use futures::future::{join, join_all};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_capi_access::kinds::ClusterApi;
use karpenter_capi_api::capi::{Cluster, Machine, MachineDeployment, MachineSet};
use karpenter_capi_api::crd::crds;
use karpenter_capi_api::hypershift;
use karpenter_capi_api::names::labels;
use karpenter_capi_api::v1::{NodeClaim, NodePool};
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_cluster::surface::node_pool_name;
use karpenter_capi_model::name::NamespacedName;
use kube::Api;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, Resource};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

/// The namespace that every cluster has, and whose UID is the cluster's.
const KUBE_SYSTEM: &str = "kube-system";

/// Both clusters, ready to be read as often as needed.
pub(crate) struct Reader<'a> {
    clusters: &'a Clusters,
    workload: Connection,
    management: Connection,
}

impl<'a> Reader<'a> {
    pub(crate) async fn new(clusters: &'a Clusters) -> anyhow::Result<Self> {
        let (workload, management) = clusters.both().await?;
        Ok(Self { clusters, workload, management })
    }

    /// Reads everything once. An error is one of usage.
    pub(crate) async fn read(&self) -> anyhow::Result<Picture> {
        let served = self.management.cluster_api().await;
        let version = served.as_ref().ok().and_then(|served| served.as_ref()).map(|served| served.version);
        let (wanted, unread) = self.clusters.wanted(&self.management, version).await?;
        let (workload, management) = join(self.workload(&wanted), async {
            match served {
                Err(unread) => Err(unread),
                Ok(None) => Ok(None),
                Ok(Some(served)) => Ok(Some(self.management(&served, &wanted, unread).await)),
            }
        })
        .await;
        Ok(Picture { now: Timestamp::now(), wanted, workload, management })
    }

    async fn workload(&self, wanted: &Wanted) -> Workload {
        let here = &self.workload;
        // Boxed: requests are large, and here are many at once.
        let definitions = join_all(crds().into_iter().map(|shipped| Box::pin(definition(here, shipped))));
        let uid = Box::pin(workload_uid(here));
        let (pools, classes) =
            (Box::pin(list::<NodePool>(here)), Box::pin(list::<ClusterAPINodeClass>(here)));
        let (claims, nodes) = (Box::pin(list::<NodeClaim>(here)), Box::pin(list::<Node>(here)));
        let leases = Box::pin(leases(here, self.clusters, wanted.name.as_deref()));
        let first = join(join(definitions, uid), join(leases, pools));
        let (((definitions, uid), (leases, node_pools)), (node_classes, (claims, nodes))) =
            join(first, join(classes, join(claims, nodes))).await;
        Workload { definitions, uid, leases, node_pools, node_classes, claims, nodes }
    }

    async fn management(&self, served: &ClusterApi, wanted: &Wanted, unread: Option<Unread>) -> Management {
        let here = &self.management;
        let Some(name) = &wanted.name else {
            // Without a Cluster there is nothing whose books could be kept.
            return Management {
                missing: served.missing.clone(),
                cluster: unread.map_or(Ok(None), Err),
                machine_deployments: Ok(Listed::default()),
                hypershift_node_pools: Ok(Vec::new()),
                machine_sets: Ok(Listed::default()),
                machines: Ok(Listed::default()),
            };
        };
        let version = &served.version;
        let clusters: Api<Cluster> = Api::namespaced_with(here.client.clone(), &wanted.namespace, version);
        let params = ListParams::default().labels(&format!("{}={name}", labels::CLUSTER_NAME));
        let all = (
            Box::pin(here.ask(clusters.get_opt(name))),
            Box::pin(in_namespace::<MachineDeployment>(here, wanted, version, &params)),
            Box::pin(in_namespace::<MachineSet>(here, wanted, version, &params)),
            Box::pin(in_namespace::<Machine>(here, wanted, version, &params)),
        );
        let ((cluster, machine_deployments), (machine_sets, machines)) =
            join(join(all.0, all.1), join(all.2, all.3)).await;
        let hypershift_node_pools = match &machine_deployments {
            Ok(deployments) => node_pools_of_hypershift(here, &deployments.objects).await,
            Err(_) => Ok(Vec::new()),
        };
        Management {
            missing: served.missing.clone(),
            cluster,
            machine_deployments,
            hypershift_node_pools,
            machine_sets,
            machines,
        }
    }
}

async fn definition(here: &Connection, shipped: CustomResourceDefinition) -> Definition {
    let api: Api<CustomResourceDefinition> = Api::all(here.client.clone());
    let name = shipped.metadata.name.clone().unwrap_or_default();
    let installed = here.ask(api.get_opt(&name)).await;
    Definition { shipped, installed }
}

/// The Leases of the operator's name. It stands where the operator was told to put it, so it is looked for everywhere.
pub(crate) async fn leases(
    here: &Connection,
    clusters: &Clusters,
    cluster: Option<&str>,
) -> Read<Vec<Lease>> {
    let Some(cluster) = cluster else {
        return Ok(Vec::new());
    };
    let api: Api<Lease> = match &clusters.leader_election_namespace {
        Some(namespace) => Api::namespaced(here.client.clone(), namespace),
        None => Api::all(here.client.clone()),
    };
    let params = ListParams::default().fields(&format!("metadata.name={}", clusters.lease_name(cluster)));
    Ok(here.ask(api.list(&params)).await?.items)
}

/// UID of the workload cluster's `kube-system` namespace.
pub(crate) async fn workload_uid(here: &Connection) -> Read<Option<String>> {
    let namespaces: Api<Namespace> = Api::all(here.client.clone());
    let found = here.ask(namespaces.get_metadata_opt(KUBE_SYSTEM)).await?;
    Ok(found.and_then(|namespace| namespace.metadata.uid))
}

/// Every object of a kind.
async fn list<K>(here: &Connection) -> Read<Listed<K>>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let resource = ApiResource::erase::<K>(&());
    let api = Api::all_with(here.client.clone(), &resource);
    collect(here, &resource, api, &ListParams::default()).await
}

/// Those of a kind of Cluster API that belong to the Cluster.
async fn in_namespace<K>(
    here: &Connection,
    wanted: &Wanted,
    version: &K::DynamicType,
    params: &ListParams,
) -> Read<Listed<K>>
where
    K: Resource + DeserializeOwned,
{
    let resource = ApiResource::erase::<K>(version);
    let api = Api::namespaced_with(here.client.clone(), &wanted.namespace, &resource);
    collect(here, &resource, api, params).await
}

/// The HyperShift NodePools that the MachineDeployments name; one that isn't there is left out.
async fn node_pools_of_hypershift(
    here: &Connection,
    deployments: &[MachineDeployment],
) -> Read<Vec<hypershift::NodePool>> {
    let names: BTreeSet<NamespacedName> =
        deployments.iter().filter_map(node_pool_name).filter_map(Result::ok).collect();
    let mut found = Vec::new();
    for name in names {
        let api: Api<hypershift::NodePool> = Api::namespaced(here.client.clone(), &name.namespace);
        found.extend(here.ask(api.get_opt(&name.name)).await?);
    }
    Ok(found)
}

/// Objects are read one by one: a list in one piece would fail as a whole for one that is broken.
async fn collect<K: DeserializeOwned>(
    here: &Connection,
    resource: &ApiResource,
    api: Api<DynamicObject>,
    params: &ListParams,
) -> Read<Listed<K>> {
    let request = async {
        match api.list(params).await {
            Ok(list) => Ok(Some(list.items)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    };
    let objects = here.ask(request).await?;
    let objects =
        objects.ok_or_else(|| here.not_served(&format!("{}.{}", resource.plural, resource.group)))?;
    let mut listed = Listed::default();
    for object in objects {
        match parse(&object) {
            Ok(parsed) => listed.objects.push(parsed),
            Err(problem) => listed.broken.push(Broken { object: name(&resource.kind, &object), problem }),
        }
    }
    Ok(listed)
}

fn parse<K: DeserializeOwned>(object: &DynamicObject) -> Result<K, String> {
    let value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    serde_path_to_error::deserialize(value).map_err(|error| error.to_string())
}

fn name(kind: &str, object: &DynamicObject) -> String {
    let metadata = &object.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    match &metadata.namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_broken_object_is_told_with_its_field() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "p" },
            "spec": { "weight": "heavy", "template": { "spec": {
                "requirements": [], "nodeClassRef": { "group": "g", "kind": "K", "name": "n" } } } },
        }))
        .unwrap();
        assert_eq!(name("NodePool", &object), "NodePool p");
        let problem = parse::<NodePool>(&object).unwrap_err();
        assert!(problem.starts_with("spec.weight: "), "{problem}");
    }
}
