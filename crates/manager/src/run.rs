//! From options to a running operator, and back to nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use karpenter_capi_controllers::metrics::{Metrics, StateSeries};
use karpenter_capi_controllers::{Clients, MinValuesPolicy, Operator, PreferencePolicy, Scope, Settings};
use prometheus::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Limits, Origin, Role};
use crate::election::lease::{Announcement, Election, LeadershipLost, identity};
use crate::election::{Candidate, Timing};
use crate::fence::Fence;
use crate::options::{MinValues, Options, Preferences};
use crate::preflight::{self, Subject, Unprepared, Wanted};
use crate::serve::{self, Readiness};
use crate::supervisor::{Ended, Ending, Supervisor};

/// Reconciles that are under way at the end get so long.
const FINISHING: Duration = Duration::from_secs(30);
/// The same after leadership was lost: nothing that they do is written any more.
const FINISHING_WITHOUT_LEASE: Duration = Duration::from_secs(2);
/// The Lease is given back within so long, or not at all.
const GIVING_BACK: Duration = Duration::from_secs(6);

const OPERATOR: &str = "operator";
const ELECTION: &str = "leader election";

/// Runs until a signal (then all is well), or until something ends that must not.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster = format!("{}/{}", options.clusters.cluster_namespace, options.clusters.cluster_name),
        feature_gates = %options.behaviour.feature_gates,
        "starting"
    );
    for sentence in options.without_effect() {
        tracing::warn!("{sentence}");
    }
    let registry = Registry::new();
    let readiness = Readiness::default();
    let mut supervisor = Supervisor::new();
    serve_http(options, &registry, &readiness, &mut supervisor).await?;
    let access = Accesses::load(options).await?;
    let stop = CancellationToken::new();
    let startup = prepare(options, &access, &stop);
    let scope = tokio::select! {
        scope = startup => scope,
        ended = supervisor.next_end() => return Err(anyhow!("{ended}")),
        () = signals.next() => Err(Unprepared::Stopped.into()),
    };
    let scope = match scope {
        Err(error) if matches!(error.downcast_ref(), Some(Unprepared::Stopped)) => {
            tracing::info!("{error:#}");
            return Ok(());
        }
        other => other?,
    };
    let metrics = Metrics::with_state_series(&registry, state_series(options))
        .context("metrics can't be registered")?;
    let give_back = CancellationToken::new();
    start_operator(
        options,
        &access,
        scope,
        metrics,
        &readiness,
        &mut supervisor,
        [&stop, &give_back],
    )?;
    let first = tokio::select! {
        ended = supervisor.next_end() => Some(ended),
        () = signals.next() => None,
    };
    let ending = end(&mut supervisor, first, &stop, &give_back);
    tokio::select! {
        result = ending => result,
        () = signals.next() => Err(anyhow!("asked a second time to end: left without waiting for reconciles that are under way")),
    }
}

/// Ports are taken first: a clash must not show only after minutes of waiting for something else.
async fn serve_http(
    options: &Options,
    registry: &Registry,
    readiness: &Readiness,
    supervisor: &mut Supervisor,
) -> anyhow::Result<()> {
    let serving = &options.serving;
    let health = serve::listen(
        serving.bind_address,
        serving.health_probe_port,
        "--health-probe-port, HEALTH_PROBE_PORT",
    );
    if let Some(listener) = health.await? {
        let router = serve::health(supervisor.pulse(), readiness.clone());
        supervisor.start(
            "health server",
            async move { axum::serve(listener, router).await },
        );
    }
    let metrics = serve::listen(
        serving.bind_address,
        serving.metrics_port,
        "--metrics-port, METRICS_PORT",
    );
    if let Some(listener) = metrics.await? {
        let router = serve::metrics(registry.clone());
        supervisor.start(
            "metrics server",
            async move { axum::serve(listener, router).await },
        );
    }
    Ok(())
}

struct Accesses {
    workload: Access,
    management: Access,
}

impl Accesses {
    async fn load(options: &Options) -> anyhow::Result<Self> {
        let workload = Access::load(Role::Workload, options.clusters.kubeconfig.as_deref()).await?;
        let management = match options.clusters.cluster_api_kubeconfig.as_deref() {
            Some(path) => Access::load(Role::Management, Some(path)).await?,
            None => workload.clone(),
        };
        Ok(Self { workload, management })
    }
}

async fn prepare(options: &Options, access: &Accesses, stop: &CancellationToken) -> anyhow::Result<Scope> {
    let workload = Subject::new(access.workload.clone())?;
    let management = Subject::new(access.management.clone())?;
    let namespace = &options.clusters.cluster_namespace;
    let name = &options.clusters.cluster_name;
    let wanted = Wanted { namespace, name };
    let limit = options.clusters.startup_timeout;
    let version = preflight::wait(&workload, &management, &wanted, limit, stop).await?;
    let management = access.management.as_role(Role::Management);
    tracing::info!(
        "{} and {management} are ready, Cluster API is talked in {version}",
        access.workload
    );
    Ok(Scope {
        namespace: namespace.clone(),
        cluster: name.clone(),
        version,
    })
}

