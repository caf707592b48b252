//! Prices as fixed-point integers, never floats: equal inputs compare equal, and sums are exact.

use std::fmt;
use std::iter::Sum;
use std::str::FromStr;

/// Decimal places that are kept.
const PLACES: usize = 12;

/// One dollar.
const DOLLAR: i64 = 1_000_000_000_000;

/// US dollars an hour in units of 1e-12 dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(pub i64);

/// A text that is not a price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} isn't a price; write US dollars an hour as a plain decimal number below 9000000, as in 0.096")]
pub struct InvalidPrice(pub String);

impl Price {
    /// Free of charge.
    pub const ZERO: Self = Self(0);

    /// The sum, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, saturating.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// For JSON output and people; never for decisions.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a price that anybody pays has fewer digits than an f64 keeps"
    )]
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / DOLLAR as f64
    }

    /// From a number that is a float where it comes from (a pricing API, a JSON document), rounded to 1e-12 dollars.
    /// None where it isn't finite, is negative, or is too large.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the range is checked first"
    )]
    pub fn from_f64(dollars: f64) -> Option<Self> {
        let scaled = (dollars * DOLLAR as f64).round();
        (scaled >= 0.0 && scaled < i64::MAX as f64).then_some(Self(scaled as i64))
    }
}

/// Reads `0.096`: digits with at most one point; what lies beyond the twelfth place is rounded.
/// Signs, exponents, thousands separators, currency signs and `NaN` are refused.
impl FromStr for Price {
    type Err = InvalidPrice;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| InvalidPrice(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Price> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let dollars = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()? };
    let mut digits: String = fraction.chars().take(PLACES).collect();
    while digits.len() < PLACES {
        digits.push('0');
    }
    let round_up = fraction.as_bytes().get(PLACES).is_some_and(|digit| *digit >= b'5');
    let part = digits.parse::<i64>().ok()? + i64::from(round_up);
    dollars.checked_mul(DOLLAR)?.checked_add(part).map(Price)
}

/// Dollars without needless zeros: `0.096`, `1`, `-0.5`.
impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let magnitude = self.0.unsigned_abs();
        let (dollars, part) = (magnitude / DOLLAR.unsigned_abs(), magnitude % DOLLAR.unsigned_abs());
        if part == 0 {
            return write!(f, "{sign}{dollars}");
        }
        let digits = format!("{part:012}");
        write!(f, "{sign}{dollars}.{}", digits.trim_end_matches('0'))
    }
}

impl Sum for Price {
    fn sum<I: Iterator<Item = Self>>(prices: I) -> Self {
        prices.fold(Self::ZERO, Self::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_dollars_are_read_exactly() {
        for (text, units, shown) in [
            ("0.2", 200_000_000_000, "0.2"),
            ("1", DOLLAR, "1"),
            (".5", 500_000_000_000, "0.5"),
            ("12.", 12 * DOLLAR, "12"),
            ("0.000000000001", 1, "0.000000000001"),
            ("0.0416666666666667", 41_666_666_667, "0.041666666667"),
            ("0.9999999999999", DOLLAR, "1"),
        ] {
            assert_eq!(text.parse::<Price>().unwrap(), Price(units), "{text}");
            assert_eq!(Price(units).to_string(), shown);
        }
        assert_eq!("0.1".parse::<Price>().unwrap().plus("0.2".parse().unwrap()), "0.3".parse().unwrap());
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for text in
            ["", ".", "abc", "-1", "+1", "NaN", "inf", "0,30", "$0.3", "1e3", "1.2.3", " 1", "99999999999999"]
        {
            assert_eq!(text.parse::<Price>(), Err(InvalidPrice(text.to_owned())), "{text}");
        }
        for number in [f64::NAN, f64::INFINITY, -0.1, 1e30] {
            assert_eq!(Price::from_f64(number), None);
        }
    }

    #[test]
    fn json_numbers_come_back_as_they_were() {
        assert!((Price(200_000_000_000).to_f64() - 0.2).abs() < f64::EPSILON);
        assert_eq!(Price::from_f64(0.2), Some(Price(200_000_000_000)));
        assert_eq!(Price::from_f64(0.01212), Some(Price(12_120_000_000)));
    }
}
