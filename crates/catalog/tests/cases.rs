//! Small MachineDeployments and what must be read from them; several are public bug reports retold.

use jiff::{SignedDuration, Timestamp};
use karpenter_capi_api::capi::{Cluster, InfrastructureTemplate, Machine, MachineDeployment, MachineSet};
use karpenter_capi_api::names::labels;
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_catalog::{CatalogEntry, CatalogInput, Facts, Selection, Until, catalog};
use karpenter_capi_model::price::Price;
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_model::resources::Resources;
use serde_json::{Value, json};
use std::sync::Arc;

const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io/";
const OURS: &str = "karpenter.cluster.x-k8s.io/";
const MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
const MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";

/// A MachineDeployment `default/<name>` with 4 processors and 16Gi, changed by `change`.
fn deployment(name: &str, change: impl FnOnce(&mut Value)) -> MachineDeployment {
    let mut object = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {
            "name": name, "namespace": "default", "uid": "md-uid",
            "labels": {"node.cluster.x-k8s.io/karpenter-member": ""},
            "annotations": {format!("{CAPACITY}cpu"): "4", format!("{CAPACITY}memory"): "16Gi"}
        },
        "spec": {"clusterName": "c", "replicas": 0, "selector": {}, "template": {"spec": {"clusterName": "c"}}}
    });
    change(&mut object);
    serde_json::from_value(object).unwrap()
}

fn annotated(name: &str, annotations: &[(&str, &str)]) -> MachineDeployment {
    deployment(name, |object| {
        for (key, value) in annotations {
            object["metadata"]["annotations"][*key] = json!(value);
        }
    })
}

/// The keys' prefix is the Cluster Autoscaler's.
fn with_capacity(name: &str, annotations: &[(&str, &str)]) -> MachineDeployment {
    deployment(name, |object| {
        for (key, value) in annotations {
            object["metadata"]["annotations"][format!("{CAPACITY}{key}")] = json!(value);
        }
    })
}

/// The keys' prefix is our own.
fn with_own(name: &str, annotations: &[(&str, &str)]) -> MachineDeployment {
    deployment(name, |object| {
        for (key, value) in annotations {
            object["metadata"]["annotations"][format!("{OURS}{key}")] = json!(value);
        }
    })
}

fn now() -> Timestamp {
    "2026-01-05T12:00:00Z".parse().unwrap()
}

#[derive(Default)]
struct World {
    template: Option<Value>,
    sets: Vec<Arc<MachineSet>>,
    machines: Vec<Arc<Machine>>,
    cluster: Option<Value>,
    facts: Facts,
}

impl World {
    fn entry(&self, deployment: &MachineDeployment) -> CatalogEntry {
        let template = self
            .template
            .as_ref()
            .map(|template| InfrastructureTemplate::parse(template).unwrap());
        let cluster: Option<Cluster> = self
            .cluster
            .clone()
            .map(|cluster| serde_json::from_value(cluster).unwrap());
        catalog(&CatalogInput {
            machine_deployment: deployment,
            infrastructure_template: template.as_ref(),
            machine_sets: &self.sets,
            machines: &self.machines,
            cluster: cluster.as_ref(),
            facts: &self.facts,
            now: now(),
        })
    }
}

fn entry(deployment: &MachineDeployment) -> CatalogEntry {
    World::default().entry(deployment)
}

fn code(entry: &CatalogEntry) -> Option<ReasonCode> {
    assert_eq!(
        entry.reason(),
        entry.instance_type.offerings[0].unavailable.as_ref()
    );
    entry.reason().map(|reason| reason.code)
}

fn message(entry: &CatalogEntry) -> &str {
    entry.reason().map_or("", |reason| reason.message.as_str())
}

fn allocatable(entry: &CatalogEntry) -> Resources {
    entry
        .instance_type
        .capacity
        .allocatable(&entry.instance_type.overhead)
}

fn gibibytes(count: i64) -> i64 {
    count << 30
}

