//! One operator with its clients, caches and candidacy, from its start to its end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use karpenter_capi_access::{Origin, Role};
use karpenter_capi_controllers::metrics::{Metrics, StateSeries};
use karpenter_capi_controllers::{Clients, MinValuesPolicy, Operator, PreferencePolicy, Scope, Settings};
use prometheus::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clients::{Limits, fenced};
use crate::election::Candidate;
use crate::election::lease::{Announcement, Election, LeadershipLost};
use crate::fence::Fence;
use crate::metrics::ProcessMetrics;
use crate::options::{MinValues, Options, Preferences};
use crate::preflight::{self, Subject, Wanted};
use crate::reload::{self, Accesses};
use crate::run::Signals;
use crate::serve::{Exposition, Readiness};
use crate::supervisor::{Ended, Ending, Supervisor};

/// Reconciles that are under way at the end get so long.
const FINISHING: Duration = Duration::from_secs(30);
/// The same after leadership was lost: nothing that they do is written any more.
const FINISHING_WITHOUT_LEASE: Duration = Duration::from_secs(2);
/// The Lease is given back within so long, or not at all.
const GIVING_BACK: Duration = Duration::from_secs(6);
/// What is aborted ends at its next pause; what has none for so long is stuck.
const ABORTING: Duration = Duration::from_secs(5);

const OPERATOR: &str = "operator";
const ELECTION: &str = "leader election";

/// What an operator is started from.
pub(crate) struct Session<'a> {
    pub(crate) options: &'a Options,
    pub(crate) accesses: &'a Accesses,
    /// By which this process stands for election, the same in each of its sessions: only one of them runs at a time, so that the Lease
    /// of the last one may be taken without waiting.
    pub(crate) identity: &'a str,
    /// How long to wait for what has to be there; none is for as long as it takes.
    pub(crate) patience: Option<Duration>,
    pub(crate) readiness: &'a Readiness,
    pub(crate) exposition: &'a Exposition,
    pub(crate) metrics: &'a ProcessMetrics,
}

/// What comes after a session.
pub(crate) enum Next {
    /// Nothing: somebody asked the process to end.
    End,
    /// The same again: the Lease was lost since the API server was away.
    StandAgain,
    /// The same with other clients.
    Changed(Box<Accesses>),
}

/// Why a session ends.
enum Reason {
    Ended(Ended),
    Asked,
    Changed(Box<Accesses>),
}

impl Session<'_> {
    /// Runs until a signal, a change of a kubeconfig, or the end of a task. An error ends the process.
    pub(crate) async fn run(
        &self,
        supervisor: &mut Supervisor,
        signals: &mut Signals,
    ) -> anyhow::Result<Next> {
        let every = self.options.clusters.kubeconfig_poll_interval;
        let mut changed = pin!(reload::next(self.accesses, self.wanted(), every, self.metrics));
        let scope = tokio::select! {
            scope = self.prepare() => scope?,
            ended = supervisor.next_end() => bail!("{ended}"),
            accesses = &mut changed => return Ok(Next::Changed(Box::new(accesses))),
            () = signals.next() => {
                tracing::info!("asked to end while waiting for the clusters");
                return Ok(Next::End);
            }
        };
        let (stop, give_back) = (CancellationToken::new(), CancellationToken::new());
        self.start(scope, supervisor, &stop, &give_back)?;
        let reason = tokio::select! {
            ended = supervisor.next_end() => Reason::Ended(ended),
            accesses = &mut changed => Reason::Changed(Box::new(accesses)),
            () = signals.next() => Reason::Asked,
        };
        let mut asked = matches!(reason, Reason::Asked);
        let mut ending = pin!(end(supervisor, reason, &stop, &give_back));
        loop {
            tokio::select! {
                next = &mut ending => return next.map(|next| if asked { Next::End } else { next }),
                () = signals.next() => {
                    if asked {
                        bail!("asked a second time to end: left without waiting for reconciles that are under way");
                    }
                    asked = true;
                }
            }
        }
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            namespace: &self.options.clusters.cluster_namespace,
            name: &self.options.clusters.cluster_name,
        }
    }

    async fn prepare(&self) -> anyhow::Result<Scope> {
        let Accesses { workload, management, .. } = self.accesses;
        let subjects = [Subject::new(workload.clone())?, Subject::new(management.clone())?];
        let wanted = self.wanted();
        let version = preflight::wait(&subjects[0], &subjects[1], &wanted, self.patience).await?;
        let management = management.as_role(Role::Management);
        tracing::info!("{workload} and {management} are ready, Cluster API is talked in {version}");
        Ok(Scope {
            namespace: wanted.namespace.to_owned(),
            cluster: wanted.name.to_owned(),
            hypershift_namespace: self.options.clusters.hypershift_namespace.clone(),
            version,
        })
    }

    fn start(
        &self,
        scope: Scope,
        supervisor: &mut Supervisor,
        stop: &CancellationToken,
        give_back: &CancellationToken,
    ) -> anyhow::Result<()> {
        let registry = Registry::new();
        let metrics = Metrics::with_state_series(&registry, state_series(self.options))
            .context("metrics can't be registered")?;
        self.exposition.show(registry);
        let (until, fence) = Fence::new();
        let (leading, is_leading) = watch::channel(false);
        let announcement = Announcement { until, leading };
        let limits = Limits {
            per_second: self.options.clusters.kube_client_qps,
            burst: self.options.clusters.kube_client_burst,
        };
        let clients = Clients {
            workload: fenced(&self.accesses.workload, limits, fence.clone())?,
            management: fenced(&self.accesses.management, limits, fence)?,
        };
        let operator = Arc::new(Operator::new(clients, scope, settings(self.options), metrics));
        let (asked, ending) = (operator.clone(), stop.clone());
        self.readiness.ask(move || match (ending.is_cancelled(), asked.is_synced()) {
            (true, _) => Err("ending"),
            (false, false) => Err("caches are not in sync"),
            (false, true) => Ok(()),
        });
        self.elect(announcement, supervisor, give_back.clone())?;
        let stop = stop.clone();
        supervisor.start(OPERATOR, async move { operator.run(is_leading, stop).await });
        Ok(())
    }

    fn elect(
        &self,
        announcement: Announcement,
        supervisor: &mut Supervisor,
        give_back: CancellationToken,
    ) -> anyhow::Result<()> {
        let election = &self.options.election;
        if election.disable_leader_election {
            announcement.lead_until(Fence::end_of_time());
            supervisor.start(ELECTION, async move {
                give_back.cancelled().await;
                announcement.end();
                anyhow::Ok(())
            });
            return Ok(());
        }
        let name = election.leader_election_name.clone();
        let name = name.unwrap_or_else(|| format!("karpenter-capi-{}", self.options.clusters.cluster_name));
        let namespace = election.leader_election_namespace.clone();
        let namespace = namespace.unwrap_or_else(|| lease_namespace(&self.accesses.workload.origin));
        let candidate = Candidate::new(self.identity.to_owned(), election.timing());
        let client = self.accesses.workload.client()?;
        let election = Election::new(client, namespace, name, candidate, announcement);
        supervisor.start(ELECTION, election.run(give_back));
        Ok(())
    }
}

