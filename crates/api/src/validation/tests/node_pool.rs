use serde_json::{Value, json};

use super::{errors_of, minimal, only_error, pool, set, with};
use crate::validation::{validate_node_pool_update, warn_node_pool};

const BUDGETS: &str = "/spec/disruption/budgets";
const REQUIREMENTS: &str = "/spec/template/spec/requirements";
const LABELS: &str = "/spec/template/metadata/labels";

#[test]
fn a_minimal_pool_is_valid() {
    assert_eq!(errors_of(&minimal()), vec![]);
}

#[track_caller]
fn budget_is_accepted(budget: &Value) {
    assert_eq!(errors_of(&with(BUDGETS, json!([budget]))), vec![], "{budget}");
}

#[track_caller]
fn budget_is_refused(budget: &Value, field: &str) {
    let error = only_error(&with(BUDGETS, json!([budget])));
    assert_eq!(error.field, format!("spec.disruption.budgets[0].{field}"), "{budget}");
    assert!(!error.remedy.is_empty(), "{error:?}");
}

#[test]
fn edge_values_of_a_budgets_nodes() {
    for nodes in ["0", "7", "100%", "0%"] {
        budget_is_accepted(&json!({ "nodes": nodes }));
    }
    for nodes in ["101%", "-1", "5.5%", ""] {
        budget_is_refused(&json!({ "nodes": nodes }), "nodes");
    }
}

#[test]
fn edge_values_of_a_budgets_duration() {
    for duration in ["10h5m", "30m", "160h", "8h0m0s"] {
        budget_is_accepted(&json!({ "nodes": "1", "schedule": "@daily", "duration": duration }));
    }
    for duration in ["30s", "1d", "9999999999h"] {
        budget_is_refused(&json!({ "nodes": "1", "schedule": "@daily", "duration": duration }), "duration");
    }
}

#[test]
fn edge_values_of_a_budgets_schedule() {
    for schedule in ["@daily", "0 9 * * mon-fri"] {
        budget_is_accepted(&json!({ "nodes": "1", "schedule": schedule, "duration": "1h" }));
    }
    for schedule in ["0 9 * *", "61 * * * *", "0 0 * * sat-sun", "CRON_TZ=Europe/Berlin 0 9 * * *"] {
        budget_is_refused(&json!({ "nodes": "1", "schedule": schedule, "duration": "1h" }), "schedule");
    }
}

#[test]
fn schedule_and_duration_come_in_pairs() {
    budget_is_accepted(&json!({ "nodes": "1" }));
    budget_is_refused(&json!({ "nodes": "1", "schedule": "@daily" }), "duration");
    budget_is_refused(&json!({ "nodes": "1", "duration": "1h" }), "schedule");
}

#[test]
fn edge_values_of_a_budgets_reasons() {
    budget_is_accepted(&json!({ "nodes": "1", "reasons": ["Empty", "Drifted", "Underutilized"] }));
    for reason in ["Expired", ""] {
        budget_is_refused(&json!({ "nodes": "1", "reasons": [reason] }), "reasons[0]");
    }
    budget_is_refused(&json!({ "nodes": "1", "reasons": ["Empty", "Empty"] }), "reasons[1]");
}

#[test]
fn fifty_budgets_are_the_most() {
    let budgets = |count| with(BUDGETS, Value::Array(vec![json!({ "nodes": "1" }); count]));
    assert_eq!(errors_of(&budgets(50)), vec![]);
    assert_eq!(only_error(&budgets(51)).field, "spec.disruption.budgets");
}

#[test]
fn one_bad_cron_line_is_named_by_its_exact_text_and_its_place() {
    let pool = with(
        BUDGETS,
        json!([
            { "nodes": "10%" },
            { "nodes": "0", "schedule": "0 16 * * mon-fri", "duration": "16h" },
            { "nodes": "0", "schedule": "0 0 * * sat-sun", "duration": "24h" },
        ]),
    );
    let error = only_error(&pool);
    assert_eq!(error.field, "spec.disruption.budgets[2].schedule");
    assert!(error.to_string().contains("0 0 * * sat-sun"), "{error}");
    assert!(error.remedy.contains("sat,sun"), "{error}");
}

