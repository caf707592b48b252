//! The primitives of upstream Karpenter v1.14: what its own code answered for small inputs, recorded. Equal without exception.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that meets what it did not expect must end"
)]

use karpenter_capi_model::pod::requests::{Defaulting, effective};
use karpenter_capi_model::quantity::Rounding;
use karpenter_capi_model::requirement::{Operator, Requirement};
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::{Resources, read_amount};
use karpenter_capi_model::taint::{Taint, Toleration};
use serde_json::Value;
use std::collections::BTreeSet;

const FIXTURE: &[u8] = include_bytes!("fixtures/primitives.json.zst");

fn fixture(part: &str) -> Vec<Value> {
    let text = zstd::decode_all(FIXTURE).expect("the fixture is zstd");
    let whole: Value = serde_json::from_slice(&text).expect("the fixture is JSON");
    whole[part].as_array().expect("each part is a list").clone()
}

fn strings(value: &Value) -> Vec<String> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn min_values(value: &Value) -> Option<u32> {
    value.as_u64().map(|count| u32::try_from(count).unwrap())
}

fn requirement(value: &Value) -> Requirement {
    let operator = value["operator"].as_str().unwrap();
    Requirement::parse(value["key"].as_str().unwrap(), operator, &strings(&value["values"])).unwrap()
}

/// Everything that upstream says of a requirement.
fn assert_is(requirement: &Requirement, expected: &Value, probes: &[String]) {
    assert_eq!(requirement.to_string(), expected["string"].as_str().unwrap());
    assert_eq!(requirement.operator().as_str(), expected["operator"].as_str().unwrap());
    let has: Vec<String> = probes.iter().filter(|probe| requirement.has(probe)).cloned().collect();
    assert_eq!(has, strings(&expected["has"]), "{requirement}");
    let spec = &expected["spec"];
    assert_eq!(requirement.min_values(), min_values(&spec["minValues"]), "{requirement}");
    // Upstream writes Gte n where we write Gt n-1, and one requirement (losing the rest) where we write several.
    let operator: Operator = spec["operator"].as_str().unwrap().parse().unwrap();
    let values = strings(&spec["values"]);
    let upstream = match (operator, values.first().and_then(|value| value.parse::<i64>().ok())) {
        (Operator::Gte, Some(bound)) if bound > 0 => (Operator::Gt, vec![(bound - 1).to_string()]),
        (Operator::Lte, Some(bound)) => (Operator::Lt, vec![(bound + 1).to_string()]),
        _ => (operator, values),
    };
    let written = requirement.written();
    assert!(written.contains(&upstream), "{requirement}: {written:?} lacks {upstream:?}");
    let mut back: Vec<Requirement> = written
        .iter()
        .map(|(operator, values)| Requirement::parse(requirement.key(), operator.as_str(), values).unwrap())
        .collect();
    let first = back.remove(0).with_min_values(requirement.min_values());
    let back = back.iter().fold(first, |all, one| all.intersection(one));
    assert_eq!(back.to_string(), requirement.to_string(), "written and read again");
}

#[test]
fn requirements_are_what_upstream_says() {
    let probes = fixture("requirementProbeValues")
        .iter()
        .map(|probe| probe.as_str().unwrap().to_owned())
        .collect::<Vec<_>>();
    let cases = fixture("requirements");
    assert_eq!(cases.len(), 23);
    for case in cases {
        assert_is(&requirement(&case["in"]), &case["out"], &probes);
    }
}

#[test]
fn intersections_are_what_upstream_says() {
    let probes = fixture("requirementProbeValues")
        .iter()
        .map(|probe| probe.as_str().unwrap().to_owned())
        .collect::<Vec<_>>();
    let cases = fixture("requirementIntersections");
    assert_eq!(cases.len(), 1058);
    for case in cases {
        let a = requirement(&case["a"]).with_min_values(min_values(&case["aMinValues"]));
        let b = requirement(&case["b"]).with_min_values(min_values(&case["bMinValues"]));
        assert_eq!(a.intersects(&b), case["hasIntersection"].as_bool().unwrap(), "{a} with {b}");
        assert_is(&a.intersection(&b), &case["intersection"], &probes);
    }
}

#[test]
fn compatibility_is_what_upstream_says() {
    let cases = fixture("compatibility");
    assert_eq!(cases.len(), 1104);
    let allowed = karpenter_capi_model::label::well_known();
    for case in cases {
        let node: Requirements =
            (!case["node"].is_null()).then(|| requirement(&case["node"])).into_iter().collect();
        let pod: Requirements = [requirement(&case["pod"])].into_iter().collect();
        assert_eq!(node.intersects(&pod).is_ok(), case["intersects"], "{node} with {pod}");
        assert_eq!(node.compatible(&pod, &BTreeSet::new()).is_ok(), case["strict"], "{node} for {pod}");
        let lenient = node.compatible(&pod, &allowed).is_ok();
        assert_eq!(lenient, case["allowUndefinedWellKnown"], "{node} for {pod}, well-known keys open");
    }
}

#[test]
fn taints_are_tolerated_as_upstream_says() {
    let cases = fixture("taints");
    assert_eq!(cases.len(), 32);
    for case in cases {
        let taint = Taint::from_api(&serde_json::from_value(case["taint"].clone()).unwrap()).unwrap();
        let toleration = serde_json::from_value(case["toleration"].clone()).unwrap();
        let toleration = Toleration::from_api(&toleration).unwrap();
        assert_eq!(toleration.tolerates(&taint), case["tolerated"], "{toleration:?} with {taint}");
    }
}

#[test]
fn pod_requests_are_what_upstream_says() {
    let cases = fixture("podRequests");
    assert_eq!(cases.len(), 9);
    for case in cases {
        let mut expected = Resources::ZERO;
        for (name, amount) in case["requests"].as_object().unwrap() {
            expected.set(name, read_amount(name, amount.as_str().unwrap(), Rounding::Up).unwrap());
        }
        let mut invalid = Vec::new();
        let spec = serde_json::from_value(case["spec"].clone()).unwrap();
        assert_eq!(effective(&spec, None, Defaulting::AsWritten, &mut invalid), expected, "{}", case["spec"]);
        assert_eq!(invalid, Vec::<String>::new());
    }
}
