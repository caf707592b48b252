use super::*;

fn deleted(status: &Value, period: Option<&str>) -> NodeClaim {
    let mut claim = claim(status);
    claim.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at("13:00:00")));
    claim.spec.termination_grace_period = period.map(Into::into);
    claim
}

fn terminating(
    claim: &NodeClaim,
    node: Option<&Node>,
    pods: &[&Pod],
    attachments: &[String],
    now: &str,
) -> Termination {
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
    serde_json::from_value(
        json!({"metadata": {"name": "w", "namespace": "default", "uid": "w"}, "spec": {"containers": []}}),
    )
    .unwrap()
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

// Public reports kubernetes-sigs/karpenter#2169 and aws/karpenter-provider-aws#9238: a node waited a week for a volume, and nothing
// said so.
#[test]
fn case_107_a_volume_that_holds_a_node_for_a_week_is_named_in_condition_and_event_with_its_age() {
    let attached = ["va-a (pv-a)".to_owned()];
    let drained = json!({"conditions": [
        {"type": "Drained", "status": "True", "reason": "Drained", "message": "", "lastTransitionTime": "2025-12-29T13:00:10Z"}
    ]});
    let first = terminating(&deleted(&drained, None), Some(&disrupted()), &[], &attached, "13:00:00");
    let mut status = serde_json::to_value(&first.status).unwrap();
    status["conditions"][1]["lastTransitionTime"] = json!("2025-12-29T13:00:10Z");
    let week = terminating(&deleted(&status, None), Some(&disrupted()), &[], &attached, "13:00:10");
    assert_eq!(told(&week.status, "VolumesDetached"), pair("Unknown", "AwaitingVolumeDetachment"));
    let condition = condition::find(&week.status.conditions, "VolumesDetached").unwrap();
    assert!(condition.message.contains("va-a (pv-a)"), "{}", condition.message);
    assert_eq!(condition.last_transition_time.0.to_string(), "2025-12-29T13:00:10Z", "its age is lost");
    assert_eq!(reasons(&week), ["AwaitingVolumeDetachment"]);
    assert!(week.notices[0].message.contains("pv-a"), "{:?}", week.notices);
    let claim = deleted(&serde_json::to_value(&week.status).unwrap(), None);
    assert!(!is_drained(&claim, Some(&disrupted())));
}

#[test]
fn case_106_volumes_that_never_detach_are_named_and_the_deadline_ends_the_wait() {
    let attached = ["va-a (pv-a)".to_owned(), "va-b (pv-b)".to_owned()];
    let drained = json!({"conditions": [
        {"type": "Drained", "status": "True", "reason": "Drained", "message": "", "lastTransitionTime": "2026-01-05T13:00:10Z"}
    ]});
    let claim = deleted(&drained, Some("1h"));
    let waiting = terminating(&claim, Some(&disrupted()), &[], &attached, "13:59:59");
    assert_eq!(waiting.deadline, Some(at("14:00:00")));
    assert_eq!(told(&waiting.status, "VolumesDetached"), pair("Unknown", "AwaitingVolumeDetachment"));
    let waits = message(&waiting.status, "VolumesDetached");
    assert_eq!(waits, "waiting for VolumeAttachments va-a (pv-a), va-b (pv-b)");
    let over = terminating(&claim, Some(&disrupted()), &[], &attached, "14:00:00");
    assert_eq!(told(&over.status, "VolumesDetached"), pair("False", "TerminationGracePeriodElapsed"));
    let claim = deleted(&serde_json::to_value(&over.status).unwrap(), Some("1h"));
    assert!(is_drained(&claim, Some(&disrupted())));
}

// Public report kubernetes-sigs/karpenter#1684: volumes of a released claim, and of one that a pending pod wants, hold the node up.
#[test]
fn case_106_a_volume_of_a_pod_that_stays_holds_nothing_up_and_those_of_others_do() {
    let daemon: Pod = serde_json::from_value(json!({
        "metadata": {"name": "k", "namespace": "default"},
        "spec": {"containers": [], "tolerations": [{"operator": "Exists"}]}
    }))
    .unwrap();
    // pv-a belongs to a released claim, pv-b to one that a pending pod elsewhere wants: no pod of this node has them.
    let attachments = ["b", "k", "a"].map(|name| (format!("va-{name}"), format!("pv-{name}")));
    let blocking = blocking_attachments(
        &attachments,
        &[&daemon],
        &DrainRules::default(),
        |_| vec!["pv-k".to_owned()],
        at("13:00:00"),
    );
    assert_eq!(blocking, ["va-a (pv-a)", "va-b (pv-b)"]);
}

#[test]
fn volumes_of_skipped_pods_hold_nothing_up_and_those_of_ended_pods_do() {
    let pod = |name: &str, more: Value| -> Pod {
        let mut value =
            json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": []}});
        value["metadata"]["labels"] = more["labels"].clone();
        value["status"] = json!({"phase": more["phase"]});
        serde_json::from_value(value).unwrap()
    };
    let skipped = pod("skipped", json!({"labels": {"cluster.x-k8s.io/drain": "skip"}, "phase": "Running"}));
    let ended = pod("ended", json!({"phase": "Succeeded"}));
    let attachments =
        [("va-1".to_owned(), "pv-skipped".to_owned()), ("va-2".to_owned(), "pv-ended".to_owned())];
    let volume = |pod: &Pod| vec![format!("pv-{}", pod.metadata.name.as_deref().unwrap())];
    let blocking = blocking_attachments(
        &attachments,
        &[&skipped, &ended],
        &DrainRules::default(),
        volume,
        at("13:00:00"),
    );
    assert_eq!(blocking, ["va-2 (pv-ended)"]);
}

fn terminating_pod() -> Pod {
    let mut pod = pod();
    pod.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at("13:59:58")));
    pod
}

