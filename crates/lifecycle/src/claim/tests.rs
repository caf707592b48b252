use super::*;
use crate::drain::{Budgets, DrainRules};
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
        blocked: None,
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
    assert_eq!(told(&step.status, "Launched"), pair("False", "InsufficientCapacity"));
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
    let initialized = step(&after(&registered), Some(&machine), &[&labelled(ready)], "12:03:00");
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
    assert_eq!(waiting.ended, None, "a registered node doesn't time out");
}

// karpenter-provider-cluster-api: the first match by provider ID is taken, wherever it is.
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
    assert_eq!(step(&waiting, Some(&slow()), &[], "12:14:59").ended, None);
    let (what, message) = step(&waiting, Some(&slow()), &[], "12:15:00").ended.unwrap();
    assert_eq!((what, message.as_str()), (Failure::LaunchTimedOut, "not Launched within 15m0s: Machine m: still creating the instance"));

    let launched = after(&step(&waiting, Some(&machine(Some("x://1"))), &[], "12:10:00"));
    assert_eq!(step(&launched, Some(&machine(Some("x://1"))), &[], "12:19:59").ended, None);
    let (what, _) = step(&launched, Some(&machine(Some("x://1"))), &[], "12:20:00").ended.unwrap();
    assert_eq!(what, Failure::RegistrationTimedOut);
}

/// A Machine whose infrastructure says that much.
fn saying(reason: &str, message: &str) -> Machine {
    let mut machine = machine(None);
    machine.status.conditions[0].reason = reason.to_owned();
    machine.status.conditions[0].message = message.to_owned();
    machine
}

fn slow() -> Machine {
    saying("Provisioning", "still creating the instance")
}

// Public report kubernetes/autoscaler#9120: infrastructure is full, and the provider tried for ever.
#[test]
fn lack_of_capacity_ends_a_claim_after_thirty_seconds_and_not_at_the_timeout() {
    let seen = step(&claim(&json!({})), Some(&machine(None)), &[], "12:01:00");
    assert_eq!((seen.ended.clone(), seen.look_again), (None, Some(SignedDuration::from_secs(30))));
    let waiting = after(&seen);
    assert_eq!(step(&waiting, Some(&machine(None)), &[], "12:01:29").ended, None);
    let (what, message) = step(&waiting, Some(&machine(None)), &[], "12:01:30").ended.unwrap();
    assert_eq!((what, message.as_str()), (Failure::InsufficientCapacity, "can't be launched: Machine m: no capacity in zone a"));
}

#[test]
fn capacity_that_comes_back_within_the_grace_leaves_the_claim_alone() {
    let waiting = after(&step(&claim(&json!({})), Some(&machine(None)), &[], "12:01:00"));
    let better = after(&step(&waiting, Some(&slow()), &[], "12:01:20"));
    let again = step(&better, Some(&machine(None)), &[], "12:01:40");
    assert_eq!(told(&again.status, "Launched").0, "False");
    assert_eq!(step(&after(&again), Some(&machine(None)), &[], "12:02:09").ended, None, "the grace begins anew");
}

