use serde_json::{Value, json};

use super::cel;
use crate::capacity_buffer::CapacityBuffer;
use crate::validation::refused_capacity_buffer;
use crate::{crd, defaults};

fn buffer(spec: &Value) -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": { "name": "b", "namespace": "n" }, "spec": spec,
    })
}

#[test]
fn the_rules_of_the_definition_say_what_the_validation_says() {
    let template = json!({ "name": "t" });
    let scalable = json!({ "kind": "Deployment", "name": "d" });
    for (spec, valid) in [
        (json!({}), true),
        (json!({ "podTemplateRef": template, "replicas": 1 }), true),
        (json!({ "podTemplateRef": template, "limits": { "cpu": "1" } }), true),
        (json!({ "podTemplateRef": template }), false),
        (json!({ "podTemplateRef": template, "percentage": 10 }), false),
        (json!({ "scalableRef": scalable, "percentage": 10 }), true),
        (json!({ "scalableRef": scalable }), true),
        (json!({ "podTemplateRef": template, "scalableRef": scalable, "replicas": 1 }), false),
    ] {
        let object = buffer(&spec);
        let refused = cel::refusals(&crd::capacity_buffer(), &object, None);
        assert_eq!(refused.is_empty(), valid, "the definition: {object} {refused:?}");
        let errors = refused_capacity_buffer(&serde_json::from_value(object.clone()).unwrap());
        assert_eq!(errors.is_empty(), valid, "the validation: {object} {errors:?}");
        for message in refused {
            assert!(errors.iter().any(|error| error.message == message), "{message:?} isn't in {errors:?}");
        }
    }
}

#[test]
fn the_schema_refuses_negative_numbers_and_empty_names() {
    for spec in [
        json!({ "scalableRef": { "kind": "Deployment", "name": "d" }, "replicas": -1 }),
        json!({ "scalableRef": { "kind": "Deployment", "name": "d" }, "percentage": -1 }),
        json!({ "scalableRef": { "kind": "Deployment", "name": "" } }),
        json!({ "podTemplateRef": { "name": "" }, "replicas": 1 }),
        json!({ "scalableRef": { "kind": "Deployment", "name": "d" }, "limits": { "cpu": "many" } }),
    ] {
        assert_eq!(
            refused_capacity_buffer(&serde_json::from_value(buffer(&spec)).unwrap()).len(),
            1,
            "{spec}"
        );
    }
}

#[test]
fn a_buffer_gets_the_strategy_that_its_definition_fills_in() {
    let mut typed: CapacityBuffer = serde_json::from_value(buffer(&json!({}))).unwrap();
    defaults::capacity_buffer(&mut typed);
    let definition = serde_json::to_value(crd::root_schema(&crd::capacity_buffer()).unwrap()).unwrap();
    let filled_in = definition.pointer("/properties/spec/properties/provisioningStrategy/default").unwrap();
    assert_eq!(typed.spec.provisioning_strategy.as_deref(), filled_in.as_str());
}