#[test]
fn a_plain_machine_deployment_is_available_with_the_usual_defaults() {
    let entry = entry(&with_own("m1", &[("price", "0.2")]));
    assert_eq!(code(&entry), None);
    assert_eq!(entry.instance_type.name, "default/m1");
    assert_eq!(
        entry
            .instance_type
            .machine_deployment
            .as_ref()
            .unwrap()
            .to_string(),
        "default/m1"
    );
    let found: Vec<_> = entry
        .labels
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (labels::CAPACITY_TYPE, "on-demand"),
            (labels::ARCH, "amd64"),
            (labels::OS, "linux"),
            (labels::INSTANCE_TYPE, "m1"),
        ]
    );
    assert_eq!(entry.price, Some(Price(200_000_000_000)));
    assert_eq!(
        (entry.zone(), entry.capacity_type(), entry.instance_type_label()),
        ("", "on-demand", "m1")
    );
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
    assert!(
        message(&found).starts_with("a: no cpu and memory capacity"),
        "{}",
        message(&found)
    );
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
    assert_eq!(
        entry(&with_capacity("a", &[]))
            .instance_type
            .capacity
            .ephemeral_storage(),
        0
    );
    let found = entry(&with_capacity("a", &[("ephemeral-disk", "100Gi")]));
    assert_eq!(found.instance_type.capacity.ephemeral_storage(), gibibytes(100));
}

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
    let taints: Vec<_> = entry(&merged)
        .instance_type
        .taints
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(taints, ["gpu=yes:NoSchedule", "zone=edge:NoSchedule"]);
}

#[test]
fn case_35_a_malformed_taint_takes_the_machine_deployment_out() {
    for malformed in [
        "gpu=true",
        "=x:NoSchedule",
        "gpu=true:Never",
        "gpu=true:NoSchedule,gpu",
        ":NoSchedule",
    ] {
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
    let plain = entry(&with_capacity(
        "a",
        &[("taints", "dedicated:NoExecute, x=y:PreferNoSchedule,")],
    ));
    assert_eq!(
        code(&plain),
        None,
        "a taint without a value, blanks and a trailing comma are fine"
    );
    assert_eq!(plain.instance_type.taints.len(), 2);
}

#[test]
fn case_37_only_managed_template_labels_reach_the_node() {
    let found = entry(&deployment("a", |object| {
        object["spec"]["template"]["metadata"] = json!({"labels": {
            "example.com/tier": "gold", "node.cluster.x-k8s.io/rack": "r1",
            "x.node-restriction.kubernetes.io/sec": "hi", "node-role.kubernetes.io/worker": ""
        }});
    }));
    assert_eq!(
        found.labels.get("node.cluster.x-k8s.io/rack").map(String::as_str),
        Some("r1")
    );
    assert_eq!(
        found
            .labels
            .get("x.node-restriction.kubernetes.io/sec")
            .map(String::as_str),
        Some("hi")
    );
    assert_eq!(
        found
            .labels
            .get("node-role.kubernetes.io/worker")
            .map(String::as_str),
        Some("")
    );
    assert_eq!(found.labels.get("example.com/tier"), None);
    let vouched = entry(&with_capacity("a", &[("labels", "example.com/tier=gold")]));
    assert_eq!(
        vouched.labels.get("example.com/tier").map(String::as_str),
        Some("gold")
    );
}

#[test]
fn labels_come_from_the_strongest_source() {
    let world = World {
        template: Some(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DevMachineTemplate",
            "metadata": {"name": "t", "namespace": "default"},
            "status": {"nodeInfo": {"architecture": "arm64", "operatingSystem": "windows"}}
        })),
        ..World::default()
    };
    assert_eq!(
        world.entry(&with_capacity("a", &[])).labels[labels::ARCH],
        "arm64"
    );
    assert_eq!(
        world.entry(&with_capacity("a", &[])).labels[labels::OS],
        "windows"
    );
    let deployment = deployment("a", |object| {
        object["spec"]["template"]["metadata"] =
            json!({"labels": {"node.cluster.x-k8s.io/rack": "template"}});
        object["spec"]["template"]["spec"]["failureDomain"] = json!("z-domain");
        object["metadata"]["annotations"][format!("{CAPACITY}labels")] = json!(
            "kubernetes.io/arch=s390x, node.cluster.x-k8s.io/rack=annotation,failure-domain.beta.kubernetes.io/zone=z-label,\
             karpenter.sh/capacity-type=on-demand,node.kubernetes.io/instance-type=m.large"
        );
        object["metadata"]["annotations"][format!("{OURS}capacity-type")] = json!("spot");
    });
    let found = world.entry(&deployment);
    assert_eq!(found.labels[labels::ARCH], "s390x");
    assert_eq!(found.labels["node.cluster.x-k8s.io/rack"], "annotation");
    assert_eq!(
        found.labels[labels::TOPOLOGY_ZONE],
        "z-label",
        "an older key is read as the present one"
    );
    assert_eq!(found.labels[labels::CAPACITY_TYPE], "spot");
    assert_eq!(found.instance_type_label(), "m.large");
    assert_eq!(
        found.instance_type.name, "default/a",
        "the type's own name stays unique"
    );
}

