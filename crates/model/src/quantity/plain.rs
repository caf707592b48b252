//! Amounts as nearly everybody writes them, without the exact reader's 128-bit arithmetic.

use super::{Rounding, Scale};

/// Digits that an `i64` holds whatever they are.
const DIGITS: usize = 18;

/// The amount that [`super::Quantity::parse`] and [`super::Quantity::amount`] give for whole numbers with a usual suffix.
/// None where the text is anything else, or where the amount doesn't fit: the exact reader decides then.
pub(crate) fn amount(text: &str, scale: Scale, rounding: Rounding) -> Option<i64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > DIGITS {
        return None;
    }
    let (number, suffix) = text.split_at_checked(digits)?;
    let number = number.bytes().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    let unit = match scale {
        Scale::Milli => 1000,
        Scale::Unit => 1,
    };
    let factor = match suffix.as_bytes() {
        b"" => 1,
        b"m" if scale == Scale::Milli => return Some(number),
        b"m" => return Some(number / 1000 + i64::from(rounding == Rounding::Up && number % 1000 != 0)),
        b"k" => 1000,
        b"M" => 1_000_000,
        b"G" => 1_000_000_000,
        b"T" => 1_000_000_000_000,
        b"Ki" => 1 << 10,
        b"Mi" => 1 << 20,
        b"Gi" => 1 << 30,
        b"Ti" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(factor * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Quantity;
    use proptest::prelude::*;

    /// Numbers with and without suffixes and signs, around the largest that an `i64` holds and far beyond, and texts that are
    /// no quantities at all.
    fn texts() -> impl Strategy<Value = String> {
        let number = prop_oneof![
            4 => "[0-9]{1,6}",
            2 => "[0-9]{12,20}",
            1 => "0{0,30}[0-9]{1,40}",
            1 => "92233720368547758[0-9]{0,6}",
            2 => "[0-9]{0,20}[.][0-9]{0,12}",
        ];
        let suffix = prop_oneof![
            6 => proptest::sample::select(vec!["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]).prop_map(str::to_owned),
            2 => proptest::sample::select(vec!["n", "u", "P", "E", "Pi", "Ei"]).prop_map(str::to_owned),
            2 => "[eE][+-]?[0-9]{1,12}",
            1 => "[a-zA-Z .é-]{1,3}",
        ];
        ("[+-]?", number, suffix).prop_map(|(sign, number, suffix)| {
            format!("{}{number}{suffix}", if sign.len() > 1 { "" } else { &sign })
        })
    }

    /// What the exact reader says; none where it refuses.
    fn exact(text: &str, scale: Scale, rounding: Rounding) -> Option<i64> {
        Some(Quantity::parse(text).ok()?.amount(scale, rounding))
    }

    const WAYS: [(Scale, Rounding); 4] = [
        (Scale::Milli, Rounding::Up),
        (Scale::Milli, Rounding::Down),
        (Scale::Unit, Rounding::Up),
        (Scale::Unit, Rounding::Down),
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn an_amount_read_plainly_is_the_exact_one(text in texts()) {
            for (scale, rounding) in WAYS {
                if let Some(amount) = amount(&text, scale, rounding) {
                    prop_assert_eq!(Some(amount), exact(&text, scale, rounding), "{} {:?} {:?}", text, scale, rounding);
                }
            }
        }
    }

    #[test]
    fn usual_amounts_are_read_plainly() {
        for text in
            ["0", "1", "250m", "1500m", "4k", "512M", "16G", "1T", "64Ki", "256Mi", "4Gi", "8Ti", "007"]
        {
            for (scale, rounding) in WAYS {
                assert!(amount(text, scale, rounding).is_some(), "{text}");
                assert_eq!(amount(text, scale, rounding), exact(text, scale, rounding), "{text} {scale:?}");
            }
        }
    }

    #[test]
    fn at_the_edge_of_what_fits_the_exact_reader_decides() {
        for text in [
            "999999999999999999",
            "9223372036854775",
            "9223372036854776",
            "8388607Ti",
            "8388608Ti",
            "9223372T",
        ] {
            for (scale, rounding) in WAYS {
                if let Some(amount) = amount(text, scale, rounding) {
                    assert_eq!(Some(amount), exact(text, scale, rounding), "{text} {scale:?}");
                }
            }
        }
        assert_eq!(amount("9223372036854776", Scale::Milli, Rounding::Up), None);
        assert_eq!(amount("8388608Ti", Scale::Unit, Rounding::Up), None);
        for text in ["", "m", "1.5", "-1", "+1", "1e3", "1ki", "1 ", "1n", "1Ei", "1000000000000000000"] {
            assert_eq!(amount(text, Scale::Unit, Rounding::Up), None, "{text:?}");
        }
    }
}