#[test]
fn clouds_say_lack_of_capacity_in_many_words_and_throttling_is_none() {
    let ended = |reason: &str, message: &str| {
        let machine = saying(reason, message);
        let waiting = after(&step(&claim(&json!({})), Some(&machine), &[], "12:01:00"));
        step(&waiting, Some(&machine), &[], "12:01:30").ended.map(|(failure, _)| failure)
    };
    for (reason, message) in [
        ("InstanceProvisionFailed", "failed to run instance: InsufficientInstanceCapacity: We currently do not have sufficient m5.large capacity"),
        ("Failed", "VcpuLimitExceeded: You have requested more vCPU capacity than your current vCPU limit"),
        ("Failed", "SkuNotAvailable: The requested VM size is currently not available in location"),
        ("Failed", "googleapi: Error 403: Quota exceeded for resource CPUS"),
        ("Failed", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"),
        ("InstanceCreateFailed", "No valid host was found. There are not enough hosts available."),
        ("OutOfCapacity", ""),
    ] {
        assert_eq!(ended(reason, message), Some(Failure::InsufficientCapacity), "{reason}: {message}");
    }
    for message in ["RequestLimitExceeded: Request limit exceeded.", "context deadline exceeded", "rate exceeded", "waiting for the bootstrap data"] {
        assert_eq!(ended("Failed", message), None, "{message}");
    }
}

// Slow infrastructure: half an hour is permitted by the timeout, so nothing ends before.
#[test]
fn slow_infrastructure_is_left_alone_for_as_long_as_the_timeout_was_raised_to() {
    let observe = |claim: &NodeClaim, now: &str| {
        progress(&Observed {
            now: at(now),
            claim,
            machine: Some(&slow()),
            nodes: &[],
            promise: None,
            blocked: None,
            timeouts: Timeouts { launch: SignedDuration::from_mins(40), registration: SignedDuration::from_mins(40) },
        })
    };
    let waiting = after(&observe(&claim(&json!({})), "12:00:10"));
    assert_eq!(observe(&waiting, "12:30:00").ended, None);
    assert_eq!(observe(&waiting, "12:39:59").ended, None);
    assert_eq!(observe(&waiting, "12:40:00").ended.unwrap().0, Failure::LaunchTimedOut);
}

#[test]
fn a_timeout_that_is_shorter_than_the_grace_holds() {
    let observe = |claim: &NodeClaim, now: &str| {
        progress(&Observed {
            now: at(now),
            claim,
            machine: Some(&machine(None)),
            nodes: &[],
            promise: None,
            blocked: None,
            timeouts: Timeouts { launch: SignedDuration::from_secs(10), registration: SignedDuration::from_secs(10) },
        })
    };
    let waiting = after(&observe(&claim(&json!({})), "12:00:05"));
    assert_eq!(observe(&waiting, "12:00:10").ended.unwrap().0, Failure::LaunchTimedOut);
}

#[test]
fn a_failure_for_good_ends_a_claim_early_and_is_no_lack_of_capacity() {
    let mut machine = slow();
    machine.status.failure_reason = Some("InvalidConfiguration".to_owned());
    machine.status.failure_message = Some("there is no such image".to_owned());
    let seen = step(&claim(&json!({})), Some(&machine), &[], "12:01:00");
    assert_eq!(told(&seen.status, "Launched"), pair("False", "InvalidConfiguration"));
    let (what, message) = step(&after(&seen), Some(&machine), &[], "12:01:30").ended.unwrap();
    assert_eq!(what, Failure::LaunchFailed);
    assert!(message.contains("there is no such image"), "{message}");
}

// Cluster API makes no Machine at all while its preflight checks fail, and says so only at the MachineSet.
#[test]
fn a_failing_preflight_check_is_shown_on_the_claim_and_ends_at_the_launch_timeout() {
    let observe = |claim: &NodeClaim, now: &str| {
        progress(&Observed {
            now: at(now),
            claim,
            machine: None,
            nodes: &[],
            promise: None,
            blocked: Some(("PreflightFailing", "MachineSet a can't add machines: KubernetesVersionSkew preflight check failed")),
            timeouts: Timeouts { launch: SignedDuration::from_mins(15), registration: SignedDuration::from_mins(10) },
        })
    };
    let seen = observe(&claim(&json!({})), "12:00:10");
    assert_eq!(told(&seen.status, "Launched"), pair("Unknown", "PreflightFailing"));
    assert_eq!(observe(&after(&seen), "12:14:59").ended, None);
    let (what, message) = observe(&after(&seen), "12:15:00").ended.unwrap();
    assert!(what == Failure::LaunchTimedOut && message.contains("KubernetesVersionSkew"), "{what:?} {message}");
}

fn running() -> NodeClaim {
    let machine = machine(Some("x://1"));
    let ready = node(&json!([]), "1");
    let registered = step(&claim(&json!({})), Some(&machine), &[&ready], "12:02:00");
    let initialized = step(&after(&registered), Some(&machine), &[&labelled(ready)], "12:03:00");
    assert_eq!(told(&initialized.status, "Initialized").0, "True");
    after(&initialized)
}

/// The Node with what registration has written.
fn labelled(mut node: Node) -> Node {
    node.metadata.labels = Some([("karpenter.sh/registered".to_owned(), "true".to_owned())].into());
    node
}

// Public reports kubernetes-sigs/karpenter#1392 and #2072: the Node was removed by hand, the claim stayed, and pods were planned onto
// a ghost.
#[test]
fn a_claim_whose_node_is_gone_says_so_and_ends_after_two_minutes() {
    let (running, machine) = (running(), machine(Some("x://1")));
    let gone = step(&running, Some(&machine), &[], "12:30:00");
    assert_eq!(told(&gone.status, "Initialized"), pair("False", "NodeNotFound"));
    let told_at = condition::find(&gone.status.conditions, "Initialized").unwrap().last_transition_time.0;
    assert_eq!((told_at, gone.look_again), (at("12:30:00"), Some(SignedDuration::from_mins(2))));
    assert_eq!(told(&gone.status, "Ready").0, "False");
    assert_eq!(step(&after(&gone), Some(&machine), &[], "12:31:59").ended, None);
    let (what, message) = step(&after(&gone), Some(&machine), &[], "12:32:00").ended.unwrap();
    assert_eq!((what, message.as_str()), (Failure::NodeGone, "without Node for 2m0s: Node n1 is gone, though its Machine is there"));
}

#[test]
fn a_node_that_its_kubelet_makes_again_is_registered_again() {
    let (running, machine) = (running(), machine(Some("x://1")));
    let gone = after(&step(&running, Some(&machine), &[], "12:30:00"));
    let back = step(&gone, Some(&machine), &[&node(&json!([]), "1")], "12:31:00");
    assert_eq!(back.node.as_ref().unwrap().patch["metadata"]["labels"]["karpenter.sh/registered"], "true");
    assert_eq!((told(&back.status, "Initialized").0, back.ended), ("Unknown".to_owned(), None));
    let ready = step(&after(&step(&gone, Some(&machine), &[&node(&json!([]), "1")], "12:31:00")), Some(&machine), &[&labelled(node(&json!([]), "1"))], "12:40:00");
    assert_eq!((told(&ready.status, "Ready").0, ready.ended), ("True".to_owned(), None));
}

#[test]
fn equal_failures_back_off_for_three_minutes_doubling_up_to_an_hour() {
    let waits: Vec<i64> = [0, 1, 2, 3, 4, 5, 6, 99].map(|failures| back_off(failures).as_secs() / 60).into();
    assert_eq!(waits, [3, 3, 6, 12, 24, 48, 60, 60]);
}

// Public reports aws/karpenter-provider-aws#6895 and kubernetes-sigs/karpenter#1578: "spec is immutable" when a finalizer was removed.
#[test]
fn a_finalizer_is_written_by_a_patch_of_the_metadata_alone() {
    let mut claim = claim(&json!({}));
    claim.metadata.finalizers = Some(vec!["other/one".to_owned(), "karpenter.sh/termination".to_owned()]);
    claim.metadata.resource_version = Some("7".to_owned());
    assert_eq!(
        finalizer_patch(&claim, false).unwrap(),
        json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": ["other/one"]}})
    );
    assert_eq!(finalizer_patch(&claim, true), None);
    claim.metadata.finalizers = None;
    assert_eq!(finalizer_patch(&claim, false), None);
    assert_eq!(finalizer_patch(&claim, true).unwrap()["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
}

fn deleted(status: &Value, period: Option<&str>) -> NodeClaim {
    let mut claim = claim(status);
    claim.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at("13:00:00")));
    claim.spec.termination_grace_period = period.map(Into::into);
    claim
}

fn terminating(claim: &NodeClaim, node: Option<&Node>, pods: &[&Pod], attachments: &[String], now: &str) -> Termination {
    terminate(&Terminating {
        now: at(now),
        claim,
        machine: None,
        node,
        pods,
        volume_attachments: attachments,
        rules: Ok(&DrainRules::default()),
        budgets: &Budgets::default(),
    })
}

fn reasons(termination: &Termination) -> Vec<&str> {
    termination.notices.iter().map(|notice| notice.reason).collect()
}

fn message<'a>(status: &'a NodeClaimStatus, kind: &str) -> &'a str {
    &condition::find(&status.conditions, kind).unwrap().message
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
    let blocking =
        blocking_attachments(&attachments, &[&daemon], &DrainRules::default(), |_| vec!["pv-k".to_owned()], at("13:00:00"));
    assert_eq!(blocking, ["va-a (pv-a)"]);
}

