//! Labels that nodes of a MachineDeployment come up with.

use crate::findings::{Annotations, Findings, is_label_value, is_qualified_name, parts};
use karpenter_capi_api::capi::{InfrastructureTemplate, MachineDeployment};
use karpenter_capi_api::names::{annotations, labels};
use karpenter_capi_model::label::restricted;
use std::collections::BTreeMap;

const LABELS_REMEDY: &str =
    "write key=value with a label's key and value, separated by commas; the value may be empty";
/// The architecture where nothing says otherwise, as the Cluster Autoscaler assumes it.
const DEFAULT_ARCH: &str = "amd64";
const DEFAULT_OS: &str = "linux";
/// Longest value of a label.
const LABEL_VALUE_MAX: usize = 63;

/// Labels, each source over the one before: architecture and system in general, the infrastructure template's `nodeInfo`, labels of
/// the Machine template in the domains that Cluster API copies to Nodes, the `labels` annotation, our own annotations.
pub(crate) fn node_labels(
    deployment: &MachineDeployment,
    template: Option<&InfrastructureTemplate>,
    annotated: Annotations<'_>,
    findings: &mut Findings,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let architecture = template.and_then(|template| template.architecture.as_deref()).unwrap_or(DEFAULT_ARCH);
    let system = template.and_then(|template| template.operating_system.as_deref()).unwrap_or(DEFAULT_OS);
    found.insert(labels::ARCH.to_owned(), architecture.to_owned());
    found.insert(labels::OS.to_owned(), system.to_owned());
    let template_labels = &deployment.spec.template.metadata.labels;
    found.extend(
        template_labels.iter().filter(|(key, _)| is_copied(key)).map(|(k, v)| (k.clone(), v.clone())),
    );
    from_annotation(annotated, findings, &mut found);
    capacity_type(annotated, findings, &mut found);
    zone(deployment, annotated, findings, &mut found);
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    found.entry(labels::INSTANCE_TYPE.to_owned()).or_insert_with(|| instance_type_of(name));
    found
}

/// Whether Cluster API copies a Machine's label of that key to its Node.
fn is_copied(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    // The opt-in label belongs to the MachineDeployment and says nothing about nodes.
    key != labels::MEMBER
        && labels::SYNCED_BY_CAPI_DOMAINS.iter().any(|synced| {
            // Of the roles no subdomain is copied.
            let with_subdomains = *synced != labels::NODE_ROLE_DOMAIN;
            domain
                .strip_suffix(synced)
                .is_some_and(|prefix| prefix.is_empty() || with_subdomains && prefix.ends_with('.'))
        })
}

fn from_annotation(
    annotated: Annotations<'_>,
    findings: &mut Findings,
    found: &mut BTreeMap<String, String>,
) {
    const KEY: &str = annotations::CAPACITY_LABELS;
    for part in parts(annotated.value(KEY).unwrap_or_default()) {
        let label = part.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        match label.filter(|(key, value)| is_qualified_name(key) && is_label_value(value)) {
            None => findings.fault(KEY, part, LABELS_REMEDY),
            Some((key, _)) if belongs_to_karpenter(key) => {
                findings.ignore(
                    KEY,
                    part,
                    "leave this label out: it is set by Karpenter or by the kubelet on each Node",
                );
            }
            Some((key, value)) => {
                found.insert(labels::normalized(key).to_owned(), value.to_owned());
            }
        }
    }
}

fn belongs_to_karpenter(key: &str) -> bool {
    restricted(key).is_some() || key == labels::NODEPOOL || key == labels::NODECLASS
}

