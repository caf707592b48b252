use super::*;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_capi_api::capi::Machine;
use karpenter_capi_api::v1::{NodeClaim, NodeClaimStatus};
use serde_json::{Value, json};

fn at(text: &str) -> Timestamp {
    format!("2026-01-05T{text}Z").parse().unwrap()
}

fn claim(status: &Value) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "p-x", "uid": "u", "creationTimestamp": "2026-01-05T12:00:00Z", "generation": 1},
        "spec": {
            "requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
            "startupTaints": [{"key": "net", "effect": "NoExecute"}],
            "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1", "memory": "0"}}
        },
        "status": status
    }))
    .unwrap()
}

fn machine(provider_id: Option<&str>) -> Machine {
    serde_json::from_value(json!({
        "metadata": {"name": "m", "namespace": "default"},
        "spec": {"providerID": provider_id},
        "status": {"conditions": [{
            "type": "InfrastructureReady", "status": "False", "reason": "InsufficientCapacity", "message": "no capacity in zone a",
            "lastTransitionTime": "2026-01-05T12:00:00Z"
        }]}
    }))
    .unwrap()
}

fn node(taints: &Value, gpu: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "n1", "resourceVersion": "1"},
        "spec": {"providerID": "x://1", "taints": taints},
        "status": {
            "capacity": {"cpu": "4", "nvidia.com/gpu": gpu}, "allocatable": {"cpu": "3900m", "nvidia.com/gpu": gpu},
            "conditions": [{"type": "Ready", "status": "True"}]
        }
    }))
    .unwrap()
}

fn step(claim: &NodeClaim, machine: Option<&Machine>, nodes: &[&Node], now: &str) -> Step {
    progress(&Observed {
        now: at(now),
        claim,
        machine,
        nodes,
        promise: None,
        timeouts: Timeouts { launch: SignedDuration::from_mins(15), registration: SignedDuration::from_mins(10) },
    })
}

