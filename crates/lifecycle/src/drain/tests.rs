use super::*;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_capi_api::capi::{Cluster, Machine, MachineDrainRule};
use serde_json::json;

fn now() -> Timestamp {
    "2026-01-05T12:00:00Z".parse().unwrap()
}

fn pod(name: &str, more: serde_json::Value) -> Pod {
    let mut value =
        json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"containers": []}});
    json_merge(&mut value, more);
    serde_json::from_value(value).unwrap()
}

fn json_merge(into: &mut serde_json::Value, from: serde_json::Value) {
    match (into, from) {
        (serde_json::Value::Object(into), serde_json::Value::Object(from)) => {
            for (key, value) in from {
                json_merge(into.entry(key).or_insert(serde_json::Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn daemon() -> serde_json::Value {
    json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]}})
}

fn names(pods: &[PodRef]) -> Vec<&str> {
    pods.iter().map(|pod| pod.name.as_str()).collect()
}

fn drained(pods: &[Pod], deadline: Option<&str>) -> Drain {
    drained_by(pods, &DrainRules::default(), &[], deadline)
}

fn drained_by(
    pods: &[Pod],
    rules: &DrainRules,
    budgets: &[PodDisruptionBudget],
    deadline: Option<&str>,
) -> Drain {
    let pods: Vec<&Pod> = pods.iter().collect();
    drain(&pods, rules, &Budgets::of(budgets), deadline.map(|text| text.parse().unwrap()), now())
}

fn held(drain: &Drain) -> Vec<(&str, &str)> {
    drain.held.iter().map(|(pod, why)| (pod.name.as_str(), why.as_str())).collect()
}

fn labelled(labels: &serde_json::Value) -> serde_json::Value {
    json!({"metadata": {"labels": labels}})
}

#[test]
fn groups_go_one_after_the_other() {
    let critical = json!({"spec": {"priorityClassName": "system-cluster-critical"}});
    let mut critical_daemon = daemon();
    json_merge(&mut critical_daemon, critical.clone());
    let all = [
        pod("critical-daemon", critical_daemon),
        pod("critical", critical),
        pod("daemon", daemon()),
        pod("workload", json!({})),
    ];
    for (rest, expected) in [(4, "workload"), (3, "daemon"), (2, "critical"), (1, "critical-daemon")] {
        let drain = drained(&all[..rest], None);
        assert_eq!(names(&drain.evict), [expected]);
        assert_eq!(drain.waiting.len(), rest);
    }
}

#[test]
fn a_terminating_pod_of_a_group_holds_the_next_group_up() {
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-05T12:00:10Z"}});
    let drain = drained(&[pod("workload", leaving), pod("daemon", daemon())], None);
    assert_eq!((names(&drain.evict), drain.waiting.len()), (vec![], 2));
}

#[test]
fn ended_static_tolerating_and_stuck_pods_are_left_alone() {
    let pods = [
        pod("done", json!({"status": {"phase": "Succeeded"}})),
        pod(
            "static",
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"}]}}),
        ),
        pod(
            "tolerates",
            json!({"spec": {"tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]}}),
        ),
        pod("tolerates-all", json!({"spec": {"tolerations": [{"operator": "Exists"}]}})),
        pod("stuck", json!({"metadata": {"deletionTimestamp": "2026-01-05T11:58:59Z"}})),
    ];
    assert_eq!(drained(&pods, None), Drain::default());
}

#[test]
fn do_not_disrupt_holds_a_pod_until_its_duration_is_over() {
    let annotated = |value: &str| json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}, "status": {"startTime": "2026-01-05T11:30:00Z"}});
    let pods = [
        pod("always", annotated("true")),
        pod("an-hour", annotated("1h")),
        pod("over", annotated("10m")),
        pod("bad", annotated("x")),
    ];
    let drain = drained(&pods, None);
    assert_eq!(
        drain.held.iter().map(|(pod, _)| pod.name.as_str()).collect::<Vec<_>>(),
        ["always", "an-hour"]
    );
    assert!(drain.held[0].1.contains("karpenter.sh/do-not-disrupt"), "{:?}", drain.held);
    assert_eq!(names(&drain.evict), ["bad", "over"]);
}

fn budget(name: &str, app: &str, allowed: i32) -> PodDisruptionBudget {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    }))
    .unwrap()
}