// Public report kubernetes-sigs/karpenter#1684: volumes of a released claim, and of one that a pending pod wants, hold the node up.
#[test]
fn volumes_of_skipped_pods_hold_nothing_up_and_those_of_ended_pods_do() {
    let pod = |name: &str, more: Value| -> Pod {
        let mut value = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": []}});
        value["metadata"]["labels"] = more["labels"].clone();
        value["status"] = json!({"phase": more["phase"]});
        serde_json::from_value(value).unwrap()
    };
    let skipped = pod("skipped", json!({"labels": {"cluster.x-k8s.io/drain": "skip"}, "phase": "Running"}));
    let ended = pod("ended", json!({"phase": "Succeeded"}));
    let attachments = [("va-1".to_owned(), "pv-skipped".to_owned()), ("va-2".to_owned(), "pv-ended".to_owned())];
    let volume = |pod: &Pod| vec![format!("pv-{}", pod.metadata.name.as_deref().unwrap())];
    let blocking = blocking_attachments(&attachments, &[&skipped, &ended], &DrainRules::default(), volume, at("13:00:00"));
    assert_eq!(blocking, ["va-2 (pv-ended)"]);
}

fn terminating_pod() -> Pod {
    let mut pod = pod();
    pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at("13:59:58")));
    pod
}

