//! CapacityBuffers: for how many pods of which kind room is held, and the pods that stand for them while nodes are planned.

mod status;

pub use status::{Held, desired_status};

use k8s_openapi::api::core::v1::{LimitRange, Pod, PodSpec, PodTemplate, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::capacity_buffer::{ACTIVE_CAPACITY, CapacityBuffer, CapacityBufferSpec, ScalableRef};
use karpenter_capi_model::pod::{self, Pod as ModelPod};
use karpenter_capi_model::quantity::Rounding;
use karpenter_capi_model::resources::{ResourceList, Resources};

/// Group of the kinds that have replicas.
const APPS: &str = "apps";
/// Kinds that `scalableRef` may name.
pub const SCALABLE_KINDS: [&str; 3] = ["Deployment", "ReplicaSet", "StatefulSet"];
/// The priority of pods that stand for a buffer: everybody may take their place.
const PRIORITY: i32 = i32::MIN;

/// Room is held for at most so many pods by one buffer: each takes part in every pass, and a slip of the finger must not end those.
const MOST_PODS: i32 = 10_000;

/// Something with replicas.
#[derive(Clone, Copy, Debug)]
pub struct Scalable<'a> {
    /// What its pods are like.
    pub template: &'a PodTemplateSpec,
    /// `spec.replicas`, or the 1 that holds without it.
    pub replicas: i32,
}

/// What a buffer refers to, as far as it is there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Referred<'a> {
    /// The PodTemplate that `podTemplateRef` names.
    pub pod_template: Option<&'a PodTemplate>,
    /// What `scalableRef` names.
    pub scalable: Option<Scalable<'a>>,
}

/// A buffer that is understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// For how many pods room is held.
    pub replicas: i32,
    /// Name and generation of the PodTemplate, where it is one.
    pub pod_template: Option<(String, Option<i64>)>,
    /// What a pod of the buffer is like; its name is the first one's.
    shape: Pod,
}

/// A buffer that isn't.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// Reason of `ReadyForProvisioning`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// Whether the buffer is to be served here; another strategy is another autoscaler's.
pub fn is_served(buffer: &CapacityBuffer) -> bool {
    buffer.spec.effective_strategy() == ACTIVE_CAPACITY && buffer.metadata.deletion_timestamp.is_none()
}

/// Works out for how many pods of which kind room is held. `limit_ranges` are those of the buffer's namespace, whose defaults real
/// pods would get.
pub fn resolve(
    buffer: &CapacityBuffer,
    referred: Referred<'_>,
    limit_ranges: &[&LimitRange],
) -> Result<Resolved, Unresolved> {
    let spec = &buffer.spec;
    let (template, pod_template, of_scalable) = match (&spec.pod_template_ref, &spec.scalable_ref) {
        (Some(reference), _) => {
            let found = referred.pod_template.ok_or_else(|| Unresolved {
                reason: "PodTemplateNotFound",
                message: format!("there is no PodTemplate {:?} in this namespace", reference.name),
            })?;
            let seen = (reference.name.clone(), found.metadata.generation);
            (found.template.clone().unwrap_or_default(), Some(seen), None)
        }
        (None, Some(reference)) => {
            let found = scalable(reference, referred)?;
            (found.template.clone(), None, Some(found.replicas))
        }
        (None, None) => return Err(failed("neither podTemplateRef nor scalableRef is set".to_owned())),
    };
    let shape = shape(buffer, template, limit_ranges);
    let model = pod::from_api(&shape);
    if let Some(problem) = model.invalid.first() {
        return Err(failed(format!("its pods can't be read: {problem}")));
    }
    let replicas = replicas(spec, &model.requests, of_scalable)?;
    Ok(Resolved { replicas, pod_template, shape })
}

fn failed(message: String) -> Unresolved {
    Unresolved { reason: "ResolutionFailed", message }
}

