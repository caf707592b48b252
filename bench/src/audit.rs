//! What was asked of the API server, by its own audit log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Timestamp;
use karpenter_capi_e2e::plane::{Component, Options};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A file is begun anew when it has so many megabytes; requests of a file that was put aside would be lost, so it never gets there.
const MOST_MEGABYTES: u32 = 100_000;

/// A request that was answered, or a watch that has begun.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) at: Timestamp,
    pub(crate) user: String,
    pub(crate) verb: String,
    /// Resource and subresource, such as `nodeclaims/status`; the path for what isn't about objects.
    pub(crate) resource: String,
}

impl Request {
    /// Whether it changes something, the Lease of the election aside.
    pub(crate) fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch") && self.resource != "leases"
    }
}

/// Requests of one kind in a span of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Tally {
    pub(crate) cluster: &'static str,
    pub(crate) verb: String,
    pub(crate) resource: String,
    pub(crate) count: u32,
}

/// The log of one API server, as far as it was read.
pub(crate) struct Audit {
    log: PathBuf,
    policy: PathBuf,
    read: u64,
    unfinished: Vec<u8>,
    requests: Vec<Request>,
}

impl Audit {
    /// A log in that folder of these users' requests.
    pub(crate) fn of(users: &[&str], folder: &Path) -> Result<Self> {
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{ "level": "Metadata", "users": users }, { "level": "None" }],
        });
        let file = folder.join("audit-policy.json");
        std::fs::write(&file, policy.to_string()).with_context(|| format!("writing {}", file.display()))?;
        let log = folder.join("audit.log");
        Ok(Self { log, policy: file, read: 0, unfinished: Vec::new(), requests: Vec::new() })
    }

    /// A plane whose API server writes this log.
    pub(crate) fn kept_by(&self, options: Options) -> Options {
        options
            .with_argument(Component::ApiServer, &format!("--audit-policy-file={}", self.policy.display()))
            .with_argument(Component::ApiServer, &format!("--audit-log-path={}", self.log.display()))
            .with_argument(Component::ApiServer, &format!("--audit-log-maxsize={MOST_MEGABYTES}"))
    }

    /// Everything that was logged until now.
    pub(crate) fn requests(&mut self) -> Result<&[Request]> {
        let mut file = File::open(&self.log).with_context(|| format!("opening {}", self.log.display()))?;
        file.seek(SeekFrom::Start(self.read))?;
        let more = file.read_to_end(&mut self.unfinished).context("reading the audit log")?;
        self.read += u64::try_from(more)?;
        let whole = self.unfinished.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.unfinished.drain(..whole).collect();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.requests.extend(request(line)?);
        }
        Ok(&self.requests)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditEvent {
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    request_received_timestamp: Timestamp,
    user: User,
    object_ref: Option<ObjectRef>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct ObjectRef {
    #[serde(default)]
    resource: String,
    subresource: Option<String>,
}

/// A line of the log; none where it tells a second time of a request. A watch is told of at its begin, anything else at its end.
fn request(line: &[u8]) -> Result<Option<Request>> {
    let event: AuditEvent = serde_json::from_slice(line)
        .with_context(|| format!("reading the audit log: {}", String::from_utf8_lossy(line)))?;
    let counts = if event.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
    if event.stage != counts {
        return Ok(None);
    }
    let resource = match event.object_ref {
        Some(ObjectRef { resource, subresource: Some(part) }) => format!("{resource}/{part}"),
        Some(ObjectRef { resource, subresource: None }) => resource,
        None => event.request_uri.split('?').next().unwrap_or_default().to_owned(),
    };
    Ok(Some(Request {
        at: event.request_received_timestamp,
        user: event.user.username,
        verb: event.verb,
        resource,
    }))
}

/// Requests from one time until before another, most of a kind first. `cluster` tells for a user which cluster it asks.
pub(crate) fn tally(
    requests: &[Request],
    (from, until): (Timestamp, Timestamp),
    cluster: impl Fn(&str) -> Option<&'static str>,
) -> Vec<Tally> {
    let mut counts: BTreeMap<(&'static str, &str, &str), u32> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.at >= from && request.at < until) {
        if let Some(cluster) = cluster(&request.user) {
            *counts.entry((cluster, &request.verb, &request.resource)).or_default() += 1;
        }
    }
    let mut tallies: Vec<Tally> = counts
        .into_iter()
        .map(|((cluster, verb, resource), count)| Tally {
            cluster,
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            count,
        })
        .collect();
    tallies.sort_by_key(|tally| std::cmp::Reverse(tally.count));
    tallies
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stage: &str, verb: &str, user: &str, second: u32, object: &str) -> String {
        format!(
            r#"{{"kind":"Event","stage":"{stage}","requestURI":"/x?watch=true","verb":"{verb}","user":{{"username":"{user}"}},"requestReceivedTimestamp":"2026-01-01T00:00:{second:02}.000000Z"{object}}}"#
        )
    }

    fn parsed(line: &str) -> Option<Request> {
        request(line.as_bytes()).unwrap()
    }

    #[test]
    fn a_watch_counts_at_its_begin_and_anything_else_at_its_end_so_each_request_counts_once() {
        let pods = r#","objectRef":{"resource":"pods"}"#;
        assert!(parsed(&line("ResponseStarted", "watch", "o", 1, pods)).is_some());
        assert!(parsed(&line("ResponseComplete", "watch", "o", 1, pods)).is_none());
        assert!(parsed(&line("ResponseStarted", "list", "o", 1, pods)).is_none());
        assert!(parsed(&line("ResponseComplete", "list", "o", 1, pods)).is_some());
    }

    #[test]
    fn a_subresource_is_named_and_so_is_a_path_without_an_object() {
        let status = r#","objectRef":{"resource":"nodeclaims","subresource":"status"}"#;
        assert_eq!(
            parsed(&line("ResponseComplete", "patch", "o", 1, status)).unwrap().resource,
            "nodeclaims/status"
        );
        assert_eq!(parsed(&line("ResponseComplete", "get", "o", 1, "")).unwrap().resource, "/x");
    }

    #[test]
    fn a_span_takes_in_its_begin_but_not_its_end_and_only_users_that_are_asked_for() {
        let pods = r#","objectRef":{"resource":"pods"}"#;
        let requests: Vec<_> = [("o", 0), ("o", 1), ("o", 2), ("o", 3), ("other", 2)]
            .map(|(user, second)| parsed(&line("ResponseComplete", "get", user, second, pods)).unwrap())
            .into();
        let at = |second: i64| Timestamp::from_second(1_767_225_600 + second).unwrap();
        let tallies = tally(&requests, (at(1), at(3)), |user| (user == "o").then_some("workload"));
        assert_eq!(tallies.len(), 1);
        assert_eq!((tallies[0].count, tallies[0].verb.as_str()), (2, "get"));
    }

    #[test]
    fn a_line_under_way_is_read_when_it_is_whole() {
        let folder = std::env::temp_dir().join(format!("karpenter-capi-bench-audit-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut audit = Audit::of(&["o"], &folder).unwrap();
        let whole = line("ResponseComplete", "get", "o", 1, "");
        let (half, rest) = whole.split_at(40);
        std::fs::write(folder.join("audit.log"), format!("{whole}\n{half}")).unwrap();
        assert_eq!(audit.requests().unwrap().len(), 1);
        let mut log = File::options().append(true).open(folder.join("audit.log")).unwrap();
        std::io::Write::write_all(&mut log, format!("{rest}\n").as_bytes()).unwrap();
        assert_eq!(audit.requests().unwrap().len(), 2);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
