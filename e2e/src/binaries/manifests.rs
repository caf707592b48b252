//! Manifests that lie in Go modules: Cluster API's CRDs and webhooks, kwok's stages.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use karpenter_capi_go_programs::{Module, Rendering, sources};

use super::{Binary, WEBHOOK_BASE, WEBHOOK_CA};

/// The folder inside the cache folder; the number changes with what this module makes of the sources.
pub(super) const FOLDER: &str = "manifests-1";
pub(super) const CAPI: &str = "cluster-api.json";
pub(super) const KWOK: &str = "kwok-stages.yaml";

pub(super) fn render(rendering: &Rendering<'_>) -> Result<()> {
    let kubectl = Module::path(rendering.cache, Binary::Kubectl.file_name());
    let capi = sources(rendering.module, "sigs.k8s.io/cluster-api")?;
    let crds = kustomize(&kubectl, &capi.join("core/config/crd"))?;
    let webhooks_path = capi.join("core/config/webhook/manifests.yaml");
    let webhooks =
        fs::read_to_string(&webhooks_path).with_context(|| format!("reading {}", webhooks_path.display()))?;
    fs::write(rendering.output.join(CAPI), serde_json::to_vec(&cluster_api(&crds, &webhooks)?)?)?;

    let kwok = sources(rendering.module, "sigs.k8s.io/kwok")?;
    fs::write(rendering.output.join(KWOK), kustomize(&kubectl, &kwok.join("kustomize/stage/fast"))?)?;
    Ok(())
}

fn kustomize(kubectl: &Path, folder: &Path) -> Result<String> {
    let output =
        Command::new(kubectl).arg("kustomize").arg(folder).output().context("running kubectl kustomize")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`kubectl kustomize {}` failed: {}", folder.display(), errors.trim());
    String::from_utf8(output.stdout).context("kubectl kustomize wrote something other than UTF-8")
}

fn cluster_api(crds: &str, webhooks: &str) -> Result<Value> {
    let mut items: Vec<Value> = Vec::new();
    for (what, text) in [("CRDs", crds), ("webhooks", webhooks)] {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(text).with_context(|| format!("parsing Cluster API's {what}"))?;
        items.extend(documents.into_iter().filter(|document| !document.is_null()));
    }
    for item in &mut items {
        prefix_webhook_configuration(item);
        call_by_url(item);
    }
    Ok(Value::Array(items))
}

/// The sources name both configurations without a prefix, which kustomize adds elsewhere; another provider's would collide.
fn prefix_webhook_configuration(item: &mut Value) {
    if item.get("webhooks").is_some()
        && let Some(Value::String(name)) = item.pointer_mut("/metadata/name")
    {
        name.insert_str(0, "capi-");
    }
}

/// Replaces the Service in each client configuration by an address: the manager runs as a process beside the API server.
///
/// Only the value of a `clientConfig` key is touched, as one of the CRDs describes a field of the name `service` in its schema.
fn call_by_url(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(config) = fields.get_mut("clientConfig")
                && let Some(path) = config.pointer("/service/path").and_then(Value::as_str)
            {
                *config = json!({ "url": format!("{WEBHOOK_BASE}{path}"), "caBundle": WEBHOOK_CA });
            }
            fields.values_mut().for_each(call_by_url);
        }
        Value::Array(items) => items.iter_mut().for_each(call_by_url),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_inside_a_schema_is_left_alone() {
        let schema = json!({ "properties": { "service": { "type": "object" } } });
        let mut crd = json!({
            "spec": {
                "conversion": { "webhook": { "clientConfig": { "service": { "name": "w", "namespace": "s", "path": "/convert" } } } },
                "versions": [{ "schema": { "properties": { "clientConfig": schema } } }],
            }
        });
        call_by_url(&mut crd);
        assert_eq!(crd.pointer("/spec/versions/0/schema/properties/clientConfig"), Some(&schema));
        assert_eq!(
            crd.pointer("/spec/conversion/webhook/clientConfig/url"),
            Some(&json!("https://webhook.invalid/convert"))
        );
    }
}
