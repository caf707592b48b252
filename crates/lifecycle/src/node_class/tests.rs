use super::*;
use karpenter_capi_api::validation::validate_node_class;
use serde_json::{Value, json};

const NOON: &str = "2026-01-05T12:00:00Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn class(spec: Value) -> ClusterAPINodeClass {
    let mut class = json!({
        "apiVersion": "karpenter.cluster.x-k8s.io/v1alpha1",
        "kind": "ClusterAPINodeClass",
        "metadata": {"name": "default", "generation": 2},
    });
    class["spec"] = spec;
    serde_json::from_value(class).unwrap()
}

fn deployment(name: &str, reason: Option<ReasonCode>) -> MachineDeploymentStatus {
    MachineDeploymentStatus {
        name: name.to_owned(),
        available: reason.is_none(),
        reason: reason.map(|reason| reason.as_str().to_owned()),
        message: reason.map(|_| "as somebody said".to_owned()),
        ..MachineDeploymentStatus::default()
    }
}

fn status(deployments: &[MachineDeploymentStatus]) -> ClusterAPINodeClassStatus {
    let observed = Observed { errors: &[], machine_deployments: deployments, warnings: &[] };
    desired_status(&class(json!({})), &observed, at(NOON)).unwrap()
}

fn find<'a>(status: &'a ClusterAPINodeClassStatus, type_: &str) -> &'a Condition {
    condition::find(&status.conditions, type_).unwrap()
}

fn warning(index: usize) -> Warning {
    Warning { object: format!("MachineDeployment default/{index:04}"), message: "price".to_owned() }
}

#[test]
fn a_class_with_one_available_machine_deployment_is_ready() {
    let status = status(&[deployment("default/b", Some(ReasonCode::Invalid)), deployment("default/a", None)]);
    for type_ in ["ValidationSucceeded", "MachineDeploymentsReady", "Ready"] {
        let condition = find(&status, type_);
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", type_));
        assert_eq!(condition.observed_generation, Some(2));
    }
    let names: Vec<&str> =
        status.machine_deployments.iter().map(|deployment| deployment.name.as_str()).collect();
    assert_eq!(names, ["default/a", "default/b"]);
    assert_eq!(status.observed_generation, Some(2));
}

#[test]
fn a_class_that_selects_nothing_says_how_to_opt_in() {
    let status = status(&[]);
    for type_ in ["MachineDeploymentsReady", "Ready"] {
        let condition = find(&status, type_);
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "NoMachineDeployments"));
        assert!(
            condition.message.contains("node.cluster.x-k8s.io/karpenter-member"),
            "{}",
            condition.message
        );
    }
}

#[test]
fn a_class_whose_machine_deployments_are_all_broken_names_each_with_its_reason() {
    let status = status(&[
        deployment("default/a", Some(ReasonCode::NoCapacityDeclared)),
        deployment("default/b", Some(ReasonCode::Excluded)),
    ]);
    let ready = find(&status, "Ready");
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "NoUsableMachineDeployments"));
    for part in ["default/a: NoCapacityDeclared: as somebody said", "default/b: Excluded"] {
        assert!(ready.message.contains(part), "{}", ready.message);
    }
}

#[test]
fn a_class_that_is_full_or_paused_for_a_while_stays_ready() {
    for reason in PASSING {
        let status = status(&[
            deployment("default/a", Some(reason)),
            deployment("default/b", Some(ReasonCode::Invalid)),
        ]);
        assert_eq!(find(&status, "Ready").status, "True", "{}", reason.as_str());
        let message = &find(&status, "MachineDeploymentsReady").message;
        assert!(message.contains(&format!("default/a: {}", reason.as_str())), "{message}");
    }
}

#[test]
fn an_invalid_selector_makes_the_class_not_ready_for_that_reason() {
    let selector = json!({"matchExpressions": [{"key": "tier", "operator": "Near", "values": ["web"]}]});
    let class = class(json!({"scalableResourceSelector": selector}));
    let errors = validate_node_class(&class);
    assert!(!errors.is_empty());
    let observed = Observed { errors: &errors, machine_deployments: &[], warnings: &[] };
    let status = desired_status(&class, &observed, at(NOON)).unwrap();
    assert_eq!(find(&status, "MachineDeploymentsReady").status, "Unknown");
    let ready = find(&status, "Ready");
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "NodeClassValidationFailed"));
    for part in ["scalableResourceSelector", "Near"] {
        assert!(ready.message.contains(part), "{}", ready.message);
    }
}

