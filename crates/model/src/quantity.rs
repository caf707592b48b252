//! Kubernetes quantities, read exactly.

use std::fmt;

pub(crate) mod plain;

/// Units of the internal fixed point: a quantity is stored in 1e-9 of its unit, as Kubernetes does.
const NANO: i128 = 1_000_000_000;

/// The largest magnitude that Kubernetes stores; greater ones are capped.
const MAX: i128 = i64::MAX as i128 * NANO;

/// Digits that are kept exactly; what lies beyond only decides the rounding.
const DIGITS: usize = 20;

/// A quantity as written in a manifest: `3500m`, `16Gi`, `1e3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nano: i128,
    style: Style,
}

/// How a quantity was written, and is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Style {
    /// Powers of 1000: `m`, `k`, `M`.
    Decimal,
    /// Powers of 1024: `Ki`, `Mi`.
    Binary,
    /// `e3`.
    Exponent,
}

/// The unit that an amount is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scale {
    /// Thousandths: CPU.
    Milli,
    /// Whole units: bytes, pieces, pods.
    Unit,
}

/// What happens to the part that is smaller than the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rounding {
    /// For requests: nobody gets less than asked for.
    Up,
    /// For capacity: nobody is promised more than there is.
    Down,
}

/// A text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} isn't a quantity; write a number with an optional suffix, as in 500m, 4, 16Gi or 16G")]
pub struct InvalidQuantity(pub String);

impl Quantity {
    /// Reads a quantity as Kubernetes does: decimal number, then one of `n u m k M G T P E`, `Ki` to `Ei`, `e3` or `E3`.
    /// What is finer than 1e-9 is rounded away from zero, what is greater than 2^63−1 is capped, both as upstream.
    pub fn parse(text: &str) -> Result<Self, InvalidQuantity> {
        parse(text).ok_or_else(|| InvalidQuantity(text.to_owned()))
    }

    /// An amount in the given unit, written with powers of 1000.
    pub fn decimal(amount: i64, scale: Scale) -> Self {
        Self { nano: i128::from(amount) * scale.nanos(), style: Style::Decimal }
    }

    /// Whole units, written with powers of 1024 where they are such.
    pub fn binary(amount: i64) -> Self {
        Self { nano: i128::from(amount) * NANO, style: Style::Binary }
    }

    /// The amount in whole units of `scale`, saturating.
    pub fn amount(&self, scale: Scale, rounding: Rounding) -> i64 {
        let unit = scale.nanos();
        let down = self.nano.div_euclid(unit);
        let up = i128::from(rounding == Rounding::Up && self.nano.rem_euclid(unit) != 0);
        clamp(down + up)
    }

    /// Below zero.
    pub fn is_negative(&self) -> bool {
        self.nano < 0
    }
}

impl Scale {
    /// The unit that amounts of this resource are counted in: millicores for `cpu`, whole units for everything else.
    pub fn of(resource: &str) -> Self {
        if resource == "cpu" { Self::Milli } else { Self::Unit }
    }

    const fn nanos(self) -> i128 {
        match self {
            Self::Milli => NANO / 1000,
            Self::Unit => NANO,
        }
    }
}

/// The canonical form: the largest suffix that leaves a whole number.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        if self.style == Style::Binary && self.nano % NANO == 0 && self.nano.abs() >= 1024 * NANO {
            let mut amount = self.nano / NANO;
            let mut power = 0;
            while amount % 1024 == 0 && power < 6 {
                amount /= 1024;
                power += 1;
            }
            return write!(f, "{amount}{}", BINARY.get(power).copied().unwrap_or_default());
        }
        let mut amount = self.nano;
        let mut exponent = -9;
        while amount % 1000 == 0 && exponent < 18 {
            amount /= 1000;
            exponent += 3;
        }
        match (self.style, exponent) {
            (_, 0) => write!(f, "{amount}"),
            (Style::Exponent, _) => write!(f, "{amount}e{exponent}"),
            _ => {
                let suffix = DECIMAL.iter().find(|(_, e)| *e == exponent).map_or("", |(suffix, _)| suffix);
                write!(f, "{amount}{suffix}")
            }
        }
    }
}

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

fn parse(text: &str) -> Option<Quantity> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (exponent, power, style) = parse_suffix(suffix)?;
    let magnitude = scaled(whole, fraction, exponent, power);
    Some(Quantity { nano: if negative { -magnitude } else { magnitude }, style })
}

/// The power of 10, the power of 1024 and the style of a suffix.
fn parse_suffix(suffix: &str) -> Option<(i32, u32, Style)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Some((*exponent, 0, Style::Decimal));
    }
    if let Some(power) = BINARY.iter().position(|s| *s == suffix) {
        return Some((0, u32::try_from(power).ok()?, Style::Binary));
    }
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // An exponent beyond the i32 range has the same effect as a large one: the cap, or the smallest step.
    let exponent = digits.parse::<i32>().unwrap_or(if digits.starts_with('-') { -10_000 } else { 10_000 });
    Some((exponent.clamp(-10_000, 10_000), 0, Style::Exponent))
}

