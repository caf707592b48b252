//! One requirement on a label key (`karpenter-core.md`-style algebra of upstream Karpenter: sets, complements, integer bounds).

use std::collections::BTreeSet;

/// What a label may be: a set of values, or everything but a set, within optional inclusive integer bounds.
///
/// `In` is a plain set; `NotIn`, `Exists`, `Gt`, `Lt` are complements; `DoesNotExist` is the empty plain set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    pub(crate) key: String,
    pub(crate) complement: bool,
    pub(crate) values: BTreeSet<String>,
    pub(crate) greater_than_or_equal: Option<i64>,
    pub(crate) less_than_or_equal: Option<i64>,
    pub(crate) min_values: Option<u32>,
}
