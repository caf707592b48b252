use super::*;
use k8s_openapi::api::core::v1::Node;
use karpenter_capi_api::names::labels;
use karpenter_capi_api::v1::NodeClaim;
use serde_json::{Value, json};

const NOON: &str = "2026-01-05T12:00:00Z";
static NO_RESULTS: std::sync::LazyLock<Registrations> = std::sync::LazyLock::new(Registrations::default);
const LATER: &str = "2026-01-05T13:00:00Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn pool() -> NodePool {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "p", "generation": 3},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class_ref()}}},
    }))
    .unwrap()
}

fn class_ref() -> Value {
    json!({"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default"})
}

fn class(ready: &str, message: &str) -> ClusterAPINodeClass {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.cluster.x-k8s.io/v1alpha1",
        "kind": "ClusterAPINodeClass",
        "metadata": {"name": "default", "generation": 7},
        "spec": {},
        "status": {"conditions": [condition("Ready", ready, message)]},
    }))
    .unwrap()
}

fn condition(type_: &str, status: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": "Because", "message": message, "lastTransitionTime": NOON})
}

fn claim(name: &str, provider_id: Option<&str>, capacity: Value) -> NodeClaim {
    let mut claim = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "p"}},
        "spec": {"requirements": [], "nodeClassRef": class_ref()},
        "status": {"providerID": provider_id},
    });
    claim["status"]["capacity"] = capacity;
    serde_json::from_value(claim).unwrap()
}

fn node(name: &str, provider_id: Option<&str>, labels: Value, capacity: Value) -> Node {
    let mut node = json!({"metadata": {"name": name}, "spec": {"providerID": provider_id}, "status": {}});
    node["metadata"]["labels"] = labels;
    node["status"]["capacity"] = capacity;
    serde_json::from_value(node).unwrap()
}

fn error(field: &str, value: &str) -> FieldError {
    FieldError {
        field: field.to_owned(),
        value: value.to_owned(),
        message: "is wrong".to_owned(),
        remedy: "correct it".to_owned(),
    }
}

fn resources(counted: &Counted) -> Vec<(&str, &str)> {
    counted.resources.iter().map(|(name, amount)| (name.as_str(), amount.0.as_str())).collect()
}

fn observed<'a>(errors: &'a [FieldError], node_class: Option<&'a ClusterAPINodeClass>) -> Observed<'a> {
    Observed { errors, node_class, counted: None, registrations: &NO_RESULTS }
}

fn find<'a>(status: &'a NodePoolStatus, type_: &str) -> &'a Condition {
    condition::find(&status.conditions, type_).unwrap()
}

#[test]
fn an_empty_pool_counts_zeros() {
    let counted = counted("p", &[], &[]);
    let zeros = [("cpu", "0"), ("ephemeral-storage", "0"), ("memory", "0"), ("nodes", "0"), ("pods", "0")];
    assert_eq!(resources(&counted), zeros);
    assert_eq!(counted.nodes, 0);
}

