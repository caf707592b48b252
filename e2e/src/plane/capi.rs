//! Cluster API's CRDs and webhooks.

use std::{fs, time::Duration};

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::Client;
use serde_json::{Value, json};

use crate::{
    binaries::{Binaries, WEBHOOK_BASE, WEBHOOK_CA},
    objects,
};

/// In which versions Cluster API's kinds are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// All that Cluster API ships.
    AllVersions,
    /// The stored one alone. The API server keeps a cache for each version, and converts every change of every object for each by a
    /// call of Cluster API's webhook, one after the other: with hundreds of Machines coming up it falls behind for good.
    StoredVersion,
}

/// Applies CRDs, conversion and admission webhooks, which call the core manager by address, and waits until the kinds are served.
pub(super) async fn install(
    client: &Client,
    binaries: &Binaries,
    webhook_port: u16,
    authority: &str,
    served: Served,
) -> Result<()> {
    let path = binaries.capi_manifests();
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let text = text
        .replace(WEBHOOK_BASE, &format!("https://127.0.0.1:{webhook_port}"))
        .replace(WEBHOOK_CA, &BASE64_STANDARD.encode(authority));
    let mut items: Vec<Value> =
        serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))?;
    if served == Served::StoredVersion {
        items.iter_mut().for_each(only_stored_version);
    }
    objects::apply_all(client, &items).await?;
    objects::crds_established(client, &items, Duration::from_mins(1)).await
}

/// Takes all versions but the stored one out of a CRD, and with them the conversion.
fn only_stored_version(item: &mut Value) {
    if item["kind"] != "CustomResourceDefinition" {
        return;
    }
    if let Some(versions) = item.pointer_mut("/spec/versions").and_then(Value::as_array_mut) {
        versions.retain(|version| version["storage"] == true);
    }
    item["spec"]["conversion"] = json!({ "strategy": "None" });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_version_stays_and_nothing_converts() {
        let mut crd = json!({ "kind": "CustomResourceDefinition", "spec": {
            "conversion": { "strategy": "Webhook", "webhook": {} },
            "versions": [{ "name": "v1beta1", "storage": false }, { "name": "v1beta2", "storage": true }],
        } });
        only_stored_version(&mut crd);
        let expected = json!({ "conversion": { "strategy": "None" }, "versions": [{ "name": "v1beta2", "storage": true }] });
        assert_eq!(crd["spec"], expected);
    }
}
