//! CapacityBuffers: their status. Their pods take part where the input of a pass is made.

use crate::context::Context;
use crate::queue::Outcome;
use jiff::Timestamp;
use karpenter_capi_api::names::managers;
use karpenter_capi_cluster::buffers::resolve_in;
use karpenter_capi_lifecycle::capacity_buffer::{Held, desired_status};
use karpenter_capi_model::name::NamespacedName;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A buffer is looked at this often, whatever is seen.
pub(crate) const AGAIN: Duration = Duration::from_secs(30);

/// Where the latest pass found room for each buffer. Lost with the process: the first pass finds it again.
#[derive(Debug, Default)]
pub(crate) struct BufferBook(Mutex<BTreeMap<NamespacedName, Held>>);

impl BufferBook {
    /// Takes what a pass has found, and returns the buffers for which that is news.
    pub(crate) fn take(&self, found: BTreeMap<NamespacedName, Held>) -> Vec<NamespacedName> {
        let mut known = self.0.lock();
        let changed = found.iter().filter(|(name, held)| known.get(*name) != Some(*held));
        let changed = changed.map(|(name, _)| name.clone()).collect();
        *known = found;
        changed
    }

    fn of(&self, buffer: &NamespacedName) -> Option<Held> {
        self.0.lock().get(buffer).copied()
    }
}

/// Brings one buffer's status up to date.
pub(crate) async fn reconcile(context: Arc<Context>, buffer: NamespacedName) -> Outcome {
    let snapshot = context.index.snapshot();
    let Some(object) = snapshot.capacity_buffers.get(&buffer) else {
        return Ok(None);
    };
    let resolution = resolve_in(&snapshot, object);
    let held = context.buffers.of(&buffer);
    let Some(status) = desired_status(object, resolution.as_ref(), held, Timestamp::now()) else {
        return Ok(Some(AGAIN));
    };
    let is_other_room = object.status.as_ref().is_none_or(|present| {
        present.replicas != status.replicas
            || present.pod_template_generation != status.pod_template_generation
    });
    let metadata = json!({ "uid": object.metadata.uid, "resourceVersion": object.metadata.resource_version });
    // A merge patch takes off what it names as null; the fields that a buffer no longer has must be named.
    let mut patch =
        json!({ "metadata": metadata, "status": { "podTemplateRef": null, "podTemplateGeneration": null } });
    merge(&mut patch, &json!({ "status": status }));
    let action = || format!("write the status of CapacityBuffer {buffer}");
    let api = context.capacity_buffers(&buffer.namespace);
    context.merge_status(&api, &buffer.name, managers::CAPACITYBUFFER, &patch, action).await?;
    if is_other_room {
        context.trigger.anything();
    }
    Ok(Some(AGAIN))
}

/// Writes the fields of one object over those of another.
fn merge(base: &mut serde_json::Value, patch: &serde_json::Value) {
    match (base, patch) {
        (serde_json::Value::Object(base), serde_json::Value::Object(patch)) => {
            for (key, value) in patch {
                merge(base.entry(key.as_str()).or_insert(serde_json::Value::Null), value);
            }
        }
        (base, patch) => *base = patch.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_news() {
        let name = |name: &str| NamespacedName::new("n", name);
        let held = |existing| Held { existing, ..Held::default() };
        let book = BufferBook::default();
        let news = |found: &[(&str, usize)]| {
            book.take(found.iter().map(|(buffer, existing)| (name(buffer), held(*existing))).collect())
        };
        assert_eq!(news(&[("a", 1), ("b", 1)]), [name("a"), name("b")]);
        assert_eq!(news(&[("a", 1), ("b", 2)]), [name("b")]);
        assert_eq!(news(&[("a", 1)]), []);
        assert_eq!(book.of(&name("b")), None);
    }
}