// Public report kubernetes-sigs/karpenter#1776: a node with a four-hour deadline hung behind a PodDisruptionBudget for days.
#[test]
fn case_104_the_deadline_is_stronger_than_a_budget_and_comes_before_the_end_of_a_grace_period() {
    let with = |app: &str, grace: i64| json!({"metadata": {"labels": {"app": app}}, "spec": {"terminationGracePeriodSeconds": grace}});
    // d and f are behind budgets that allow nothing; f's grace period exceeds the node's.
    let pods = [pod("d", with("a", 60)), pod("e", with("free", 30)), pod("f", with("b", 6 * 3600))];
    let budgets = [budget("of-d", "a", 0), budget("of-f", "b", 0)];
    let at =
        |pods: &[Pod], deadline: &str| drained_by(pods, &DrainRules::default(), &budgets, Some(deadline));
    let deletions = |drain: &Drain| -> Vec<(String, i64)> {
        drain.delete.iter().map(|(pod, grace)| (pod.name.clone(), *grace)).collect()
    };
    let at_start = at(&pods, "2026-01-05T16:00:00Z");
    assert_eq!(names(&at_start.evict), ["d", "e"]);
    assert_eq!(deletions(&at_start), [("f".to_owned(), 4 * 3600)]);
    assert_eq!(held(&at_start), [("d", "is protected by PodDisruptionBudget of-d")]);
    // After 3 h 58 min 59 s, and a second later.
    assert_eq!(deletions(&at(&pods[..1], "2026-01-05T12:01:01Z")), []);
    assert_eq!(deletions(&at(&pods[..1], "2026-01-05T12:01:00Z")), [("d".to_owned(), 60)]);
    assert_eq!(deletions(&at(&pods[..1], "2026-01-05T11:00:00Z")), [("d".to_owned(), 1)]);
    // Without a deadline it is tried for ever.
    let without = drained_by(&pods[..1], &DrainRules::default(), &budgets, None);
    assert_eq!((names(&without.evict), without.delete.len(), without.held.len()), (vec!["d"], 0, 1));
}

// Public reports kubernetes-sigs/karpenter#1776 and #2802: nothing named the budget that held a node for days.
#[test]
fn case_104_a_pod_behind_a_budget_is_still_tried_and_the_budget_is_named() {
    let pods = [pod("free", labelled(&json!({"app": "b"}))), pod("guarded", labelled(&json!({"app": "a"})))];
    let drain =
        drained_by(&pods, &DrainRules::default(), &[budget("one", "a", 0), budget("two", "b", 1)], None);
    assert_eq!(names(&drain.evict), ["free", "guarded"]);
    assert_eq!(held(&drain), [("guarded", "is protected by PodDisruptionBudget one")]);
    let mut elsewhere = budget("one", "a", 0);
    elsewhere.metadata.namespace = Some("other".to_owned());
    assert_eq!(held(&drained_by(&pods, &DrainRules::default(), &[elsewhere], None)), []);
}

// Public report kubernetes-sigs/karpenter#2802: the eviction API answers such a pod with an error instead of "later".
#[test]
fn case_104_two_budgets_over_one_pod_block_it_whatever_they_allow_and_both_are_named() {
    let pods = [pod("guarded", labelled(&json!({"app": "a"})))];
    let budgets = [budget("two", "a", 1), budget("one", "a", 1)];
    let drain = drained_by(&pods, &DrainRules::default(), &budgets, None);
    assert!(drain.held[0].1.contains("(one, two)"), "{:?}", drain.held);
    let over = drained_by(&pods, &DrainRules::default(), &budgets, Some("2026-01-05T12:00:10Z"));
    assert_eq!(
        (over.delete.len(), over.evict.len(), over.held.len()),
        (1, 0, 0),
        "the deadline holds all the same"
    );
}

// Public report kubernetes-sigs/karpenter#1702: a pod that may not be disrupted stays until its own grace period must begin.
#[test]
fn a_do_not_disrupt_pod_waits_until_the_deadline_minus_its_own_grace_period() {
    let guarded = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "spec": {"terminationGracePeriodSeconds": 30}});
    let pods = [pod("j", guarded), pod("w", json!({}))];
    let before = drained(&pods, Some("2026-01-05T12:00:31Z"));
    assert_eq!((names(&before.evict), before.delete.len(), before.held.len()), (vec!["w"], 0, 1));
    let due = drained(&pods[..1], Some("2026-01-05T12:00:30Z"));
    assert_eq!(due.delete, [(reference(&pods[0]), 30)]);
    let hour = drained(&pods, Some("2026-01-05T13:00:00Z"));
    assert_eq!((names(&hour.evict), hour.delete.len()), (vec!["w"], 0));
}