fn scalable<'a>(reference: &ScalableRef, referred: Referred<'a>) -> Result<Scalable<'a>, Unresolved> {
    if !reference.api_group.is_empty() && reference.api_group != APPS {
        return Err(failed(format!(
            "scalableRef.apiGroup {:?} isn't supported; use {APPS}",
            reference.api_group
        )));
    }
    if !SCALABLE_KINDS.contains(&reference.kind.as_str()) {
        let known = SCALABLE_KINDS.join(", ");
        return Err(failed(format!("scalableRef.kind {:?} isn't supported; use {known}", reference.kind)));
    }
    referred.scalable.ok_or_else(|| Unresolved {
        reason: "ScalableRefNotFound",
        message: format!("there is no {} {:?} in this namespace", reference.kind, reference.name),
    })
}

/// The greater of `replicas` and the percentage, as far as the limits go; without either, as many as fit into the limits.
fn replicas(
    spec: &CapacityBufferSpec,
    requests: &Resources,
    of_scalable: Option<i32>,
) -> Result<i32, Unresolved> {
    let by_percentage = of_scalable.filter(|replicas| *replicas > 0).zip(spec.percentage).map(share);
    let wanted = spec.replicas.max(by_percentage);
    let limits = spec.limits.clone().unwrap_or_default();
    let limits = ResourceList::from_quantities(&limits, Rounding::Down)
        .map_err(|error| failed(format!("spec.limits: {error}")))?;
    let within = limits
        .iter()
        .map(|(resource, limit)| (limit, requests.get(resource)))
        .filter(|(_, request)| *request > 0)
        .map(|(limit, request)| i32::try_from(limit.max(0) / request).unwrap_or(i32::MAX))
        .min();
    let count = match (wanted, within) {
        (Some(wanted), Some(within)) => wanted.min(within),
        (Some(count), None) | (None, Some(count)) => count,
        (None, None) => 0,
    };
    Ok(count.min(MOST_PODS))
}

/// So many percent of the replicas, rounded up.
fn share((replicas, percentage): (i32, i32)) -> i32 {
    let product = i64::from(replicas.max(0)).unsigned_abs() * i64::from(percentage.max(0)).unsigned_abs();
    i32::try_from(product.div_ceil(100)).unwrap_or(i32::MAX)
}

/// A pod of the template, without what can't be known before it is there: a node, and claims of volumes, which would never come.
fn shape(buffer: &CapacityBuffer, template: PodTemplateSpec, limit_ranges: &[&LimitRange]) -> Pod {
    let mut spec = template.spec.unwrap_or_default();
    spec.node_name = None;
    spec.priority = Some(PRIORITY);
    spec.scheduling_gates = None;
    without_claims(&mut spec);
    pod::apply_limit_ranges(&mut spec, limit_ranges.iter().copied());
    Pod {
        metadata: ObjectMeta {
            name: buffer.metadata.name.clone(),
            namespace: buffer.metadata.namespace.clone(),
            labels: template.metadata.and_then(|metadata| metadata.labels),
            creation_timestamp: buffer.metadata.creation_timestamp.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

fn without_claims(spec: &mut PodSpec) {
    if let Some(volumes) = &mut spec.volumes {
        volumes.retain(|volume| volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none());
    }
}

impl Resolved {
    /// The pods that stand for the buffer: `capacity-buffer-<buffer>-<number from 1>`. Names and UIDs are the same every time, so
    /// that a later pass finds the places that an earlier one chose.
    pub fn virtual_pods(&self, buffer: &CapacityBuffer) -> Vec<ModelPod> {
        let name = buffer.metadata.name.as_deref().unwrap_or_default();
        let uid = buffer.metadata.uid.as_deref().filter(|uid| !uid.is_empty());
        let model = pod::from_api(&self.shape);
        (1..=self.replicas)
            .map(|number| {
                let mut one = model.clone();
                one.name.name = format!("capacity-buffer-{name}-{number}");
                one.uid = uid.map_or_else(|| one.name.to_string(), |uid| format!("{uid}-{number}"));
                one
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
