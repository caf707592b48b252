//! Names of objects, as types: a pod's name never stands where a node's is meant.

use std::fmt;

/// `namespace/name` of a namespaced object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// The namespace.
    pub namespace: String,
    /// The name within the namespace.
    pub name: String,
}

impl NamespacedName {
    /// Joins the two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Reads `namespace/name`, both parts non-empty and without a further slash.
impl std::str::FromStr for NamespacedName {
    type Err = InvalidNamespacedName;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s.split_once('/') {
            Some((namespace, name))
                if !namespace.trim().is_empty() && !name.trim().is_empty() && !name.contains('/') =>
            {
                Ok(Self::new(namespace, name))
            }
            _ => Err(InvalidNamespacedName(s.to_owned())),
        }
    }
}

/// A text that is not `namespace/name`.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not namespace/name")]
pub struct InvalidNamespacedName(String);