/// The magnitude in 1e-9 units, rounded up and capped.
fn scaled(whole: &str, fraction: &str, exponent: i32, power: u32) -> i128 {
    let mut digits: i128 = 0;
    let mut kept = 0;
    let mut dropped: i32 = 0;
    let mut sticky = false;
    for byte in whole.bytes().chain(fraction.bytes()) {
        let digit = i128::from(byte - b'0');
        if kept == DIGITS {
            dropped = dropped.saturating_add(1);
            sticky |= digit != 0;
        } else {
            digits = digits * 10 + digit;
            kept += usize::from(digits != 0);
        }
    }
    let fraction_digits = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let shift = exponent.saturating_sub(fraction_digits).saturating_add(dropped).saturating_add(9);
    let value = digits * 1024_i128.pow(power);
    if value == 0 {
        return 0;
    }
    let magnitude = 10_i128.checked_pow(shift.unsigned_abs());
    let scaled = match (shift >= 0, magnitude) {
        (true, Some(factor)) => value.checked_mul(factor).unwrap_or(MAX),
        (true, None) => MAX,
        (false, Some(divisor)) => value / divisor + i128::from(sticky || value % divisor != 0),
        (false, None) => 1,
    };
    scaled.min(MAX)
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> i64 {
        Quantity::parse(text).unwrap().amount(Scale::Unit, Rounding::Down)
    }

    fn millis(text: &str, rounding: Rounding) -> i64 {
        Quantity::parse(text).unwrap().amount(Scale::Milli, rounding)
    }

    #[test]
    fn suffixes_mean_what_kubernetes_says() {
        assert_eq!(bytes("16G"), 16_000_000_000);
        assert_eq!(bytes("16Gi"), 17_179_869_184);
        assert_eq!(bytes("16384"), 16_384);
        assert_eq!(bytes("17179869184000m"), 17_179_869_184);
        assert_eq!(bytes("16e9"), 16_000_000_000);
        assert_eq!(bytes("16E3"), 16_000);
        assert_eq!(bytes("2E"), 2_000_000_000_000_000_000);
        assert_eq!(bytes("1Ei"), 1 << 60);
        assert_eq!(bytes("1.5Gi"), 1_610_612_736);
        assert_eq!(bytes(".5Ki"), 512);
        assert_eq!(bytes("5."), 5);
        assert_eq!(bytes("+5k"), 5_000);
        for four in ["4", "4000m", "4.0", "4e0", "4000000u", "4000000000n"] {
            assert_eq!(millis(four, Rounding::Down), 4_000, "{four}");
        }
        assert_eq!(millis("0.5", Rounding::Down), 500);
    }

    #[test]
    fn what_is_no_quantity_is_refused_and_never_panics() {
        for text in [
            "16GB", "16 Gi", "sixteen", "", "1.2.3Gi", "4vCPU", "four", "-", ".", "+", "1e", "1e+", "1e1.5",
            "Gi", "1ki", "1K", " 1", "1 ", "1Gi ", "--1", "0x10", "1_000", "NaN", "é", "1é", "٣",
        ] {
            assert_eq!(Quantity::parse(text), Err(InvalidQuantity(text.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn requests_round_up_and_capacity_rounds_down() {
        assert_eq!(millis("100u", Rounding::Up), 1);
        assert_eq!(millis("100u", Rounding::Down), 0);
        assert_eq!(millis("1.0001", Rounding::Up), 1_001);
        assert_eq!(millis("-1.5m", Rounding::Down), -2);
        assert_eq!(millis("-1.5m", Rounding::Up), -1);
        assert_eq!(Quantity::parse("1e-30").unwrap().to_string(), "1e-9", "the smallest step");
    }

    #[test]
    fn huge_numbers_are_capped() {
        let nines = "9".repeat(400);
        for text in ["1000E", "9e99", "9e99999999999", "16Ei", nines.as_str()] {
            assert_eq!(bytes(text), i64::MAX, "{text}");
        }
        assert_eq!(bytes(&format!("-{nines}")), -i64::MAX);
        assert_eq!(bytes("9223372036854775807"), i64::MAX);
        assert_eq!(bytes("9223372036854775806"), i64::MAX - 1);
        assert_eq!(bytes(&format!("0.{nines}")), 1, "finer than 1e-9 is rounded up");
        assert_eq!(bytes(&format!("{}1", "0".repeat(400))), 1);
    }

    #[test]
    fn the_canonical_form_has_the_largest_suffix_that_leaves_a_whole_number() {
        for (text, canonical) in [
            ("3500m", "3500m"),
            ("3.5", "3500m"),
            ("4000m", "4"),
            ("4096Mi", "4Gi"),
            ("1536Mi", "1536Mi"),
            ("1.5Gi", "1536Mi"),
            ("1000Ki", "1000Ki"),
            ("512Ki", "512Ki"),
            ("1000", "1k"),
            ("16e3", "16e3"),
            ("0Gi", "0"),
            ("-4000m", "-4"),
            ("0.5Ki", "512"),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().to_string(), canonical, "{text}");
        }
        assert_eq!(Quantity::binary(4 << 30).to_string(), "4Gi");
        assert_eq!(Quantity::decimal(250, Scale::Milli).to_string(), "250m");
    }
}
