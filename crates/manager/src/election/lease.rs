//! The election's hands: reads and writes the Lease, and tells the rest of the process whether it leads.

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use karpenter_capi_access::Trouble;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::{Candidate, Lease, Now, Record, Step, Timing};

/// Why an election ended although nobody asked for it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeadershipLost {
    /// No renewal got through in time.
    #[error(
        "lost the leader election lease {lease}: it couldn't be renewed within {within:?}; {}",
        last_problem(problem.as_deref())
    )]
    NotRenewed {
        /// `namespace/name`.
        lease: String,
        within: Duration,
        /// Why the last attempt failed; none if none did, so that this process must have been stopped.
        problem: Option<String>,
    },
    /// Somebody else has it.
    #[error("lost the leader election lease {lease} to {holder}")]
    Deposed {
        /// `namespace/name`.
        lease: String,
        holder: String,
    },
}

impl LeadershipLost {
    /// Whether this process is sound and may stand again: the API server was away. One that was stopped for a while, or that somebody
    /// else has overtaken, had better begin with nothing.
    pub(crate) fn may_stand_again(&self) -> bool {
        matches!(self, Self::NotRenewed { problem: Some(_), .. })
    }
}

fn last_problem(problem: Option<&str>) -> String {
    match problem {
        Some(problem) => format!("last problem: {problem}"),
        None => "no attempt failed, so this process was stopped or had no time to run".to_owned(),
    }
}

/// Where the rest of the process sees who leads.
pub(crate) struct Announcement {
    /// Until when this process leads; what a [`crate::fence::Fence`] follows.
    pub(crate) until: watch::Sender<Option<Instant>>,
    pub(crate) leading: watch::Sender<bool>,
}

impl Announcement {
    pub(crate) fn lead_until(&self, end: Instant) {
        self.until.send_replace(Some(end));
        self.leading.send_if_modified(|leading| !std::mem::replace(leading, true));
    }

    pub(crate) fn end(&self) {
        self.until.send_replace(None);
        self.leading.send_if_modified(|leading| std::mem::replace(leading, false));
    }
}

/// A candidate with its Lease.
pub(crate) struct Election {
    api: Api<LeaseObject>,
    namespace: String,
    name: String,
    candidate: Candidate,
    announcement: Announcement,
    /// What was last said in the log, so that it is said once.
    said: String,
}

impl Election {
    pub(crate) fn new(
        client: Client,
        namespace: String,
        name: String,
        candidate: Candidate,
        announcement: Announcement,
    ) -> Self {
        Self {
            api: Api::namespaced(client, &namespace),
            namespace,
            name,
            candidate,
            announcement,
            said: String::new(),
        }
    }

    /// Stands for election and then leads, until `stop`, when the Lease is given back, or until leadership is lost.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), LeadershipLost> {
        let mut problem = None;
        loop {
            let end = self.candidate.leads_until();
            let attempt = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = reached(end) => return Err(self.not_renewed(problem)),
                attempt = timeout(self.timing().renew_within / 2, attempt(&self.api, &self.name, &mut self.candidate)) => attempt,
            };
            match attempt {
                Ok(Ok(outcome)) => {
                    problem = None;
                    self.take(outcome)?;
                }
                Ok(Err(error)) => problem = Some(self.failed(&Trouble::of(&error))),
                Err(_) => problem = Some(self.failed(&Trouble::NoAnswer)),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = reached(self.candidate.leads_until()) => return Err(self.not_renewed(problem)),
                () = sleep(self.timing().retry) => {}
            }
        }
        self.give_back().await;
        Ok(())
    }

    fn timing(&self) -> Timing {
        self.candidate.timing()
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn take(&mut self, outcome: Outcome) -> Result<(), LeadershipLost> {
        match outcome {
            Outcome::Ours => {
                if let Some(end) = self.candidate.leads_until() {
                    self.announcement.lead_until(end);
                }
                let lease = self.lease();
                self.say(format!("leading by lease {lease} as {}", self.candidate.identity()));
                Ok(())
            }
            Outcome::Theirs { holder } => {
                let lease = self.lease();
                self.say(format!("standing by: lease {lease} is held by {holder}"));
                Ok(())
            }
            Outcome::Deposed { holder } => {
                self.announcement.end();
                Err(LeadershipLost::Deposed { lease: self.lease(), holder })
            }
        }
    }

    fn failed(&mut self, trouble: &Trouble) -> String {
        let lease = self.lease();
        let sentence = format!("could not get or renew lease {lease} in the workload cluster: {trouble}");
        if self.said != sentence {
            tracing::warn!("{sentence}");
            self.said = sentence;
        }
        trouble.to_string()
    }

    fn say(&mut self, sentence: String) {
        if self.said != sentence {
            tracing::info!("{sentence}");
            self.said = sentence;
        }
    }

    fn not_renewed(&self, problem: Option<String>) -> LeadershipLost {
        self.announcement.end();
        LeadershipLost::NotRenewed { lease: self.lease(), within: self.timing().renew_within, problem }
    }

    /// Nobody has to wait for the Lease to run out. If it fails, they do.
    async fn give_back(&mut self) {
        self.announcement.end();
        let Some((version, record)) = self.candidate.release(Timestamp::now()) else {
            return;
        };
        let written =
            timeout(self.timing().renew_within / 2, write(&self.api, &self.name, &version, &record)).await;
        match written {
            Ok(Ok(_)) => tracing::info!("gave lease {} back", self.lease()),
            Ok(Err(error)) => {
                tracing::warn!("could not give lease {} back: {}", self.lease(), Trouble::of(&error));
            }
            Err(_) => tracing::warn!("could not give lease {} back: {}", self.lease(), Trouble::NoAnswer),
        }
    }
}

