//! Metrics of the process, which outlive an operator that is started anew.

use karpenter_capi_access::Role;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

const REASONS: [&str; 3] = ["start", "kubeconfig_changed", "lease_lost"];

pub(crate) struct ProcessMetrics {
    starts: IntCounterVec,
    unusable: IntGaugeVec,
}

impl ProcessMetrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let starts = Opts::new(
            "karpenter_capi_operator_starts_total",
            "Number of times that the operator was started in this process, by reason.",
        );
        let unusable = Opts::new(
            "karpenter_capi_kubeconfig_unusable",
            "1 while a kubeconfig has changed to something that can't be used, so that the old one is kept, else 0.",
        );
        let metrics = Self {
            starts: IntCounterVec::new(starts, &["reason"])?,
            unusable: IntGaugeVec::new(unusable, &["cluster"])?,
        };
        registry.register(Box::new(metrics.starts.clone()))?;
        registry.register(Box::new(metrics.unusable.clone()))?;
        for reason in REASONS {
            metrics.starts.with_label_values(&[reason]);
        }
        for role in [Role::Workload, Role::Management] {
            metrics.kubeconfig_unusable(role, false);
        }
        Ok(metrics)
    }

    /// One of [`REASONS`].
    pub(crate) fn operator_started(&self, reason: &str) {
        self.starts.with_label_values(&[reason]).inc();
    }

    pub(crate) fn kubeconfig_unusable(&self, role: Role, unusable: bool) {
        let cluster = match role {
            Role::Workload => "workload",
            Role::Management => "management",
        };
        self.unusable.with_label_values(&[cluster]).set(unusable.into());
    }
}
