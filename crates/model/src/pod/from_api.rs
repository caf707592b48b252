//! A pod of the API to the model's, in one pass that finds everything wrong with it.

use super::requests::{Defaulting, effective};
use super::{HostPort, Owner, Pod, PodAffinityTerm, PodPhase, PreferredTerm, affinity, labels};
use crate::name::NamespacedName;
use crate::requirements::Requirements;
use crate::taint::Toleration;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::collections::BTreeMap;

/// Converts a pod. Never fails as a whole: what can't be read is left out and named in [`Pod::invalid`].
///
/// Missing defaults are filled in first, so that a pod from a file reads as the API server would have stored it:
/// namespace `default`, and a request for each limit.
pub fn from_api(pod: &core::Pod) -> Pod {
    match &pod.spec {
        Some(spec) => convert(&pod.metadata, spec, pod.status.as_ref()),
        None => convert(&pod.metadata, &core::PodSpec::default(), pod.status.as_ref()),
    }
}

fn convert(metadata: &ObjectMeta, spec: &core::PodSpec, status: Option<&core::PodStatus>) -> Pod {
    let mut invalid = Vec::new();
    let name = name_of(metadata);
    let labels = labels::shared(metadata.labels.as_ref());
    let affinities = affinities(spec, &labels, &mut invalid);
    let spread = spec.topology_spread_constraints.as_deref().unwrap_or_default();
    Pod {
        uid: metadata.uid.clone().unwrap_or_else(|| name.to_string()),
        requests: effective(spec, status, Defaulting::Apply, &mut invalid),
        node_selector: spec.node_selector.as_ref().map(Requirements::from_labels).unwrap_or_default(),
        required_node_affinity: affinities.nodes.0,
        preferred_node_affinity: affinities.nodes.1,
        tolerations: tolerations(spec, &mut invalid),
        topology_spread: spread
            .iter()
            .map(|constraint| affinity::spread(constraint, &labels, &mut invalid))
            .collect(),
        pod_affinity: affinities.with_pods.0,
        preferred_pod_affinity: affinities.with_pods.1,
        pod_anti_affinity: affinities.against_pods.0,
        preferred_pod_anti_affinity: affinities.against_pods.1,
        volume_claims: volume_claims(&name, spec),
        host_ports: host_ports(spec),
        needs_dynamic_resources: needs_dynamic_resources(spec),
        owner: owner(metadata).map(Box::new),
        priority: spec.priority,
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        node_name: spec.node_name.clone().filter(|node| !node.is_empty()),
        phase: phase(status),
        deleting: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        gated: spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()),
        nominated_node_name: status
            .and_then(|status| status.nominated_node_name.clone())
            .filter(|node| !node.is_empty()),
        marked_unschedulable: marked_unschedulable(status),
        labels,
        name,
        invalid,
    }
}

/// Required terms, and preferred ones, of each kind.
struct Affinities {
    nodes: (Vec<Requirements>, Vec<PreferredTerm<Requirements>>),
    with_pods: (Vec<PodAffinityTerm>, Vec<PreferredTerm<PodAffinityTerm>>),
    against_pods: (Vec<PodAffinityTerm>, Vec<PreferredTerm<PodAffinityTerm>>),
}

fn affinities(
    spec: &core::PodSpec,
    labels: &BTreeMap<String, String>,
    invalid: &mut Vec<String>,
) -> Affinities {
    let all = spec.affinity.as_ref();
    let of_nodes = all.and_then(|affinity| affinity.node_affinity.as_ref());
    let nodes = of_nodes.map(|terms| affinity::node_affinity(terms, invalid)).unwrap_or_default();
    let with_pods = all.and_then(|affinity| affinity.pod_affinity.as_ref());
    let with_pods = affinity::terms(
        with_pods.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_deref()),
        with_pods.and_then(|terms| terms.preferred_during_scheduling_ignored_during_execution.as_deref()),
        labels,
        invalid,
    );
    let against_pods = all.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let against_pods = affinity::terms(
        against_pods.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_deref()),
        against_pods.and_then(|terms| terms.preferred_during_scheduling_ignored_during_execution.as_deref()),
        labels,
        invalid,
    );
    Affinities { nodes, with_pods, against_pods }
}