#[track_caller]
fn requirement_is(requirement: &Value, expected: Result<(), &str>) {
    let errors = errors_of(&with(REQUIREMENTS, json!([requirement])));
    match expected {
        Ok(()) => assert_eq!(errors, vec![], "{requirement}"),
        Err(field) => {
            let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
            assert_eq!(
                fields,
                [format!("spec.template.spec.requirements[0]{field}")],
                "{requirement}: {errors:#?}"
            );
        }
    }
}

#[test]
fn operators_demand_their_values() {
    let zone = "topology.kubernetes.io/zone";
    requirement_is(&json!({ "key": zone, "operator": "In", "values": ["a"] }), Ok(()));
    requirement_is(&json!({ "key": zone, "operator": "In" }), Err(".values"));
    requirement_is(&json!({ "key": zone, "operator": "NotIn", "values": ["a"] }), Ok(()));
    requirement_is(&json!({ "key": zone, "operator": "Exists" }), Ok(()));
    requirement_is(&json!({ "key": zone, "operator": "DoesNotExist" }), Ok(()));
    requirement_is(&json!({ "key": zone, "operator": "Near", "values": ["a"] }), Err(".operator"));
    for operator in ["Gt", "Lt", "Gte", "Lte"] {
        requirement_is(&json!({ "key": "example.com/cpu", "operator": operator, "values": ["0"] }), Ok(()));
        for values in [json!([]), json!(["1", "2"]), json!(["many"]), json!(["1.5"])] {
            requirement_is(
                &json!({ "key": "example.com/cpu", "operator": operator, "values": values }),
                Err(".values"),
            );
        }
    }
}

#[test]
fn a_negative_bound_is_refused_as_bound_and_as_label_value() {
    let errors = errors_of(&with(
        REQUIREMENTS,
        json!([{ "key": "example.com/cpu", "operator": "Gt", "values": ["-1"] }]),
    ));
    let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(
        fields,
        ["spec.template.spec.requirements[0].values", "spec.template.spec.requirements[0].values[0]"]
    );
}

#[test]
fn min_values_must_be_reachable() {
    let key = "node.kubernetes.io/instance-type";
    requirement_is(&json!({ "key": key, "operator": "In", "values": ["a", "b"], "minValues": 2 }), Ok(()));
    requirement_is(
        &json!({ "key": key, "operator": "In", "values": ["a"], "minValues": 2 }),
        Err(".minValues"),
    );
    requirement_is(&json!({ "key": key, "operator": "Exists", "minValues": 50 }), Ok(()));
    requirement_is(&json!({ "key": key, "operator": "Exists", "minValues": 51 }), Err(".minValues"));
    requirement_is(&json!({ "key": key, "operator": "Exists", "minValues": 0 }), Err(".minValues"));
}

#[test]
fn keys_of_requirements_are_checked() {
    let exists = |key: &str| json!({ "key": key, "operator": "Exists" });
    requirement_is(&exists("karpenter.sh/capacity-type"), Ok(()));
    requirement_is(&exists("karpenter.cluster.x-k8s.io/anything"), Ok(()));
    requirement_is(&exists("beta.kubernetes.io/arch"), Ok(()));
    for key in [
        "karpenter.sh/nodepool",
        "karpenter.sh/initialized",
        "sub.karpenter.sh/x",
        "kubernetes.io/hostname",
        "a b",
        "-a",
        "example.com/",
        "Example.com/a",
    ] {
        requirement_is(&exists(key), Err(".key"));
    }
    requirement_is(&exists(&format!("example.com/{}", "a".repeat(64))), Err(".key"));
    requirement_is(&exists(&format!("example.com/{}", "a".repeat(63))), Ok(()));
}

#[test]
fn values_of_requirements_are_label_values() {
    let requirement =
        |value: &str| json!({ "key": "example.com/a", "operator": "In", "values": ["ok", value] });
    requirement_is(&requirement(""), Ok(()));
    requirement_is(&requirement(&"a".repeat(63)), Ok(()));
    requirement_is(&requirement(&"a".repeat(64)), Err(".values[1]"));
    requirement_is(&requirement("a b"), Err(".values[1]"));
    requirement_is(&requirement("-a"), Err(".values[1]"));
}

