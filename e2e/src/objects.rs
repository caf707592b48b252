//! Applying and reading plain JSON objects.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::Value;

use crate::wait;

/// The field manager of everything that the harness applies.
pub const FIELD_MANAGER: &str = "karpenter-capi-e2e";

/// How many objects are applied at once.
const CONCURRENCY: usize = 8;

/// The API of a JSON object's kind in the object's namespace. Fails when `apiVersion` or `kind` is missing.
///
/// The plural is derived from the kind by the usual rules of English.
pub fn api_of(client: &Client, object: &Value) -> Result<Api<DynamicObject>> {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    let version = text("/apiVersion").context("an object without apiVersion")?;
    let kind = text("/kind").context("an object without kind")?;
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Ok(match text("/metadata/namespace") {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    })
}

/// Creates or changes one object by server-side apply.
pub async fn apply(client: &Client, object: &Value) -> Result<DynamicObject> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).context("an object without name")?;
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api_of(client, object)?.patch(name, &params, &Patch::Apply(object)).await;
    applied.with_context(|| format!("applying {kind} {name}"))
}

/// Applies objects, several at once, in no particular order.
pub async fn apply_all(client: &Client, objects: &[Value]) -> Result<()> {
    stream::iter(objects)
        .map(|object| apply(client, object))
        .buffer_unordered(CONCURRENCY)
        .try_for_each(async |_| Ok(()))
        .await
}

/// Waits until each CRD among `objects` is served.
pub async fn crds_established(client: &Client, objects: &[Value], within: Duration) -> Result<()> {
    let crds = objects
        .iter()
        .filter(|object| object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition"));
    let wanted: BTreeSet<&str> = crds.filter_map(|crd| crd.pointer("/metadata/name")?.as_str()).collect();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    wait::eventually("all CRDs are established", within, async || {
        let found = api.list(&ListParams::default()).await?;
        let established: BTreeSet<&str> = found
            .iter()
            .filter(|crd| is_established(crd))
            .filter_map(|crd| crd.metadata.name.as_deref())
            .collect();
        let missing: Vec<&&str> = wanted.difference(&established).collect();
        ensure!(missing.is_empty(), "not established: {missing:?}");
        Ok(())
    })
    .await
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.into_iter().any(|condition| condition.type_ == "Established" && condition.status == "True")
}
