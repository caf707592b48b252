//! What has to be there before the controllers can work: both API servers, CRDs, and the Cluster.
//!
//! What is missing is told at once, all of it, and then waited for: things may be installed in any order.

use std::fmt;
use std::time::Duration;

use karpenter_capi_access::{Access, AccessError, Role, kinds};
use karpenter_capi_api::capi::{CapiVersion, Cluster};
use karpenter_capi_api::names::{CAPI_GROUP, GROUP, KARPENTER_GROUP};
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

/// How long an attempt may take.
const ATTEMPT: Duration = Duration::from_secs(15);
/// Waits between attempts double from the first to the second.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// Kinds of ours: group and version, and plural names.
const OURS: [(&str, &str, &[&str]); 2] =
    [(KARPENTER_GROUP, "v1", &["nodepools", "nodeclaims"]), (GROUP, "v1alpha1", &["clusterapinodeclasses"])];

/// A cluster that is asked.
pub(crate) struct Subject {
    access: Access,
    client: Client,
}

impl Subject {
    pub(crate) fn new(access: Access) -> Result<Self, AccessError> {
        let client = access.client()?;
        Ok(Self { access, client })
    }
}

/// Something that isn't as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// A request failed; a whole sentence.
    Request(String),
    /// Kinds of ours aren't served.
    OurKinds { place: String, kinds: Vec<String> },
    /// Cluster API isn't served in a version that we know.
    ClusterApi { place: String, is_workload_too: bool },
    /// Cluster API is served, but not all of it.
    TheirKinds { place: String, kinds: Vec<String> },
    /// There is no such Cluster.
    Cluster { place: String, namespace: String, name: String },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(sentence) => f.write_str(sentence),
            Self::OurKinds { place, kinds } => write!(
                f,
                "{place}: the custom resources {} are missing; install them with `kubectl apply -f crds/`",
                kinds.join(", ")
            ),
            Self::ClusterApi { place, is_workload_too } => {
                write!(
                    f,
                    "{place}: Cluster API ({CAPI_GROUP}/v1beta2 or v1beta1) isn't installed; install it with `clusterctl init`"
                )?;
                if *is_workload_too {
                    f.write_str(", or set --cluster-api-kubeconfig if it runs in another cluster")?;
                }
                Ok(())
            }
            Self::TheirKinds { place, kinds } => write!(
                f,
                "{place}: Cluster API is installed, but its {} are missing; repair it with `clusterctl init` or `clusterctl upgrade apply`",
                kinds.join(", ")
            ),
            Self::Cluster { place, namespace, name } => write!(
                f,
                "{place}: there is no Cluster {namespace}/{name}; check --cluster-namespace and --cluster-name"
            ),
        }
    }
}

/// Time is up, and not all was there.
#[derive(Debug, thiserror::Error)]
#[error("gave up after {waited:?} (--startup-timeout):{}", list(missing))]
pub(crate) struct Unprepared {
    waited: Duration,
    missing: Vec<Missing>,
}

fn list(missing: &[Missing]) -> String {
    match missing {
        [one] => format!(" {one}"),
        many => {
            let numbered = many.iter().enumerate();
            let numbered: Vec<_> = numbered.map(|(number, one)| format!(" ({}) {one}", number + 1)).collect();
            numbered.concat()
        }
    }
}

/// The Cluster that is looked for.
pub(crate) struct Wanted<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// Waits until everything is there, without a limit for as long as it takes; gives the version of Cluster API to talk.
pub(crate) async fn wait(
    workload: &Subject,
    management: &Subject,
    wanted: &Wanted<'_>,
    limit: Option<Duration>,
) -> Result<CapiVersion, Unprepared> {
    let started = Instant::now();
    let mut pause = WAITS.0;
    let mut told: Vec<Missing> = Vec::new();
    loop {
        let missing = match look(workload, management, wanted).await {
            Ok(version) => return Ok(version),
            Err(missing) => missing,
        };
        let left = limit.map_or(Duration::MAX, |limit| limit.saturating_sub(started.elapsed()));
        if left.is_zero() {
            return Err(Unprepared { waited: limit.unwrap_or_default(), missing });
        }
        for one in missing.iter().filter(|one| !told.contains(one)) {
            let still = limit.map_or_else(String::new, |_| format!(" for {}s", left.as_secs()));
            tracing::warn!("not ready yet, trying again{still}: {one}");
        }
        told = missing;
        sleep(pause.min(left)).await;
        pause = pause.saturating_mul(2).min(WAITS.1);
    }
}

