use serde::{Deserialize, Serialize};

/// A reference to an object of another provider, in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Wire")]
pub struct ContractReference {
    /// API group.
    pub api_group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Group and version, if the reference was read from `v1beta1`. `v1beta2` leaves the version to discovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
}

impl ContractReference {
    /// Whether nothing is referred to: `v1beta2` writes an unset reference as an empty object.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty() && self.name.is_empty()
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    api_group: Option<String>,
    api_version: Option<String>,
    kind: Option<String>,
    name: Option<String>,
}

impl From<Wire> for ContractReference {
    fn from(wire: Wire) -> Self {
        // The core group has no group in its apiVersion, only "v1".
        let from_version = || {
            let version = wire.api_version.as_deref().unwrap_or_default();
            version.split_once('/').map(|(group, _)| group.to_owned())
        };
        Self {
            api_group: wire.api_group.clone().or_else(from_version).unwrap_or_default(),
            kind: wire.kind.unwrap_or_default(),
            name: wire.name.unwrap_or_default(),
            api_version: wire.api_version,
        }
    }
}
