use super::*;

#[test]
fn a_plain_machine_deployment_is_available_with_the_usual_defaults() {
    let entry = entry(&with_own("m1", &[("price", "0.2")]));
    assert_eq!(code(&entry), None);
    assert_eq!(entry.instance_type.name, "default/m1");
    assert_eq!(entry.instance_type.machine_deployment.as_ref().unwrap().to_string(), "default/m1");
    let found: Vec<_> = entry.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(
        found,
        [
            (keys::CAPACITY_TYPE, "on-demand"),
            (keys::ARCH, "amd64"),
            (keys::OS, "linux"),
            (keys::INSTANCE_TYPE, "m1"),
        ]
    );
    assert_eq!(entry.price, Some(Price(200_000_000_000)));
    assert_eq!((entry.zone(), entry.capacity_type(), entry.instance_type_label()), ("", "on-demand", "m1"));
    assert_eq!(entry.instance_type.headroom, None);
    assert_eq!(entry.warnings, []);
}

#[test]
fn case_33_capacity_under_unread_keys_is_no_capacity() {
    let a = deployment("a", |object| {
        object["metadata"]["annotations"] =
            json!({"machine.openshift.io/vCPU": "4", "machine.openshift.io/memoryMb": "16384"});
    });
    let found = entry(&a);
    assert_eq!(code(&found), Some(ReasonCode::NoCapacityDeclared));
    assert!(message(&found).starts_with("a: no cpu and memory capacity"), "{}", message(&found));
    assert!(
        message(&found).contains("machine.openshift.io/vCPU isn't read")
            || message(&found)
                .contains("machine.openshift.io/memoryMb, machine.openshift.io/vCPU isn't read")
    );
    let b = deployment("b", |object| {
        object["metadata"]["annotations"] = json!({format!("{CAPACITY}cpu"): "4"});
    });
    assert_eq!(code(&entry(&b)), Some(ReasonCode::NoCapacityDeclared));
    assert!(
        message(&entry(&b))
            .starts_with("b: no memory capacity; set capacity.cluster-autoscaler.kubernetes.io/memory")
    );
}

#[test]
fn case_34_ephemeral_storage_counts_only_where_it_is_declared() {
    assert_eq!(entry(&with_capacity("a", &[])).instance_type.capacity.ephemeral_storage(), 0);
    let found = entry(&with_capacity("a", &[("ephemeral-disk", "100Gi")]));
    assert_eq!(found.instance_type.capacity.ephemeral_storage(), gibibytes(100));
}

#[test]
fn case_38_memory_is_a_quantity_and_a_bare_number_is_bytes() {
    for (value, bytes) in [
        ("16G", 16_000_000_000),
        ("16Gi", 17_179_869_184),
        ("16384", 16_384),
        ("17179869184000m", 17_179_869_184),
        ("16e9", 16_000_000_000),
    ] {
        let found = entry(&with_capacity("a", &[("memory", value)]));
        assert_eq!((code(&found), found.instance_type.capacity.memory()), (None, bytes), "{value}");
        let suspicious = found.warnings.iter().any(|warning| warning.message.contains("suspiciously small"));
        assert_eq!(suspicious, value == "16384", "{value}: {:?}", found.warnings);
    }
    for value in ["16GB", "16 Gi", "sixteen", "", "-16Gi", "1.2.3Gi", "0"] {
        let found = entry(&with_capacity("a", &[("memory", value)]));
        assert_eq!(code(&found), Some(ReasonCode::Invalid), "{value}");
        assert!(message(&found).contains(&format!("{CAPACITY}memory: {value:?}")), "{}", message(&found));
        assert!(message(&found).contains("16Gi"), "what would be right: {}", message(&found));
        assert_eq!(found.unavailable.len(), 1, "what is there and unreadable isn't missing as well");
    }
}