fn start_operator(
    options: &Options,
    access: &Accesses,
    scope: Scope,
    metrics: Arc<Metrics>,
    readiness: &Readiness,
    supervisor: &mut Supervisor,
    [stop, give_back]: [&CancellationToken; 2],
) -> anyhow::Result<()> {
    let (until, fence) = Fence::new();
    let (leading, is_leading) = watch::channel(false);
    let announcement = Announcement { until, leading };
    let limits = Limits {
        per_second: options.clusters.kube_client_qps,
        burst: options.clusters.kube_client_burst,
    };
    let clients = Clients {
        workload: access.workload.fenced_client(limits, fence.clone())?,
        management: access.management.fenced_client(limits, fence)?,
    };
    let operator = Arc::new(Operator::new(clients, scope, settings(options), metrics));
    let (asked, ending) = (operator.clone(), stop.clone());
    readiness.ask(move || match (ending.is_cancelled(), asked.is_synced()) {
        (true, _) => Err("ending"),
        (false, false) => Err("caches are not in sync"),
        (false, true) => Ok(()),
    });
    elect(options, access, announcement, supervisor, give_back)?;
    let stop = stop.clone();
    supervisor.start(OPERATOR, async move { operator.run(is_leading, stop).await });
    Ok(())
}

fn elect(
    options: &Options,
    access: &Accesses,
    announcement: Announcement,
    supervisor: &mut Supervisor,
    give_back: &CancellationToken,
) -> anyhow::Result<()> {
    let give_back = give_back.clone();
    if options.election.disable_leader_election {
        announcement.lead_until(Fence::end_of_time());
        supervisor.start(ELECTION, async move {
            give_back.cancelled().await;
            announcement.end();
            anyhow::Ok(())
        });
        return Ok(());
    }
    let name = options.election.leader_election_name.clone();
    let name = name.unwrap_or_else(|| format!("karpenter-capi-{}", options.clusters.cluster_name));
    let namespace = options.election.leader_election_namespace.clone();
    let namespace = namespace.unwrap_or_else(|| lease_namespace(&access.workload.origin));
    let candidate = Candidate::new(identity(), Timing::DEFAULT);
    let election = Election::new(
        access.workload.client()?,
        namespace,
        name,
        candidate,
        announcement,
    );
    supervisor.start(ELECTION, election.run(give_back));
    Ok(())
}

/// The pod's own namespace exists for certain only in the pod's own cluster.
fn lease_namespace(workload: &Origin) -> String {
    const FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
    let of_the_pod = match workload {
        Origin::Pod => std::fs::read_to_string(FILE).ok(),
        Origin::File(_) => None,
    };
    let of_the_pod = of_the_pod.map(|namespace| namespace.trim().to_owned());
    of_the_pod
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or_else(|| "kube-system".to_owned())
}

/// Ends everything in order: no new work, work under way finished, the Lease given back last.
async fn end(
    supervisor: &mut Supervisor,
    first: Option<Ended>,
    stop: &CancellationToken,
    give_back: &CancellationToken,
) -> anyhow::Result<()> {
    match &first {
        None => tracing::info!("ending: waiting for reconciles that are under way"),
        Some(ended) => tracing::error!("ending because of this: {ended}"),
    }
    stop.cancel();
    let lost = first.as_ref().is_some_and(lost_leadership);
    let patience = if lost { FINISHING_WITHOUT_LEASE } else { FINISHING };
    let operator = supervisor.end_of(OPERATOR, patience).await;
    if supervisor.is_running(OPERATOR) && !lost {
        tracing::warn!("reconciles didn't end within {patience:?}; leaving all the same");
    }
    give_back.cancel();
    let _ = supervisor.end_of(ELECTION, GIVING_BACK).await;
    let failed = operator.filter(|ended| !matches!(ended.ending, Ending::Done));
    match (first, failed) {
        (Some(ended), _) => Err(anyhow!("ended: {ended}")),
        (None, Some(ended)) => Err(anyhow!("{ended}")),
        (None, None) => {
            tracing::info!("ended");
            Ok(())
        }
    }
}

fn lost_leadership(ended: &Ended) -> bool {
    matches!(&ended.ending, Ending::Failed(error) if error.is::<LeadershipLost>())
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
        cpu_requests_millicores: options.cpu_requests_millicores(),
    }
}

fn state_series(options: &Options) -> StateSeries {
    if options.serving.disable_cluster_state_observability {
        StateSeries::Hidden
    } else {
        StateSeries::Shown
    }
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("SIGTERM can't be caught")?,
            interrupt: signal(SignalKind::interrupt()).context("SIGINT can't be caught")?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
