//! What is told to Prometheus.
//!
//! Names, labels and buckets are upstream Karpenter's wherever the meaning is the same, so that dashboards and alerts carry over;
//! our own start with `karpenter_capi_`. Callers hand over objects and plain facts, never label values in an order. Series of
//! an object end with it: the number of series follows the objects that exist, not the ones that ever did.

mod machine_deployments;
mod objects;
mod pools;
mod register;
mod running;
mod scheduling;

use std::sync::Arc;

use prometheus::Registry;

pub use scheduling::SchedulingRun;

use machine_deployments::MachineDeploymentSeries;
use objects::ObjectSeries;
use pools::PoolSeries;
use register::{Register, has};
use running::RunningSeries;
use scheduling::SchedulingSeries;

/// Whether gauges that mirror the state of objects are shown: `--disable-cluster-state-observability`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateSeries {
    /// They are shown.
    Shown,
    /// They are kept but not shown: a scrape gets smaller by several series for each NodePool and MachineDeployment.
    Hidden,
}

/// All metrics of the operator.
pub struct Metrics {
    machine_deployments: MachineDeploymentSeries,
    objects: ObjectSeries,
    pools: PoolSeries,
    running: RunningSeries,
    scheduling: SchedulingSeries,
}

impl Metrics {
    /// Makes the metrics and registers them. Fails if `registry` has one of the names already.
    pub fn new(registry: &Registry) -> Result<Arc<Self>, prometheus::Error> {
        Self::with_state_series(registry, StateSeries::Shown)
    }

    /// As [`Metrics::new`]; `state` says whether gauges that mirror objects are registered too.
    pub fn with_state_series(
        registry: &Registry,
        state: StateSeries,
    ) -> Result<Arc<Self>, prometheus::Error> {
        let register = Register::new(registry);
        let of_state = match state {
            StateSeries::Shown => register,
            StateSeries::Hidden => Register::unregistered(),
        };
        build_info(register)?;
        Ok(Arc::new(Self {
            machine_deployments: MachineDeploymentSeries::new(of_state)?,
            objects: ObjectSeries::new(register)?,
            pools: PoolSeries::new(of_state)?,
            running: RunningSeries::new(register)?,
            scheduling: SchedulingSeries::new(register)?,
        }))
    }

    /// Ends every series that names the NodePool, since it is gone.
    pub fn forget_node_pool(&self, node_pool: &str) {
        self.pools.forget(node_pool);
        self.objects.forget_node_pool(node_pool);
    }
}

/// The label names are upstream's. There is no Go in this program, so `goversion` has an empty value.
fn build_info(register: Register<'_>) -> Result<(), prometheus::Error> {
    let info = register.gauges(
        "karpenter_build_info",
        "A metric with a constant '1' value labeled by version and commit of the program.",
        &["version", "goversion", "goarch", "commit"],
    )?;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    };
    let commit = option_env!("KARPENTER_CAPI_COMMIT").unwrap_or("unknown");
    info.with_label_values(&[env!("CARGO_PKG_VERSION"), "", architecture, commit]).set(1.0);
    Ok(())
}

#[cfg(test)]
mod tests;
