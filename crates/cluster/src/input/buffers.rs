//! The pods that stand for CapacityBuffers, among those that want a place.

use super::{InputOptions, Origin, Warnings};
use crate::buffers::resolve_in;
use crate::snapshot::Snapshot;
use karpenter_capi_lifecycle::capacity_buffer::is_served;
use karpenter_capi_model::feature_gates::Gate;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::pod::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) pods: Vec<Arc<Pod>>,
    /// By pod.
    pub(super) of_pods: BTreeMap<NamespacedName, NamespacedName>,
}

pub(super) fn read(snapshot: &Snapshot, options: &InputOptions, warnings: &mut Warnings) -> Buffers {
    let mut found = Buffers::default();
    let is_on = options.gates.is_on(Gate::CapacityBuffer);
    for (name, buffer) in snapshot.capacity_buffers.iter().filter(|(_, buffer)| is_served(buffer)) {
        let object = format!("CapacityBuffer/{name}");
        if !is_on {
            if options.origin == Origin::Files {
                warnings.add(object, "it holds no room: the feature gate CapacityBuffer is off");
            }
            continue;
        }
        let resolved = match resolve_in(snapshot, buffer) {
            Ok(resolved) => resolved,
            Err(unresolved) => {
                warnings.add(object, format!("it holds no room: {}", unresolved.message));
                continue;
            }
        };
        for pod in resolved.virtual_pods(buffer) {
            // Only a person can have made a real pod of that name; two of one name can't be told apart.
            if snapshot.pods.contains_key(&pod.name) {
                warnings.add(
                    object.clone(),
                    format!("a pod {} is there, so that no room is held for it", pod.name),
                );
                continue;
            }
            found.of_pods.insert(pod.name.clone(), name.clone());
            found.pods.push(Arc::new(pod));
        }
    }
    found
}
