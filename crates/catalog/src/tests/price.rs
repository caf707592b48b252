use super::*;

#[test]
fn case_46_an_unreadable_price_is_unknown_and_never_free() {
    for value in ["abc", "-1", "NaN", "0,30", "$0.3", ""] {
        let found = entry(&with_own("a", &[("price", value)]));
        assert_eq!(
            (code(&found), found.price, found.instance_type.offerings[0].price),
            (None, None, None),
            "{value}"
        );
        assert_eq!(found.warnings.len(), 1);
        assert!(
            found.warnings[0].message.contains(&format!("{OURS}price: {value:?}")),
            "{:?}",
            found.warnings
        );
    }
    assert_eq!(entry(&with_own("a", &[("price", "0")])).price, Some(Price(0)), "a price of 0 is a price");
}

#[test]
fn case_46_prices_are_taken_by_the_strongest_key() {
    let (second, third) =
        ("cluster.x-k8s.io/machine-current-price", "capacity.cluster-autoscaler.kubernetes.io/price");
    let own = format!("{OURS}price");
    let price = |annotations: &[(&str, &str)]| entry(&annotated("a", annotations)).price;
    let cents = |cents: i64| Some(Price(cents * 10_000_000_000));
    assert_eq!(price(&[(third, "0.3")]), cents(30));
    assert_eq!(price(&[(third, "0.3"), (second, "0.2")]), cents(20));
    assert_eq!(price(&[(third, "0.3"), (second, "0.2"), (&own, "0.1")]), cents(10));
    assert_eq!(
        price(&[(second, "0.2"), (&own, "free")]),
        None,
        "an unreadable price isn't replaced by a weaker key's"
    );
}

#[test]
fn priority_and_time_of_the_price_are_read() {
    let found = entry(&with_own("a", &[("priority", "-5"), ("price-updated-at", "2026-01-05T09:00:00Z")]));
    assert_eq!(
        (found.instance_type.priority, found.price_updated_at),
        (-5, Some("2026-01-05T09:00:00Z".parse().unwrap()))
    );
    let odd = entry(&with_own("a", &[("priority", "high"), ("price-updated-at", "yesterday")]));
    assert_eq!(
        (code(&odd), odd.instance_type.priority, odd.price_updated_at, odd.warnings.len()),
        (None, 0, None, 2)
    );
}
