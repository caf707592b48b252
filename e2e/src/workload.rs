//! Pods for tests: Deployments whose pods ask for resources and do nothing.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{Container, Namespace, Node, Pod, PodSpec, PodTemplateSpec, ResourceRequirements},
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector},
};
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta, Patch, PatchParams},
};

use crate::objects::FIELD_MANAGER;

/// The label that names the Deployment of a pod.
pub const APP: &str = "app";

/// A Deployment of `replicas` pods, each asking for `requests` such as `[("cpu", "500m"), ("memory", "256Mi")]`.
///
/// The pods carry the label [`APP`] with the Deployment's name. kwok runs them as soon as they are bound. A test that wants
/// more (selectors, tolerations, spread) changes the returned object.
pub fn deployment(namespace: &str, name: &str, replicas: i32, requests: &[(&str, &str)]) -> Deployment {
    let labels = BTreeMap::from([(APP.to_owned(), name.to_owned())]);
    let requests = requests
        .iter()
        .map(|(resource, amount)| ((*resource).to_owned(), Quantity((*amount).to_owned())))
        .collect();
    let container = Container {
        name: "main".to_owned(),
        image: Some("registry.invalid/nothing".to_owned()),
        resources: Some(ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() }),
        ..Container::default()
    };
    let pod = PodSpec {
        containers: vec![container],
        termination_grace_period_seconds: Some(1),
        ..PodSpec::default()
    };
    Deployment {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(pod),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// Creates or changes a Deployment.
pub async fn apply(client: &Client, deployment: &Deployment) -> Result<()> {
    crate::objects::apply(client, &serde_json::to_value(deployment)?).await.map(drop)
}

/// Creates a namespace unless it is there.
pub async fn namespace(client: &Client, name: &str) -> Result<()> {
    let object = Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.patch(name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&object)).await?;
    Ok(())
}

/// The pods of a Deployment that aren't being deleted, by name.
pub async fn pods(client: &Client, namespace: &str, deployment: &str) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut pods = api.list(&ListParams::default().labels(&format!("{APP}={deployment}"))).await?.items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods.sort_by(|left, right| left.metadata.name.cmp(&right.metadata.name));
    Ok(pods)
}

/// Whether a pod runs.
pub fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// All Nodes, by name.
pub async fn nodes(client: &Client) -> Result<Vec<Node>> {
    let api: Api<Node> = Api::all(client.clone());
    let mut nodes = api.list(&ListParams::default()).await?.items;
    nodes.sort_by(|left, right| left.metadata.name.cmp(&right.metadata.name));
    Ok(nodes)
}

/// Whether a Node's condition Ready is True.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
