//! Cluster API's CRDs and webhooks.

use std::{fs, time::Duration};

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::Client;
use serde_json::Value;

use crate::{
    binaries::{Binaries, WEBHOOK_BASE, WEBHOOK_CA},
    objects,
};

/// Applies CRDs, conversion and admission webhooks, which call the core manager by address, and waits until the kinds are served.
pub(super) async fn install(
    client: &Client,
    binaries: &Binaries,
    webhook_port: u16,
    authority: &str,
) -> Result<()> {
    let path = binaries.capi_manifests();
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let text = text
        .replace(WEBHOOK_BASE, &format!("https://127.0.0.1:{webhook_port}"))
        .replace(WEBHOOK_CA, &BASE64_STANDARD.encode(authority));
    let items: Vec<Value> =
        serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))?;
    objects::apply_all(client, &items).await?;
    objects::crds_established(client, &items, Duration::from_mins(1)).await
}
