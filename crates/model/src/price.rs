//! Prices as fixed-point integers, never floats: equal inputs compare equal, and sums are exact.

use std::fmt;

/// US dollars an hour in units of 1e-12 dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(pub i64);
