use super::*;
use crate::requirement::Operator;

fn zone(values: &[&str]) -> Requirement {
    Requirement::one_of(labels::TOPOLOGY_ZONE, values)
}

#[test]
fn what_is_added_for_a_key_narrows_what_was_there() {
    let requirements: Requirements = [zone(&["a", "b"]), zone(&["b", "c"])].into_iter().collect();
    assert_eq!(requirements.get(labels::TOPOLOGY_ZONE).unwrap().single_value(), Some("b"));
}

#[test]
fn a_template_may_leave_well_known_labels_open_and_a_node_may_not() {
    let wanted: Requirements = [zone(&["a"])].into_iter().collect();
    assert!(Requirements::new().compatible(&wanted, &crate::label::well_known()).is_ok());
    let error = Requirements::new().compatible(&wanted, &BTreeSet::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "topology.kubernetes.io/zone In [a] is wanted, but the label isn't defined"
    );
}

#[test]
fn the_error_names_the_key_and_both_sides() {
    let offered: Requirements = [zone(&["a"])].into_iter().collect();
    let wanted: Requirements = [zone(&["b"])].into_iter().collect();
    let error = offered.intersects(&wanted).unwrap_err();
    assert_eq!(
        error.to_string(),
        "topology.kubernetes.io/zone In [b] is wanted, topology.kubernetes.io/zone In [a] is offered"
    );
}

#[test]
fn exists_with_not_in_still_needs_the_label() {
    let wanted: Requirements =
        [Requirement::exists("team"), Requirement::none_of("team", &["red"])].into_iter().collect();
    assert!(Requirements::new().compatible(&wanted, &BTreeSet::new()).is_err());
    assert!(wanted.met_by(&BTreeMap::new()).is_err());
    assert!(wanted.met_by(&BTreeMap::from([("team".to_owned(), "blue".to_owned())])).is_ok());
}

#[test]
fn a_contradiction_is_met_by_nothing() {
    let wanted: Requirements =
        [Requirement::one_of("fn", &["a"]), Requirement::one_of("fn", &["b"])].into_iter().collect();
    let error = Requirements::new().compatible(&wanted, &BTreeSet::from(["fn".to_owned()])).unwrap_err();
    assert_eq!(error.to_string(), "the requirements on fn contradict each other");
}

#[test]
fn labels_are_resolved_for_custom_keys() {
    let requirements: Requirements = [
        Requirement::exists("accel"),
        Requirement::one_of("team", &["b", "a"]),
        Requirement::none_of("tier", &["gold"]),
        zone(&["z1", "z2"]),
        Requirement::one_of(labels::ARCH, &["amd64"]),
        Requirement::one_of(labels::HOSTNAME, &["n1"]),
    ]
    .into_iter()
    .collect();
    let expected = [("accel", "0"), ("kubernetes.io/arch", "amd64"), ("team", "a")];
    let expected: BTreeMap<String, String> =
        expected.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    assert_eq!(requirements.labels(), expected);
}

#[test]
fn a_bound_below_zero_is_refused_in_a_pool() {
    let bad = NodeSelectorRequirementWithMinValues {
        key: "gen".to_owned(),
        operator: ApiOperator::Gt,
        values: vec!["-1".to_owned()],
        min_values: None,
    };
    let errors = Requirements::from_api(&[bad]).unwrap_err();
    assert!(errors[0].to_string().starts_with("gen Gt [\"-1\"]"), "{}", errors[0]);
}

#[test]
fn a_range_becomes_two_requirements_and_is_read_back_as_it_was() {
    let mut range = Requirements::new();
    range.add(Requirement::bounded("gen", Operator::Gt, 2).with_min_values(Some(2)));
    range.add(Requirement::bounded("gen", Operator::Lt, 9));
    range.add(Requirement::none_of("gen", &["5"]));
    let written = range.to_api();
    assert_eq!(written.len(), 3);
    assert_eq!(Requirements::from_api(&written).unwrap(), range);
}
