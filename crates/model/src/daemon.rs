//! One pod for each DaemonSet: what every node that it fits will carry.

use crate::pod::{Owner, Pod, from_api, requests};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::names::taints;

/// The pod of a DaemonSet.
///
/// Requests come from `live` (the newest pod of the set that an API server admitted) where there is one, since admission may
/// have changed them; else from the template with the defaults of the namespace's `LimitRange`s. Placement always comes from the
/// template, since the controller pins each live pod to its node. Owner is the DaemonSet.
pub fn from_daemon_set(set: &DaemonSet, live: Option<&core::Pod>, limit_ranges: &[&core::LimitRange]) -> Pod {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut spec = template.spec.unwrap_or_default();
    crate::pod::apply_limit_ranges(&mut spec, limit_ranges.iter().copied());
    spec.tolerations.get_or_insert_default().extend(automatic_tolerations(spec.host_network == Some(true)));
    let metadata = ObjectMeta {
        name: set.metadata.name.clone(),
        namespace: set.metadata.namespace.clone(),
        labels: template.metadata.and_then(|metadata| metadata.labels),
        creation_timestamp: set.metadata.creation_timestamp.clone(),
        ..ObjectMeta::default()
    };
    let pod = core::Pod { metadata, spec: Some(spec), status: None };
    let mut converted = from_api(&pod);
    if let Some(live) = live {
        let mut invalid = Vec::new();
        let live_spec = live.spec.clone().unwrap_or_default();
        let admitted =
            requests::effective(&live_spec, live.status.as_ref(), requests::Defaulting::Apply, &mut invalid);
        if invalid.is_empty() {
            converted.requests = admitted;
        }
    }
    converted.owner = Some(Box::new(Owner {
        api_version: "apps/v1".to_owned(),
        kind: "DaemonSet".to_owned(),
        name: set.metadata.name.clone().unwrap_or_default(),
        uid: set.metadata.uid.clone().unwrap_or_default(),
    }));
    converted
}

/// Tolerations that the DaemonSet controller gives to each of its pods.
fn automatic_tolerations(host_network: bool) -> Vec<core::Toleration> {
    let tolerate = |key: &str, effect: &str| core::Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        ..core::Toleration::default()
    };
    let mut tolerations = vec![
        tolerate(taints::NOT_READY, taints::NO_EXECUTE),
        tolerate(taints::UNREACHABLE, taints::NO_EXECUTE),
        tolerate("node.kubernetes.io/disk-pressure", taints::NO_SCHEDULE),
        tolerate("node.kubernetes.io/memory-pressure", taints::NO_SCHEDULE),
        tolerate("node.kubernetes.io/pid-pressure", taints::NO_SCHEDULE),
        tolerate(taints::UNSCHEDULABLE, taints::NO_SCHEDULE),
    ];
    if host_network {
        tolerations.push(tolerate("node.kubernetes.io/network-unavailable", taints::NO_SCHEDULE));
    }
    tolerations
}
