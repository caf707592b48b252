//! Label keys with a meaning of their own: well-known ones, and those that only a controller may set.

use karpenter_capi_api::names::labels;
use std::collections::BTreeSet;

pub use karpenter_capi_api::names::labels::{
    ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, OS, TOPOLOGY_REGION, TOPOLOGY_ZONE,
};

/// The well-known keys as a set, for [`crate::requirements::Requirements::compatible`].
pub fn well_known() -> BTreeSet<String> {
    labels::WELL_KNOWN.iter().map(|key| (*key).to_owned()).collect()
}

/// Why nobody but a controller may ask for or set this key; None where it is free.
///
/// The rule is the NodePool CRD's: restricted domains with their subdomains except two keys, and the host name.
pub fn restricted(key: &str) -> Option<&'static str> {
    if labels::RESTRICTED.contains(&key) {
        return Some("is unknown before the node exists");
    }
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |restricted: &&str| {
        domain.strip_suffix(*restricted).is_some_and(|head| head.is_empty() || head.ends_with('.'))
    };
    (labels::RESTRICTED_DOMAINS.iter().any(within) && !labels::UNRESTRICTED.contains(&key))
        .then_some("is set by the controller, use karpenter.sh/nodepool")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_controllers_set_keys_of_karpenter_sh() {
        for key in
            ["karpenter.sh/registered", "karpenter.sh/initialized", "sub.karpenter.sh/x", labels::HOSTNAME]
        {
            assert!(restricted(key).is_some(), "{key}");
        }
        for key in
            [labels::NODEPOOL, labels::CAPACITY_TYPE, "notkarpenter.sh/x", "team", labels::TOPOLOGY_ZONE]
        {
            assert_eq!(restricted(key), None, "{key}");
        }
    }
}