#[test]
fn launched_claims_count_with_what_is_expected_until_their_node_says_more() {
    let claims = [
        claim("launched", Some("x://1"), json!({"cpu": "2", "memory": "4Gi", "pods": "110"})),
        claim("registered", Some("x://2"), json!({"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"})),
        claim("initialized", Some("x://3"), json!({"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "1"})),
        claim("not-launched", None, json!({"cpu": "64"})),
    ];
    let ready = json!({"karpenter.sh/nodepool": "p", "karpenter.sh/initialized": "true"});
    let nodes = [
        node("n2", Some("x://2"), json!({}), json!({"cpu": "3900m", "memory": "0", "nvidia.com/gpu": "0"})),
        node("n3", Some("x://3"), ready, json!({"cpu": "8", "memory": "15Gi"})),
    ];
    let counted = counted("p", &claims, &nodes);
    assert_eq!(counted.nodes, 3);
    // 2 + 3.9 + 8 CPUs; 4 + 8 + 15 GiB; one GPU, since the initialized node has none.
    let expected = [
        ("cpu", "13900m"),
        ("ephemeral-storage", "0"),
        ("memory", "27Gi"),
        ("nodes", "3"),
        ("nvidia.com/gpu", "1"),
        ("pods", "110"),
    ];
    assert_eq!(resources(&counted), expected);
}

#[test]
fn nodes_that_are_being_deleted_no_longer_count() {
    let mut deleting = claim("deleting", Some("x://1"), json!({"cpu": "2"}));
    deleting.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(NOON)));
    let mut terminating = claim("terminating", Some("x://2"), json!({"cpu": "2"}));
    let conditions = json!([condition("InstanceTerminating", "True", "")]);
    terminating.status.as_mut().unwrap().conditions = serde_json::from_value(conditions).unwrap();
    let labels = json!({"karpenter.sh/nodepool": "p", "karpenter.sh/initialized": "true"});
    let nodes = [node("n1", Some("x://1"), labels, json!({"cpu": "2"}))];
    assert_eq!(counted("p", &[deleting, terminating], &nodes).nodes, 0);
}

#[test]
fn claims_and_nodes_of_other_pools_do_not_count() {
    let mut other = claim("other", Some("x://1"), json!({"cpu": "2"}));
    other.metadata.labels.as_mut().unwrap().insert(labels::NODEPOOL.to_owned(), "q".to_owned());
    let nodes = [
        node("of-other", Some("x://1"), json!({"karpenter.sh/nodepool": "p"}), json!({"cpu": "2"})),
        node("by-hand", None, json!({}), json!({"cpu": "2"})),
        node("without-claim", None, json!({"karpenter.sh/nodepool": "p"}), json!({"cpu": "1"})),
    ];
    let counted = counted("p", &[other], &nodes);
    assert_eq!((counted.nodes, counted.resources["cpu"].0.as_str()), (1, "1"));
}

#[test]
fn a_claim_of_another_karpenter_does_not_count_whatever_its_label_says() {
    let mut theirs = claim("theirs", Some("x://1"), json!({"cpu": "2"}));
    theirs.spec.node_class_ref.group = "karpenter.kwok.sh".to_owned();
    assert_eq!(counted("p", &[theirs], &[]).nodes, 0);
}

#[test]
fn an_amount_that_cannot_be_read_is_named_and_stops_no_other() {
    let claims = [
        claim("a", Some("x://1"), json!({"cpu": "2", "memory": "16GB"})),
        claim("b", Some("x://2"), json!({"cpu": "1"})),
    ];
    let counted = counted("p", &claims, &[]);
    assert_eq!((counted.nodes, counted.resources["cpu"].0.as_str()), (2, "3"));
    let told: Vec<String> = counted.unreadable.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("NodeClaim a: status.capacity: memory: \"16GB\""), "{told:?}");
}

#[test]
fn the_order_of_the_objects_does_not_matter() {
    let mut claims =
        vec![claim("a", Some("x://1"), json!({"cpu": "2"})), claim("b", Some("x://1"), json!({"cpu": "3"}))];
    let forward = counted("p", &claims, &[]);
    claims.reverse();
    assert_eq!(counted("p", &claims, &[]), forward);
    assert_eq!((forward.nodes, forward.resources["cpu"].0.as_str()), (1, "2"));
}

#[test]
fn drifted_and_disrupting_claims_are_counted() {
    let with = |name: &str, types: &[&str]| {
        let mut claim = claim(name, None, json!({}));
        let conditions: Vec<Value> = types.iter().map(|type_| condition(type_, "True", "")).collect();
        claim.status.as_mut().unwrap().conditions = serde_json::from_value(json!(conditions)).unwrap();
        claim
    };
    let mut claims: Vec<NodeClaim> = (0..8).map(|index| with(&index.to_string(), &["Launched"])).collect();
    claims.push(with("8", &["Drifted"]));
    claims.push(with("9", &["Drifted", "DisruptionReason"]));
    assert_eq!(tally("p", &claims), ClaimTally { claims: 10, drifted: 2, disrupting: 1 });
    assert_eq!(tally("q", &claims), ClaimTally::default());
}

#[test]
fn a_valid_pool_of_a_ready_class_is_ready() {
    let class = class("True", "");
    let status = desired_status(&pool(), &observed(&[], Some(&class)), at(NOON)).unwrap();
    for type_ in ["ValidationSucceeded", "NodeClassReady", "Ready"] {
        let condition = find(&status, type_);
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", type_));
        assert_eq!((condition.message.as_str(), condition.observed_generation), ("", Some(3)));
    }
    let health = find(&status, "NodeRegistrationHealthy");
    assert_eq!((health.status.as_str(), health.reason.as_str()), ("Unknown", "AwaitingReconciliation"));
    assert_eq!(status.node_class_observed_generation, Some(7));
}

