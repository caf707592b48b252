//! The documents that both solvers are given.

use crate::generator::{Size, document};
use anyhow::{Context, Result};
use karpenter_capi_conformance::case::archive;
use serde_json::Value;

/// The workloads of upstream's own scheduling benchmark, without answers.
const UPSTREAMS: &[u8] = include_bytes!("../fixtures/documents.jsonl.zst");

/// Documents that upstream's solver needs half a minute or more for.
const SLOW_FOR_PEER: [&str; 2] = ["diverse-10000", "preference-respect-4000"];

/// A document with its name.
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) value: Value,
    pub(crate) slow_for_peer: bool,
}

/// Upstream's workloads, and two of our own that are mixed otherwise.
pub(crate) fn all() -> Result<Vec<Document>> {
    let mut found: Vec<(String, Value)> = archive(UPSTREAMS)
        .context("reading the archive of documents")?
        .into_iter()
        .map(|case| (case.name, case.document))
        .collect();
    for pods in [500, 5_000] {
        let size = Size { pods, nodes: pods / 10, pools: 5 };
        found.push((format!("mixed-{pods}"), document(size)));
    }
    let read = |(name, value): (String, Value)| Document {
        slow_for_peer: SLOW_FOR_PEER.contains(&name.as_str()),
        name,
        value,
    };
    Ok(found.into_iter().map(read).collect())
}