#[test]
fn past_the_deadline_no_group_waits_for_another() {
    let critical = json!({"spec": {"priorityClassName": "system-node-critical"}});
    let pods = [pod("workload", json!({})), pod("critical", critical)];
    let drain = drained(&pods, Some("2026-01-05T12:00:05Z"));
    assert_eq!(
        drain.delete.iter().map(|(pod, grace)| (pod.name.as_str(), *grace)).collect::<Vec<_>>(),
        [("critical", 5), ("workload", 5)]
    );
}

#[test]
fn a_pod_that_was_deleted_with_the_shortest_grace_period_is_not_deleted_again() {
    let leaving =
        json!({"metadata": {"deletionTimestamp": "2026-01-05T12:00:01Z", "deletionGracePeriodSeconds": 1}});
    let long = json!({"metadata": {"deletionTimestamp": "2026-01-05T13:00:00Z", "deletionGracePeriodSeconds": 3600}});
    let drain = drained(&[pod("short", leaving), pod("long", long)], Some("2026-01-05T11:59:00Z"));
    assert_eq!(
        drain.delete.iter().map(|(pod, grace)| (pod.name.as_str(), *grace)).collect::<Vec<_>>(),
        [("long", 1)]
    );
    assert_eq!(drain.terminating.len(), 2);
}

// Public report kubernetes-sigs/karpenter#2185: pods without an owner. Documented: they are evicted like others.
#[test]
fn case_118_a_pod_without_owner_is_evicted_like_any_other() {
    let owned = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]}});
    assert_eq!(
        names(&drained(&[pod("bare", json!({})), pod("owned", owned)], None).evict),
        ["bare", "owned"]
    );
}

// Public report kubernetes-sigs/cluster-api#10661: pods of a machine that was stopped never end.
#[test]
fn case_108_pods_of_an_unreachable_node_hold_it_no_longer_than_a_minute_past_their_grace_period() {
    let leaving = |since: &str| json!({"metadata": {"deletionTimestamp": since}});
    assert_eq!(drained(&[pod("a", leaving("2026-01-05T11:59:00Z"))], None).waiting.len(), 1);
    assert_eq!(drained(&[pod("a", leaving("2026-01-05T11:58:59Z"))], None).waiting.len(), 0);
}

#[test]
fn a_refused_eviction_is_tried_again_after_a_tenth_of_a_second_up_to_ten() {
    let waits: Vec<i128> =
        [0, 1, 2, 3, 7, 8, 1000].map(|refusals| eviction_back_off(refusals).as_millis()).into();
    assert_eq!(waits, [100, 100, 200, 400, 6400, 10_000, 10_000]);
}

fn rule(name: &str, spec: &serde_json::Value) -> MachineDrainRule {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})).unwrap()
}