#[test]
fn case_38_processors_are_a_quantity() {
    for (value, millicores) in [("4", 4000), ("4000m", 4000), ("4.0", 4000), ("0.5", 500)] {
        let found = entry(&with_capacity("a", &[("cpu", value)]));
        assert_eq!((code(&found), found.instance_type.capacity.cpu()), (None, millicores), "{value}");
    }
    for value in ["4vCPU", "four"] {
        assert_eq!(
            code(&entry(&with_capacity("a", &[("cpu", value)]))),
            Some(ReasonCode::Invalid),
            "{value}"
        );
    }
}

// karpenter-provider-cluster-api: a MachineDeployment without maxPods fits no pod at all.
#[test]
fn case_39_missing_max_pods_are_110_and_others_a_whole_number() {
    assert_eq!(entry(&with_capacity("a", &[])).instance_type.capacity.pods(), 110);
    assert_eq!(entry(&with_capacity("a", &[("maxPods", "250")])).instance_type.capacity.pods(), 250);
    for value in ["1e2", "12.5", "0", "-1", "many"] {
        assert_eq!(
            code(&entry(&with_capacity("a", &[("maxPods", value)]))),
            Some(ReasonCode::Invalid),
            "{value}"
        );
    }
}

#[test]
fn case_40_gpus_need_their_type_and_their_number() {
    let both = entry(&with_capacity("g", &[("gpu-type", "nvidia.com/gpu"), ("gpu-count", "2")]));
    assert_eq!((code(&both), both.instance_type.capacity.get("nvidia.com/gpu")), (None, 2));
    let untyped = entry(&with_capacity("g", &[("gpu-count", "2")]));
    assert_eq!((code(&untyped), untyped.warnings.len()), (None, 1));
    assert!(untyped.instance_type.capacity.iter().all(|(name, _)| !name.contains("gpu")));
    let fraction = entry(&with_capacity("g", &[("gpu-type", "nvidia.com/gpu"), ("gpu-count", "1.5")]));
    assert_eq!(code(&fraction), Some(ReasonCode::Invalid));
    let uncounted = entry(&with_capacity("g", &[("gpu-type", "nvidia.com/gpu")]));
    assert_eq!((code(&uncounted), uncounted.warnings.len()), (None, 1));
    let odd = entry(&with_capacity("g", &[("gpu-type", "nvidia gpu"), ("gpu-count", "1")]));
    assert_eq!(code(&odd), Some(ReasonCode::Invalid));
    let dynamic = entry(&with_capacity("g", &[("dra-driver", "gpu.nvidia.com"), ("gpu-count", "2")]));
    assert_eq!((code(&dynamic), dynamic.warnings.len()), (None, 1));
}

#[test]
fn volume_limits_are_read_and_unreadable_ones_left_out() {
    let found = entry(&with_capacity("a", &[("csi-driver", "ebs.csi.aws.com=26,bad,b=x")]));
    assert_eq!(found.volume_limits.into_iter().collect::<Vec<_>>(), [("ebs.csi.aws.com".to_owned(), 26)]);
    assert_eq!(found.warnings.len(), 2);
}

#[test]
fn infrastructure_template_is_read_and_annotations_are_stronger() {
    let world = World {
        template: Some(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DevMachineTemplate",
            "metadata": {"name": "t", "namespace": "default"},
            "status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": 58, "nvidia.com/gpu": "1", "bad": "x", "odd": {}}}
        })),
        ..World::default()
    };
    let found = world.entry(&deployment("a", |object| {
        object["metadata"]["annotations"] = json!({format!("{CAPACITY}cpu"): "4"});
    }));
    let capacity = &found.instance_type.capacity;
    assert_eq!((code(&found), capacity.cpu(), capacity.memory()), (None, 4000, gibibytes(32)));
    assert_eq!((capacity.pods(), capacity.get("nvidia.com/gpu")), (58, 1));
    assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
}

#[test]
fn every_fault_is_told_at_once() {
    let found = entry(&with_capacity("a", &[("cpu", "four"), ("memory", "16GB"), ("taints", "x")]));
    assert_eq!(code(&found), Some(ReasonCode::Invalid));
    for key in ["cpu", "memory", "taints"] {
        assert!(message(&found).contains(&format!("{CAPACITY}{key}")), "{key}: {}", message(&found));
    }
    assert_eq!(found.warnings.len(), 3);
}
