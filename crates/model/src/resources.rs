//! Resource amounts in fixed slots.

use std::collections::BTreeMap;

/// Amounts by resource name, as integers: CPU in millicores, everything else in its own whole unit (bytes, pieces, pods).
///
/// An absent resource and a zero one are the same for arithmetic; `iter` visits what is non-zero.
/// Arithmetic saturates: no input overflows.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources {
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    pub(crate) ephemeral_storage: i64,
    pub(crate) pods: i64,
    pub(crate) extended: BTreeMap<String, i64>,
}
