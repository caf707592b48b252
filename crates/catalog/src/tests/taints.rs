use super::*;

#[test]
fn case_35_taints_of_the_template_are_merged_with_the_annotation() {
    let template = json!([
        {"key": "gpu", "value": "true", "effect": "NoSchedule"},
        {"key": "zone", "value": "edge", "effect": "NoSchedule", "propagation": "Always"}
    ]);
    let merged = deployment("a", |object| {
        object["spec"]["template"]["spec"]["taints"] = template;
        object["metadata"]["annotations"][format!("{CAPACITY}taints")] = json!("gpu=yes:NoSchedule");
    });
    let taints: Vec<_> = entry(&merged).instance_type.taints.iter().map(ToString::to_string).collect();
    assert_eq!(taints, ["gpu=yes:NoSchedule", "zone=edge:NoSchedule"]);
}

#[test]
fn case_35_a_malformed_taint_takes_the_machine_deployment_out() {
    for malformed in ["gpu=true", "=x:NoSchedule", "gpu=true:Never", "gpu=true:NoSchedule,gpu", ":NoSchedule"]
    {
        let found = entry(&with_capacity("a", &[("taints", malformed)]));
        assert_eq!(code(&found), Some(ReasonCode::Invalid), "{malformed}");
        assert!(
            message(&found).contains("capacity.cluster-autoscaler.kubernetes.io/taints"),
            "{}",
            message(&found)
        );
    }
    let field = deployment("a", |object| {
        object["spec"]["template"]["spec"]["taints"] = json!([{"key": "gpu", "effect": "Never"}]);
    });
    assert_eq!(code(&entry(&field)), Some(ReasonCode::Invalid));
    assert!(message(&entry(&field)).contains("spec.template.spec.taints: \"gpu=:Never\""));
    let plain = entry(&with_capacity("a", &[("taints", "dedicated:NoExecute, x=y:PreferNoSchedule,")]));
    assert_eq!(code(&plain), None, "a taint without a value, blanks and a trailing comma are fine");
    assert_eq!(plain.instance_type.taints.len(), 2);
}

#[test]
fn zero_overhead_is_not_assumed_where_reservations_are_declared() {
    let found = entry(&with_own(
        "a",
        &[
            ("kube-reserved", "cpu=100m,memory=255Mi"),
            ("system-reserved", "cpu=100m, ephemeral-storage=1Gi"),
            ("eviction-threshold", "memory=100Mi"),
        ],
    ));
    assert_eq!((code(&found), allocatable(&found).cpu()), (None, 3800));
    assert_eq!(allocatable(&found).memory(), gibibytes(16) - (355 << 20));
    for value in ["cpu", "cpu=lots", "memory=5%", "cpu=-1", "=1"] {
        let found = entry(&with_own("a", &[("kube-reserved", value)]));
        assert_eq!(code(&found), Some(ReasonCode::Invalid), "{value}");
        assert!(message(&found).contains(&format!("{OURS}kube-reserved: {value:?}")), "{}", message(&found));
    }
}
