use super::*;
use serde_json::json;

fn now() -> Timestamp {
    "2026-01-05T12:00:00Z".parse().unwrap()
}

fn pod(name: &str, more: serde_json::Value) -> Pod {
    let mut value = json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"containers": []}});
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
    let pods: Vec<&Pod> = pods.iter().collect();
    drain(&pods, deadline.map(|text| text.parse().unwrap()), now())
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
        pod("static", json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"}]}})),
        pod("tolerates", json!({"spec": {"tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]}})),
        pod("tolerates-all", json!({"spec": {"tolerations": [{"operator": "Exists"}]}})),
        pod("stuck", json!({"metadata": {"deletionTimestamp": "2026-01-05T11:58:59Z"}})),
    ];
    assert_eq!(drained(&pods, None), Drain::default());
}

#[test]
fn do_not_disrupt_holds_a_pod_until_its_duration_is_over() {
    let annotated = |value: &str| {
        json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}, "status": {"startTime": "2026-01-05T11:30:00Z"}})
    };
    let pods = [pod("always", annotated("true")), pod("an-hour", annotated("1h")), pod("over", annotated("10m")), pod("bad", annotated("x"))];
    let drain = drained(&pods, None);
    assert_eq!(names(&drain.blocking), ["always", "an-hour"]);
    assert_eq!(names(&drain.evict), ["bad", "over"]);
}

// Public report kubernetes-sigs/karpenter#1776: a node with a four-hour deadline hung behind a PodDisruptionBudget for days.
#[test]
fn a_pod_whose_grace_period_exceeds_what_is_left_is_deleted_directly() {
    let with_grace = |seconds: i64| json!({"spec": {"terminationGracePeriodSeconds": seconds}});
    let pods = [pod("d", with_grace(60)), pod("e", with_grace(30)), pod("f", with_grace(6 * 3600))];
    let at_start = drained(&pods, Some("2026-01-05T16:00:00Z"));
    assert_eq!(names(&at_start.evict), ["d", "e"]);
    assert_eq!(at_start.delete.iter().map(|(pod, grace)| (pod.name.as_str(), *grace)).collect::<Vec<_>>(), [("f", 4 * 3600)]);
    let near_the_end = drained(&pods[..1], Some("2026-01-05T12:01:00Z"));
    assert_eq!(near_the_end.delete[0].1, 60);
    let past_the_end = drained(&pods[..1], Some("2026-01-05T11:00:00Z"));
    assert_eq!(past_the_end.delete[0].1, 1);
}
