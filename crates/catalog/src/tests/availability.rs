use super::*;

#[test]
fn case_52_and_53_the_reason_names_which_of_three_pauses_is_on() {
    let by_annotation = entry(&annotated("a", &[("cluster.x-k8s.io/paused", "")]));
    assert_eq!(code(&by_annotation), Some(ReasonCode::Paused));
    assert_eq!(
        message(&by_annotation),
        "annotation cluster.x-k8s.io/paused is set on MachineDeployment default/a"
    );
    let by_field = entry(&deployment("a", |object| object["spec"]["paused"] = json!(true)));
    assert_eq!(code(&by_field), Some(ReasonCode::Paused));
    assert_eq!(message(&by_field), "spec.paused is true on MachineDeployment default/a");
    let world = World { cluster: Some(cluster(&json!({"paused": true}))), ..World::default() };
    let by_cluster = world.entry(&with_capacity("a", &[]));
    assert_eq!(code(&by_cluster), Some(ReasonCode::Paused));
    assert_eq!(message(&by_cluster), "spec.paused is true on Cluster c");
    let unpaused = World { cluster: Some(cluster(&json!({"paused": false}))), ..World::default() };
    assert_eq!(code(&unpaused.entry(&with_capacity("a", &[]))), None);
}

// Public reports kubernetes-sigs/cluster-api#8629 and #6966: with spec.paused alone Cluster API goes on scaling.
#[test]
fn case_53_spec_paused_alone_is_a_pause_until_it_is_lifted() {
    let by_field = |paused: bool| entry(&deployment("a", |object| object["spec"]["paused"] = json!(paused)));
    assert_eq!(code(&by_field(true)), Some(ReasonCode::Paused));
    assert!(message(&by_field(true)).starts_with("spec.paused"), "{}", message(&by_field(true)));
    assert_eq!(code(&by_field(false)), None, "usable at the next look");
}

fn cluster(spec: &Value) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "default"}, "spec": spec
    })
}

#[test]
fn what_is_being_deleted_makes_no_machines() {
    let deleting = entry(&deployment("a", |object| {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-05T11:00:00Z");
        object["spec"]["paused"] = json!(true);
    }));
    assert_eq!(code(&deleting), Some(ReasonCode::Deleting));
    assert_eq!(deleting.unavailable.len(), 2, "the other reason is kept behind it");
    let mut of_cluster = cluster(&json!({}));
    of_cluster["metadata"]["deletionTimestamp"] = json!("2026-01-05T11:00:00Z");
    let world = World { cluster: Some(of_cluster), ..World::default() };
    assert_eq!(code(&world.entry(&with_capacity("a", &[]))), Some(ReasonCode::Deleting));
}

// karpenter-provider-cluster-api: the maximum size is checked for each claim before they are batched, so five claims at once make six of
// two. Claims on their way count here; within one pass `scheduling` shares the headroom, and the ledger enters no further.
#[test]
fn max_size_overrun_the_maximum_leaves_headroom_for_as_many_as_fit_and_must_be_readable() {
    let sized = |replicas: i32, annotations: &[(&str, &str)]| {
        deployment("a", |object| {
            object["spec"]["replicas"] = json!(replicas);
            for (key, value) in annotations {
                object["metadata"]["annotations"][*key] = json!(value);
            }
        })
    };
    let some_left = entry(&sized(3, &[(MAX_SIZE, "5")]));
    assert_eq!((code(&some_left), some_left.instance_type.headroom), (None, Some(2)));
    let full = entry(&sized(5, &[(MAX_SIZE, "5")]));
    assert_eq!((code(&full), full.instance_type.headroom), (Some(ReasonCode::MaxSize), Some(0)));
    assert!(message(&full).contains("5 of at most 5"), "{}", message(&full));
    let waiting = World { facts: Facts { claims_to_enter: 2, ..Facts::default() }, ..World::default() };
    assert_eq!(
        code(&waiting.entry(&sized(3, &[(MAX_SIZE, "5")]))),
        Some(ReasonCode::MaxSize),
        "claims on their way count"
    );
    for value in ["five", "-1", "2.5"] {
        assert_eq!(code(&entry(&sized(0, &[(MAX_SIZE, value)]))), Some(ReasonCode::Invalid), "{value}");
    }
    assert_eq!(code(&entry(&sized(0, &[(MAX_SIZE, "0"), (MIN_SIZE, "0")]))), Some(ReasonCode::MaxSize));
    let hypershift = [(MAX_SIZE, "0"), (MIN_SIZE, "0"), ("hypershift.openshift.io/nodePool", "clusters/np")];
    assert_eq!(entry(&sized(0, &hypershift)).instance_type.headroom, None, "HyperShift's pair is no cap");
    assert_eq!(code(&entry(&sized(0, &hypershift))), None);
}