#[test]
fn a_status_that_is_right_already_is_not_written_again() {
    let (class, mut pool) = (class("True", ""), pool());
    let counted = counted("p", &[claim("a", Some("x://1"), json!({"cpu": "2"}))], &[]);
    let observed = Observed {
        errors: &[],
        node_class: Some(&class),
        counted: Some(&counted),
        registrations: &NO_RESULTS,
    };
    pool.status = desired_status(&pool, &observed, at(NOON));
    assert_eq!(pool.status.as_ref().unwrap().nodes, Some(1));
    assert_eq!(desired_status(&pool, &observed, at(LATER)), None);
}

#[test]
fn resources_stay_while_not_all_nodes_are_known() {
    let (class, mut pool) = (class("True", ""), pool());
    pool.status = Some(NodePoolStatus { nodes: Some(5), ..NodePoolStatus::default() });
    assert_eq!(desired_status(&pool, &observed(&[], Some(&class)), at(NOON)).unwrap().nodes, Some(5));
}

#[test]
fn a_bad_schedule_makes_the_pool_not_ready_and_is_quoted() {
    let class = class("True", "");
    let errors = [
        error("spec.disruption.budgets[2].schedule", "0 0 * * sat-sun"),
        error("spec.template.metadata.labels[app.kubernetes.io/managed-by]", "x"),
    ];
    let status = desired_status(&pool(), &observed(&errors, Some(&class)), at(NOON)).unwrap();
    let validation = find(&status, "ValidationSucceeded");
    assert_eq!(
        (validation.status.as_str(), validation.reason.as_str()),
        ("False", "NodePoolValidationFailed")
    );
    for part in ["0 0 * * sat-sun", "app.kubernetes.io/managed-by", "; "] {
        assert!(validation.message.contains(part), "{}", validation.message);
    }
    let ready = find(&status, "Ready");
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "UnhealthyDependents"));
    assert_eq!(ready.message, "ValidationSucceeded=False");
}

#[test]
fn an_unusable_node_class_is_named_with_its_reason() {
    let mut deleted = class("True", "");
    deleted.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(NOON)));
    let (unready, unknown) = (class("False", "no MachineDeployment is selected"), class("Unknown", ""));
    for (class, reason, part) in [
        (None, "NodeClassNotFound", "create it"),
        (Some(&deleted), "NodeClassTerminating", "being deleted"),
        (Some(&unready), "NodeClassNotReady", "no MachineDeployment is selected"),
        (Some(&unknown), "NodeClassReadinessUnknown", "isn't known yet"),
    ] {
        let status = desired_status(&pool(), &observed(&[], class), at(NOON)).unwrap();
        let condition = find(&status, "NodeClassReady");
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", reason));
        assert!(condition.message.contains("ClusterAPINodeClass \"default\""), "{}", condition.message);
        assert!(condition.message.contains(part), "{}", condition.message);
        assert_eq!(find(&status, "Ready").message, "NodeClassReady=False");
    }
}

#[test]
fn the_transition_time_changes_only_with_the_status() {
    let (ready, unready) = (class("True", ""), class("False", "a"));
    let mut pool = pool();
    pool.status = desired_status(&pool, &observed(&[], Some(&unready)), at(NOON));
    let other_words = class("False", "b");
    pool.status = desired_status(&pool, &observed(&[], Some(&other_words)), at(LATER));
    let condition = find(pool.status.as_ref().unwrap(), "NodeClassReady").clone();
    assert_eq!(condition.last_transition_time.0, at(NOON));
    assert!(condition.message.ends_with(": b"));
    let status = desired_status(&pool, &observed(&[], Some(&ready)), at(LATER)).unwrap();
    assert_eq!(find(&status, "NodeClassReady").last_transition_time.0, at(LATER));
    assert_eq!(find(&status, "ValidationSucceeded").last_transition_time.0, at(NOON));
}

