//! Limits and replacements: lists where an absent resource and a zero one differ.

use super::{InvalidResource, Resources, format_amount, read_amount};
use crate::quantity::Rounding;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Amounts by resource name where an absent resource and a zero one differ: no limit is not a limit of zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceList(pub BTreeMap<Arc<str>, i64>);

impl ResourceList {
    /// Reads a Kubernetes resource list. The first amount that is unreadable or negative is the error.
    pub fn from_quantities(
        list: &BTreeMap<String, ApiQuantity>,
        rounding: Rounding,
    ) -> Result<Self, InvalidResource> {
        list.iter()
            .map(|(name, quantity)| Ok((Arc::from(name.as_str()), read_amount(name, &quantity.0, rounding)?)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The amount, where the list has one.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }

    /// All amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, amount)| (&**name, *amount))
    }

    /// Whether it lists nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first listed resource of which `used` and `added` together are more than the list says.
    pub fn exceeded(&self, used: &Resources, added: &Resources) -> Option<Exceeded> {
        self.iter().find_map(|(name, limit)| {
            let (used, added) = (used.get(name), added.get(name));
            (used.saturating_add(added) > limit).then(|| Exceeded {
                resource: name.to_owned(),
                limit,
                used,
                added,
            })
        })
    }
}

/// A limit that would be passed, with the figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The resource's name.
    pub resource: String,
    /// The limit.
    pub limit: i64,
    /// What is in use.
    pub used: i64,
    /// What would be added.
    pub added: i64,
}

/// `cpu: adding 32 would exceed 2063 (in use 2048)`.
impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = |amount| format_amount(&self.resource, amount);
        write!(
            f,
            "{}: adding {} would exceed {} (in use {})",
            self.resource,
            amount(self.added),
            amount(self.limit),
            amount(self.used)
        )
    }
}