#[test]
fn nil_replicas_are_what_cluster_api_fills_in() {
    let without = |annotations: &[(&str, &str)]| {
        let deployment = deployment("a", |object| {
            object["spec"].as_object_mut().unwrap().remove("replicas");
            for (key, value) in annotations {
                object["metadata"]["annotations"][*key] = json!(value);
            }
        });
        entry(&deployment).replicas
    };
    assert_eq!(without(&[]), 1);
    assert_eq!(without(&[(MIN_SIZE, "3"), (MAX_SIZE, "9")]), 3);
}

#[test]
fn case_60_replicas_of_a_topology_are_somebody_elses() {
    let topology = |replicas: &Value| {
        cluster(
            &json!({"topology": {"workers": {"machineDeployments": [{"name": "workers", "replicas": replicas}]}}}),
        )
    };
    let owned = |entry_label: Option<&str>| {
        deployment("c-workers-x7", |object| {
            object["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"] = json!("");
            if let Some(name) = entry_label {
                object["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"] = json!(name);
            }
        })
    };
    let world = World { cluster: Some(topology(&json!(1))), ..World::default() };
    for label in [Some("workers"), None] {
        let found = world.entry(&owned(label));
        assert_eq!(code(&found), Some(ReasonCode::ReplicasManaged));
        assert!(
            message(&found).contains("spec.topology.workers.machineDeployments[name=workers]"),
            "{}",
            message(&found)
        );
    }
    assert_eq!(code(&world.entry(&owned(Some("other")))), None);
    assert_eq!(code(&world.entry(&with_capacity("c-workers-x7", &[]))), None, "not owned by the topology");
    let unset = World { cluster: Some(topology(&Value::Null)), ..World::default() };
    assert_eq!(code(&unset.entry(&owned(Some("workers")))), None);
}

fn machine_set(name: &str, revision: &str, replicas: i32, conditions: &Value) -> Arc<MachineSet> {
    let set = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
        "metadata": {
            "name": name, "namespace": "default",
            "annotations": {"machinedeployment.clusters.x-k8s.io/revision": revision},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "a",
                                 "uid": "md-uid", "controller": true}]
        },
        "spec": {"clusterName": "c", "replicas": replicas},
        "status": {"conditions": conditions}
    });
    Arc::new(serde_json::from_value(set).unwrap())
}

#[test]
fn a_roll_out_is_an_older_machine_set_that_still_has_machines() {
    let sets = |older: i32| {
        vec![machine_set("a-10", "10", 1, &json!([])), machine_set("a-9", "9", older, &json!([]))]
    };
    let rolling = World { sets: sets(2), ..World::default() };
    let found = rolling.entry(&with_capacity("a", &[]));
    assert_eq!(code(&found), Some(ReasonCode::RollingOut), "revisions are numbers: 9 is older than 10");
    assert!(message(&found).contains("MachineSet a-9 of revision 9 still has 2"), "{}", message(&found));
    let over = World { sets: sets(0), ..World::default() };
    assert_eq!(code(&over.entry(&with_capacity("a", &[]))), None);
    let on_delete = deployment("a", |object| {
        object["spec"]["rollout"] = json!({"strategy": {"type": "OnDelete"}});
    });
    assert_eq!(code(&rolling.entry(&on_delete)), None, "under OnDelete nothing rolls by itself");
    let older_api = deployment("a", |object| {
        object["spec"]["strategy"] = json!({"type": "OnDelete"});
    });
    assert_eq!(code(&rolling.entry(&older_api)), None);
    let foreign = deployment("b", |object| object["metadata"]["uid"] = json!("other"));
    assert_eq!(code(&rolling.entry(&foreign)), None, "somebody else's MachineSets");
}

// Public report kubernetes-sigs/cluster-api#8987: a roll-out hung with one old machine left, and nothing showed for how long.
#[test]
fn case_65_a_roll_out_says_since_when_it_is_under_way() {
    let world = World {
        sets: vec![machine_set("a-2", "2", 1, &json!([])), machine_set("a-1", "1", 1, &json!([]))],
        ..World::default()
    };
    let told = |status: &str| {
        let condition = json!({"type": "RollingOut", "status": status, "reason": "RollingOut", "message": "", "lastTransitionTime": "2026-01-02T08:00:00Z"});
        let found =
            world.entry(&deployment("a", |object| object["status"] = json!({"conditions": [condition]})));
        assert_eq!(code(&found), Some(ReasonCode::RollingOut));
        message(&found).to_owned()
    };
    assert!(
        told("True").contains("under way since 2026-01-02T08:00:00Z: MachineSet a-1"),
        "{}",
        told("True")
    );
    assert!(
        told("False").contains("under way: MachineSet a-1"),
        "Cluster API hasn't noticed: {}",
        told("False")
    );
}

