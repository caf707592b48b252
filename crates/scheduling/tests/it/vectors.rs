//! Recorded decisions of upstream Karpenter v1.14 for whole clusters. Here stand those whose pods need nothing that this
//! version doesn't evaluate.

use crate::support::{solved, world};
use karpenter_capi_model::instance_type::{InstanceType, Offering};
use karpenter_capi_model::node::{self, Node, Sources};
use karpenter_capi_model::node_pool::{self, NodePoolState};
use karpenter_capi_model::pod::{self, Pod};
use karpenter_capi_model::price::Price;
use karpenter_capi_model::quantity::Rounding;
use karpenter_capi_model::reason::{ReasonCode, UnavailableReason};
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::{ResourceList, Resources, read_amount};
use karpenter_capi_scheduling::input::{Input, MinValuesPolicy, PreferencePolicy, ReservedOfferingMode};
use karpenter_capi_scheduling::plan::PlannedNodeClaim;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const FIXTURE: &[u8] = include_bytes!("../fixtures/solve.json.zst");

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn strings(value: &Value) -> Vec<String> {
    list(value).iter().map(|item| text(item).to_owned()).collect()
}

fn requirements(value: &Value) -> Requirements {
    list(value)
        .iter()
        .map(|one| {
            Requirement::parse(text(&one["key"]), text(&one["operator"]), &strings(&one["values"])).unwrap()
        })
        .collect()
}

fn amounts(value: &Value) -> Resources {
    let pairs = value.as_object().into_iter().flatten();
    pairs.fold(Resources::ZERO, |all, (name, amount)| {
        all.with(name, read_amount(name, text(amount), Rounding::Down).unwrap())
    })
}

fn replacement(value: &Value) -> Option<ResourceList> {
    let pairs = value.as_object()?;
    Some(ResourceList(
        pairs
            .iter()
            .map(|(name, amount)| (Arc::from(name.as_str()), amounts(&json!({name: amount})).get(name)))
            .collect(),
    ))
}

fn offering(value: &Value) -> Offering {
    let available = value["available"].as_bool().unwrap_or(true);
    Offering {
        requirements: requirements(&value["requirements"]),
        price: Price::from_f64(value["price"].as_f64().unwrap()),
        unavailable: (!available)
            .then(|| UnavailableReason::new(ReasonCode::OutOfCapacity, "unavailable in the document")),
        reservation_capacity: value["reservationCapacity"].as_i64(),
        capacity_override: replacement(&value["capacityOverride"]),
        overhead_override: replacement(&value["overheadOverride"]),
    }
}

fn instance_type(value: &Value) -> InstanceType {
    let parts = ["kubeReserved", "systemReserved", "evictionThreshold"];
    InstanceType {
        name: text(&value["name"]).to_owned(),
        machine_deployment: None,
        requirements: requirements(&value["requirements"]),
        taints: Vec::new(),
        capacity: amounts(&value["capacity"]),
        overhead: parts
            .iter()
            .fold(Resources::ZERO, |sum, part| sum.plus(&amounts(&value["overhead"][part]))),
        offerings: list(&value["offerings"]).iter().map(offering).collect(),
        headroom: None,
        priority: 0,
    }
}

fn pods(value: &Value) -> Vec<Arc<Pod>> {
    list(value)
        .iter()
        .map(|one| Arc::new(pod::from_api(&serde_json::from_value(one.clone()).unwrap())))
        .collect()
}

fn views(document: &Value) -> Vec<Node> {
    let id = |claim: &Value| text(&claim["status"]["providerID"]).to_owned();
    let mut claims: BTreeMap<String, &Value> =
        list(&document["nodeClaims"]).iter().map(|one| (id(one), one)).collect();
    let mut views = Vec::new();
    for object in list(&document["nodes"]) {
        let claim = claims.remove(text(&object["spec"]["providerID"]));
        views.push(view(Some(object), claim));
    }
    views.extend(claims.into_values().map(|claim| view(None, Some(claim))));
    views
}

