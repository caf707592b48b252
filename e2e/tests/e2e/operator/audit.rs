//! What users asked of an API server, by its own audit log.

use anyhow::{Context, Result};
use karpenter_capi_e2e::plane::{Component, Options};
use serde_json::{Value, json};
use std::path::PathBuf;
use tempfile::TempDir;

/// An audit log that outlives no test.
pub(super) struct Audit {
    folder: TempDir,
}

/// A request that was answered, or a watch that has begun.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) user: String,
    pub(super) verb: String,
    /// Path and query, decoded.
    pub(super) uri: String,
    /// Of the object; empty for what isn't about objects.
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) code: u64,
}

impl Request {
    /// Whether it changes something that counts: a Lease and an Event don't.
    pub(super) fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
            && self.resource != "leases"
            && self.resource != "events"
    }
}

impl Audit {
    /// The log of these users' requests.
    pub(super) fn of(users: &[&str]) -> Result<Self> {
        let folder = TempDir::new().context("a folder for the audit log")?;
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{ "level": "Metadata", "users": users }, { "level": "None" }],
        });
        std::fs::write(folder.path().join("policy.json"), policy.to_string())?;
        Ok(Self { folder })
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    /// A plane whose API server writes this log.
    pub(super) fn kept_by(&self, options: Options) -> Options {
        let policy = self.folder.path().join("policy.json");
        options
            .with_argument(Component::ApiServer, &format!("--audit-policy-file={}", policy.display()))
            .with_argument(Component::ApiServer, &format!("--audit-log-path={}", self.log().display()))
    }

    pub(super) fn requests(&self) -> Result<Vec<Request>> {
        let text = std::fs::read_to_string(self.log()).context("reading the audit log")?;
        // The last line may be under way.
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(events.map(|event| request(&event)).collect())
    }

    /// How many requests of a user have changed something.
    pub(super) fn writes(&self, user: &str) -> Result<usize> {
        let requests = self.requests()?;
        Ok(requests
            .iter()
            .filter(|request| request.user == user && request.writes() && request.code < 400)
            .count())
    }
}

fn request(event: &Value) -> Request {
    let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    Request {
        user: text("/user/username"),
        verb: text("/verb"),
        uri: text("/requestURI").replace("%3D", "=").replace("%2F", "/"),
        group: text("/objectRef/apiGroup"),
        resource: text("/objectRef/resource"),
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
    }
}
