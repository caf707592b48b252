use super::*;
use karpenter_capi_api::names::labels;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::reason::{ReasonCode, UnavailableReason};
use serde_json::{Value, json};

fn claim(requirements: &Value, cpu: &str) -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": {"name": "c"},
        "spec": {
            "requirements": requirements, "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
            "resources": {"requests": {"cpu": cpu}}
        }
    }))
    .unwrap()
}

fn instance_type(name: &str, cpu: i64, price: Option<i64>, unavailable: bool) -> Arc<InstanceType> {
    let of_zone = [(labels::TOPOLOGY_ZONE.to_owned(), format!("zone-of-{name}"))].into();
    let unavailable = unavailable
        .then(|| UnavailableReason { code: ReasonCode::Paused, message: format!("{name} is paused") });
    Arc::new(InstanceType {
        name: format!("default/{name}"),
        machine_deployment: Some(NamespacedName::new("default", name)),
        requirements: Requirements::from_labels(&of_zone),
        taints: vec![],
        capacity: Resources::default().with("cpu", cpu * 1000).with("pods", 110),
        overhead: Resources::default(),
        offerings: vec![Offering {
            requirements: Requirements::from_labels(&of_zone),
            price: price.map(Price),
            unavailable,
            reservation_capacity: None,
            capacity_override: None,
            overhead_override: None,
        }],
        headroom: None,
        priority: 0,
    })
}

fn chosen(claim: &NodeClaim, types: &[Arc<InstanceType>]) -> Result<String, String> {
    assign(claim, types, &BTreeSet::new()).map(|assignment| assignment.instance_type.name.clone())
}

#[test]
fn the_cheapest_that_fits_is_taken_and_an_unknown_price_comes_last() {
    let types = [
        instance_type("unpriced", 8, None, false),
        instance_type("small", 2, Some(1), false),
        instance_type("dear", 8, Some(9), false),
        instance_type("right", 8, Some(5), false),
        instance_type("paused", 8, Some(2), true),
    ];
    assert_eq!(chosen(&claim(&json!([]), "4"), &types).unwrap(), "default/right");
    assert_eq!(chosen(&claim(&json!([]), "4"), &types[..1]).unwrap(), "default/unpriced");
}

#[test]
fn requirements_of_the_claim_hold() {
    let types = [instance_type("a", 8, Some(1), false), instance_type("b", 8, Some(2), false)];
    let zone = json!([{"key": labels::TOPOLOGY_ZONE, "operator": "In", "values": ["zone-of-b"]}]);
    assert_eq!(chosen(&claim(&zone, "1"), &types).unwrap(), "default/b");
}

#[test]
fn where_nothing_serves_each_reason_is_told() {
    let types = [instance_type("small", 2, Some(1), false), instance_type("paused", 8, Some(2), true)];
    let told = chosen(&claim(&json!([]), "4"), &types).unwrap_err();
    assert!(
        told.contains("default/small: cpu") && told.contains("default/paused: paused is paused"),
        "{told}"
    );
    assert!(chosen(&claim(&json!([]), "4"), &[]).unwrap_err().contains("selects no MachineDeployment"));
}

// karpenter-provider-cluster-api: scheduling lets a MachineDeployment with a label serve that no pool mentions, and launching refuses
// it: InsufficientCapacity in a loop.
#[test]
fn custom_label_that_no_requirement_mentions_keeps_a_machine_deployment_from_nothing() {
    let mut racked = (*instance_type("a", 8, Some(1), false)).clone();
    let labels = [
        ("example.com/rack".to_owned(), "r1".to_owned()),
        ("node.cluster.x-k8s.io/karpenter-member".to_owned(), String::new()),
    ];
    racked.requirements = Requirements::from_labels(&labels.into());
    let types = [Arc::new(racked)];
    assert_eq!(chosen(&claim(&json!([]), "1"), &types).unwrap(), "default/a");
    let rack = |value: &str| json!([{"key": "example.com/rack", "operator": "In", "values": [value]}]);
    let known = ["example.com/rack".to_owned()].into();
    assert!(assign(&claim(&rack("r1"), "1"), &types, &known).is_ok());
    assert!(assign(&claim(&rack("r2"), "1"), &types, &known).is_err());
}

// karpenter-provider-cluster-api: the first by name is taken, whatever it costs.
#[test]
fn the_cheapest_is_taken_and_not_the_first_by_name() {
    let types = [instance_type("a", 8, Some(9), false), instance_type("z", 8, Some(1), false)];
    assert_eq!(chosen(&claim(&json!([]), "1"), &types).unwrap(), "default/z");
}
