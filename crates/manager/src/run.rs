//! From options to a running operator, anew where that is called for, and back to nothing.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::election::lease::identity;
use crate::metrics::ProcessMetrics;
use crate::options::Options;
use crate::reload::Accesses;
use crate::serve::{self, Exposition, Readiness};
use crate::session::{Next, Session};
use crate::supervisor::Supervisor;

/// Runs until a signal (then all is well), or until something ends that must not.
///
/// What outlives an operator is made here: ports, and the name by which this process stands for election. The operator, its clients and
/// its caches are a [`Session`], and there is one after the other: when a kubeconfig has changed, and when the API server was away for so
/// long that the Lease is lost.
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
    let exposition = Exposition::default();
    let metrics = ProcessMetrics::new(&exposition.process).context("metrics can't be registered")?;
    let readiness = Readiness::default();
    let mut supervisor = Supervisor::new();
    serve_http(options, &exposition, &readiness, &mut supervisor).await?;
    let identity = identity();
    let mut accesses = Accesses::load(&options.clusters).await?;
    // Later on somebody else's outage must not end the process: it would be started again in vain, ever more slowly.
    let mut patience = Some(options.clusters.startup_timeout);
    metrics.operator_started("start");
    loop {
        let session = Session {
            options,
            accesses: &accesses,
            identity: &identity,
            patience,
            readiness: &readiness,
            exposition: &exposition,
            metrics: &metrics,
        };
        let next = Box::pin(session.run(&mut supervisor, &mut signals)).await?;
        readiness.forget();
        match next {
            Next::End => return Ok(()),
            Next::StandAgain => metrics.operator_started("lease_lost"),
            Next::Changed(changed) => {
                metrics.operator_started("kubeconfig_changed");
                accesses = *changed;
            }
        }
        patience = None;
    }
}

/// Ports are taken first: a clash must not show only after minutes of waiting for something else.
async fn serve_http(
    options: &Options,
    exposition: &Exposition,
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
        supervisor.start("health server", async move { axum::serve(listener, router).await });
    }
    let metrics = serve::listen(serving.bind_address, serving.metrics_port, "--metrics-port, METRICS_PORT");
    if let Some(listener) = metrics.await? {
        let router = serve::metrics(exposition.clone());
        supervisor.start("metrics server", async move { axum::serve(listener, router).await });
    }
    Ok(())
}

/// SIGTERM and SIGINT.
pub(crate) struct Signals {
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

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
