use super::*;

fn read(operator: &str, values: &[&str]) -> Result<Requirement, InvalidRequirement> {
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    Requirement::parse("k", operator, &values)
}

#[test]
fn integer_edges_are_exclusive_for_gt_and_lt() {
    let above = read("Gt", &["2"]).unwrap();
    assert!(!above.has("2") && above.has("3") && !above.has("x"));
    let below = read("Lt", &["2"]).unwrap();
    assert!(!below.has("2") && below.has("1") && !below.has(""));
}

#[test]
fn bad_operators_and_values_are_refused() {
    for (operator, values) in [
        ("Gt", &["a"][..]),
        ("Gt", &["1", "2"]),
        ("Lte", &[]),
        ("In", &[]),
        ("NotIn", &[]),
        ("Exists", &["a"]),
        ("in", &["a"]),
        ("Like", &["a"]),
    ] {
        let error = read(operator, values).unwrap_err();
        assert!(error.to_string().starts_with(&format!("k {operator} ")), "{error}");
    }
}

#[test]
fn a_written_gt_comes_back_as_gt() {
    assert_eq!(read("Gt", &["2"]).unwrap().written(), [(Operator::Gt, vec!["2".to_owned()])]);
    assert_eq!(read("Lt", &["9"]).unwrap().written(), [(Operator::Lt, vec!["9".to_owned()])]);
    assert_eq!(read("Gte", &["0"]).unwrap().written(), [(Operator::Gte, vec!["0".to_owned()])]);
    let most = i64::MAX.to_string();
    assert_eq!(read("Lte", &[&most]).unwrap().written(), [(Operator::Lte, vec![most.clone()])]);
    assert!(read("Gt", &[&most]).unwrap().is_contradiction());
}

#[test]
fn bounds_with_excluded_values_lose_nothing_when_written() {
    let both = read("Gt", &["2"]).unwrap().intersection(&read("NotIn", &["5"]).unwrap());
    assert_eq!(
        both.written(),
        [(Operator::Gt, vec!["2".to_owned()]), (Operator::NotIn, vec!["5".to_owned()])]
    );
    let present = read("Exists", &[]).unwrap().intersection(&read("NotIn", &["5"]).unwrap());
    assert_eq!(present.written(), [(Operator::Exists, vec![]), (Operator::NotIn, vec!["5".to_owned()])]);
}

#[test]
fn a_set_that_became_empty_is_a_contradiction_and_not_absence() {
    let empty = read("In", &["a"]).unwrap().intersection(&read("In", &["b"]).unwrap());
    assert!(empty.is_contradiction());
    assert_eq!(empty.operator(), Operator::DoesNotExist);
    let absent = read("NotIn", &["a"]).unwrap().intersection(&read("DoesNotExist", &[]).unwrap());
    assert!(absent.is_empty() && !absent.is_contradiction());
}

#[test]
fn what_implies_what() {
    for (a, b, implied) in [
        (read("In", &["1", "2"]), read("Gt", &["0"]), true),
        (read("In", &["0", "2"]), read("Gt", &["0"]), false),
        (read("Gt", &["2"]), read("Exists", &[]), true),
        (read("Exists", &[]), read("Gt", &["2"]), false),
        (read("Gt", &["2"]), read("NotIn", &["1"]), true),
        (read("Gt", &["2"]), read("NotIn", &["5"]), false),
        (read("NotIn", &["a"]), read("Exists", &[]), false),
        (read("NotIn", &["a", "b"]), read("NotIn", &["a"]), true),
        (read("DoesNotExist", &[]), read("NotIn", &["a"]), true),
        (read("Exists", &[]), read("In", &["a"]), false),
        (read("Lt", &["3"]), read("Lt", &["4"]), true),
    ] {
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!(a.implies(&b), implied, "{a} implies {b}");
    }
}

#[test]
fn any_value_meets_the_requirement() {
    for (operator, values, value) in [
        ("In", &["b", "a"][..], Some("a")),
        ("Exists", &[], Some("0")),
        ("NotIn", &["0", "1"], Some("2")),
        ("Gt", &["4"], Some("5")),
        ("Lt", &["4"], Some("0")),
        ("DoesNotExist", &[], None),
    ] {
        assert_eq!(read(operator, values).unwrap().any().as_deref(), value, "{operator} {values:?}");
    }
}

#[test]
fn old_keys_are_read_as_their_stable_successors() {
    let zone =
        Requirement::parse("failure-domain.beta.kubernetes.io/zone", "In", &["z1".to_owned()]).unwrap();
    assert_eq!(zone.key(), "topology.kubernetes.io/zone");
}
