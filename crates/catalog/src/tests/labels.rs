use super::*;
use karpenter_capi_model::requirements::Requirements;
use std::collections::BTreeSet;

#[test]
fn case_37_only_managed_template_labels_reach_the_node() {
    let found = entry(&deployment("a", |object| {
        object["spec"]["template"]["metadata"] = json!({"labels": {
            "example.com/tier": "gold", "node.cluster.x-k8s.io/rack": "r1",
            "x.node-restriction.kubernetes.io/sec": "hi", "node-role.kubernetes.io/worker": "",
            "prefixed.node-role.kubernetes.io/no": "", "my.special.label/no": ""
        }});
    }));
    assert_eq!(found.labels.get("node.cluster.x-k8s.io/rack").map(String::as_str), Some("r1"));
    assert_eq!(found.labels.get("x.node-restriction.kubernetes.io/sec").map(String::as_str), Some("hi"));
    assert_eq!(found.labels.get("node-role.kubernetes.io/worker").map(String::as_str), Some(""));
    for key in ["example.com/tier", "prefixed.node-role.kubernetes.io/no", "my.special.label/no"] {
        assert_eq!(found.labels.get(key), None, "{key}");
    }
    let vouched = entry(&with_capacity("a", &[("labels", "example.com/tier=gold")]));
    assert_eq!(vouched.labels.get("example.com/tier").map(String::as_str), Some("gold"));
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
    assert_eq!(world.entry(&with_capacity("a", &[])).labels[keys::ARCH], "arm64");
    assert_eq!(world.entry(&with_capacity("a", &[])).labels[keys::OS], "windows");
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
    assert_eq!(found.labels[keys::ARCH], "s390x");
    assert_eq!(found.labels["node.cluster.x-k8s.io/rack"], "annotation");
    assert_eq!(found.labels[keys::TOPOLOGY_ZONE], "z-label", "an older key is read as the present one");
    assert_eq!(found.labels[keys::CAPACITY_TYPE], "spot");
    assert_eq!(found.instance_type_label(), "m.large");
    assert_eq!(found.instance_type.name, "default/a", "the type's own name stays unique");
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
    let found = entry(&with_capacity("m1", &[("labels", "node-role.kubernetes.io/worker=,a=b")]));
    assert_eq!(found.labels.get("node-role.kubernetes.io/worker").map(String::as_str), Some(""));
    assert_eq!(found.labels["a"], "b");
}

#[test]
fn an_empty_zone_is_no_zone() {
    let found = entry(&with_capacity("m1", &[("labels", "topology.kubernetes.io/zone=")]));
    assert_eq!((found.zone(), found.labels.contains_key(keys::TOPOLOGY_ZONE)), ("", false));
    assert_eq!(found.warnings.len(), 1);
}

#[test]
fn labels_that_karpenter_sets_itself_are_left_out_with_a_warning() {
    let found =
        entry(&with_capacity("m1", &[("labels", "karpenter.sh/nodepool=x,kubernetes.io/hostname=h,a=b")]));
    assert_eq!(code(&found), None);
    assert!(!found.labels.contains_key(keys::NODEPOOL) && !found.labels.contains_key(keys::HOSTNAME));
    assert_eq!(found.warnings.len(), 2);
}

// karpenter-provider-cluster-api: items without an equals sign are dropped without a word, and blanks become part of key or value.
#[test]
fn labels_are_trimmed_and_none_is_silently_dropped() {
    for malformed in ["nonsense", "=v", "a b=c", "a=b c", "a/b/c=d"] {
        assert_eq!(
            code(&entry(&with_capacity("a", &[("labels", malformed)]))),
            Some(ReasonCode::Invalid),
            "{malformed}"
        );
    }
    let among_others = entry(&with_capacity("a", &[("labels", "a=b,nonsense,c=d")]));
    assert_eq!(code(&among_others), Some(ReasonCode::Invalid));
    assert!(message(&among_others).contains("nonsense"), "{}", message(&among_others));
    let blanks = entry(&with_capacity("a", &[("labels", " example.com/x = y , example.com/z=w ,")]));
    assert_eq!((code(&blanks), blanks.labels["example.com/x"].as_str()), (None, "y"));
    assert_eq!(blanks.labels["example.com/z"], "w");
}

#[test]
fn an_unknown_capacity_type_takes_the_machine_deployment_out() {
    let found = entry(&with_own("a", &[("capacity-type", "cheap")]));
    assert_eq!(code(&found), Some(ReasonCode::Invalid));
    assert!(message(&found).contains("on-demand, spot or reserved"));
}

#[test]
fn case_121_a_long_name_becomes_a_short_and_unique_instance_type() {
    let long = |end: &str| format!("{}{end}", "workers-".repeat(9));
    let (one, two) = (entry(&with_capacity(&long("a"), &[])), entry(&with_capacity(&long("b"), &[])));
    assert_eq!(code(&one), None);
    assert!(one.instance_type_label().len() <= 63);
    assert_ne!(one.instance_type_label(), two.instance_type_label());
    assert_ne!(one.instance_type.name, two.instance_type.name);
}

// karpenter-provider-cluster-api: instance types of one label in several zones have one name, so that the claims of all zones but one drift.
#[test]
fn duplicate_instance_type_labels_over_several_zones_stay_types_of_their_own() {
    let labelled =
        |name| entry(&with_capacity(name, &[("labels", "node.kubernetes.io/instance-type=m.large")]));
    let (one, two) = (labelled("a"), labelled("b"));
    assert_eq!(one.instance_type_label(), two.instance_type_label());
    assert_ne!(one.instance_type.name, two.instance_type.name);
}

// karpenter-provider-cluster-api: karpenter.sh/capacity-type=spot in the labels annotation can never be launched, as its offering says
// on-demand.
#[test]
fn spot_in_the_labels_annotation_is_the_capacity_type_of_the_offering() {
    let found = entry(&with_capacity("a", &[("labels", "karpenter.sh/capacity-type=spot")]));
    assert_eq!((code(&found), found.capacity_type()), (None, "spot"));
    let offering = &found.instance_type.offerings[0];
    let spot = Requirements::from_labels(&[(keys::CAPACITY_TYPE.to_owned(), "spot".to_owned())].into());
    assert!(offering.requirements.intersects(&spot).is_ok());
    assert!(found.instance_type.requirements.compatible(&spot, &BTreeSet::new()).is_ok());
}

// karpenter-provider-cluster-api: the opt-in label in the template, too, as its design page asks for, makes Machines that are born
// claimed and types that nothing is compatible with.
#[test]
fn member_label_in_the_template_changes_nothing_for_pools_that_do_not_mention_it() {
    let found = entry(&deployment("a", |object| {
        object["spec"]["template"]["metadata"]["labels"] =
            json!({"node.cluster.x-k8s.io/karpenter-member": ""});
    }));
    assert_eq!(code(&found), None);
    assert!(found.instance_type.offerings[0].unavailable.is_none());
}
