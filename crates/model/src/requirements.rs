//! Requirements by key.

use crate::requirement::Requirement;
use std::collections::BTreeMap;

/// At most one [`Requirement`] for a key; adding another for the same key intersects the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements(pub(crate) BTreeMap<String, Requirement>);