// Public report kubernetes-sigs/karpenter#1776: a node hung for days, although a termination grace period was set.
#[test]
fn case_104_at_the_deadline_the_machine_goes_whatever_is_left_on_it() {
    let first = terminating(&deleted(&json!({}), Some("1h")), Some(&disrupted()), &[&pod()], &[], "13:00:01");
    let claim = deleted(&serde_json::to_value(&first.status).unwrap(), Some("1h"));
    assert_eq!(reasons(&first), ["TerminationGracePeriodExpiring"]);
    let before =
        terminating(&claim, Some(&disrupted()), &[&terminating_pod()], &["va-a".to_owned()], "13:59:59");
    assert_eq!(told(&before.status, "Drained"), pair("Unknown", "Draining"));
    let over =
        terminating(&claim, Some(&disrupted()), &[&terminating_pod()], &["va-a".to_owned()], "14:00:00");
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
    guarded.metadata.annotations =
        Some([("karpenter.sh/do-not-disrupt".to_owned(), "true".to_owned())].into());
    let termination = terminating(
        &deleted(&json!({}), None),
        Some(&disrupted()),
        &[&guarded, &terminating_pod()],
        &[],
        "13:00:01",
    );
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
    assert!(
        waiting.drain.evict.is_empty()
            && message(&waiting.status, "Drained").contains("MachineDrainRule default/bad")
    );
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
fn case_108_volumes_of_an_unreachable_node_are_waited_for_six_minutes_even_without_a_deadline() {
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

#[test]
fn case_108_until_cluster_api_has_ended_the_machine_the_claim_says_that_it_waits_for_that() {
    let mut going = machine(Some("x://1"));
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at("13:00:00")));
    let claim = deleted(&json!({}), Some("15m"));
    let step = terminate(&Terminating {
        now: at("13:00:10"),
        claim: &claim,
        machine: Some(&going),
        node: None,
        pods: &[],
        volume_attachments: &[],
        rules: Ok(&DrainRules::default()),
        budgets: &Budgets::default(),
    });
    assert_eq!(told(&step.status, "InstanceTerminating"), pair("True", "InstanceTerminating"));
    assert_eq!(message(&step.status, "InstanceTerminating"), "waiting for Cluster API to end Machine m");
}