/// One look at everything.
async fn look(
    workload: &Subject,
    management: &Subject,
    wanted: &Wanted<'_>,
) -> Result<CapiVersion, Vec<Missing>> {
    // Where it is one cluster, it is asked by one name, so that a request that fails is told once.
    let is_workload_too = workload.access.origin == management.access.origin;
    let (ours, theirs) = tokio::join!(our_kinds(workload), cluster(management, wanted, is_workload_too));
    match (ours, theirs) {
        (Ok(()), Ok(version)) => Ok(version),
        (ours, theirs) => {
            let mut missing: Vec<_> = ours.err().into_iter().chain(theirs.err()).collect();
            missing.dedup();
            Err(missing)
        }
    }
}

/// Looks once at one cluster, as [`wait`] does at both.
pub(crate) async fn check(subject: &Subject, wanted: &Wanted<'_>) -> Result<(), Missing> {
    match subject.access.role {
        Role::Workload => our_kinds(subject).await,
        Role::Management => cluster(subject, wanted, false).await.map(drop),
    }
}

async fn our_kinds(workload: &Subject) -> Result<(), Missing> {
    let mut kinds = Vec::new();
    for (group, version, plurals) in OURS {
        let api_version = format!("{group}/{version}");
        let served =
            within(workload, kinds::served(&workload.client, &api_version)).await?.unwrap_or_default();
        for plural in plurals.iter().filter(|plural| !served.iter().any(|kind| kind == *plural)) {
            kinds.push(format!("{plural}.{group}"));
        }
    }
    if kinds.is_empty() {
        return Ok(());
    }
    Err(Missing::OurKinds { place: workload.access.to_string(), kinds })
}

async fn cluster(
    management: &Subject,
    wanted: &Wanted<'_>,
    is_workload_too: bool,
) -> Result<CapiVersion, Missing> {
    let place = || management.access.as_role(Role::Management).to_string();
    let served = within(management, kinds::cluster_api(&management.client))
        .await?
        .ok_or_else(|| Missing::ClusterApi { place: place(), is_workload_too })?;
    if !served.missing.is_empty() {
        return Err(Missing::TheirKinds { place: place(), kinds: served.missing });
    }
    let version = served.version;
    let api: Api<Cluster> = Api::namespaced_with(management.client.clone(), wanted.namespace, &version);
    match within(management, api.get_opt(wanted.name)).await? {
        Some(_) => Ok(version),
        None => Err(Missing::Cluster {
            place: place(),
            namespace: wanted.namespace.to_owned(),
            name: wanted.name.to_owned(),
        }),
    }
}

async fn within<T>(
    subject: &Subject,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Missing> {
    let answer = karpenter_capi_access::within(ATTEMPT, request).await;
    answer.map_err(|trouble| Missing::Request(subject.access.explain(&trouble)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_thing_is_told_with_its_remedy() {
        let place = "workload cluster at https://10.0.0.1:6443 (kubeconfig /k)".to_owned();
        let error = Unprepared {
            waited: Duration::from_mins(2),
            missing: vec![
                Missing::OurKinds { place: place.clone(), kinds: vec!["nodepools.karpenter.sh".into()] },
                Missing::ClusterApi { place, is_workload_too: true },
            ],
        };
        let text = error.to_string();
        for part in [
            "120s",
            "(1) workload cluster at https://10.0.0.1:6443 (kubeconfig /k): the custom resources nodepools.karpenter.sh are missing",
            "kubectl apply -f crds/",
            "(2)",
            "clusterctl init",
            "--cluster-api-kubeconfig",
        ] {
            assert!(text.contains(part), "{part:?} isn't in {text:?}");
        }
    }
}