/// Waits for a time; without one, for ever.
async fn reached(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}

enum Outcome {
    Ours,
    Theirs { holder: String },
    Deposed { holder: String },
}

/// Reads the Lease where it must be read, decides, and does it. A lost race is no error: the next attempt sees the winner.
async fn attempt(
    api: &Api<LeaseObject>,
    name: &str,
    candidate: &mut Candidate,
) -> Result<Outcome, kube::Error> {
    let started = Instant::now();
    let lease = match candidate.known() {
        Some(lease) => Some(lease),
        None => api.get_opt(name).await?.map(read),
    };
    let now = Now { instant: Instant::now(), wall: Timestamp::now() };
    let written = match candidate.decide(lease, now) {
        Step::Wait { holder } => return Ok(Outcome::Theirs { holder }),
        Step::Deposed { holder } => return Ok(Outcome::Deposed { holder }),
        Step::Create(record) => {
            let lease = LeaseObject {
                metadata: kube::core::ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
                spec: Some(spec(&record)),
            };
            api.create(&PostParams::default(), &lease).await
        }
        Step::Write { over, record } => write(api, name, &over, &record).await,
    };
    match written {
        Ok(lease) => {
            candidate.written(read(lease), started);
            Ok(Outcome::Ours)
        }
        Err(error) => {
            // Whatever happened, the Lease may be another one than we remember.
            candidate.conflicted();
            match error {
                kube::Error::Api(status) if status.code == 409 && candidate.leads_until().is_none() => {
                    let holder = "another candidate that was quicker".to_owned();
                    Ok(Outcome::Theirs { holder })
                }
                error => Err(error),
            }
        }
    }
}

/// A merge patch, so that labels and annotations that others have put on stay.
async fn write(
    api: &Api<LeaseObject>,
    name: &str,
    over: &str,
    record: &Record,
) -> Result<LeaseObject, kube::Error> {
    let lease = LeaseObject {
        metadata: kube::core::ObjectMeta { resource_version: Some(over.to_owned()), ..Default::default() },
        spec: Some(spec(record)),
    };
    api.patch(name, &PatchParams::default(), &Patch::Merge(&lease)).await
}

fn read(lease: LeaseObject) -> Lease {
    let spec = lease.spec.unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Lease {
        version: lease.metadata.resource_version.unwrap_or_default(),
        record: Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: seconds.map(Duration::from_secs),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
        },
    }
}

fn spec(record: &Record) -> LeaseSpec {
    let seconds = record.duration.map(|duration| duration.as_secs());
    LeaseSpec {
        holder_identity: Some(record.holder.clone()),
        lease_duration_seconds: seconds.and_then(|seconds| i32::try_from(seconds).ok()),
        acquire_time: record.acquired.map(MicroTime),
        renew_time: record.renewed.map(MicroTime),
        lease_transitions: Some(record.transitions),
        ..LeaseSpec::default()
    }
}

/// A name for this process that no other has, not even a later one in the same pod: only so can a crash not be taken for a renewal.
pub(crate) fn identity() -> String {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let host = variable("POD_NAME")
        .or_else(|| variable("HOSTNAME"))
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok().map(|name| name.trim().to_owned()))
        .unwrap_or_else(|| "karpenter-capi".to_owned());
    // The standard library seeds its hash maps with random keys; an empty hash shows them.
    let random = std::hash::RandomState::new().build_hasher().finish();
    format!("{host}_{random:016x}")
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("lease", &self.lease()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