/// The pod's own namespace exists for certain only in the pod's own cluster.
fn lease_namespace(workload: &Origin) -> String {
    const FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
    let of_the_pod = match workload {
        Origin::Pod => std::fs::read_to_string(FILE).ok(),
        Origin::File(_) => None,
    };
    let of_the_pod = of_the_pod.map(|namespace| namespace.trim().to_owned());
    of_the_pod.filter(|namespace| !namespace.is_empty()).unwrap_or_else(|| "kube-system".to_owned())
}

/// Ends everything in order: no new work, work under way finished, the Lease given back last.
async fn end(
    supervisor: &mut Supervisor,
    reason: Reason,
    stop: &CancellationToken,
    give_back: &CancellationToken,
) -> anyhow::Result<Next> {
    let lost = leadership_lost(&reason);
    let stands_again = lost.is_some_and(LeadershipLost::may_stand_again);
    match &reason {
        Reason::Asked => tracing::info!("ending: waiting for reconciles that are under way"),
        Reason::Changed(_) => {
            tracing::info!("starting the operator anew with the kubeconfigs as they are now");
        }
        Reason::Ended(ended) if stands_again => {
            tracing::warn!("starting the operator anew because of this: {ended}");
        }
        Reason::Ended(ended) => tracing::error!("ending because of this: {ended}"),
    }
    stop.cancel();
    let patience = if lost.is_some() { FINISHING_WITHOUT_LEASE } else { FINISHING };
    let operator = supervisor.end_of(OPERATOR, patience).await;
    if supervisor.is_running(OPERATOR) {
        if lost.is_none() {
            tracing::warn!("reconciles didn't end within {patience:?}; leaving all the same");
        }
        supervisor.abort(OPERATOR, ABORTING).await;
    }
    give_back.cancel();
    let _ = supervisor.end_of(ELECTION, GIVING_BACK).await;
    supervisor.abort(ELECTION, ABORTING).await;
    let stuck = supervisor.is_running(OPERATOR) || supervisor.is_running(ELECTION);
    let failed = operator.filter(|ended| !matches!(ended.ending, Ending::Done));
    match reason {
        Reason::Ended(ended) if !stands_again => Err(anyhow!("ended: {ended}")),
        _ if stuck => Err(anyhow!("the operator doesn't end; leaving without it")),
        Reason::Ended(_) => Ok(Next::StandAgain),
        Reason::Asked | Reason::Changed(_) if failed.is_some() => {
            Err(anyhow!("{}", failed.map(|ended| ended.to_string()).unwrap_or_default()))
        }
        Reason::Changed(accesses) => Ok(Next::Changed(accesses)),
        Reason::Asked => {
            tracing::info!("ended");
            Ok(Next::End)
        }
    }
}

fn leadership_lost(reason: &Reason) -> Option<&LeadershipLost> {
    match reason {
        Reason::Ended(Ended { ending: Ending::Failed(error), .. }) => error.downcast_ref(),
        _ => None,
    }
}

fn settings(options: &Options) -> Settings {
    let behaviour = &options.behaviour;
    Settings {
        batch_idle: behaviour.batch_idle_duration,
        batch_max: behaviour.batch_max_duration,
        preference_policy: match behaviour.preference_policy {
            Preferences::Respect => PreferencePolicy::Respect,
            Preferences::Ignore => PreferencePolicy::Ignore,
        },
        min_values_policy: match behaviour.min_values_policy {
            MinValues::Strict => MinValuesPolicy::Strict,
            MinValues::BestEffort => MinValuesPolicy::BestEffort,
        },
        scheduler_config: behaviour.scheduler_config.clone(),
        cpu_requests_millicores: options.cpu_requests_millicores(),
        feature_gates: behaviour.feature_gates.clone(),
    }
}

fn state_series(options: &Options) -> StateSeries {
    if options.serving.disable_cluster_state_observability { StateSeries::Hidden } else { StateSeries::Shown }
}
