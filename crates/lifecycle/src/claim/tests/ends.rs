use super::*;

/// A Machine whose infrastructure says that much.
fn saying(reason: &str, message: &str) -> Machine {
    let mut machine = machine(None);
    machine.status.conditions[0].reason = reason.to_owned();
    machine.status.conditions[0].message = message.to_owned();
    machine
}

pub(super) fn slow() -> Machine {
    saying("Provisioning", "still creating the instance")
}

// Public report kubernetes/autoscaler#9120: infrastructure is full, and the provider tried for ever.
#[test]
fn case_55_lack_of_capacity_ends_a_claim_after_thirty_seconds_and_not_at_the_timeout() {
    let seen = step(&claim(&json!({})), Some(&machine(None)), &[], "12:01:00");
    assert_eq!((seen.ended.clone(), seen.look_again), (None, Some(SignedDuration::from_secs(30))));
    let waiting = after(&seen);
    assert_eq!(step(&waiting, Some(&machine(None)), &[], "12:01:29").ended, None);
    let (what, message) = step(&waiting, Some(&machine(None)), &[], "12:01:30").ended.unwrap();
    assert_eq!(
        (what, message.as_str()),
        (Failure::InsufficientCapacity, "can't be launched: Machine m: no capacity in zone a")
    );
}

#[test]
fn capacity_that_comes_back_within_the_grace_leaves_the_claim_alone() {
    let waiting = after(&step(&claim(&json!({})), Some(&machine(None)), &[], "12:01:00"));
    let better = after(&step(&waiting, Some(&slow()), &[], "12:01:20"));
    let again = step(&better, Some(&machine(None)), &[], "12:01:40");
    assert_eq!(told(&again.status, "Launched").0, "False");
    assert_eq!(
        step(&after(&again), Some(&machine(None)), &[], "12:02:09").ended,
        None,
        "the grace begins anew"
    );
}

