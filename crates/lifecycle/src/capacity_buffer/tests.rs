use super::*;
use jiff::Timestamp;
use karpenter_capi_api::capacity_buffer::CapacityBufferStatus;
use karpenter_capi_api::condition;
use serde_json::{Value, json};

fn buffer(spec: &Value) -> CapacityBuffer {
    serde_json::from_value(json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "shop", "uid": "u1", "generation": 4}, "spec": spec
    }))
    .unwrap()
}

fn template(spec: &Value) -> PodTemplate {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "generation": 7},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    }))
    .unwrap()
}

fn one_cpu() -> PodTemplate {
    template(
        &json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}]}),
    )
}

fn by_template(spec: &Value) -> Result<Resolved, Unresolved> {
    let mut whole = json!({"podTemplateRef": {"name": "web"}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let found = one_cpu();
    resolve(&buffer(&whole), Referred { pod_template: Some(&found), scalable: None }, &[])
}

fn by_scalable(replicas: i32, spec: &Value) -> Result<Resolved, Unresolved> {
    let mut whole = json!({"scalableRef": {"kind": "Deployment", "name": "web"}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let found = one_cpu().template.unwrap();
    let scalable = Scalable { template: &found, replicas };
    resolve(&buffer(&whole), Referred { pod_template: None, scalable: Some(scalable) }, &[])
}

#[test]
fn replicas_are_the_greater_of_number_and_percentage_within_the_limits() {
    for (spec, scalable, expected) in [
        (json!({"replicas": 3}), None, 3),
        (json!({"replicas": 0}), None, 0),
        (json!({"replicas": 9, "limits": {"cpu": "2500m"}}), None, 2),
        (json!({"replicas": 1, "limits": {"cpu": "9"}}), None, 1),
        (json!({"limits": {"cpu": "5", "memory": "7Gi"}}), None, 3),
        // Nothing of what the pods ask for is limited.
        (json!({"replicas": 2, "limits": {"nvidia.com/gpu": "1"}}), None, 2),
        (json!({"limits": {"nvidia.com/gpu": "1"}}), None, 0),
        (json!({"percentage": 20}), Some(10), 2),
        (json!({"percentage": 21}), Some(10), 3),
        (json!({"percentage": 1}), Some(10), 1),
        (json!({"percentage": 0}), Some(10), 0),
        (json!({"percentage": 50}), Some(0), 0),
        (json!({"percentage": 20, "replicas": 5}), Some(10), 5),
        (json!({"percentage": 90, "replicas": 5}), Some(10), 9),
        (json!({"percentage": 90, "limits": {"cpu": "4"}}), Some(10), 4),
        (json!({"percentage": 2_147_483_647}), Some(i32::MAX), 10_000),
        (json!({}), Some(10), 0),
    ] {
        let resolved = scalable.map_or_else(|| by_template(&spec), |replicas| by_scalable(replicas, &spec));
        assert_eq!(resolved.unwrap().replicas, expected, "{spec} {scalable:?}");
    }
}

#[test]
fn what_a_buffer_refers_to_must_be_there_and_of_a_known_kind() {
    let reason = |spec: &Value| resolve(&buffer(spec), Referred::default(), &[]).unwrap_err();
    for (spec, expected, words) in [
        (json!({"podTemplateRef": {"name": "web"}, "replicas": 1}), "PodTemplateNotFound", "\"web\""),
        (
            json!({"scalableRef": {"kind": "Deployment", "name": "web"}}),
            "ScalableRefNotFound",
            "Deployment \"web\"",
        ),
        (json!({"scalableRef": {"kind": "Job", "name": "web"}}), "ResolutionFailed", "\"Job\""),
        (
            json!({"scalableRef": {"apiGroup": "batch", "kind": "Deployment", "name": "w"}}),
            "ResolutionFailed",
            "\"batch\"",
        ),
        (json!({"replicas": 1}), "ResolutionFailed", "neither"),
    ] {
        let found = reason(&spec);
        assert!(found.reason == expected && found.message.contains(words), "{spec}: {found:?}");
    }
}

#[test]
fn virtual_pods_are_like_the_template_and_the_same_every_time() {
    let found = template(&json!({
        "nodeName": "n1", "priorityClassName": "high", "nodeSelector": {"a": "b"},
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "volumes": [
            {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "s", "emptyDir": {}}
        ]
    }));
    let buffer = buffer(&json!({"podTemplateRef": {"name": "web"}, "replicas": 2}));
    let referred = Referred { pod_template: Some(&found), scalable: None };
    let resolved = resolve(&buffer, referred, &[]).unwrap();
    assert_eq!(resolved.pod_template, Some(("web".to_owned(), Some(7))));
    let pods = resolved.virtual_pods(&buffer);
    let named: Vec<_> = pods.iter().map(|pod| (pod.name.to_string(), pod.uid.as_str())).collect();
    assert_eq!(
        named,
        [
            ("shop/capacity-buffer-spare-1".to_owned(), "u1-1"),
            ("shop/capacity-buffer-spare-2".to_owned(), "u1-2")
        ]
    );
    let first = &pods[0];
    assert_eq!((first.priority, &first.node_name, first.requests.cpu()), (Some(i32::MIN), &None, 1000));
    assert!(
        first.volume_claims.is_empty() && first.labels["app"] == "web" && !first.node_selector.is_empty()
    );
    assert!(first.is_provisionable(false));
    assert_eq!(pods, resolve(&buffer, referred, &[]).unwrap().virtual_pods(&buffer));
}

#[test]
fn virtual_pods_have_the_defaults_of_their_namespace_as_real_ones_would() {
    let found = template(&json!({"containers": [{"name": "c"}]}));
    let range: LimitRange = serde_json::from_value(json!({
        "metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}]}
    }))
    .unwrap();
    let buffer = buffer(&json!({"podTemplateRef": {"name": "web"}, "limits": {"cpu": "5"}}));
    let referred = Referred { pod_template: Some(&found), scalable: None };
    assert_eq!(resolve(&buffer, referred, &[&range]).unwrap().replicas, 2);
}

fn told(status: &CapacityBufferStatus) -> Vec<(&str, &str, &str)> {
    let all = status.conditions.iter();
    all.map(|each| (each.type_.as_str(), each.status.as_str(), each.reason.as_str())).collect()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

#[test]
fn the_status_follows_the_passes() {
    let mut object = buffer(&json!({"podTemplateRef": {"name": "web"}, "replicas": 2}));
    let resolved = by_template(&json!({"replicas": 2})).unwrap();
    let fresh = desired_status(&object, Ok(&resolved), None, at(1)).unwrap();
    assert_eq!((fresh.replicas, fresh.pod_template_generation), (Some(2), Some(7)));
    assert_eq!(fresh.pod_template_ref.as_ref().unwrap().name, "web");
    assert_eq!(fresh.provisioning_strategy.as_deref(), Some(ACTIVE_CAPACITY));
    assert_eq!(told(&fresh), [("ReadyForProvisioning", "True", "Resolved")]);
    object.status = Some(fresh);
    assert_eq!(desired_status(&object, Ok(&resolved), None, at(9)), None, "nothing is written twice");

    let held = |existing, on_new, failed, limited| Held { existing, on_new, failed, limited };
    for (held, provisioning, limited) in [
        (held(1, 1, 0, 0), ("Provisioning", "False", "RequiresNewCapacity"), "False"),
        (held(1, 0, 1, 1), ("Provisioning", "False", "RequiresNewCapacity"), "True"),
        (held(2, 0, 0, 0), ("Provisioning", "True", "FitsExistingCapacity"), "False"),
    ] {
        let status = desired_status(&object, Ok(&resolved), Some(held), at(2)).unwrap();
        assert_eq!((told(&status)[1], told(&status)[2].1), (provisioning, limited), "{held:?}");
        object.status = Some(status);
    }
}

#[test]
fn a_buffer_that_is_not_understood_or_empty_says_so() {
    let object = buffer(&json!({"podTemplateRef": {"name": "web"}, "replicas": 0}));
    let empty =
        desired_status(&object, Ok(&by_template(&json!({"replicas": 0})).unwrap()), None, at(1)).unwrap();
    assert_eq!(told(&empty)[1], ("Provisioning", "False", "BufferEmpty"));
    let unresolved = resolve(&object, Referred::default(), &[]).unwrap_err();
    let status = desired_status(&object, Err(&unresolved), None, at(1)).unwrap();
    assert_eq!(
        told(&status),
        [
            ("ReadyForProvisioning", "False", "PodTemplateNotFound"),
            ("Provisioning", "False", "NotReadyForProvisioning")
        ]
    );
    assert!(
        status
            .conditions
            .iter()
            .all(|each| each.observed_generation == Some(4) && each.status == condition::FALSE)
    );
}

#[test]
fn a_buffer_of_another_strategy_is_left_alone() {
    let object = buffer(&json!({
        "provisioningStrategy": "buffer.example.com/standby", "podTemplateRef": {"name": "web"}, "replicas": 1
    }));
    assert!(!is_served(&object));
    assert_eq!(
        desired_status(&object, Ok(&by_template(&json!({"replicas": 1})).unwrap()), None, at(1)),
        None
    );
}