#[test]
fn a_status_that_is_right_already_is_not_written_again() {
    let mut class = class(json!({}));
    let deployments = [deployment("default/b", None), deployment("default/a", Some(ReasonCode::MaxSize))];
    let warnings = [warning(2), warning(1)];
    let observed = Observed { errors: &[], machine_deployments: &deployments, warnings: &warnings };
    class.status = desired_status(&class, &observed, at(NOON));
    let (mut deployments, mut warnings) = (deployments, warnings);
    deployments.reverse();
    warnings.reverse();
    let observed = Observed { errors: &[], machine_deployments: &deployments, warnings: &warnings };
    assert_eq!(desired_status(&class, &observed, at("2026-01-05T13:00:00Z")), None);
    deployments[0].replicas = Some(4);
    let observed = Observed { errors: &[], machine_deployments: &deployments, warnings: &warnings };
    let changed = desired_status(&class, &observed, at("2026-01-05T13:00:00Z")).unwrap();
    assert_eq!(find(&changed, "Ready").last_transition_time.0, at(NOON));
}

#[test]
fn warnings_are_sorted_and_those_that_do_not_fit_are_counted() {
    let mut all: Vec<Warning> = (0..WARNING_LIMIT + 57).rev().map(warning).collect();
    all.push(warning(0));
    let observed = Observed { errors: &[], machine_deployments: &[], warnings: &all };
    let status = desired_status(&class(json!({})), &observed, at(NOON)).unwrap();
    assert_eq!(status.warnings.len(), WARNING_LIMIT + 1);
    assert_eq!(status.warnings[..2], [warning(0), warning(1)]);
    assert_eq!(status.warnings[WARNING_LIMIT].object, "ClusterAPINodeClass default");
    assert!(status.warnings[WARNING_LIMIT].message.starts_with("57 more warnings"));
}

#[test]
fn exactly_as_many_warnings_as_fit_are_listed_without_a_remark() {
    let all: Vec<Warning> = (0..WARNING_LIMIT).map(warning).collect();
    let observed = Observed { errors: &[], machine_deployments: &[], warnings: &all };
    assert_eq!(desired_status(&class(json!({})), &observed, at(NOON)).unwrap().warnings, all);
}

#[test]
fn a_huge_annotation_does_not_make_the_status_huge() {
    let huge = Warning { object: "MachineDeployment default/a".to_owned(), message: "x".repeat(200_000) };
    let observed = Observed { errors: &[], machine_deployments: &[], warnings: &[huge] };
    let status = desired_status(&class(json!({})), &observed, at(NOON)).unwrap();
    assert!(status.warnings[0].message.len() < 2000);
    assert!(status.warnings[0].message.ends_with("more characters)"));
}

fn claim(name: &str, group: &str, class: &str) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name},
        "spec": {"requirements": [], "nodeClassRef": {"group": group, "kind": "ClusterAPINodeClass", "name": class}},
    }))
    .unwrap()
}

#[test]
fn case_114_a_deleted_class_waits_until_no_claim_refers_to_it() {
    let mut class = class(json!({}));
    assert_eq!(finalizer(&class, &[]), Finalizer::Add);
    class.metadata.finalizers = Some(vec!["other/one".to_owned(), finalizers::NODE_CLASS.to_owned()]);
    let ours = "karpenter.cluster.x-k8s.io";
    let mut claims = vec![claim("b", ours, "default"), claim("a", ours, "default")];
    claims.extend([claim("c", ours, "other"), claim("d", "karpenter.k8s.aws", "default")]);
    assert_eq!(finalizer(&class, &claims), Finalizer::Keep);
    class.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(NOON)));
    let waiting = Finalizer::Wait { claims: vec!["a".to_owned(), "b".to_owned()] };
    assert_eq!(finalizer(&class, &claims), waiting);
    assert_eq!(finalizer(&class, &claims[2..]), Finalizer::Release);
    class.metadata.finalizers = Some(vec!["other/one".to_owned()]);
    assert_eq!(finalizer(&class, &claims), Finalizer::Keep);
}