#[test]
fn clouds_say_lack_of_capacity_in_many_words_and_throttling_is_none() {
    let ended = |reason: &str, message: &str| {
        let machine = saying(reason, message);
        let waiting = after(&step(&claim(&json!({})), Some(&machine), &[], "12:01:00"));
        step(&waiting, Some(&machine), &[], "12:01:30").ended.map(|(failure, _)| failure)
    };
    for (reason, message) in [
        (
            "InstanceProvisionFailed",
            "failed to run instance: InsufficientInstanceCapacity: We currently do not have sufficient m5.large capacity",
        ),
        ("Failed", "VcpuLimitExceeded: You have requested more vCPU capacity than your current vCPU limit"),
        ("Failed", "SkuNotAvailable: The requested VM size is currently not available in location"),
        ("Failed", "googleapi: Error 403: Quota exceeded for resource CPUS"),
        ("Failed", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"),
        ("InstanceCreateFailed", "No valid host was found. There are not enough hosts available."),
        ("OutOfCapacity", ""),
    ] {
        assert_eq!(ended(reason, message), Some(Failure::InsufficientCapacity), "{reason}: {message}");
    }
    for message in [
        "RequestLimitExceeded: Request limit exceeded.",
        "context deadline exceeded",
        "rate exceeded",
        "waiting for the bootstrap data",
    ] {
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
            timeouts: Timeouts {
                launch: SignedDuration::from_mins(40),
                registration: SignedDuration::from_mins(40),
            },
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
            timeouts: Timeouts {
                launch: SignedDuration::from_secs(10),
                registration: SignedDuration::from_secs(10),
            },
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

#[test]
fn a_machine_that_fails_for_good_after_its_launch_is_not_waited_for_until_the_registration_timeout() {
    let mut failed = machine(Some("x://1"));
    let launched = after(&step(&claim(&json!({})), Some(&failed), &[], "12:00:30"));
    failed.status.failure_message = Some("the instance was terminated".to_owned());
    let seen = step(&launched, Some(&failed), &[], "12:01:00");
    assert_eq!(told(&seen.status, "Registered"), pair("False", "LaunchFailed"));
    assert_eq!(step(&after(&seen), Some(&failed), &[], "12:01:29").ended, None);
    let (what, message) = step(&after(&seen), Some(&failed), &[], "12:01:30").ended.unwrap();
    assert!(
        what == Failure::LaunchFailed && message.contains("the instance was terminated"),
        "{what:?} {message}"
    );
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
            blocked: Some((
                "PreflightFailing",
                "MachineSet a can't add machines: KubernetesVersionSkew preflight check failed",
            )),
            timeouts: Timeouts {
                launch: SignedDuration::from_mins(15),
                registration: SignedDuration::from_mins(10),
            },
        })
    };
    let seen = observe(&claim(&json!({})), "12:00:10");
    assert_eq!(told(&seen.status, "Launched"), pair("Unknown", "PreflightFailing"));
    assert_eq!(observe(&after(&seen), "12:14:59").ended, None);
    let (what, message) = observe(&after(&seen), "12:15:00").ended.unwrap();
    assert!(
        what == Failure::LaunchTimedOut && message.contains("KubernetesVersionSkew"),
        "{what:?} {message}"
    );
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
pub(super) fn labelled(mut node: Node) -> Node {
    node.metadata.labels = Some([("karpenter.sh/registered".to_owned(), "true".to_owned())].into());
    node
}

// Public reports kubernetes-sigs/karpenter#1392 and #2072: the Node was removed by hand, the claim stayed, and pods were planned onto
// a ghost.
#[test]
fn case_110_a_claim_whose_node_is_gone_says_so_and_ends_after_two_minutes() {
    let (running, machine) = (running(), machine(Some("x://1")));
    let gone = step(&running, Some(&machine), &[], "12:30:00");
    assert_eq!(told(&gone.status, "Initialized"), pair("False", "NodeNotFound"));
    let told_at = condition::find(&gone.status.conditions, "Initialized").unwrap().last_transition_time.0;
    assert_eq!((told_at, gone.look_again), (at("12:30:00"), Some(SignedDuration::from_mins(2))));
    assert_eq!(told(&gone.status, "Ready").0, "False");
    assert_eq!(step(&after(&gone), Some(&machine), &[], "12:31:59").ended, None);
    let (what, message) = step(&after(&gone), Some(&machine), &[], "12:32:00").ended.unwrap();
    assert_eq!(
        (what, message.as_str()),
        (Failure::NodeGone, "without Node for 2m0s: Node n1 is gone, though its Machine is there")
    );
}

#[test]
fn a_node_that_its_kubelet_makes_again_is_registered_again() {
    let (running, machine) = (running(), machine(Some("x://1")));
    let gone = after(&step(&running, Some(&machine), &[], "12:30:00"));
    let back = step(&gone, Some(&machine), &[&node(&json!([]), "1")], "12:31:00");
    assert_eq!(back.node.as_ref().unwrap().patch["metadata"]["labels"]["karpenter.sh/registered"], "true");
    assert_eq!((told(&back.status, "Initialized").0, back.ended), ("Unknown".to_owned(), None));
    let ready = step(
        &after(&step(&gone, Some(&machine), &[&node(&json!([]), "1")], "12:31:00")),
        Some(&machine),
        &[&labelled(node(&json!([]), "1"))],
        "12:40:00",
    );
    assert_eq!((told(&ready.status, "Ready").0, ready.ended), ("True".to_owned(), None));
}

#[test]
fn equal_failures_back_off_for_three_minutes_doubling_up_to_an_hour() {
    let waits: Vec<i64> = [0, 1, 2, 3, 4, 5, 6, 99].map(|failures| back_off(failures).as_secs() / 60).into();
    assert_eq!(waits, [3, 3, 6, 12, 24, 48, 60, 60]);
}

// Public reports aws/karpenter-provider-aws#6895 and kubernetes-sigs/karpenter#1578: "spec is immutable" when a finalizer was removed.
#[test]
fn case_113_a_finalizer_is_written_by_a_patch_of_the_metadata_alone() {
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
    assert_eq!(
        finalizer_patch(&claim, true).unwrap()["metadata"]["finalizers"],
        json!(["karpenter.sh/termination"])
    );
}
