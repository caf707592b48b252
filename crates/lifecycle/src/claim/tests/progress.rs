use super::ends::{labelled, slow};
use super::*;

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
    assert_eq!(
        initialized.node.as_ref().unwrap().patch["metadata"]["labels"],
        json!({"karpenter.sh/initialized": "true"})
    );
    assert_eq!(initialized.status.allocatable["cpu"].0, "3900m");
    assert_eq!(initialized.look_again, None);
}

#[test]
fn taints_of_a_starting_node_keep_a_claim_from_initialized() {
    let registered =
        step(&claim(&json!({})), Some(&machine(Some("x://1"))), &[&node(&json!([]), "1")], "12:02:00");
    for key in ["node.cluster.x-k8s.io/uninitialized", "node.kubernetes.io/not-ready"] {
        let starting = node(&json!([{"key": key, "effect": "NoSchedule"}]), "1");
        let waiting = step(&after(&registered), Some(&machine(Some("x://1"))), &[&starting], "12:02:10");
        assert_eq!(
            told(&waiting.status, "Initialized"),
            pair("Unknown", "KnownEphemeralTaintsExist"),
            "{key}"
        );
    }
}

// Public report aws/karpenter-provider-aws#1914: a GPU that never registers.
#[test]
fn a_requested_resource_that_the_node_lacks_keeps_a_claim_from_initialized() {
    let registered =
        step(&claim(&json!({})), Some(&machine(Some("x://1"))), &[&node(&json!([]), "1")], "12:02:00");
    let waiting =
        step(&after(&registered), Some(&machine(Some("x://1"))), &[&node(&json!([]), "0")], "12:40:00");
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
    assert_eq!(
        (what, message.as_str()),
        (Failure::LaunchTimedOut, "not Launched within 15m0s: Machine m: still creating the instance")
    );

    let launched = after(&step(&waiting, Some(&machine(Some("x://1"))), &[], "12:10:00"));
    assert_eq!(step(&launched, Some(&machine(Some("x://1"))), &[], "12:19:59").ended, None);
    let (what, _) = step(&launched, Some(&machine(Some("x://1"))), &[], "12:20:00").ended.unwrap();
    assert_eq!(what, Failure::RegistrationTimedOut);
}
