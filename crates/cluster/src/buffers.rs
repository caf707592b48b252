//! CapacityBuffers: what they refer to, and where a plan has room for their pods.

use crate::input::ProvisioningInput;
use crate::snapshot::Snapshot;
use k8s_openapi::api::core::v1::LimitRange;
use karpenter_capi_api::capacity_buffer::CapacityBuffer;
use karpenter_capi_lifecycle::capacity_buffer::{Held, Referred, Resolved, Scalable, Unresolved, resolve};
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_scheduling::plan::Plan;
use std::collections::BTreeMap;
use std::sync::Arc;

/// For how many pods of which kind a buffer holds room, from the picture.
pub fn resolve_in(snapshot: &Snapshot, buffer: &CapacityBuffer) -> Result<Resolved, Unresolved> {
    let namespace = buffer.metadata.namespace.as_deref().unwrap_or_default();
    let ranges = snapshot.limit_ranges.iter().filter(|(name, _)| name.namespace == namespace);
    let ranges: Vec<&LimitRange> = ranges.map(|(_, range)| range.as_ref()).collect();
    resolve(buffer, referred(snapshot, buffer, namespace), &ranges)
}

fn referred<'a>(snapshot: &'a Snapshot, buffer: &CapacityBuffer, namespace: &str) -> Referred<'a> {
    let spec = &buffer.spec;
    let key = |name: &str| NamespacedName::new(namespace, name);
    let pod_template = spec
        .pod_template_ref
        .as_ref()
        .and_then(|reference| snapshot.pod_templates.get(&key(&reference.name)));
    let scalable = spec.scalable_ref.as_ref().and_then(|reference| {
        let key = key(&reference.name);
        match reference.kind.as_str() {
            "Deployment" => {
                let spec = snapshot.deployments.get(&key)?.spec.as_ref()?;
                Some(Scalable { template: &spec.template, replicas: spec.replicas.unwrap_or(1) })
            }
            "StatefulSet" => {
                let spec = snapshot.stateful_sets.get(&key)?.spec.as_ref()?;
                Some(Scalable { template: &spec.template, replicas: spec.replicas.unwrap_or(1) })
            }
            "ReplicaSet" => {
                let spec = snapshot.replica_sets.get(&key)?.spec.as_ref()?;
                Some(Scalable { template: spec.template.as_ref()?, replicas: spec.replicas.unwrap_or(1) })
            }
            _ => None,
        }
    });
    Referred { pod_template: pod_template.map(Arc::as_ref), scalable }
}

/// Where a plan has room for the pods of each buffer; buffers without pods aren't among them.
pub fn held(made: &ProvisioningInput, plan: &Plan) -> BTreeMap<NamespacedName, Held> {
    let mut all: BTreeMap<NamespacedName, Held> = BTreeMap::new();
    let mut count = |pod: &NamespacedName, add: &dyn Fn(&mut Held)| {
        if let Some(buffer) = made.buffer_of(pod) {
            add(all.entry(buffer.clone()).or_default());
        }
    };
    for pod in plan.placements.iter().flat_map(|placement| &placement.pods) {
        count(pod, &|held| held.existing += 1);
    }
    for pod in plan.node_claims.iter().flat_map(|claim| &claim.pods) {
        count(pod, &|held| held.on_new += 1);
    }
    for pending in &plan.pending {
        let limited = pending.reasons.iter().any(|reason| reason.code == ReasonCode::Limits);
        count(&pending.pod, &|held| {
            held.failed += 1;
            held.limited += usize::from(limited);
        });
    }
    all
}