#[test]
fn capacity_types_must_exist_unless_others_remain() {
    let requirement = |values: &[&str], min_values: Option<i32>| {
        let mut requirement =
            json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": values });
        if let Some(min_values) = min_values {
            requirement["minValues"] = json!(min_values);
        }
        requirement
    };
    requirement_is(&requirement(&["spot", "on-demand", "reserved"], None), Ok(()));
    requirement_is(&requirement(&["spot", "preemptible"], None), Ok(()));
    requirement_is(&requirement(&["preemptible"], None), Err(".values"));
    requirement_is(&requirement(&["spot", "preemptible"], Some(2)), Err(".values"));
    let warnings =
        warn_node_pool(&pool(&with(REQUIREMENTS, json!([requirement(&["spot", "preemptible"], None)]))));
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].value, "preemptible");
}

#[test]
fn a_hundred_requirements_are_the_most() {
    let requirement = json!({ "key": "example.com/a", "operator": "Exists" });
    let requirements = |count| with(REQUIREMENTS, Value::Array(vec![requirement.clone(); count]));
    assert_eq!(errors_of(&requirements(100)), vec![]);
    assert_eq!(only_error(&requirements(101)).field, "spec.template.spec.requirements");
}

#[test]
fn labels_of_the_template_are_checked() {
    let labelled = |key: &str, value: &str| with(LABELS, json!({ key: value }));
    for (key, value) in [
        ("example.com/team", "a"),
        ("team", ""),
        ("karpenter.sh/capacity-type", "spot"),
        ("node.cluster.x-k8s.io/pool", "a"),
    ] {
        assert_eq!(errors_of(&labelled(key, value)), vec![], "{key}");
    }
    for (key, value) in [
        ("karpenter.sh/nodepool", "a"),
        ("karpenter.sh/registered", "true"),
        ("kubernetes.io/hostname", "a"),
        ("example.com/team", "-"),
        ("example.com/team", "a b"),
        ("a/b/c", "a"),
        ("", "a"),
    ] {
        let error = only_error(&labelled(key, value));
        assert_eq!(error.field, format!("spec.template.metadata.labels[{key}]"));
    }
    let long = "a".repeat(64);
    assert_eq!(only_error(&labelled("example.com/team", &long)).value, long);
}

#[test]
fn a_hundred_labels_are_the_most() {
    let labels =
        |count: usize| -> Value { (0..count).map(|index| (format!("l{index}"), json!("x"))).collect() };
    assert_eq!(errors_of(&with(LABELS, labels(100))), vec![]);
    assert_eq!(only_error(&with(LABELS, labels(101))).field, "spec.template.metadata.labels");
}

#[test]
fn a_label_of_kubernetes_own_domain_is_warned_about_by_its_key() {
    for key in ["app.kubernetes.io/managed-by", "kubernetes.io/role", "apps.k8s.io/name"] {
        let warnings = warn_node_pool(&pool(&with(LABELS, json!({ key: "x" }))));
        assert_eq!(warnings.len(), 1, "{key}");
        assert!(warnings[0].to_string().contains(key));
    }
    for key in [
        "node-role.kubernetes.io/worker",
        "topology.kubernetes.io/zone",
        "a.cluster.x-k8s.io/b",
        "example.com/a",
    ] {
        assert_eq!(warn_node_pool(&pool(&with(LABELS, json!({ key: "x" })))), vec![], "{key}");
    }
}

#[test]
fn taints_are_checked_and_unique_over_both_lists() {
    let taint = |key: &str, effect: &str| json!({ "key": key, "effect": effect });
    let mut pool =
        with("/spec/template/spec/taints", json!([taint("a", "NoSchedule"), taint("a", "NoExecute")]));
    assert_eq!(errors_of(&pool), vec![]);
    set(&mut pool, "/spec/template/spec/startupTaints", json!([taint("a", "NoSchedule")]));
    assert_eq!(only_error(&pool).field, "spec.template.spec.startupTaints[0]");

    for (bad, field) in [
        (taint("a", "Never"), "effect"),
        (taint("", "NoSchedule"), "key"),
        (taint("a b", "NoSchedule"), "key"),
        (json!({ "key": "a", "effect": "NoSchedule", "value": "a b" }), "value"),
    ] {
        let error = only_error(&with("/spec/template/spec/taints", json!([bad])));
        assert_eq!(error.field, format!("spec.template.spec.taints[0].{field}"));
    }
}

#[test]
fn names_fit_a_label() {
    assert_eq!(errors_of(&with("/metadata/name", json!("a".repeat(63)))), vec![]);
    let error = only_error(&with("/metadata/name", json!("a".repeat(64))));
    assert_eq!(error.field, "metadata.name");
    assert!(error.to_string().contains("63"), "{error}");
    assert_eq!(only_error(&with("/metadata/name", json!("Upper"))).field, "metadata.name");
}

