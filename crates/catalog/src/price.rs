//! Price and priority.

use crate::findings::{Annotations, Findings};
use jiff::Timestamp;
use karpenter_capi_api::names::annotations;
use karpenter_capi_model::price::Price;

/// The price by the strongest key that is there, US dollars an hour.
///
/// An unreadable price is unknown, not that of a weaker key: a person who writes a price means that one.
pub(crate) fn price(annotated: Annotations<'_>, findings: &mut Findings) -> Option<Price> {
    let (key, value) =
        annotations::PRICE_KEYS.iter().find_map(|key| annotated.value(key).map(|value| (*key, value)))?;
    let price = value.parse().ok();
    if price.is_none() {
        findings.ignore(
            key,
            value,
            "write US dollars an hour as a decimal number such as 0.192; until then the price is unknown",
        );
    }
    price
}

/// When the price was written.
pub(crate) fn price_updated_at(annotated: Annotations<'_>, findings: &mut Findings) -> Option<Timestamp> {
    let value = annotated.value(annotations::PRICE_UPDATED_AT)?;
    let time = value.parse().ok();
    if time.is_none() {
        findings.ignore(annotations::PRICE_UPDATED_AT, value, "write a time such as 2026-01-05T09:00:00Z");
    }
    time
}

/// The higher first among equal prices; 0 where nothing (readable) is said.
pub(crate) fn priority(annotated: Annotations<'_>, findings: &mut Findings) -> i32 {
    let Some(value) = annotated.value(annotations::PRIORITY) else {
        return 0;
    };
    value.parse().unwrap_or_else(|_| {
        findings.ignore(annotations::PRIORITY, value, "write a whole number such as 10; until then it is 0");
        0
    })
}
