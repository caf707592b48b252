//! What is told of MachineDeployments; all names are ours.

use prometheus::{Error, Gauge, GaugeVec};

use super::register::{Register, count, forget};
use super::{Metrics, has};

const OBJECT: [&str; 2] = ["namespace", "machine_deployment"];

pub(super) struct MachineDeploymentSeries {
    replicas: GaugeVec,
    claims: GaugeVec,
    unavailable: GaugeVec,
    foreign: Gauge,
}

impl MachineDeploymentSeries {
    pub(super) fn new(register: Register<'_>) -> Result<Self, Error> {
        Ok(Self {
            replicas: register.gauges(
                "karpenter_capi_machine_deployment_replicas",
                "spec.replicas of a MachineDeployment that Karpenter may scale.",
                &OBJECT,
            )?,
            claims: register.gauges(
                "karpenter_capi_machine_deployment_claims",
                "Number of NodeClaims that are counted in the replicas of a MachineDeployment.",
                &OBJECT,
            )?,
            unavailable: register.gauges(
                "karpenter_capi_machine_deployment_unavailable",
                "1 while no further Machine can be asked of a MachineDeployment, labeled by the reason.",
                &["namespace", "machine_deployment", "reason"],
            )?,
            foreign: register.gauge(
                "karpenter_capi_workload_cluster_foreign",
                "1 while the workload cluster is not the one that the Machines belong to, and nothing is written.",
            )?,
        })
    }
}

impl Metrics {
    /// What a MachineDeployment has: `spec.replicas`, and how many of them are claims.
    pub fn machine_deployment(&self, namespace: &str, name: &str, replicas: impl Into<f64>, claims: usize) {
        let series = &self.machine_deployments;
        let object = [namespace, name];
        series.replicas.with_label_values(&object).set(replicas.into());
        series.claims.with_label_values(&object).set(count(claims));
    }

    /// Why a MachineDeployment gives no further Machine, in one word; `None` if it does.
    pub fn machine_deployment_unavailable(&self, namespace: &str, name: &str, reason: Option<&str>) {
        let family = &self.machine_deployments.unavailable;
        forget(family, |series| {
            has(series, "namespace", namespace)
                && has(series, "machine_deployment", name)
                && !reason.is_some_and(|reason| has(series, "reason", reason))
        });
        if let Some(reason) = reason {
            family.with_label_values(&[namespace, name, reason]).set(1.0);
        }
    }

    /// Whether the workload cluster is another one than the recorded.
    pub fn workload_cluster_foreign(&self, foreign: bool) {
        self.machine_deployments.foreign.set(f64::from(u8::from(foreign)));
    }

    /// Ends the series of a MachineDeployment that is gone or no longer ours.
    pub fn forget_machine_deployment(&self, namespace: &str, name: &str) {
        let MachineDeploymentSeries { replicas, claims, unavailable, foreign: _ } = &self.machine_deployments;
        for family in [replicas, claims, unavailable] {
            forget(family, |series| {
                has(series, "namespace", namespace) && has(series, "machine_deployment", name)
            });
        }
    }
}