fn rules(all: &[MachineDrainRule]) -> DrainRules {
    let machine: Machine =
        serde_json::from_value(json!({"metadata": {"name": "m", "labels": {"os": "linux"}}})).unwrap();
    let cluster: Cluster =
        serde_json::from_value(json!({"metadata": {"name": "c", "labels": {"stage": "production"}}}))
            .unwrap();
    let namespaces: Vec<Namespace> = ["default", "monitoring"]
        .map(|name| {
            serde_json::from_value(
                json!({"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}),
            )
            .unwrap()
        })
        .into();
    DrainRules::of_machine(all, Some(&machine), Some(&cluster), &namespaces).unwrap()
}

#[test]
fn the_drain_label_skips_a_pod_or_waits_for_it_whatever_the_rules_say() {
    let all = rules(&[rule("all", &json!({"drain": {"behavior": "Drain", "order": 5}}))]);
    let label = |value: &str| labelled(&json!({"cluster.x-k8s.io/drain": value}));
    let pods = [
        pod("skipped", label("Skip")),
        pod("awaited", label("wait-completed")),
        pod("odd", label("what")),
        pod("plain", json!({})),
    ];
    let drain = drained_by(&pods, &all, &[], None);
    assert_eq!(names(&drain.waiting), ["awaited", "odd", "plain"]);
    assert_eq!(held(&drain).len(), 1);
    assert_eq!(names(&drain.evict), Vec::<&str>::new(), "the awaited pod has order 0, the others 5");
    let without_rules = drained(&pods, None);
    assert_eq!(names(&without_rules.evict), ["odd", "plain"]);
    let over = drained_by(&pods, &all, &[], Some("2026-01-05T12:00:00Z"));
    assert!(
        !over.delete.iter().any(|(pod, _)| pod.name == "skipped"),
        "a skipped pod stays beyond the deadline"
    );
    assert!(over.delete.iter().any(|(pod, _)| pod.name == "awaited"), "an awaited one doesn't");
}

#[test]
fn drain_rules_give_the_order_and_the_first_by_name_holds() {
    let all = rules(&[
        rule(
            "b-skip",
            &json!({"drain": {"behavior": "Skip"}, "pods": [{"selector": {"matchLabels": {"app": "logging"}}}]}),
        ),
        rule(
            "a-late",
            &json!({"drain": {"behavior": "Drain", "order": 10}, "pods": [{"selector": {"matchLabels": {"app": "logging"}}}]}),
        ),
        rule(
            "c-early",
            &json!({"drain": {"behavior": "Drain", "order": -1}, "pods": [{"selector": {"matchLabels": {"app": "first"}}}]}),
        ),
    ]);
    let app = |name: &str| labelled(&json!({"app": name}));
    let mut of_set = daemon();
    json_merge(&mut of_set, app("daemon"));
    let pods = [pod("d", of_set), pod("l", app("logging")), pod("w", app("web")), pod("f", app("first"))];
    for (rest, expected) in [(4, "f"), (3, "w"), (2, "l"), (1, "d")] {
        assert_eq!(
            names(&drained_by(&pods[..rest], &all, &[], None).evict),
            [expected],
            "daemons never go before workloads"
        );
    }
}

#[test]
fn drain_rules_choose_machines_clusters_pods_and_namespaces() {
    let skip = |more: serde_json::Value| {
        let mut spec = json!({"drain": {"behavior": "Skip"}});
        json_merge(&mut spec, more);
        rules(&[rule("r", &spec)])
    };
    let mut elsewhere = pod("elsewhere", json!({}));
    elsewhere.metadata.namespace = Some("monitoring".to_owned());
    let pods = [pod("here", json!({})), elsewhere];
    let left = |rules: &DrainRules| {
        names(&drained_by(&pods, rules, &[], None).waiting).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(left(&skip(json!({}))), Vec::<String>::new(), "no selector means everything");
    assert_eq!(
        left(&skip(json!({"machines": [{"selector": {"matchLabels": {"os": "windows"}}}]}))),
        ["here", "elsewhere"]
    );
    assert_eq!(
        left(&skip(
            json!({"machines": [{"selector": {"matchLabels": {"os": "windows"}}}, {"selector": {}}]})
        )),
        Vec::<String>::new()
    );
    let other_stage = json!({"machines": [{"selector": {"matchLabels": {"os": "linux"}}, "clusterSelector": {"matchLabels": {"stage": "test"}}}]});
    assert_eq!(left(&skip(other_stage)), ["here", "elsewhere"], "both selectors of one entry must match");
    let namespaced = json!({"pods": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]});
    assert_eq!(left(&skip(namespaced)), ["here"]);
}

#[test]
fn a_drain_rule_that_can_not_be_read_is_named_and_one_for_other_machines_is_passed_over() {
    let unreadable = |spec| DrainRules::of_machine(&[rule("bad", &spec)], None, None, &[]);
    let error = unreadable(json!({"drain": {"behavior": "Perhaps"}})).unwrap_err();
    assert!(
        error.to_string().contains("MachineDrainRule default/bad") && error.to_string().contains("Perhaps"),
        "{error}"
    );
    let selector = json!({"drain": {"behavior": "Skip"}, "pods": [{"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}]});
    assert!(unreadable(selector).is_err());
    let others = json!({"drain": {"behavior": "Perhaps"}, "machines": [{"selector": {"matchLabels": {"os": "windows"}}}]});
    assert_eq!(unreadable(others).unwrap(), DrainRules::default());
}