#[test]
fn the_failure_domain_is_the_zone_only_where_nothing_else_names_one() {
    let by_domain = |change: &dyn Fn(&mut Value)| {
        entry(&deployment("a", |object| {
            object["spec"]["template"]["spec"]["failureDomain"] = json!("fd");
            change(object);
        }))
    };
    assert_eq!(by_domain(&|_| {}).zone(), "fd");
    let annotation = format!("{OURS}zone");
    assert_eq!(
        by_domain(&|object| object["metadata"]["annotations"][&annotation] = json!("z9")).zone(),
        "z9"
    );
}

#[test]
fn case_4_a_label_with_an_empty_value_is_kept() {
    let found = entry(&with_capacity(
        "m1",
        &[("labels", "node-role.kubernetes.io/worker=,a=b")],
    ));
    assert_eq!(
        found
            .labels
            .get("node-role.kubernetes.io/worker")
            .map(String::as_str),
        Some("")
    );
    assert_eq!(found.labels["a"], "b");
}

#[test]
fn an_empty_zone_is_no_zone() {
    let found = entry(&with_capacity(
        "m1",
        &[("labels", "topology.kubernetes.io/zone=")],
    ));
    assert_eq!(
        (found.zone(), found.labels.contains_key(labels::TOPOLOGY_ZONE)),
        ("", false)
    );
    assert_eq!(found.warnings.len(), 1);
}

#[test]
fn labels_that_karpenter_sets_itself_are_left_out_with_a_warning() {
    let found = entry(&with_capacity(
        "m1",
        &[("labels", "karpenter.sh/nodepool=x,kubernetes.io/hostname=h,a=b")],
    ));
    assert_eq!(code(&found), None);
    assert!(!found.labels.contains_key(labels::NODEPOOL) && !found.labels.contains_key(labels::HOSTNAME));
    assert_eq!(found.warnings.len(), 2);
}

#[test]
fn malformed_labels_take_the_machine_deployment_out() {
    for malformed in ["nonsense", "=v", "a b=c", "a=b c", "a/b/c=d"] {
        assert_eq!(
            code(&entry(&with_capacity("a", &[("labels", malformed)]))),
            Some(ReasonCode::Invalid),
            "{malformed}"
        );
    }
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
        assert_eq!(
            (code(&found), found.instance_type.capacity.memory()),
            (None, bytes),
            "{value}"
        );
        let suspicious = found
            .warnings
            .iter()
            .any(|warning| warning.message.contains("suspiciously small"));
        assert_eq!(suspicious, value == "16384", "{value}: {:?}", found.warnings);
    }
    for value in ["16GB", "16 Gi", "sixteen", "", "-16Gi", "1.2.3Gi", "0"] {
        let found = entry(&with_capacity("a", &[("memory", value)]));
        assert_eq!(code(&found), Some(ReasonCode::Invalid), "{value}");
        assert!(
            message(&found).contains(&format!("{CAPACITY}memory: {value:?}")),
            "{}",
            message(&found)
        );
        assert!(
            message(&found).contains("16Gi"),
            "what would be right: {}",
            message(&found)
        );
        assert_eq!(
            found.unavailable.len(),
            1,
            "what is there and unreadable isn't missing as well"
        );
    }
}

#[test]
fn case_38_processors_are_a_quantity() {
    for (value, millicores) in [("4", 4000), ("4000m", 4000), ("4.0", 4000), ("0.5", 500)] {
        let found = entry(&with_capacity("a", &[("cpu", value)]));
        assert_eq!(
            (code(&found), found.instance_type.capacity.cpu()),
            (None, millicores),
            "{value}"
        );
    }
    for value in ["4vCPU", "four"] {
        assert_eq!(
            code(&entry(&with_capacity("a", &[("cpu", value)]))),
            Some(ReasonCode::Invalid),
            "{value}"
        );
    }
}

