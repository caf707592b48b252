use super::*;

// karpenter-provider-cluster-api: with a selector the opt-in label is no longer asked for.
#[test]
fn selector_replaces_no_opt_in_label_it_only_narrows_the_members() {
    let class = |selector: Value| -> ClusterAPINodeClass {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.cluster.x-k8s.io/v1alpha1", "kind": "ClusterAPINodeClass",
            "metadata": {"name": "c"}, "spec": {"scalableResourceSelector": selector}
        }))
        .unwrap()
    };
    let labelled = |labels: Value| deployment("a", |object| object["metadata"]["labels"] = labels);
    let member = labelled(json!({"node.cluster.x-k8s.io/karpenter-member": "", "team": "x"}));
    let outsider = labelled(json!({"team": "x"}));
    let odd = labelled(json!({"node.cluster.x-k8s.io/karpenter-member": "no", "team": "x"}));
    let all = Selection::of(&class(Value::Null)).unwrap();
    assert_eq!((all.takes(&member), all.takes(&outsider), all.takes(&odd)), (true, false, false));
    let team = Selection::of(&class(json!({"matchLabels": {"team": "x"}}))).unwrap();
    assert_eq!((team.takes(&member), team.takes(&outsider)), (true, false));
    let other = Selection::of(&class(json!({"matchLabels": {"team": "y"}}))).unwrap();
    assert!(!other.takes(&member));
    let broken =
        Selection::of(&class(json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}))).unwrap_err();
    assert!(broken.to_string().contains("ClusterAPINodeClass c"), "{broken}");
}
