//! Numbers and quantities as they stand in annotations.

use karpenter_capi_model::quantity::{Quantity, Rounding, Scale};

/// Reads a quantity of the resource in the model's unit: thousandths for CPU, whole units (bytes, pieces) for everything else.
/// Fractions of the unit aren't promised.
pub(crate) fn amount(resource: &str, text: &str) -> Option<i64> {
    Some(Quantity::parse(text).ok()?.amount(Scale::of(resource), Rounding::Down))
}

/// Reads a quantity of the resource that pods can't have: fractions of the unit are rounded up.
pub(crate) fn reserved_amount(resource: &str, text: &str) -> Option<i64> {
    Some(Quantity::parse(text).ok()?.amount(Scale::of(resource), Rounding::Up))
}

/// A whole number in plain decimal digits.
pub(crate) fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}