#[test]
fn case_39_pods_are_110_unless_a_whole_number_is_given() {
    assert_eq!(entry(&with_capacity("a", &[])).instance_type.capacity.pods(), 110);
    assert_eq!(
        entry(&with_capacity("a", &[("maxPods", "250")]))
            .instance_type
            .capacity
            .pods(),
        250
    );
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
    let both = entry(&with_capacity(
        "g",
        &[("gpu-type", "nvidia.com/gpu"), ("gpu-count", "2")],
    ));
    assert_eq!(
        (code(&both), both.instance_type.capacity.get("nvidia.com/gpu")),
        (None, 2)
    );
    let untyped = entry(&with_capacity("g", &[("gpu-count", "2")]));
    assert_eq!((code(&untyped), untyped.warnings.len()), (None, 1));
    assert!(
        untyped
            .instance_type
            .capacity
            .iter()
            .all(|(name, _)| !name.contains("gpu"))
    );
    let fraction = entry(&with_capacity(
        "g",
        &[("gpu-type", "nvidia.com/gpu"), ("gpu-count", "1.5")],
    ));
    assert_eq!(code(&fraction), Some(ReasonCode::Invalid));
    let uncounted = entry(&with_capacity("g", &[("gpu-type", "nvidia.com/gpu")]));
    assert_eq!((code(&uncounted), uncounted.warnings.len()), (None, 1));
    let odd = entry(&with_capacity(
        "g",
        &[("gpu-type", "nvidia gpu"), ("gpu-count", "1")],
    ));
    assert_eq!(code(&odd), Some(ReasonCode::Invalid));
    let dynamic = entry(&with_capacity(
        "g",
        &[("dra-driver", "gpu.nvidia.com"), ("gpu-count", "2")],
    ));
    assert_eq!((code(&dynamic), dynamic.warnings.len()), (None, 1));
}

#[test]
fn volume_limits_are_read_and_unreadable_ones_left_out() {
    let found = entry(&with_capacity(
        "a",
        &[("csi-driver", "ebs.csi.aws.com=26,bad,b=x")],
    ));
    assert_eq!(
        found.volume_limits.into_iter().collect::<Vec<_>>(),
        [("ebs.csi.aws.com".to_owned(), 26)]
    );
    assert_eq!(found.warnings.len(), 2);
}

#[test]
fn annotations_are_stronger_than_the_infrastructure_template() {
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
    assert_eq!(
        (code(&found), capacity.cpu(), capacity.memory()),
        (None, 4000, gibibytes(32))
    );
    assert_eq!((capacity.pods(), capacity.get("nvidia.com/gpu")), (58, 1));
    assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
}

#[test]
fn reserved_resources_and_eviction_threshold_are_added_up() {
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
        assert!(
            message(&found).contains(&format!("{OURS}kube-reserved: {value:?}")),
            "{}",
            message(&found)
        );
    }
}

#[test]
fn case_46_an_unreadable_price_is_unknown_and_never_free() {
    for value in ["abc", "-1", "NaN", "0,30", "$0.3", ""] {
        let found = entry(&with_own("a", &[("price", value)]));
        assert_eq!(
            (code(&found), found.price, found.instance_type.offerings[0].price),
            (None, None, None),
            "{value}"
        );
        assert_eq!(found.warnings.len(), 1);
        assert!(
            found.warnings[0]
                .message
                .contains(&format!("{OURS}price: {value:?}")),
            "{:?}",
            found.warnings
        );
    }
    assert_eq!(
        entry(&with_own("a", &[("price", "0")])).price,
        Some(Price(0)),
        "a price of 0 is a price"
    );
}

#[test]
fn case_46_prices_are_taken_by_the_strongest_key() {
    let (second, third) = (
        "cluster.x-k8s.io/machine-current-price",
        "capacity.cluster-autoscaler.kubernetes.io/price",
    );
    let own = format!("{OURS}price");
    let price = |annotations: &[(&str, &str)]| entry(&annotated("a", annotations)).price;
    let cents = |cents: i64| Some(Price(cents * 10_000_000_000));
    assert_eq!(price(&[(third, "0.3")]), cents(30));
    assert_eq!(price(&[(third, "0.3"), (second, "0.2")]), cents(20));
    assert_eq!(
        price(&[(third, "0.3"), (second, "0.2"), (&own, "0.1")]),
        cents(10)
    );
    assert_eq!(
        price(&[(second, "0.2"), (&own, "free")]),
        None,
        "an unreadable price isn't replaced by a weaker key's"
    );
}

