use serde_json::{Value, json};

use super::cel;
use crate::crd;
use crate::node_overlay::NodeOverlay;
use crate::validation::{FieldError, refused_node_overlay, validate_node_overlay};

fn overlay(spec: &Value) -> Value {
    json!({ "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": { "name": "o" }, "spec": spec })
}

fn typed(object: &Value) -> NodeOverlay {
    serde_json::from_value(object.clone()).unwrap()
}

fn requirement(requirement: &Value) -> Value {
    json!({ "requirements": [requirement] })
}

fn errors_of(spec: &Value) -> Vec<FieldError> {
    refused_node_overlay(&typed(&overlay(spec)))
}

#[test]
fn the_rules_of_the_definition_say_what_the_validation_says() {
    let in_pool = json!({ "key": "karpenter.sh/nodepool", "operator": "In", "values": ["p"] });
    for (spec, valid) in [
        (json!({ "requirements": [] }), true),
        (requirement(&in_pool), true),
        (requirement(&json!({ "key": "a", "operator": "In" })), false),
        (requirement(&json!({ "key": "a", "operator": "NotIn" })), false),
        (requirement(&json!({ "key": "a", "operator": "NotIn", "values": ["1"] })), true),
        (requirement(&json!({ "key": "a", "operator": "Exists" })), true),
        (requirement(&json!({ "key": "a", "operator": "DoesNotExist" })), true),
        (requirement(&json!({ "key": "a", "operator": "Gte", "values": ["5"] })), true),
        (requirement(&json!({ "key": "a", "operator": "Lt", "values": ["1", "2"] })), false),
        (requirement(&json!({ "key": "a", "operator": "Gt", "values": ["many"] })), false),
        (requirement(&json!({ "key": "karpenter.sh/registered", "operator": "Exists" })), false),
        (requirement(&json!({ "key": "kubernetes.io/hostname", "operator": "Exists" })), false),
        (json!({ "requirements": [], "price": "1", "priceAdjustment": "+1" }), false),
        (json!({ "requirements": [], "capacity": { "example.com/fuse": "5" } }), true),
        (json!({ "requirements": [], "capacity": { "cpu": "1" } }), false),
        (json!({ "requirements": [], "capacity": { "pods": "1" } }), false),
    ] {
        let object = overlay(&spec);
        let refused = cel::refusals(&crd::node_overlay(), &object, None);
        assert_eq!(refused.is_empty(), valid, "the definition: {object} {refused:?}");
        let errors = errors_of(&spec);
        assert_eq!(errors.is_empty(), valid, "the validation: {object} {errors:?}");
        for message in refused.iter().filter(|message| !message.contains("evaluation")) {
            let said = errors.iter().any(|error| error.message == *message);
            assert!(said, "the definition says {message:?}, the validation {errors:?}");
        }
    }
}

#[test]
fn prices_and_changes_of_prices_have_upstreams_form() {
    let refused =
        |field: &str, text: &str| !errors_of(&json!({ "requirements": [], field: text })).is_empty();
    for right in ["0", "0.5", "13", "0.000001"] {
        assert!(!refused("price", right), "{right}");
    }
    for wrong in ["", "-1", "+1", "abc", ".5", "1.", "1e3", "10%"] {
        assert!(refused("price", wrong), "{wrong}");
    }
    for right in ["+0.5", "-0.5", "+.5", "-3", "+10%", "+250%", "-10%", "-33.3%", "-100%"] {
        assert!(!refused("priceAdjustment", right), "{right}");
    }
    for wrong in ["0.5", "10%", "-101%", "-100.5%", "+", "-%", "+ten"] {
        assert!(refused("priceAdjustment", wrong), "{wrong}");
    }
}

#[test]
fn weights_are_from_one_to_ten_thousand() {
    for (weight, valid) in [(0, false), (1, true), (10_000, true), (10_001, false)] {
        assert_eq!(errors_of(&json!({ "requirements": [], "weight": weight })).is_empty(), valid, "{weight}");
    }
}

#[test]
fn a_capacity_type_that_does_not_exist_is_refused_at_run_time_only() {
    let spec =
        requirement(&json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["cheap"] }));
    assert_eq!(errors_of(&spec), []);
    assert_eq!(validate_node_overlay(&typed(&overlay(&spec))).len(), 1);
}