#[test]
fn a_machine_of_an_older_machine_set_is_a_roll_out_too() {
    let machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "m", "namespace": "default", "ownerReferences": [
            {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "a-1", "uid": "x", "controller": true}]},
        "spec": {"clusterName": "c"}
    });
    let world = World {
        sets: vec![machine_set("a-1", "1", 0, &json!([])), machine_set("a-2", "2", 1, &json!([]))],
        machines: vec![Arc::new(serde_json::from_value(machine).unwrap())],
        ..World::default()
    };
    assert_eq!(code(&world.entry(&with_capacity("a", &[]))), Some(ReasonCode::RollingOut));
}

#[test]
fn a_failing_preflight_check_is_told_in_its_own_words() {
    let condition = |status: &str, message: &str| json!([{"type": "ScalingUp", "status": status, "lastTransitionTime": "2026-01-05T11:00:00Z", "reason": "ScalingUp", "message": message}]);
    let blocked = "Scaling up from 0 to 1 replicas is blocked because:\n* MachineSet version is too old (KubernetesVersionSkew preflight check failed)";
    let world =
        World { sets: vec![machine_set("a-1", "1", 1, &condition("True", blocked))], ..World::default() };
    let found = world.entry(&with_capacity("a", &[]));
    assert_eq!(code(&found), Some(ReasonCode::PreflightFailing));
    assert!(
        message(&found).contains("MachineSet a-1") && message(&found).contains("KubernetesVersionSkew"),
        "{}",
        message(&found)
    );
    let ordinary = World {
        sets: vec![machine_set("a-1", "1", 1, &condition("True", "Scaling up from 0 to 1 replicas"))],
        ..World::default()
    };
    assert_eq!(code(&ordinary.entry(&with_capacity("a", &[]))), None);
    let own = deployment("a", |object| {
        object["status"] = json!({"conditions": condition("True", "Scaling up from 0 to 1 replicas is blocked because T does not exist")});
    });
    assert_eq!(code(&entry(&own)), Some(ReasonCode::PreflightFailing));
}

#[test]
fn facts_hold_until_their_time() {
    let until = |text: &str| {
        Some(Until { until: text.parse().unwrap(), message: "no machine could be had".to_owned() })
    };
    let with = |facts: Facts| World { facts, ..World::default() }.entry(&with_capacity("a", &[]));
    let later = "2026-01-05T12:00:01Z";
    let out = with(Facts { out_of_capacity: until(later), ..Facts::default() });
    assert_eq!(
        (code(&out), message(&out)),
        (Some(ReasonCode::OutOfCapacity), "no machine could be had; tried again after 2026-01-05T12:00:01Z")
    );
    assert_eq!(
        code(&with(Facts { out_of_capacity: until("2026-01-05T12:00:00Z"), ..Facts::default() })),
        None
    );
    assert_eq!(
        code(&with(Facts { launch_timed_out: until(later), ..Facts::default() })),
        Some(ReasonCode::LaunchTimedOut)
    );
    assert_eq!(
        code(&with(Facts { scaled_by_others: until(later), ..Facts::default() })),
        Some(ReasonCode::ScaledByOthers)
    );
    let told = Some("it is on".to_owned());
    assert_eq!(
        code(&with(Facts { two_autoscalers: told.clone(), ..Facts::default() })),
        Some(ReasonCode::TwoAutoscalers)
    );
    assert_eq!(
        code(&with(Facts { hypershift_autoscaling: told.clone(), ..Facts::default() })),
        Some(ReasonCode::HyperShiftAutoscaling)
    );
    assert_eq!(
        code(&with(Facts { hypershift_out_of_reach: told, ..Facts::default() })),
        Some(ReasonCode::ReplicasManaged)
    );
}

#[test]
fn excluded_by_hand_with_or_without_a_reason() {
    for (value, told) in [
        ("false", "excluded by karpenter.cluster.x-k8s.io/available"),
        ("false: waiting for quota", "excluded by karpenter.cluster.x-k8s.io/available: waiting for quota"),
        ("False (old image)", "excluded by karpenter.cluster.x-k8s.io/available: (old image)"),
    ] {
        let found = entry(&with_own("a", &[("available", value)]));
        assert_eq!((code(&found), message(&found)), (Some(ReasonCode::Excluded), told), "{value}");
    }
    for value in ["true", "True", ""] {
        assert_eq!(code(&entry(&with_own("a", &[("available", value)]))), None, "{value:?}");
    }
    for value in ["no", "falsehood", "0"] {
        assert_eq!(
            code(&entry(&with_own("a", &[("available", value)]))),
            Some(ReasonCode::Invalid),
            "{value}"
        );
    }
}

#[test]
fn the_provision_time_overrides_the_launch_timeout() {
    const KEY: &str = "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime";
    assert_eq!(entry(&annotated("a", &[(KEY, "30m")])).launch_timeout, Some(SignedDuration::from_mins(30)));
    for value in ["30", "-5m", "0s", "soon"] {
        let found = entry(&annotated("a", &[(KEY, value)]));
        assert_eq!((code(&found), found.launch_timeout, found.warnings.len()), (None, None, 1), "{value}");
    }
}