// Public report kubernetes-sigs/karpenter#1776: a node hung for days, although a termination grace period was set.
#[test]
fn at_the_deadline_the_machine_goes_whatever_is_left_on_it() {
    let first = terminating(&deleted(&json!({}), Some("1h")), Some(&disrupted()), &[&pod()], &[], "13:00:01");
    let claim = deleted(&serde_json::to_value(&first.status).unwrap(), Some("1h"));
    assert_eq!(reasons(&first), ["TerminationGracePeriodExpiring"]);
    let before = terminating(&claim, Some(&disrupted()), &[&terminating_pod()], &["va-a".to_owned()], "13:59:59");
    assert_eq!(told(&before.status, "Drained"), pair("Unknown", "Draining"));
    let over = terminating(&claim, Some(&disrupted()), &[&terminating_pod()], &["va-a".to_owned()], "14:00:00");
    assert_eq!(told(&over.status, "Drained"), pair("False", "TerminationGracePeriodElapsed"));
    assert!(message(&over.status, "Drained").contains("default/w"), "{}", message(&over.status, "Drained"));
    let claim = deleted(&serde_json::to_value(&over.status).unwrap(), Some("1h"));
    assert!(is_drained(&claim, Some(&disrupted())));
}

#[test]
fn a_deadline_that_is_over_at_the_first_look_still_tells_the_pods_to_go() {
    let claim = deleted(&json!({}), Some("1s"));
    let first = terminating(&claim, Some(&disrupted()), &[&pod()], &[], "13:10:00");
    assert_eq!((first.drain.delete.len(), told(&first.status, "Drained").0), (1, "Unknown".to_owned()));
}

#[test]
fn what_holds_a_drain_up_is_named_in_condition_and_event() {
    let mut guarded = pod();
    guarded.metadata.annotations = Some([("karpenter.sh/do-not-disrupt".to_owned(), "true".to_owned())].into());
    let termination = terminating(&deleted(&json!({}), None), Some(&disrupted()), &[&guarded, &terminating_pod()], &[], "13:00:01");
    assert_eq!(reasons(&termination), ["FailedDraining"]);
    let told = message(&termination.status, "Drained");
    assert!(told.contains("default/w, which may not be disrupted (karpenter.sh/do-not-disrupt)"), "{told}");
    assert!(termination.notices[0].message.contains("2 pods are waiting"), "{:?}", termination.notices);
}

#[test]
fn a_drain_rule_that_can_not_be_read_holds_evictions_up_and_is_named() {
    let rule = crate::drain::UnreadableRule { rule: "default/bad".to_owned(), message: "what".to_owned() };
    let (claim, pod, node) = (deleted(&json!({}), Some("1h")), pod(), disrupted());
    let observe = |now: &str| {
        terminate(&Terminating {
            now: at(now),
            claim: &claim,
            machine: None,
            node: Some(&node),
            pods: &[&pod],
            volume_attachments: &[],
            rules: Err(&rule),
            budgets: &Budgets::default(),
        })
    };
    let waiting = observe("13:00:10");
    assert!(waiting.drain.evict.is_empty() && message(&waiting.status, "Drained").contains("MachineDrainRule default/bad"));
    assert_eq!(observe("13:59:40").drain.delete.len(), 1, "the deadline holds all the same");
}

fn unreachable(since: &str) -> Node {
    let mut node = disrupted();
    let ready = &mut node.status.as_mut().unwrap().conditions.as_mut().unwrap()[0];
    ready.status = "Unknown".to_owned();
    ready.last_transition_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(since)));
    node
}

