//! Good and bad objects. Every verdict is also asked of the CEL rules of the generated definitions.

mod capacity_buffer;
mod cel;
mod node_class;
mod node_overlay;
mod node_pool;

use serde_json::{Value, json};

use super::FieldError;
use crate::v1::NodePool;

/// A NodePool as small as it can be.
pub(super) fn minimal() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": { "name": "general" },
        "spec": { "template": { "spec": {
            "nodeClassRef": {
                "group": "karpenter.cluster.x-k8s.io",
                "kind": "ClusterAPINodeClass",
                "name": "default",
            },
            "requirements": [],
        } } },
    })
}

/// [`minimal`], with one field set.
pub(super) fn with(pointer: &str, value: Value) -> Value {
    let mut pool = minimal();
    set(&mut pool, pointer, value);
    pool
}

pub(super) fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for step in pointer.trim_start_matches('/').split('/') {
        place = place.as_object_mut().unwrap().entry(step.replace("~1", "/")).or_insert_with(|| json!({}));
    }
    *place = value;
}

pub(super) fn pool(value: &Value) -> NodePool {
    serde_json::from_value(value.clone()).unwrap()
}

pub(super) fn errors_of(value: &Value) -> Vec<FieldError> {
    super::validate_node_pool(&pool(value))
}

/// The only error of the NodePool.
#[track_caller]
pub(super) fn only_error(value: &Value) -> FieldError {
    let errors = errors_of(value);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors.into_iter().next().unwrap()
}
