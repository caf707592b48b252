use serde_json::{Value, json};

use crate::v1alpha1::ClusterAPINodeClass;
use crate::validation::{FieldError, validate_node_class};

fn errors_of(spec: &Value) -> Vec<FieldError> {
    let class: ClusterAPINodeClass = serde_json::from_value(json!({
        "apiVersion": "karpenter.cluster.x-k8s.io/v1alpha1",
        "kind": "ClusterAPINodeClass",
        "metadata": { "name": "default" },
        "spec": spec,
    }))
    .unwrap();
    validate_node_class(&class)
}

#[test]
fn a_full_class_is_valid() {
    let spec = json!({
        "scalableResourceSelector": {
            "matchLabels": { "example.com/team": "a" },
            "matchExpressions": [{ "key": "example.com/zone", "operator": "In", "values": ["a"] }],
        },
        "launchTimeout": "10m",
        "registrationTimeout": "1h",
        "driftPolicy": "ClusterAPI",
    });
    assert_eq!(errors_of(&spec), vec![]);
    assert_eq!(errors_of(&json!({})), vec![]);
}

#[test]
fn what_is_wrong_in_a_class_is_named() {
    for (spec, field) in [
        (json!({ "launchTimeout": "15" }), "spec.launchTimeout"),
        (json!({ "launchTimeout": "0s" }), "spec.launchTimeout"),
        (json!({ "registrationTimeout": "Never" }), "spec.registrationTimeout"),
        (json!({ "driftPolicy": "Sometimes" }), "spec.driftPolicy"),
        (
            json!({ "scalableResourceSelector": { "matchLabels": { "a b": "c" } } }),
            "spec.scalableResourceSelector.matchLabels[a b]",
        ),
        (
            json!({ "scalableResourceSelector": { "matchExpressions": [{ "key": "a", "operator": "In" }] } }),
            "spec.scalableResourceSelector.matchExpressions[0].values",
        ),
        (
            json!({ "scalableResourceSelector": { "matchExpressions": [{ "key": "a", "operator": "Gt", "values": ["1"] }] } }),
            "spec.scalableResourceSelector.matchExpressions[0].operator",
        ),
    ] {
        let fields: Vec<_> = errors_of(&spec).into_iter().map(|error| error.field).collect();
        assert_eq!(fields, [field], "{spec}");
    }
}