// Public report aws/karpenter-provider-aws#2831: the pool was deleted while its nodes drained, and they hung.
#[test]
fn case_114_a_drain_needs_nothing_but_the_claim_itself() {
    let mut claim = deleted(&json!({}), Some("30m"));
    claim.metadata.owner_references = None;
    let first = terminating(&claim, Some(&disrupted()), &[&pod()], &[], "13:00:01");
    assert_eq!((first.deadline, first.drain.evict.len()), (Some(at("13:30:00")), 1));
    claim.metadata.annotations = Some(
        [("karpenter.sh/nodeclaim-termination-timestamp".to_owned(), "2026-01-05T13:20:00Z".to_owned())]
            .into(),
    );
    let written = terminating(&claim, Some(&disrupted()), &[&pod()], &[], "13:19:30");
    assert_eq!((written.deadline, written.drain.delete.len()), (None, 1), "what was written once holds");
}

// Public report cloudpilot-ai/karpenter-provider-gcp#334, and karpenter-provider-cluster-api's Delete, which fails for ever without a
// provider ID.
#[test]
fn case_112_a_claim_that_never_launched_is_drained_at_once() {
    let claim = deleted(
        &json!({"conditions": [
            {"type": "Launched", "status": "Unknown", "reason": "AwaitingMachine", "message": "", "lastTransitionTime": "2026-01-05T12:00:00Z"}
        ]}),
        Some("1h"),
    );
    let step = terminating(&claim, None, &[], &[], "13:00:00");
    assert!(is_drained(&deleted(&serde_json::to_value(&step.status).unwrap(), None), None));
}

#[test]
fn a_released_claim_drains_nothing_and_takes_only_what_is_ours_off_the_node() {
    let mut claim = deleted(&json!({}), Some("1s"));
    claim.metadata.annotations =
        Some([("karpenter.cluster.x-k8s.io/release".to_owned(), "true".to_owned())].into());
    let mut node = disrupted();
    node.spec.as_mut().unwrap().taints.as_mut().unwrap().push(k8s_openapi::api::core::v1::Taint {
        key: "dedicated".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..k8s_openapi::api::core::v1::Taint::default()
    });
    let map = |pairs: &[(&str, &str)]| {
        Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    };
    node.metadata.labels = map(&[
        ("karpenter.sh/registered", "true"),
        ("karpenter.sh/nodepool", "p"),
        ("team", "a"),
        ("node.kubernetes.io/exclude-from-external-load-balancers", "karpenter"),
    ]);
    node.metadata.annotations = map(&[
        ("karpenter.sh/nodepool-hash", "1"),
        ("karpenter.sh/do-not-disrupt", "true"),
        ("cluster.x-k8s.io/machine", "m"),
    ]);
    node.metadata.finalizers = Some(vec!["karpenter.sh/termination".to_owned(), "other/one".to_owned()]);
    assert!(!is_drained(&claim, Some(&node)));
    let step = terminating(&claim, Some(&node), &[&pod()], &["va".to_owned()], "13:00:05");
    assert_eq!((step.deadline, &step.drain), (None, &crate::drain::Drain::default()));
    let patch = &step.node.unwrap().patch;
    assert_eq!(
        patch["metadata"]["labels"],
        json!({
            "karpenter.sh/registered": null, "karpenter.sh/nodepool": null, "node.kubernetes.io/exclude-from-external-load-balancers": null,
        })
    );
    assert_eq!(patch["metadata"]["annotations"], json!({"karpenter.sh/nodepool-hash": null}));
    assert_eq!(patch["metadata"]["finalizers"], json!(["other/one"]));
    assert_eq!(patch["spec"]["taints"], json!([{"key": "dedicated", "effect": "NoSchedule"}]));
    assert!(is_drained(&claim, Some(&Node::default())));
}