fn name_of(metadata: &ObjectMeta) -> NamespacedName {
    let namespace = metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let name = metadata.name.as_deref().or(metadata.generate_name.as_deref());
    NamespacedName::new(namespace.unwrap_or("default"), name.unwrap_or_default())
}

fn tolerations(spec: &core::PodSpec, invalid: &mut Vec<String>) -> Vec<Toleration> {
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let mut parsed = Vec::with_capacity(tolerations.len());
    for toleration in tolerations {
        match Toleration::from_api(toleration) {
            Ok(toleration) => parsed.push(toleration),
            Err(error) => invalid.push(format!("spec.tolerations: {error}")),
        }
    }
    parsed
}

/// Claims by name, and the generated names of ephemeral volumes, sorted.
fn volume_claims(pod: &NamespacedName, spec: &core::PodSpec) -> Vec<NamespacedName> {
    let mut claims = Vec::new();
    for volume in spec.volumes.iter().flatten() {
        if let Some(source) = &volume.persistent_volume_claim {
            claims.push(NamespacedName::new(pod.namespace.clone(), source.claim_name.clone()));
        }
        if volume.ephemeral.is_some() {
            claims.push(NamespacedName::new(pod.namespace.clone(), format!("{}-{}", pod.name, volume.name)));
        }
    }
    claims.sort_unstable();
    claims.dedup();
    claims
}

/// Ports of containers and sidecars, as kube-scheduler counts them. With `hostNetwork` every container port is a host port.
fn host_ports(spec: &core::PodSpec) -> Vec<HostPort> {
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let on_host = spec.host_network == Some(true);
    let mut ports = Vec::new();
    for port in spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten())
    {
        let number =
            port.host_port.filter(|port| *port > 0).or_else(|| on_host.then_some(port.container_port));
        if let Some(number) = number {
            ports.push(HostPort {
                ip: port.host_ip.clone().unwrap_or_default(),
                port: number,
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            });
        }
    }
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn needs_dynamic_resources(spec: &core::PodSpec) -> bool {
    spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty())
}

fn owner(metadata: &ObjectMeta) -> Option<Owner> {
    let references = metadata.owner_references.as_deref().unwrap_or_default();
    let reference =
        references.iter().find(|reference| reference.controller == Some(true)).or(match references {
            [only] => Some(only),
            _ => None,
        })?;
    let OwnerReference { api_version, kind, name, uid, .. } = reference;
    Some(Owner { api_version: api_version.clone(), kind: kind.clone(), name: name.clone(), uid: uid.clone() })
}

fn phase(status: Option<&core::PodStatus>) -> PodPhase {
    match status.and_then(|status| status.phase.as_deref()) {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Unknown") => PodPhase::Unknown,
        _ => PodPhase::Pending,
    }
}

fn marked_unschedulable(status: Option<&core::PodStatus>) -> bool {
    status.and_then(|status| status.conditions.as_deref()).into_iter().flatten().any(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    })
}

/// Requests that the `LimitRange`s of a namespace give to containers that say nothing: `defaultRequest`, else `default`, `max` or
/// `min`, in the order in which the API server completes a `LimitRange` itself.
pub fn apply_limit_ranges<'a>(
    spec: &mut core::PodSpec,
    ranges: impl IntoIterator<Item = &'a core::LimitRange>,
) {
    let items = ranges.into_iter().filter_map(|range| range.spec.as_ref()).flat_map(|spec| &spec.limits);
    let items: Vec<&core::LimitRangeItem> = items.filter(|item| item.type_ == "Container").collect();
    if items.is_empty() {
        return;
    }
    let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
    for container in containers {
        let resources = container.resources.get_or_insert_default();
        // The API server copies limits to missing requests before admission plugins see the pod, so that a range's
        // default request never goes below the limit that was written.
        let mut sources = vec![resources.limits.as_ref()];
        for item in &items {
            let lists = [&item.default_request, &item.default, &item.max, &item.min];
            sources.extend(lists.into_iter().map(Option::as_ref));
        }
        let mut requests = resources.requests.clone().unwrap_or_default();
        for (name, quantity) in sources.into_iter().flatten().flatten() {
            requests.entry(name.clone()).or_insert_with(|| quantity.clone());
        }
        resources.requests = Some(requests);
    }
}