#[test]
fn a_class_reference_is_complete() {
    for field in ["group", "kind", "name"] {
        let error = only_error(&with(&format!("/spec/template/spec/nodeClassRef/{field}"), json!("")));
        assert_eq!(error.field, format!("spec.template.spec.nodeClassRef.{field}"));
    }
    let error = only_error(&with("/spec/template/spec/nodeClassRef/group", json!("example.com/v1")));
    assert_eq!(error.remedy, "write the group without a version");
}

#[test]
fn durations_of_the_template_are_checked() {
    for value in ["720h", "1h30m", "90s", "Never"] {
        assert_eq!(errors_of(&with("/spec/template/spec/expireAfter", json!(value))), vec![], "{value}");
        assert_eq!(errors_of(&with("/spec/disruption/consolidateAfter", json!(value))), vec![], "{value}");
    }
    for value in ["", "30", "1d", "never", "-1h", "1.5h", "9999999999h"] {
        for field in [
            "template.spec.expireAfter",
            "template.spec.terminationGracePeriod",
            "disruption.consolidateAfter",
        ] {
            let pointer = format!("/spec/{}", field.replace('.', "/"));
            assert_eq!(only_error(&with(&pointer, json!(value))).field, format!("spec.{field}"), "{value:?}");
        }
    }
    assert_eq!(
        only_error(&with("/spec/template/spec/terminationGracePeriod", json!("Never"))).field,
        "spec.template.spec.terminationGracePeriod"
    );
}

#[test]
fn weights_limits_and_policies_are_checked() {
    for (pointer, good) in [
        ("/spec/weight", json!(1)),
        ("/spec/weight", json!(100)),
        ("/spec/limits", json!({ "cpu": 1000, "memory": "1Ti", "nvidia.com/gpu": "4", "nodes": "10" })),
        ("/spec/disruption/consolidationPolicy", json!("Balanced")),
        ("/spec/disruption/budgets", json!([])),
    ] {
        assert_eq!(errors_of(&with(pointer, good.clone())), vec![], "{pointer} {good}");
    }
    for (pointer, bad, field) in [
        ("/spec/weight", json!(0), "spec.weight"),
        ("/spec/weight", json!(101), "spec.weight"),
        ("/spec/limits", json!({ "cpu": "lots" }), "spec.limits[cpu]"),
        ("/spec/limits", json!({ "memory": "16gb" }), "spec.limits[memory]"),
        (
            "/spec/disruption/consolidationPolicy",
            json!("WhenUnderutilized"),
            "spec.disruption.consolidationPolicy",
        ),
        ("/spec/replicas", json!(-1), "spec.replicas"),
    ] {
        assert_eq!(only_error(&with(pointer, bad.clone())).field, field, "{bad}");
    }
}

#[test]
fn a_static_pool_takes_neither_weight_nor_limits_but_nodes() {
    let mut pool = with("/spec/replicas", json!(3));
    assert_eq!(errors_of(&pool), vec![]);
    set(&mut pool, "/spec/limits", json!({ "nodes": "5" }));
    assert_eq!(errors_of(&pool), vec![]);
    set(&mut pool, "/spec/limits", json!({ "nodes": "5", "cpu": "10" }));
    assert_eq!(only_error(&pool).field, "spec.limits");
    set(&mut pool, "/spec/limits", json!({}));
    set(&mut pool, "/spec/weight", json!(5));
    assert_eq!(only_error(&pool).field, "spec.weight");
}

#[test]
fn a_change_may_not_turn_a_pool_static_or_give_it_another_kind_of_class() {
    let old = pool(&minimal());
    let changed = |pointer: &str, value: Value| validate_node_pool_update(&old, &pool(&with(pointer, value)));
    assert_eq!(changed("/spec/template/spec/nodeClassRef/name", json!("other")), vec![]);
    for (pointer, value, field) in [
        ("/spec/replicas", json!(1), "spec.replicas"),
        (
            "/spec/template/spec/nodeClassRef/group",
            json!("example.com"),
            "spec.template.spec.nodeClassRef.group",
        ),
        ("/spec/template/spec/nodeClassRef/kind", json!("Other"), "spec.template.spec.nodeClassRef.kind"),
    ] {
        let errors = changed(pointer, value);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].field, field);
    }
}
