//! What an overlay makes of a price.

use karpenter_capi_model::price::Price;
use std::str::FromStr;

/// A hundred percent, in the units that percentages are held in.
const WHOLE: i128 = 100 * 1_000_000_000_000;

/// A change of a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adjustment {
    /// The price, whatever it was.
    To(Price),
    /// So much more, or less.
    By(Price),
    /// So many percent more, or less, in units of 1e-12 percent.
    Percent(i128),
}

impl Adjustment {
    /// The new price; never below zero. What is unknown stays so unless it is replaced.
    pub(crate) fn apply(self, price: Option<Price>) -> Option<Price> {
        let adjusted = match self {
            Self::To(price) => price,
            Self::By(difference) => price?.plus(difference),
            Self::Percent(percent) => scaled(price?, percent),
        };
        Some(adjusted.max(Price::ZERO))
    }
}

/// Rounded to the nearest unit.
fn scaled(price: Price, percent: i128) -> Price {
    let product = i128::from(price.0).saturating_mul(WHOLE.saturating_add(percent));
    let rounded = product.saturating_add(WHOLE / 2).div_euclid(WHOLE);
    Price(i64::try_from(rounded).unwrap_or(if rounded < 0 { 0 } else { i64::MAX }))
}

/// Reads `0.5`, `+0.5`, `-0.5`, `+10%` and `-10%`.
impl FromStr for Adjustment {
    type Err = karpenter_capi_model::price::InvalidPrice;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (negative, unsigned) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return text.parse().map(Self::To),
        };
        let signed = |amount: Price| if negative { Price::ZERO.minus(amount) } else { amount };
        match unsigned.strip_suffix('%') {
            // A percentage has the form of a price: digits with at most one point.
            Some(percent) => percent.parse().map(|percent| Self::Percent(signed(percent).0.into())),
            None => unsigned.parse().map(|difference| Self::By(signed(difference))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Prices as upstream's own code adjusted them.
    const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/adjusted_prices.json.zst");

    #[test]
    fn prices_are_adjusted_as_upstream_does_it() {
        let text = zstd::decode_all(FIXTURE).unwrap();
        let cases: Vec<Value> = serde_json::from_slice(&text).unwrap();
        assert_eq!(cases.len(), 65);
        for case in cases {
            let price = |field: &str| Price::from_f64(case[field].as_f64().unwrap()).unwrap();
            let change = case["change"].as_str().unwrap();
            // No overlay has an empty change; upstream's function takes it for none.
            let adjusted = match change {
                "" => Some(price("price")),
                change => change.parse::<Adjustment>().unwrap().apply(Some(price("price"))),
            };
            assert_eq!(adjusted, Some(price("adjusted")), "{case}");
        }
    }

    #[test]
    fn only_a_price_makes_an_unknown_price_known() {
        for (change, expected) in [("0.5", Some(Price(500_000_000_000))), ("+0.5", None), ("-10%", None)] {
            assert_eq!(change.parse::<Adjustment>().unwrap().apply(None), expected, "{change}");
        }
    }

    #[test]
    fn what_is_no_change_of_a_price_is_refused() {
        for text in ["", "+", "-%", "+x", "10%", "--1", "99999999999999"] {
            assert!(text.parse::<Adjustment>().is_err(), "{text}");
        }
    }
}
