use super::*;
use proptest::prelude::*;

/// Every key that is read.
const KEYS: [&str; 24] = [
    "capacity.cluster-autoscaler.kubernetes.io/cpu",
    "capacity.cluster-autoscaler.kubernetes.io/memory",
    "capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk",
    "capacity.cluster-autoscaler.kubernetes.io/maxPods",
    "capacity.cluster-autoscaler.kubernetes.io/gpu-type",
    "capacity.cluster-autoscaler.kubernetes.io/gpu-count",
    "capacity.cluster-autoscaler.kubernetes.io/dra-driver",
    "capacity.cluster-autoscaler.kubernetes.io/csi-driver",
    "capacity.cluster-autoscaler.kubernetes.io/labels",
    "capacity.cluster-autoscaler.kubernetes.io/taints",
    "capacity.cluster-autoscaler.kubernetes.io/price",
    "cluster.x-k8s.io/machine-current-price",
    "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime",
    "cluster.x-k8s.io/paused",
    MAX_SIZE,
    MIN_SIZE,
    "karpenter.cluster.x-k8s.io/price",
    "karpenter.cluster.x-k8s.io/price-updated-at",
    "karpenter.cluster.x-k8s.io/capacity-type",
    "karpenter.cluster.x-k8s.io/zone",
    "karpenter.cluster.x-k8s.io/available",
    "karpenter.cluster.x-k8s.io/kube-reserved",
    "karpenter.cluster.x-k8s.io/eviction-threshold",
    "karpenter.cluster.x-k8s.io/priority",
];

/// Arbitrary text, and text made of the pieces that readers look for.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-+0-9a-zA-Z=:,./ ]{0,24}",
        "(false|true|[0-9]{1,40}|[0-9.]{1,6}(m|k|Ki|Gi|E|Ei|e9)|9223372036854775807|-9223372036854775808)[ä:]?",
    ]
}

proptest! {
    #[test]
    fn nothing_in_an_annotation_panics_and_what_is_invalid_is_never_available(
        annotations in proptest::collection::btree_map(proptest::sample::select(&KEYS[..]), value(), 0..8),
    ) {
        let list: Vec<(&str, &str)> = annotations.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let found = entry(&annotated("a", &list));
        prop_assert!(found.instance_type.capacity.iter().all(|(_, amount)| amount > 0));
        prop_assert!(found.instance_type.overhead.iter().all(|(_, amount)| amount > 0));
        prop_assert!(found.instance_type.headroom.is_none_or(|room| room >= 0));
        prop_assert!(found.price.is_none_or(|price| price >= Price(0)));
        prop_assert_eq!(found.reason(), found.instance_type.offerings[0].unavailable.as_ref());
        for reason in &found.unavailable {
            prop_assert!(!reason.message.is_empty());
        }
    }
}

// karpenter-provider-cluster-api: a quantity that can't be read, such as the `500mb` of Cluster API's own proposal, is a panic; and one
// object that can't be read makes the whole list fail, so that garbage collection stops.
#[test]
fn malformed_quantity_panics_nowhere_and_leaves_other_machine_deployments_as_they_are() {
    let all = [
        entry(&with_capacity("good", &[])),
        entry(&with_capacity("bad", &[("memory", "500mb")])),
        entry(&with_capacity("worse", &[("cpu", "-9223372036854775808E"), ("labels", "nonsense")])),
    ];
    let codes: Vec<Option<ReasonCode>> = all.iter().map(code).collect();
    assert_eq!(codes, [None, Some(ReasonCode::Invalid), Some(ReasonCode::Invalid)]);
    assert!(message(&all[1]).contains("500mb"), "{}", message(&all[1]));
}
