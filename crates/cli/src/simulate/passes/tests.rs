use super::*;
use crate::simulate::{outcome, table};
use karpenter_capi_cluster::files::{Source, load};
use karpenter_capi_scheduling::input::{MinValuesPolicy, PreferencePolicy, ReservedOfferingMode};

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}";

fn request(audit: bool) -> Request {
    Request {
        now: "2026-01-05T12:00:00Z".parse().unwrap(),
        passes: 2,
        scope: Scope::default(),
        options: Options {
            preference_policy: PreferencePolicy::Respect,
            min_values_policy: MinValuesPolicy::Strict,
            reserved_offering_mode: ReservedOfferingMode::Strict,
            max_instance_types: 1,
        },
        gates: karpenter_capi_model::feature_gates::DEFAULT.parse().unwrap(),
        scheduler_config: SchedulerConfig::default(),
        audit,
    }
}

/// By a solver that forgets every pod.
fn forgetful(audit: bool) -> Simulation {
    let loaded = load([Source { name: "test.yaml", text: POD }]).unwrap();
    simulate(loaded, &request(audit), |_| Plan::default())
}

#[test]
fn what_is_wrong_with_a_plan_is_told_with_its_pass() {
    let simulation = forgetful(true);
    let findings = serde_json::to_value(&simulation).unwrap()["audit"].clone();
    let one = |pass: u32| serde_json::json!({"pass": pass, "subject": "Pod/default/a", "message": "stands 0 times in the plan"});
    assert_eq!(findings, serde_json::json!([one(1), one(2)]));
    assert_eq!(outcome(&simulation).code(), 70);
    let text = table::table(&simulation, &table::Style::of_stdout());
    assert!(text.contains("Defects of this plan"), "{text}");
    assert!(text.contains("  pass 2: Pod/default/a: stands 0 times in the plan"), "{text}");
}

#[test]
fn nobody_is_told_of_an_audit_that_was_not_asked_for() {
    let simulation = forgetful(false);
    assert_eq!(serde_json::to_value(&simulation).unwrap().get("audit"), None);
    assert_eq!(outcome(&simulation).code(), 0);
    assert!(!table::table(&simulation, &table::Style::of_stdout()).contains("Defects"));
}