// Public report kubernetes-sigs/cluster-api#10661: a stopped machine with a volume was never replaced.
#[test]
fn volumes_of_an_unreachable_node_are_waited_for_six_minutes_even_without_a_deadline() {
    let claim = deleted(&json!({}), None);
    let drained = terminating(&claim, Some(&unreachable("12:55:00")), &[], &[], "13:00:00");
    let claim = deleted(&serde_json::to_value(&drained.status).unwrap(), None);
    let attached = ["va-a (pv-a)".to_owned()];
    let waiting = terminating(&claim, Some(&unreachable("12:55:00")), &[], &attached, "13:00:59");
    assert_eq!(told(&waiting.status, "Drained").0, "True");
    assert_eq!(told(&waiting.status, "VolumesDetached"), pair("Unknown", "AwaitingVolumeDetachment"));
    assert_eq!(reasons(&waiting), ["AwaitingVolumeDetachment"]);
    let over = terminating(&claim, Some(&unreachable("12:55:00")), &[], &attached, "13:01:00");
    assert_eq!(told(&over.status, "VolumesDetached"), pair("False", "NodeUnreachable"));
    let claim = deleted(&serde_json::to_value(&over.status).unwrap(), None);
    assert!(is_drained(&claim, Some(&unreachable("12:55:00"))));
}

// Public report aws/karpenter-provider-aws#2831: the pool was deleted while its nodes drained, and they hung.
#[test]
fn a_drain_needs_nothing_but_the_claim_itself() {
    let mut claim = deleted(&json!({}), Some("30m"));
    claim.metadata.owner_references = None;
    let first = terminating(&claim, Some(&disrupted()), &[&pod()], &[], "13:00:01");
    assert_eq!((first.deadline, first.drain.evict.len()), (Some(at("13:30:00")), 1));
    claim.metadata.annotations = Some([("karpenter.sh/nodeclaim-termination-timestamp".to_owned(), "2026-01-05T13:20:00Z".to_owned())].into());
    let written = terminating(&claim, Some(&disrupted()), &[&pod()], &[], "13:19:30");
    assert_eq!((written.deadline, written.drain.delete.len()), (None, 1), "what was written once holds");
}

// Public report cloudpilot-ai/karpenter-provider-gcp#334, and karpenter-provider-cluster-api's Delete, which fails for ever without a
// provider ID.
#[test]
fn a_claim_that_never_launched_is_drained_at_once() {
    let claim = deleted(&json!({"conditions": [
        {"type": "Launched", "status": "Unknown", "reason": "AwaitingMachine", "message": "", "lastTransitionTime": "2026-01-05T12:00:00Z"}
    ]}), Some("1h"));
    let step = terminating(&claim, None, &[], &[], "13:00:00");
    assert!(is_drained(&deleted(&serde_json::to_value(&step.status).unwrap(), None), None));
}

#[test]
fn a_released_claim_drains_nothing_and_takes_only_what_is_ours_off_the_node() {
    let mut claim = deleted(&json!({}), Some("1s"));
    claim.metadata.annotations = Some([("karpenter.cluster.x-k8s.io/release".to_owned(), "true".to_owned())].into());
    let mut node = disrupted();
    node.spec.as_mut().unwrap().taints.as_mut().unwrap().push(k8s_openapi::api::core::v1::Taint {
        key: "dedicated".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..k8s_openapi::api::core::v1::Taint::default()
    });
    let map = |pairs: &[(&str, &str)]| Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
    node.metadata.labels = map(&[
        ("karpenter.sh/registered", "true"), ("karpenter.sh/nodepool", "p"), ("team", "a"),
        ("node.kubernetes.io/exclude-from-external-load-balancers", "karpenter"),
    ]);
    node.metadata.annotations = map(&[("karpenter.sh/nodepool-hash", "1"), ("karpenter.sh/do-not-disrupt", "true"), ("cluster.x-k8s.io/machine", "m")]);
    node.metadata.finalizers = Some(vec!["karpenter.sh/termination".to_owned(), "other/one".to_owned()]);
    assert!(!is_drained(&claim, Some(&node)));
    let step = terminating(&claim, Some(&node), &[&pod()], &["va".to_owned()], "13:00:05");
    assert_eq!((step.deadline, &step.drain), (None, &crate::drain::Drain::default()));
    let patch = &step.node.unwrap().patch;
    assert_eq!(patch["metadata"]["labels"], json!({
        "karpenter.sh/registered": null, "karpenter.sh/nodepool": null, "node.kubernetes.io/exclude-from-external-load-balancers": null,
    }));
    assert_eq!(patch["metadata"]["annotations"], json!({"karpenter.sh/nodepool-hash": null}));
    assert_eq!(patch["metadata"]["finalizers"], json!(["other/one"]));
    assert_eq!(patch["spec"]["taints"], json!([{"key": "dedicated", "effect": "NoSchedule"}]));
    assert!(is_drained(&claim, Some(&Node::default())));
}