fn told(status: &NodeClaimStatus, kind: &str) -> (String, String) {
    let condition = condition::find(&status.conditions, kind).unwrap();
    (condition.status.clone(), condition.reason.clone())
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// The claim with the status that a step wanted, as the next pass would see it.
fn after(step: &Step) -> NodeClaim {
    claim(&serde_json::to_value(&step.status).unwrap())
}

#[test]
fn a_claim_without_machine_waits_and_says_for_what() {
    let step = step(&claim(&json!({})), None, &[], "12:00:01");
    assert_eq!(told(&step.status, "Launched"), pair("Unknown", "AwaitingMachine"));
    assert_eq!(told(&step.status, "Ready").0, "Unknown");
    assert_eq!(step.look_again, Some(SignedDuration::from_secs(15 * 60 - 1)));
}

#[test]
fn the_infrastructure_providers_words_are_shown() {
    let step = step(&claim(&json!({})), Some(&machine(None)), &[], "12:00:01");
    assert_eq!(told(&step.status, "Launched"), pair("Unknown", "InsufficientCapacity"));
    let launched = condition::find(&step.status.conditions, "Launched").unwrap();
    assert_eq!(launched.message, "Machine m: no capacity in zone a");
}

#[test]
fn a_claim_goes_from_launched_over_registered_to_initialized() {
    let machine = machine(Some("x://1"));
    let launched = step(&claim(&json!({})), Some(&machine), &[], "12:01:00");
    assert_eq!(launched.status.provider_id.as_deref(), Some("x://1"));
    assert_eq!(told(&launched.status, "Launched").0, "True");
    assert_eq!(told(&launched.status, "Registered"), pair("Unknown", "NodeNotFound"));

    let joined = node(&json!([{"key": "net", "effect": "NoExecute"}]), "1");
    let registered = step(&after(&launched), Some(&machine), &[&joined], "12:02:00");
    assert_eq!(told(&registered.status, "Registered").0, "True");
    assert_eq!(registered.status.node_name.as_deref(), Some("n1"));
    assert!(registered.node.is_some());
    assert_eq!(told(&registered.status, "Initialized"), pair("Unknown", "StartupTaintsExist"));

    let ready = node(&json!([]), "1");
    let initialized = step(&after(&registered), Some(&machine), &[&ready], "12:03:00");
    assert_eq!(told(&initialized.status, "Initialized").0, "True");
    assert_eq!(told(&initialized.status, "Ready").0, "True");
    assert_eq!(initialized.node.as_ref().unwrap().patch["metadata"]["labels"], json!({"karpenter.sh/initialized": "true"}));
    assert_eq!(initialized.status.allocatable["cpu"].0, "3900m");
    assert_eq!(initialized.look_again, None);
}

#[test]
fn taints_of_a_starting_node_keep_a_claim_from_initialized() {
    let registered = step(&claim(&json!({})), Some(&machine(Some("x://1"))), &[&node(&json!([]), "1")], "12:02:00");
    for key in ["node.cluster.x-k8s.io/uninitialized", "node.kubernetes.io/not-ready"] {
        let starting = node(&json!([{"key": key, "effect": "NoSchedule"}]), "1");
        let waiting = step(&after(&registered), Some(&machine(Some("x://1"))), &[&starting], "12:02:10");
        assert_eq!(told(&waiting.status, "Initialized"), pair("Unknown", "KnownEphemeralTaintsExist"), "{key}");
    }
}

// Public report aws/karpenter-provider-aws#1914: a GPU that never registers.
#[test]
fn a_requested_resource_that_the_node_lacks_keeps_a_claim_from_initialized() {
    let registered = step(&claim(&json!({})), Some(&machine(Some("x://1"))), &[&node(&json!([]), "1")], "12:02:00");
    let waiting = step(&after(&registered), Some(&machine(Some("x://1"))), &[&node(&json!([]), "0")], "12:40:00");
    assert_eq!(told(&waiting.status, "Initialized"), pair("Unknown", "ResourceNotRegistered"));
    let condition = condition::find(&waiting.status.conditions, "Initialized").unwrap();
    assert_eq!(condition.message, "resource nvidia.com/gpu is not registered");
    assert_eq!(waiting.timed_out, None, "a registered node doesn't time out");
}

#[test]
fn two_nodes_with_one_provider_id_are_refused() {
    let (a, b) = (node(&json!([]), "1"), node(&json!([]), "1"));
    let step = step(&claim(&json!({})), Some(&machine(Some("x://1"))), &[&a, &b], "12:02:00");
    assert_eq!(told(&step.status, "Registered"), pair("False", "MultipleNodesFound"));
    assert_eq!(told(&step.status, "Ready").0, "False");
}

#[test]
fn launch_and_registration_have_each_its_own_limit() {
    let waiting = claim(&json!({}));
    assert_eq!(step(&waiting, None, &[], "12:14:59").timed_out, None);
    let (what, message) = step(&waiting, Some(&machine(None)), &[], "12:15:00").timed_out.unwrap();
    assert_eq!((what, message.as_str()), (TimedOut::Launch, "not Launched within 15m0s: Machine m: no capacity in zone a"));

    let launched = after(&step(&waiting, Some(&machine(Some("x://1"))), &[], "12:10:00"));
    assert_eq!(step(&launched, Some(&machine(Some("x://1"))), &[], "12:19:59").timed_out, None);
    let (what, _) = step(&launched, Some(&machine(Some("x://1"))), &[], "12:20:00").timed_out.unwrap();
    assert_eq!(what, TimedOut::Registration);
}

fn deleted(status: &Value, period: Option<&str>) -> NodeClaim {
    let mut claim = claim(status);
    claim.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at("13:00:00")));
    claim.spec.termination_grace_period = period.map(Into::into);
    claim
}

fn terminating(claim: &NodeClaim, node: Option<&Node>, pods: &[&Pod], attachments: &[String], now: &str) -> Termination {
    terminate(&Terminating { now: at(now), claim, machine: None, node, pods, volume_attachments: attachments })
}

fn disrupted() -> Node {
    node(&json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]), "1")
}

fn pod() -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "w", "namespace": "default", "uid": "w"}, "spec": {"containers": []}})).unwrap()
}