#[test]
fn priority_and_time_of_the_price_are_read() {
    let found = entry(&with_own(
        "a",
        &[("priority", "-5"), ("price-updated-at", "2026-01-05T09:00:00Z")],
    ));
    assert_eq!(
        (found.instance_type.priority, found.price_updated_at),
        (-5, Some("2026-01-05T09:00:00Z".parse().unwrap()))
    );
    let odd = entry(&with_own(
        "a",
        &[("priority", "high"), ("price-updated-at", "yesterday")],
    ));
    assert_eq!(
        (
            code(&odd),
            odd.instance_type.priority,
            odd.price_updated_at,
            odd.warnings.len()
        ),
        (None, 0, None, 2)
    );
}

#[test]
fn an_unknown_capacity_type_takes_the_machine_deployment_out() {
    let found = entry(&with_own("a", &[("capacity-type", "cheap")]));
    assert_eq!(code(&found), Some(ReasonCode::Invalid));
    assert!(message(&found).contains("on-demand, spot or reserved"));
}

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
    assert_eq!(
        message(&by_field),
        "spec.paused is true on MachineDeployment default/a"
    );
    let world = World {
        cluster: Some(cluster(&json!({"paused": true}))),
        ..World::default()
    };
    let by_cluster = world.entry(&with_capacity("a", &[]));
    assert_eq!(code(&by_cluster), Some(ReasonCode::Paused));
    assert_eq!(message(&by_cluster), "spec.paused is true on Cluster c");
    let unpaused = World {
        cluster: Some(cluster(&json!({"paused": false}))),
        ..World::default()
    };
    assert_eq!(code(&unpaused.entry(&with_capacity("a", &[]))), None);
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
    assert_eq!(
        deleting.unavailable.len(),
        2,
        "the other reason is kept behind it"
    );
    let mut of_cluster = cluster(&json!({}));
    of_cluster["metadata"]["deletionTimestamp"] = json!("2026-01-05T11:00:00Z");
    let world = World {
        cluster: Some(of_cluster),
        ..World::default()
    };
    assert_eq!(
        code(&world.entry(&with_capacity("a", &[]))),
        Some(ReasonCode::Deleting)
    );
}

#[test]
fn the_maximum_size_leaves_headroom_until_it_is_reached() {
    let sized = |replicas: i32, annotations: &[(&str, &str)]| {
        deployment("a", |object| {
            object["spec"]["replicas"] = json!(replicas);
            for (key, value) in annotations {
                object["metadata"]["annotations"][*key] = json!(value);
            }
        })
    };
    let some_left = entry(&sized(3, &[(MAX_SIZE, "5")]));
    assert_eq!(
        (code(&some_left), some_left.instance_type.headroom),
        (None, Some(2))
    );
    let full = entry(&sized(5, &[(MAX_SIZE, "5")]));
    assert_eq!(
        (code(&full), full.instance_type.headroom),
        (Some(ReasonCode::MaxSize), Some(0))
    );
    assert!(message(&full).contains("5 of at most 5"), "{}", message(&full));
    let waiting = World {
        facts: Facts {
            claims_to_enter: 2,
            ..Facts::default()
        },
        ..World::default()
    };
    assert_eq!(
        code(&waiting.entry(&sized(3, &[(MAX_SIZE, "5")]))),
        Some(ReasonCode::MaxSize),
        "claims on their way count"
    );
    for value in ["five", "-1", "2.5"] {
        assert_eq!(
            code(&entry(&sized(0, &[(MAX_SIZE, value)]))),
            Some(ReasonCode::Invalid),
            "{value}"
        );
    }
    assert_eq!(
        code(&entry(&sized(0, &[(MAX_SIZE, "0"), (MIN_SIZE, "0")]))),
        Some(ReasonCode::MaxSize)
    );
    let hypershift = [
        (MAX_SIZE, "0"),
        (MIN_SIZE, "0"),
        ("hypershift.openshift.io/nodePool", "clusters/np"),
    ];
    assert_eq!(
        entry(&sized(0, &hypershift)).instance_type.headroom,
        None,
        "HyperShift's pair is no cap"
    );
    assert_eq!(code(&entry(&sized(0, &hypershift))), None);
}

