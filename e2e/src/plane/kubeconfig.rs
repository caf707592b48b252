//! Kubeconfig files with embedded certificates.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;

use super::certificates::{Authority, Identity};

/// Writes a kubeconfig; JSON is YAML.
pub(super) fn write(path: &Path, server: &str, authority: &Authority, identity: &Identity) -> Result<()> {
    let encode = |pem: &str| BASE64_STANDARD.encode(pem);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "e2e", "cluster": {
            "server": server,
            "certificate-authority-data": encode(authority.certificate()),
        }}],
        "users": [{ "name": "e2e", "user": {
            "client-certificate-data": encode(&identity.certificate),
            "client-key-data": encode(&identity.key),
        }}],
        "contexts": [{ "name": "e2e", "context": { "cluster": "e2e", "user": "e2e" } }],
        "current-context": "e2e",
    });
    fs::write(path, serde_json::to_vec_pretty(&config)?)
        .with_context(|| format!("writing {}", path.display()))
}
