//! Label keys with a meaning of their own: well-known ones, old spellings, and those that only a controller may set.

use karpenter_capi_api::names;
use std::collections::BTreeSet;

/// Keys that a node may carry though no NodePool declares them: the cloud or the kubelet sets them.
pub const WELL_KNOWN: [&str; 8] = [
    names::CAPACITY_TYPE_LABEL,
    names::NODEPOOL_LABEL,
    names::ARCH_LABEL,
    names::OS_LABEL,
    names::INSTANCE_TYPE_LABEL,
    names::WINDOWS_BUILD_LABEL,
    names::REGION_LABEL,
    names::ZONE_LABEL,
];

/// Whether the key is one of [`WELL_KNOWN`].
pub fn is_well_known(key: &str) -> bool {
    WELL_KNOWN.contains(&key)
}

/// [`WELL_KNOWN`] as a set, for [`crate::requirements::Requirements::compatible`].
pub fn well_known() -> BTreeSet<String> {
    WELL_KNOWN.iter().map(|key| (*key).to_owned()).collect()
}

/// The stable spelling of a key: `beta.kubernetes.io/arch` and its like are aliases.
pub fn normalise(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" => names::ZONE_LABEL,
        "failure-domain.beta.kubernetes.io/region" => names::REGION_LABEL,
        "beta.kubernetes.io/arch" => names::ARCH_LABEL,
        "beta.kubernetes.io/os" => names::OS_LABEL,
        "beta.kubernetes.io/instance-type" => names::INSTANCE_TYPE_LABEL,
        other => other,
    }
}

/// Why nobody but a controller may ask for or set this key; None where it is free.
///
/// The rule is the NodePool CRD's: the domain `karpenter.sh` except the capacity type and the NodePool, and the host name.
pub fn restricted(key: &str) -> Option<&'static str> {
    if key == names::HOSTNAME_LABEL {
        return Some("is unknown before the node exists");
    }
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let ours = domain == "karpenter.sh" || domain.ends_with(".karpenter.sh");
    (ours && key != names::CAPACITY_TYPE_LABEL && key != names::NODEPOOL_LABEL)
        .then_some("is set by the controller, use karpenter.sh/nodepool")
}