#[test]
fn missing_replicas_are_what_cluster_api_fills_in() {
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
    let world = World {
        cluster: Some(topology(&json!(1))),
        ..World::default()
    };
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
    assert_eq!(
        code(&world.entry(&with_capacity("c-workers-x7", &[]))),
        None,
        "not owned by the topology"
    );
    let unset = World {
        cluster: Some(topology(&Value::Null)),
        ..World::default()
    };
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
        vec![
            machine_set("a-10", "10", 1, &json!([])),
            machine_set("a-9", "9", older, &json!([])),
        ]
    };
    let rolling = World {
        sets: sets(2),
        ..World::default()
    };
    let found = rolling.entry(&with_capacity("a", &[]));
    assert_eq!(
        code(&found),
        Some(ReasonCode::RollingOut),
        "revisions are numbers: 9 is older than 10"
    );
    assert!(
        message(&found).contains("MachineSet a-9 of revision 9 still has 2"),
        "{}",
        message(&found)
    );
    let over = World {
        sets: sets(0),
        ..World::default()
    };
    assert_eq!(code(&over.entry(&with_capacity("a", &[]))), None);
    let on_delete = deployment("a", |object| {
        object["spec"]["rollout"] = json!({"strategy": {"type": "OnDelete"}})
    });
    assert_eq!(
        code(&rolling.entry(&on_delete)),
        None,
        "under OnDelete nothing rolls by itself"
    );
    let older_api = deployment("a", |object| {
        object["spec"]["strategy"] = json!({"type": "OnDelete"})
    });
    assert_eq!(code(&rolling.entry(&older_api)), None);
    let foreign = deployment("b", |object| object["metadata"]["uid"] = json!("other"));
    assert_eq!(
        code(&rolling.entry(&foreign)),
        None,
        "somebody else's MachineSets"
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
        sets: vec![
            machine_set("a-1", "1", 0, &json!([])),
            machine_set("a-2", "2", 1, &json!([])),
        ],
        machines: vec![Arc::new(serde_json::from_value(machine).unwrap())],
        ..World::default()
    };
    assert_eq!(
        code(&world.entry(&with_capacity("a", &[]))),
        Some(ReasonCode::RollingOut)
    );
}

#[test]
fn a_failing_preflight_check_is_told_in_its_own_words() {
    let condition = |status: &str, message: &str| json!([{"type": "ScalingUp", "status": status, "lastTransitionTime": "2026-01-05T11:00:00Z", "reason": "ScalingUp", "message": message}]);
    let blocked = "Scaling up from 0 to 1 replicas is blocked because:\n* MachineSet version is too old (KubernetesVersionSkew preflight check failed)";
    let world = World {
        sets: vec![machine_set("a-1", "1", 1, &condition("True", blocked))],
        ..World::default()
    };
    let found = world.entry(&with_capacity("a", &[]));
    assert_eq!(code(&found), Some(ReasonCode::PreflightFailing));
    assert!(
        message(&found).contains("MachineSet a-1") && message(&found).contains("KubernetesVersionSkew"),
        "{}",
        message(&found)
    );
    let ordinary = World {
        sets: vec![machine_set(
            "a-1",
            "1",
            1,
            &condition("True", "Scaling up from 0 to 1 replicas"),
        )],
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
        Some(Until {
            until: text.parse().unwrap(),
            message: "no machine could be had".to_owned(),
        })
    };
    let with = |facts: Facts| {
        World {
            facts,
            ..World::default()
        }
        .entry(&with_capacity("a", &[]))
    };
    let later = "2026-01-05T12:00:01Z";
    let out = with(Facts {
        out_of_capacity: until(later),
        ..Facts::default()
    });
    assert_eq!(
        (code(&out), message(&out)),
        (
            Some(ReasonCode::OutOfCapacity),
            "no machine could be had; tried again after 2026-01-05T12:00:01Z"
        )
    );
    assert_eq!(
        code(&with(Facts {
            out_of_capacity: until("2026-01-05T12:00:00Z"),
            ..Facts::default()
        })),
        None
    );
    assert_eq!(
        code(&with(Facts {
            launch_timed_out: until(later),
            ..Facts::default()
        })),
        Some(ReasonCode::LaunchTimedOut)
    );
    assert_eq!(
        code(&with(Facts {
            scaled_by_others: until(later),
            ..Facts::default()
        })),
        Some(ReasonCode::ScaledByOthers)
    );
    let told = Some("it is on".to_owned());
    assert_eq!(
        code(&with(Facts {
            two_autoscalers: told.clone(),
            ..Facts::default()
        })),
        Some(ReasonCode::TwoAutoscalers)
    );
    assert_eq!(
        code(&with(Facts {
            hypershift_autoscaling: told,
            ..Facts::default()
        })),
        Some(ReasonCode::HyperShiftAutoscaling)
    );
}