#[test]
fn the_dependent_that_changed_last_is_told_first() {
    let mut pool = pool();
    pool.status = desired_status(&pool, &observed(&[], None), at(NOON));
    let errors = [error("spec.weight", "0")];
    let status = desired_status(&pool, &observed(&errors, None), at(LATER)).unwrap();
    assert_eq!(find(&status, "Ready").message, "ValidationSucceeded=False, NodeClassReady=False");
}

#[test]
fn registration_health_is_forgotten_when_pool_or_class_change() {
    let class_at = |generation| {
        let mut class = class("True", "");
        class.metadata.generation = Some(generation);
        class
    };
    let mut pool = pool();
    pool.status = desired_status(&pool, &observed(&[], Some(&class_at(7))), at(NOON));
    let conditions = &mut pool.status.as_mut().unwrap().conditions;
    condition::set(conditions, "NodeRegistrationHealthy", "True", "", "", at(NOON), Some(3));
    let health = |pool: &NodePool, class: i64| {
        let status = desired_status(pool, &observed(&[], Some(&class_at(class))), at(LATER));
        find(status.as_ref().or(pool.status.as_ref()).unwrap(), "NodeRegistrationHealthy").status.clone()
    };
    assert_eq!(health(&pool, 7), "True");
    assert_eq!(health(&pool, 8), "Unknown");
    pool.metadata.generation = Some(4);
    assert_eq!(health(&pool, 7), "Unknown");
}

#[test]
fn a_pool_of_another_karpenter_is_left_alone() {
    for (group, kind) in
        [("karpenter.k8s.aws", "ClusterAPINodeClass"), ("karpenter.cluster.x-k8s.io", "EC2NodeClass")]
    {
        let mut pool = pool();
        pool.spec.template.spec.node_class_ref.group = group.to_owned();
        pool.spec.template.spec.node_class_ref.kind = kind.to_owned();
        assert_eq!(desired_status(&pool, &observed(&[], None), at(NOON)), None);
    }
}

/// The pool after each of these results, in this order; the first pass has written its status.
fn health_after(results: &[bool]) -> (String, String, String) {
    let class = class("True", "");
    let mut pool = pool();
    pool.status = desired_status(&pool, &observed(&[], Some(&class)), at(NOON));
    let mut registrations = Registrations::default();
    for (index, success) in results.iter().enumerate() {
        if *success {
            registrations.succeeded();
        } else {
            let message = format!("failure {index}");
            registrations.failed(Failed { reason: "RegistrationFailed".to_owned(), message });
        }
    }
    let seen = Observed { registrations: &registrations, ..observed(&[], Some(&class)) };
    let status = desired_status(&pool, &seen, at(LATER)).or(pool.status).unwrap();
    let health = find(&status, "NodeRegistrationHealthy");
    (health.status.clone(), health.reason.clone(), health.message.clone())
}

#[test]
fn a_pool_is_unhealthy_when_two_of_its_last_four_nodes_did_not_come_up() {
    assert_eq!(health_after(&[]).0, "Unknown");
    assert_eq!(health_after(&[true]).0, "True");
    assert_eq!(health_after(&[false]).0, "True", "one failure of four is not half");
    let told = health_after(&[true, false, true, false]);
    assert_eq!(told, ("False".to_owned(), "RegistrationFailed".to_owned(), "failure 3".to_owned()));
    assert_eq!(health_after(&[false, false, true, true, true]).0, "True", "only four results are remembered");
}

#[test]
fn registration_health_survives_a_restart_by_its_condition() {
    let healthy: Vec<Condition> =
        serde_json::from_value(json!([condition("NodeRegistrationHealthy", "True", "")])).unwrap();
    let unhealthy: Vec<Condition> =
        serde_json::from_value(json!([condition("NodeRegistrationHealthy", "False", "x")])).unwrap();
    let mut restored = Registrations::of_condition(&healthy);
    let failed = || Failed { reason: "R".to_owned(), message: "m".to_owned() };
    let mut expected = Registrations::default();
    expected.succeeded();
    assert_eq!(restored, expected);
    restored.failed(failed());
    let mut restored = Registrations::of_condition(&unhealthy);
    restored.succeeded();
    let mut conditions = vec![];
    restored.tell(&mut conditions, at(NOON), None);
    assert_eq!(conditions[0].status, "False", "two failures stand, until they are pushed out");
    assert!(Registrations::of_condition(&[]).is_empty());
}