fn view(object: Option<&Value>, claim: Option<&Value>) -> Node {
    let object = object.map(|one| serde_json::from_value(one.clone()).unwrap());
    let claim = claim.map(|one| serde_json::from_value(one.clone()).unwrap());
    let (view, problems) =
        node::from_api(Sources { node: object.as_ref(), claim: claim.as_ref(), ..Sources::default() });
    assert_eq!(problems, Vec::<String>::new());
    view
}

fn input(document: &Value) -> Input {
    let mut input = world().0;
    let options = &document["options"];
    if text(&options["preferencePolicy"]) == "Ignore" {
        input.options.preference_policy = PreferencePolicy::Ignore;
    }
    if text(&options["minValuesPolicy"]) == "BestEffort" {
        input.options.min_values_policy = MinValuesPolicy::BestEffort;
    }
    if text(&options["reservedOfferingMode"]) == "Fallback" {
        input.options.reserved_offering_mode = ReservedOfferingMode::Fallback;
    }
    input.now = text(&document["now"]).parse().unwrap();
    input.well_known_labels = strings(&document["wellKnownLabels"]).into_iter().collect();
    input.pods = pods(&document["pods"]);
    input.daemon_pods = pods(&document["daemonSetPods"]);
    input.nodes = views(document);
    for bound in pods(&document["boundPods"]) {
        input.bound_pods.entry(bound.node_name.clone().unwrap()).or_default().push(bound);
    }
    for manifest in list(&document["nodePools"]) {
        let name = text(&manifest["metadata"]["name"]);
        let types = &document["instanceTypes"];
        let types = if types[name].is_null() { &types["*"] } else { &types[name] };
        input
            .instance_types
            .insert(name.to_owned(), list(types).iter().map(|one| Arc::new(instance_type(one))).collect());
        let own: Vec<&Node> =
            input.nodes.iter().filter(|node| node.node_pool.as_deref() == Some(name)).collect();
        let state = NodePoolState {
            not_ready: None,
            usage: own.iter().fold(Resources::ZERO, |sum, node| sum.plus(&node.capacity)),
            node_count: i64::try_from(own.len()).unwrap(),
            now: input.now,
        };
        input.node_pools.push(node_pool::from_api(&serde_json::from_value(manifest.clone()).unwrap(), state));
    }
    input
}

/// A claim in the words of the recorded answers.
fn told(claim: &PlannedNodeClaim) -> Value {
    let mut pods: Vec<String> = claim.pods.iter().map(ToString::to_string).collect();
    pods.sort();
    let types: Vec<&str> = claim.options.iter().map(|option| option.instance_type.name.as_str()).collect();
    json!({
        "nodePool": claim.node_pool,
        "pods": pods,
        "requirements": claim.requirements.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "instanceTypes": types,
        "requests": claim.requests.iter().collect::<BTreeMap<_, _>>(),
    })
}

fn recorded(claim: &Value) -> Value {
    json!({
        "nodePool": claim["nodePool"], "pods": claim["pods"], "requirements": claim["requirements"],
        "instanceTypes": claim["instanceTypes"],
        "requests": amounts(&claim["requests"]).iter().collect::<BTreeMap<_, _>>(),
    })
}

#[test]
fn recorded_clusters_are_decided_as_upstream_does() {
    let documents: Value = serde_json::from_slice(&zstd::decode_all(FIXTURE).unwrap()).unwrap();
    assert_eq!(list(&documents).len(), 1);
    for document in list(&documents) {
        let input = input(&document["in"]);
        let plan = solved(&input);
        let by_pods = |mut claims: Vec<Value>| {
            claims.sort_by_key(|claim| claim["pods"].to_string());
            claims
        };
        let ours = by_pods(plan.node_claims.iter().map(told).collect());
        let theirs = by_pods(list(&document["out"]["nodeClaims"]).iter().map(recorded).collect());
        assert_eq!(ours, theirs, "{}", document["name"]);
        let mut placements = serde_json::Map::new();
        for placement in &plan.placements {
            let mut pods: Vec<String> = placement.pods.iter().map(ToString::to_string).collect();
            pods.sort();
            placements.insert(placement.node.clone(), json!(pods));
        }
        assert_eq!(Value::Object(placements), document["out"]["existingNodes"], "{}", document["name"]);
        assert_eq!(json!(plan.pending.len()), document["out"]["podErrorCount"], "{}", document["name"]);
    }
}