#[test]
fn excluded_by_hand_with_or_without_a_reason() {
    for (value, told) in [
        ("false", "excluded by karpenter.cluster.x-k8s.io/available"),
        (
            "false: waiting for quota",
            "excluded by karpenter.cluster.x-k8s.io/available: waiting for quota",
        ),
        (
            "False (old image)",
            "excluded by karpenter.cluster.x-k8s.io/available: (old image)",
        ),
    ] {
        let found = entry(&with_own("a", &[("available", value)]));
        assert_eq!(
            (code(&found), message(&found)),
            (Some(ReasonCode::Excluded), told),
            "{value}"
        );
    }
    for value in ["true", "True", ""] {
        assert_eq!(
            code(&entry(&with_own("a", &[("available", value)]))),
            None,
            "{value:?}"
        );
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
    assert_eq!(
        entry(&annotated("a", &[(KEY, "30m")])).launch_timeout,
        Some(SignedDuration::from_mins(30))
    );
    for value in ["30", "-5m", "0s", "soon"] {
        let found = entry(&annotated("a", &[(KEY, value)]));
        assert_eq!(
            (code(&found), found.launch_timeout, found.warnings.len()),
            (None, None, 1),
            "{value}"
        );
    }
}

#[test]
fn case_121_a_long_name_becomes_a_short_and_unique_instance_type() {
    let long = |end: &str| format!("{}{end}", "workers-".repeat(9));
    let (one, two) = (
        entry(&with_capacity(&long("a"), &[])),
        entry(&with_capacity(&long("b"), &[])),
    );
    assert_eq!(code(&one), None);
    assert!(one.instance_type_label().len() <= 63);
    assert_ne!(one.instance_type_label(), two.instance_type_label());
    assert_ne!(one.instance_type.name, two.instance_type.name);
}

#[test]
fn two_machine_deployments_of_one_type_stay_two() {
    let labelled = |name| {
        entry(&with_capacity(
            name,
            &[("labels", "node.kubernetes.io/instance-type=m.large")],
        ))
    };
    let (one, two) = (labelled("a"), labelled("b"));
    assert_eq!(one.instance_type_label(), two.instance_type_label());
    assert_ne!(one.instance_type.name, two.instance_type.name);
}

#[test]
fn every_fault_is_told_at_once() {
    let found = entry(&with_capacity(
        "a",
        &[("cpu", "four"), ("memory", "16GB"), ("taints", "x")],
    ));
    assert_eq!(code(&found), Some(ReasonCode::Invalid));
    for key in ["cpu", "memory", "taints"] {
        assert!(
            message(&found).contains(&format!("{CAPACITY}{key}")),
            "{key}: {}",
            message(&found)
        );
    }
    assert_eq!(found.warnings.len(), 3);
}

#[test]
fn a_node_class_takes_members_and_its_selector_only_narrows() {
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
    assert_eq!(
        (all.takes(&member), all.takes(&outsider), all.takes(&odd)),
        (true, false, false)
    );
    let team = Selection::of(&class(json!({"matchLabels": {"team": "x"}}))).unwrap();
    assert_eq!((team.takes(&member), team.takes(&outsider)), (true, false));
    let other = Selection::of(&class(json!({"matchLabels": {"team": "y"}}))).unwrap();
    assert!(!other.takes(&member));
    let broken = Selection::of(&class(
        json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}),
    ))
    .unwrap_err();
    assert!(broken.to_string().contains("ClusterAPINodeClass c"), "{broken}");
}
