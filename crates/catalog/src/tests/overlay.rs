use super::*;
use crate::{Applied, Choice, Overlaid, Verdict, overlay};
use karpenter_capi_api::node_overlay::NodeOverlay;
use karpenter_capi_model::instance_type::InstanceType;
use std::collections::BTreeMap;

fn named(name: &str, spec: &Value) -> NodeOverlay {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec
    }))
    .unwrap()
}

/// Pools `p` (label `team: blue`) and `q`, each with `a` at 0.2 in zone z1 and `b` of unknown price in zone z2.
fn choices() -> BTreeMap<String, Choice> {
    let types = [
        entry(&with_own("a", &[("price", "0.2"), ("zone", "z1")])).instance_type,
        entry(&with_own("b", &[("zone", "z2")])).instance_type,
    ];
    ["p", "q"]
        .map(|pool| {
            let mut labels = BTreeMap::from([("karpenter.sh/nodepool".to_owned(), pool.to_owned())]);
            if pool == "p" {
                labels.insert("team".to_owned(), "blue".to_owned());
            }
            (pool.to_owned(), Choice { labels, instance_types: types.to_vec() })
        })
        .into()
}

fn overlaid(overlays: &[NodeOverlay]) -> Overlaid {
    overlay(overlays, choices())
}

/// As the pool sees it, whether an overlay says something of it or not.
fn seen<'a>(overlaid: &'a Overlaid, pool: &str, name: &str) -> &'a InstanceType {
    let types = overlaid.choices[pool].instance_types.iter();
    types.into_iter().find(|found| found.name == format!("default/{name}")).unwrap()
}

fn price(overlaid: &Overlaid, pool: &str, name: &str) -> String {
    let found = seen(overlaid, pool, name);
    found.offerings[0].price.map_or_else(|| "unknown".to_owned(), |price| price.to_string())
}

fn fuse(overlaid: &Overlaid, pool: &str, name: &str) -> i64 {
    seen(overlaid, pool, name).capacity.get("example.com/fuse")
}

fn verdicts(overlaid: &Overlaid) -> Vec<(&str, &'static str)> {
    let short = |verdict: &Verdict| match verdict {
        Verdict::Valid => "valid",
        Verdict::Invalid(_) => "invalid",
        Verdict::Conflict(_) => "conflict",
    };
    overlaid.verdicts.iter().map(|(name, verdict)| (name.as_str(), short(verdict))).collect()
}

#[test]
fn an_overlay_counts_where_its_requirements_are_met() {
    for (requirements, expected) in [
        (json!([]), ["1", "1", "1", "1"]),
        (
            json!([{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["q"]}]),
            ["0.2", "unknown", "1", "1"],
        ),
        (json!([{"key": "team", "operator": "Exists"}]), ["1", "1", "0.2", "unknown"]),
        (json!([{"key": "team", "operator": "NotIn", "values": ["blue"]}]), ["0.2", "unknown", "1", "1"]),
        (
            json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z2", "z3"]}]),
            ["0.2", "1", "0.2", "1"],
        ),
        (
            json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["a"]}]),
            ["1", "unknown", "1", "unknown"],
        ),
        (
            json!([{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}]),
            ["0.2", "unknown", "0.2", "unknown"],
        ),
        (json!([{"key": "nobody.has/it", "operator": "Exists"}]), ["0.2", "unknown", "0.2", "unknown"]),
    ] {
        let found = overlaid(&[named("o", &json!({"requirements": requirements, "price": "1"}))]);
        let prices =
            [("p", "a"), ("p", "b"), ("q", "a"), ("q", "b")].map(|(pool, name)| price(&found, pool, name));
        assert_eq!(prices, expected, "{requirements}");
    }
}

#[test]
fn the_greatest_weight_says_the_price_and_a_weaker_one_what_is_left() {
    let found = overlaid(&[
        named(
            "light",
            &json!({"requirements": [], "price": "9", "capacity": {"example.com/fuse": "3"}, "weight": 1}),
        ),
        named(
            "heavy",
            &json!({
                "requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}],
                "priceAdjustment": "-50%", "weight": 10
            }),
        ),
    ]);
    assert_eq!(verdicts(&found), [("heavy", "valid"), ("light", "valid")]);
    assert_eq!((price(&found, "p", "a"), price(&found, "p", "b")), ("0.1".to_owned(), "9".to_owned()));
    assert_eq!((fuse(&found, "p", "a"), fuse(&found, "q", "b")), (3, 3));
}

