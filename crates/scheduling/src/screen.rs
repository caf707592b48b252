//! Pods that can't be judged at all, whatever the cluster has.

use crate::input::{Input, VolumeClaim};
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::reason::ReasonCode;

/// Decides which pods can be judged.
pub(crate) struct Screen<'a> {
    input: &'a Input,
}

impl<'a> Screen<'a> {
    pub(crate) const fn new(input: &'a Input) -> Self {
        Self { input }
    }

    /// Why the pod isn't judged; None where it is.
    pub(crate) fn refuse(&self, pod: &Pod) -> Option<(ReasonCode, String)> {
        if let Some(problem) = pod.invalid.first() {
            return Some((ReasonCode::Invalid, problem.clone()));
        }
        if pod.needs_dynamic_resources {
            let message = "spec.resourceClaims: dynamic resources aren't simulated".to_owned();
            return Some((ReasonCode::DynamicResources, message));
        }
        if pod.gated {
            let message = "spec.schedulingGates: nobody may place it yet".to_owned();
            return Some((ReasonCode::NotEvaluated, message));
        }
        pod.volume_claims.iter().find_map(|name| match self.input.volumes.claims.get(name) {
            Some(VolumeClaim::Usable { .. }) => None,
            Some(VolumeClaim::Unusable(why)) => Some((ReasonCode::VolumeMissing, why.clone())),
            None => Some((ReasonCode::VolumeMissing, format!("PersistentVolumeClaim {name} not found"))),
        })
    }
}
