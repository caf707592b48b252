//! The CEL rules of the generated definitions, evaluated.

use kube_cel::Validator;
use serde_json::{Value, json};

use super::{minimal, pool, set, with};
use crate::{crd, defaults, validation};

pub(super) fn refusals(
    crd: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    object: &Value,
    old: Option<&Value>,
) -> Vec<String> {
    let schema = serde_json::to_value(crd::root_schema(crd).unwrap()).unwrap();
    match Validator::new().validate(&schema, object, old) {
        Ok(()) => vec![],
        Err(errors) => errors.into_iter().map(|error| error.message).collect(),
    }
}

fn pool_refusals(object: &Value, old: Option<&Value>) -> Vec<String> {
    let defaulted = |object: &Value| {
        let mut pool = pool(object);
        defaults::node_pool(&mut pool);
        serde_json::to_value(pool).unwrap()
    };
    refusals(&crd::node_pool(), &defaulted(object), old.map(defaulted).as_ref())
}

#[test]
fn the_rules_of_the_definition_say_what_the_validation_says() {
    let requirement = |requirement: Value| with("/spec/template/spec/requirements", json!([requirement]));
    let label = |key: &str| with("/spec/template/metadata/labels", json!({ key: "x" }));
    let budget = |budget: Value| with("/spec/disruption/budgets", json!([budget]));
    let mut fixed_with_cpu = with("/spec/replicas", json!(1));
    set(&mut fixed_with_cpu, "/spec/limits", json!({ "cpu": "1" }));
    let mut fixed_with_nodes = with("/spec/replicas", json!(1));
    set(&mut fixed_with_nodes, "/spec/limits", json!({ "nodes": "1" }));
    let mut fixed_with_weight = with("/spec/replicas", json!(1));
    set(&mut fixed_with_weight, "/spec/weight", json!(1));
    for (object, valid) in [
        (minimal(), true),
        (requirement(json!({ "key": "a", "operator": "In", "values": ["1"] })), true),
        (requirement(json!({ "key": "a", "operator": "In" })), false),
        (requirement(json!({ "key": "a", "operator": "In", "values": ["1", "2"], "minValues": 2 })), true),
        (requirement(json!({ "key": "a", "operator": "In", "values": ["1"], "minValues": 2 })), false),
        (requirement(json!({ "key": "a", "operator": "NotIn", "values": ["1"], "minValues": 2 })), true),
        (requirement(json!({ "key": "a", "operator": "Exists" })), true),
        (requirement(json!({ "key": "a", "operator": "Gt", "values": ["0"] })), true),
        (requirement(json!({ "key": "a", "operator": "Gt", "values": ["many"] })), false),
        (requirement(json!({ "key": "a", "operator": "Lt", "values": ["1", "2"] })), false),
        (requirement(json!({ "key": "a", "operator": "Gte" })), false),
        (requirement(json!({ "key": "a", "operator": "Lte", "values": ["5"] })), true),
        (requirement(json!({ "key": "karpenter.sh/capacity-type", "operator": "Exists" })), true),
        (requirement(json!({ "key": "karpenter.sh/nodepool", "operator": "Exists" })), false),
        (requirement(json!({ "key": "x.karpenter.sh/y", "operator": "Exists" })), false),
        (requirement(json!({ "key": "karpenter.sh", "operator": "Exists" })), false),
        (requirement(json!({ "key": "karpenter.sh.example.com/y", "operator": "Exists" })), true),
        (requirement(json!({ "key": "kubernetes.io/hostname", "operator": "Exists" })), false),
        (label("example.com/a"), true),
        (label("karpenter.sh/capacity-type"), true),
        (label("karpenter.sh/nodepool"), false),
        (label("karpenter.sh/registered"), false),
        (label("kubernetes.io/hostname"), false),
        (budget(json!({ "nodes": "1" })), true),
        (budget(json!({ "nodes": "1", "schedule": "@daily" })), false),
        (budget(json!({ "nodes": "1", "duration": "1h" })), false),
        (budget(json!({ "nodes": "1", "schedule": "@daily", "duration": "1h" })), true),
        (fixed_with_cpu, false),
        (fixed_with_nodes, true),
        (fixed_with_weight, false),
        (with("/spec/template/spec/nodeClassRef/name", json!("")), false),
    ] {
        let refused = pool_refusals(&object, None);
        assert_eq!(refused.is_empty(), valid, "the definition: {object} {refused:?}");
        let errors = validation::validate_node_pool(&pool(&object));
        assert_eq!(errors.is_empty(), valid, "the validation: {object} {errors:?}");
        for message in refused.iter().filter(|message| !message.contains("evaluation")) {
            let said = errors.iter().any(|error| error.message == *message);
            assert!(said, "the definition says {message:?}, the validation {errors:?}");
        }
    }
}

#[test]
fn the_rules_on_changes_say_what_the_validation_says() {
    let old = minimal();
    for (new, valid) in [
        (minimal(), true),
        (with("/spec/weight", json!(5)), true),
        (with("/spec/template/spec/nodeClassRef/name", json!("other")), true),
        (with("/spec/template/spec/nodeClassRef/group", json!("example.com")), false),
        (with("/spec/template/spec/nodeClassRef/kind", json!("Other")), false),
        (with("/spec/replicas", json!(2)), false),
    ] {
        assert_eq!(pool_refusals(&new, Some(&old)).is_empty(), valid, "the definition: {new}");
        let errors = validation::validate_node_pool_update(&pool(&old), &pool(&new));
        assert_eq!(errors.is_empty(), valid, "the validation: {new}");
    }
}

#[test]
fn the_spec_of_a_claim_is_immutable_and_may_name_its_pool() {
    let claim = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": { "name": "general-1" },
        "spec": {
            "nodeClassRef": { "group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default" },
            "requirements": [{ "key": "karpenter.sh/nodepool", "operator": "In", "values": ["general"] }],
            "resources": { "requests": { "cpu": "1" } },
        },
    });
    assert_eq!(refusals(&crd::node_claim(), &claim, None), Vec::<String>::new());
    assert_eq!(validation::validate_node_claim(&serde_json::from_value(claim.clone()).unwrap()), vec![]);
    assert_eq!(refusals(&crd::node_claim(), &claim, Some(&claim)), Vec::<String>::new());

    let mut other = claim.clone();
    set(&mut other, "/spec/resources/requests/cpu", json!("2"));
    assert_eq!(refusals(&crd::node_claim(), &other, Some(&claim)), ["spec is immutable"]);
}