#[test]
fn of_equal_weights_that_meet_the_later_one_is_left_out_whole() {
    let zone =
        |zone: &str| json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]);
    // By name the last comes first; no weight is a weight of 0.
    let found = overlaid(&[
        named("x", &json!({"requirements": zone("z1"), "price": "5"})),
        named("c", &json!({"requirements": [], "price": "7", "capacity": {"example.com/fuse": "1"}})),
    ]);
    assert_eq!(verdicts(&found), [("c", "conflict"), ("x", "valid")]);
    let Verdict::Conflict(told) = &found.verdicts["c"] else { panic!("{:?}", found.verdicts) };
    assert!(told.contains("x of the same weight (0) sets the price"), "{told}");
    assert_eq!(
        (price(&found, "p", "a"), price(&found, "p", "b"), fuse(&found, "p", "b")),
        ("5".to_owned(), "unknown".to_owned(), 0)
    );
    // Where they don't meet, both count.
    let found = overlaid(&[
        named("x", &json!({"requirements": zone("z1"), "price": "5"})),
        named("c", &json!({"requirements": zone("z2"), "price": "7"})),
    ]);
    assert_eq!(verdicts(&found), [("c", "valid"), ("x", "valid")]);
    assert_eq!((price(&found, "q", "a"), price(&found, "q", "b")), ("5".to_owned(), "7".to_owned()));
}

#[test]
fn equal_weights_conflict_behind_a_stronger_one_too() {
    let found = overlaid(&[
        named("strong", &json!({"requirements": [], "price": "1", "weight": 5})),
        named("b", &json!({"requirements": [], "price": "2", "weight": 2})),
        named("a", &json!({"requirements": [], "price": "3", "weight": 2})),
    ]);
    assert_eq!(verdicts(&found), [("a", "conflict"), ("b", "valid"), ("strong", "valid")]);
}

#[test]
fn resources_conflict_one_by_one() {
    let adding = |name: &str, resource: &str, amount: &str| {
        named(name, &json!({"requirements": [], "capacity": {resource: amount}}))
    };
    let found = overlaid(&[
        adding("d", "example.com/fuse", "1"),
        adding("c", "example.com/gpu", "2"),
        adding("b", "example.com/fuse", "3"),
    ]);
    assert_eq!(verdicts(&found), [("b", "conflict"), ("c", "valid"), ("d", "valid")]);
    assert_eq!(fuse(&found, "p", "a"), 1);
}

#[test]
fn a_change_of_an_unknown_price_leaves_it_unknown_and_is_told() {
    let found = overlaid(&[named("o", &json!({"requirements": [], "priceAdjustment": "+10%"}))]);
    assert_eq!((price(&found, "p", "a"), price(&found, "p", "b")), ("0.22".to_owned(), "unknown".to_owned()));
    assert_eq!(found.applied("p", "default/a"), Applied { price: true, capacity: false });
    assert_eq!(found.applied("p", "default/b"), Applied::default());
    assert!(
        found.instance_type("p", "default/a").is_some() && found.instance_type("p", "default/b").is_none()
    );
    let told: Vec<_> = found.findings.iter().collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].0 == "o" && told[0].1.contains("default/b") && told[0].1.contains("spec.price"),
        "{told:?}"
    );
}

#[test]
fn what_cannot_be_read_is_left_out_and_touches_no_other() {
    let found = overlaid(&[
        named(
            "z",
            &json!({"requirements": [{"key": "a", "operator": "Near", "values": ["b"]}], "price": "1"}),
        ),
        named("y", &json!({"requirements": [], "price": "99999999999999"})),
        named("x", &json!({"requirements": [], "capacity": {"cpu": "1"}})),
        named("w", &json!({"requirements": [], "price": "2"})),
    ]);
    assert_eq!(verdicts(&found), [("w", "valid"), ("x", "invalid"), ("y", "invalid"), ("z", "invalid")]);
    assert_eq!(price(&found, "p", "b"), "2");
    let Verdict::Invalid(told) = &found.verdicts["y"] else { panic!("{:?}", found.verdicts) };
    assert!(told.contains("spec.price") && told.contains("99999999999999"), "{told}");
}

#[test]
fn a_price_of_nothing_and_an_unavailable_offering_are_overlaid_like_others() {
    let mut choices = choices();
    let full = entry(&with_own("full", &[("price", "3"), ("available", "false")])).instance_type;
    choices.get_mut("p").unwrap().instance_types.push(full);
    let found = overlay(&[named("o", &json!({"requirements": [], "priceAdjustment": "-5"}))], choices);
    assert_eq!((price(&found, "p", "full"), price(&found, "p", "a")), ("0".to_owned(), "0".to_owned()));
    let full = found.instance_type("p", "default/full").unwrap();
    assert!(!full.offerings[0].is_available(), "an overlay says nothing of whether it can be had");
}