#[test]
fn a_claim_without_node_has_nothing_to_drain() {
    let claim = deleted(&json!({}), None);
    let termination = terminating(&claim, None, &[], &[], "13:00:00");
    let claim = deleted(&serde_json::to_value(&termination.status).unwrap(), None);
    assert!(is_drained(&claim, None));
}

#[test]
fn the_taint_comes_before_evictions_and_the_conditions_before_the_taint() {
    let stale = json!({"conditions": [
        {"type": "Drained", "status": "True", "reason": "NoNode", "message": "", "lastTransitionTime": "2026-01-05T12:00:00Z"},
        {"type": "VolumesDetached", "status": "True", "reason": "NoNode", "message": "", "lastTransitionTime": "2026-01-05T12:00:00Z"}
    ]});
    let claim = deleted(&stale, None);
    let untainted = node(&json!([]), "1");
    assert!(!is_drained(&claim, Some(&untainted)), "conditions of a former Node count");
    let termination = terminating(&claim, Some(&untainted), &[&pod()], &[], "13:00:01");
    assert_eq!(termination.drain, crate::drain::Drain::default());
    assert!(termination.node.is_some());
    assert_eq!(told(&termination.status, "Drained").0, "Unknown");
}

#[test]
fn a_tainted_node_is_drained_when_its_pods_are_gone_and_five_seconds_are_over() {
    let claim = deleted(&json!({}), None);
    let first = terminating(&claim, Some(&disrupted()), &[&pod()], &[], "13:00:01");
    assert_eq!(first.drain.evict.len(), 1);
    let claim = deleted(&serde_json::to_value(&first.status).unwrap(), None);
    let early = terminating(&claim, Some(&disrupted()), &[], &[], "13:00:05");
    assert_eq!(told(&early.status, "Drained").0, "Unknown");
    let late = terminating(&claim, Some(&disrupted()), &[], &[], "13:00:06");
    assert_eq!(told(&late.status, "Drained").0, "True");
    let claim = deleted(&serde_json::to_value(&late.status).unwrap(), None);
    assert!(is_drained(&claim, Some(&disrupted())));
}

// Public report kubernetes-sigs/karpenter#2169: a node waited a week for a volume, and nothing said so.
#[test]
fn volumes_that_stay_attached_are_named_and_the_deadline_ends_the_wait() {
    let attached = ["pv-a".to_owned()];
    let drained = json!({"conditions": [
        {"type": "Drained", "status": "True", "reason": "Drained", "message": "", "lastTransitionTime": "2026-01-05T13:00:10Z"}
    ]});
    let claim = deleted(&drained, Some("1h"));
    let waiting = terminating(&claim, Some(&disrupted()), &[], &attached, "13:59:59");
    assert_eq!(waiting.deadline, Some(at("14:00:00")));
    assert_eq!(told(&waiting.status, "VolumesDetached"), pair("Unknown", "AwaitingVolumeDetachment"));
    assert!(condition::find(&waiting.status.conditions, "VolumesDetached").unwrap().message.contains("pv-a"));
    let over = terminating(&claim, Some(&disrupted()), &[], &attached, "14:00:00");
    assert_eq!(told(&over.status, "VolumesDetached"), pair("False", "TerminationGracePeriodElapsed"));
    let claim = deleted(&serde_json::to_value(&over.status).unwrap(), Some("1h"));
    assert!(is_drained(&claim, Some(&disrupted())));
}

#[test]
fn a_volume_of_a_pod_that_stays_holds_nothing_up() {
    let daemon: Pod = serde_json::from_value(json!({
        "metadata": {"name": "k", "namespace": "default"},
        "spec": {"containers": [], "tolerations": [{"operator": "Exists"}]}
    }))
    .unwrap();
    let attachments = [("va-k".to_owned(), "pv-k".to_owned()), ("va-a".to_owned(), "pv-a".to_owned())];
    let blocking = blocking_attachments(&attachments, &[&daemon], |_| vec!["pv-k".to_owned()], at("13:00:00"));
    assert_eq!(blocking, ["va-a"]);
}
