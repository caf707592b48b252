use super::*;

fn node(value: Value) -> Node {
    serde_json::from_value(value).unwrap()
}

fn claim() -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": "p-x", "labels": {"karpenter.sh/nodepool": "p", "topology.kubernetes.io/zone": "z1"},
            "annotations": {"team": "a", "cluster.x-k8s.io/machine": "default/m"}
        },
        "spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default"},
            "taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "net", "effect": "NoExecute"}]
        }
    }))
    .unwrap()
}

#[test]
fn registration_brings_labels_taints_finalizer_and_takes_the_unregistered_taint() {
    let fresh = node(json!({
        "metadata": {"name": "n1", "resourceVersion": "7", "labels": {"topology.kubernetes.io/zone": "other"}},
        "spec": {"taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}, {"key": "theirs", "effect": "NoSchedule"}]}
    }));
    let change = registered(&claim(), &fresh).unwrap();
    assert_eq!(
        change.patch,
        json!({
            "metadata": {
                "labels": {
                    "karpenter.cluster.x-k8s.io/clusterapinodeclass": "default", "karpenter.sh/nodepool": "p",
                    "karpenter.sh/registered": "true", "topology.kubernetes.io/zone": "z1"
                },
                "annotations": {"team": "a"},
                "finalizers": ["karpenter.sh/termination"],
                "resourceVersion": "7"
            },
            "spec": {"taints": [
                {"key": "theirs", "effect": "NoSchedule"},
                {"key": "dedicated", "value": "x", "effect": "NoSchedule"},
                {"key": "net", "effect": "NoExecute"}
            ]}
        })
    );
}

#[test]
fn a_node_that_has_everything_is_left_alone() {
    let complete = node(json!({
        "metadata": {
            "name": "n1", "finalizers": ["karpenter.sh/termination"], "annotations": {"team": "a"},
            "labels": {
                "karpenter.sh/nodepool": "p", "topology.kubernetes.io/zone": "z1", "karpenter.sh/registered": "true",
                "karpenter.cluster.x-k8s.io/clusterapinodeclass": "default"
            }
        },
        "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}, {"key": "net", "effect": "NoExecute"}]}
    }));
    assert_eq!(registered(&claim(), &complete), None);
}

#[test]
fn a_node_that_asks_for_it_keeps_its_own_taints() {
    let node =
        node(json!({"metadata": {"name": "n1", "labels": {"karpenter.sh/do-not-sync-taints": "true"}}}));
    assert_eq!(registered(&claim(), &node).unwrap().patch.get("spec"), None);
}

#[test]
fn disruption_adds_its_taint_to_those_that_are_there_and_only_once() {
    let before =
        node(json!({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}));
    let patch = disrupted(&before).unwrap().patch;
    assert_eq!(patch["spec"]["taints"][1], json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}));
    let after = node(json!({
        "metadata": {"name": "n1", "labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "karpenter"}},
        "spec": patch["spec"]
    }));
    assert_eq!(disrupted(&after), None);
}

#[test]
fn only_our_finalizer_is_taken_off() {
    let node =
        node(json!({"metadata": {"name": "n1", "finalizers": ["theirs", "karpenter.sh/termination"]}}));
    assert_eq!(released(&node).unwrap().patch["metadata"]["finalizers"], json!(["theirs"]));
}

#[test]
fn a_node_is_ours_by_its_claim_and_without_one_by_its_label() {
    let theirs: NodeClaim = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "q-x"},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}
    }))
    .unwrap();
    // Finalizer, taint and pool label are every Karpenter's.
    let of_any = node(json!({
        "metadata": {"name": "n1", "finalizers": ["karpenter.sh/termination"], "labels": {"karpenter.sh/nodepool": "p"}},
        "spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}
    }));
    assert!(is_managed(&of_any, Some(&claim())));
    assert!(!is_managed(&of_any, Some(&theirs)));
    assert!(!is_managed(&of_any, None));
    let labelled = node(json!({
        "metadata": {"name": "n1", "labels": {"karpenter.cluster.x-k8s.io/clusterapinodeclass": "default"}}
    }));
    assert!(is_managed(&labelled, None));
}