/// `on-demand` where nothing says otherwise.
fn capacity_type(annotated: Annotations<'_>, findings: &mut Findings, found: &mut BTreeMap<String, String>) {
    const REMEDY: &str = "write on-demand, spot or reserved";
    let own = annotated.value(annotations::CAPACITY_TYPE);
    let key = own.map_or(annotations::CAPACITY_LABELS, |_| annotations::CAPACITY_TYPE);
    let value = own.map(str::to_owned).or_else(|| found.get(labels::CAPACITY_TYPE).cloned());
    let value = value.unwrap_or_else(|| labels::CAPACITY_TYPE_ON_DEMAND.to_owned());
    if !labels::CAPACITY_TYPES.contains(&value.as_str()) {
        findings.fault(key, &value, REMEDY);
    }
    found.insert(labels::CAPACITY_TYPE.to_owned(), value);
}

/// Our annotation, else a label, else the template's failure domain. An empty zone is no zone: the Node would have an empty label.
fn zone(
    deployment: &MachineDeployment,
    annotated: Annotations<'_>,
    findings: &mut Findings,
    found: &mut BTreeMap<String, String>,
) {
    if let Some(value) = annotated.value(annotations::ZONE) {
        if value.is_empty() || !is_label_value(value) {
            findings.fault(
                annotations::ZONE,
                value,
                "write the zone as it stands in the Node's label topology.kubernetes.io/zone",
            );
        } else {
            found.insert(labels::TOPOLOGY_ZONE.to_owned(), value.to_owned());
        }
    }
    if found.get(labels::TOPOLOGY_ZONE).is_some_and(String::is_empty) {
        findings.ignore(
            annotations::CAPACITY_LABELS,
            "topology.kubernetes.io/zone=",
            "write the zone, or leave the label out",
        );
        found.remove(labels::TOPOLOGY_ZONE);
    }
    let domain = deployment.spec.template.spec.failure_domain.as_deref().unwrap_or_default();
    if !domain.is_empty() && is_label_value(domain) {
        found.entry(labels::TOPOLOGY_ZONE.to_owned()).or_insert_with(|| domain.to_owned());
    }
}

/// A MachineDeployment's name as the instance type's; too long a name is cut and made unique again by a hash of the whole.
fn instance_type_of(name: &str) -> String {
    if name.len() <= LABEL_VALUE_MAX {
        return name.to_owned();
    }
    let hash = format!("{:016x}", fnv1a(name.as_bytes()));
    let kept = name.get(..LABEL_VALUE_MAX - hash.len() - 1).unwrap_or_default();
    format!("{}-{hash}", kept.trim_end_matches(['-', '.']))
}

/// FNV-1a, 64 bits: stable for ever, and good enough to tell names apart that share their first 46 characters.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_of_managed_domains_are_copied() {
        for key in [
            "node.cluster.x-k8s.io/rack",
            "x.node-restriction.kubernetes.io/sec",
            "node-role.kubernetes.io/worker",
        ] {
            assert!(is_copied(key), "{key}");
        }
        for key in ["example.com/tier", "tier", "xnode-role.kubernetes.io/worker", labels::MEMBER] {
            assert!(!is_copied(key), "{key}");
        }
    }

    #[test]
    fn long_names_that_start_alike_stay_two_types() {
        let one = format!("{}-one", "a".repeat(70));
        let two = format!("{}-two", "a".repeat(70));
        let (first, second) = (instance_type_of(&one), instance_type_of(&two));
        assert_ne!(first, second);
        assert_eq!(first, instance_type_of(&one));
        assert!(first.len() <= 63 && is_label_value(&first), "{first}");
        assert_eq!(instance_type_of(&"b".repeat(63)), "b".repeat(63));
    }

    #[test]
    fn karpenters_own_labels_are_known() {
        for key in
            ["karpenter.sh/nodepool", "karpenter.sh/initialized", "kubernetes.io/hostname", labels::NODECLASS]
        {
            assert!(belongs_to_karpenter(key), "{key}");
        }
        assert!(!belongs_to_karpenter(labels::CAPACITY_TYPE));
        assert!(!belongs_to_karpenter("notkarpenter.sh/x"));
    }
}
