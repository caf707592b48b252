//! Default topology spread constraints.

use super::*;
use crate::scheduler_config::SchedulerConfig;
use karpenter_capi_model::selector::SelectorOperator;

const CONFIG: &str = "podTopologySpread: {defaultConstraints: [
  {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}";

fn owned(kind: &str, api_version: &str) -> String {
    let owner = format!(
        "ownerReferences: [{{apiVersion: {api_version}, kind: {kind}, name: o, uid: u, controller: true}}]"
    );
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: a, labels: {{app: web, rev: x}}, {owner}}}, spec: {{containers: []}}}}\n"
    )
}

fn service(name: &str, selector: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {{selector: {selector}}}}}\n"
    )
}

/// `key=value` of the constraint's selector for the one pod; None without a constraint.
fn selected(text: &str) -> Option<Vec<String>> {
    let config = SchedulerConfig::parse(CONFIG).unwrap();
    let made = made_with(text, &InputOptions { scheduler_config: config, ..options(Origin::Files) });
    let [constraint] = made.input.pods[0].topology_spread.as_slice() else {
        return None;
    };
    assert!(constraint.required && constraint.topology_key == "topology.kubernetes.io/zone");
    let expressions = &constraint.selector.as_ref().unwrap().expressions;
    assert!(expressions.iter().all(|one| one.operator == SelectorOperator::In));
    Some(expressions.iter().map(|one| format!("{}={}", one.key, one.values.join("|"))).collect())
}

#[test]
fn the_selector_is_made_of_services_and_of_the_owner() {
    let pod = owned("ReplicaSet", "apps/v1");
    let set = "---\n{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: o}, spec: {selector: {matchLabels: {rev: x}}}}\n";
    let some = |labels: &[&str]| Some(labels.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>());
    assert_eq!(selected(&pod), None);
    assert_eq!(selected(&(pod.clone() + set)), some(&["rev=x"]));
    assert_eq!(selected(&(pod.clone() + &service("s", "{app: web}"))), some(&["app=web"]));
    assert_eq!(selected(&(pod.clone() + set + &service("s", "{app: web}"))), some(&["app=web", "rev=x"]));
    assert_eq!(selected(&(pod.clone() + &service("s", "{app: other}"))), None);
    assert_eq!(selected(&(pod.clone() + &service("s", "{app: web, rev: y}"))), None);
    let elsewhere = service("s", "{app: web}").replace("name: s", "name: s, namespace: other");
    assert_eq!(selected(&(pod + &elsewhere)), None);
}

#[test]
fn each_kind_of_owner_that_kube_scheduler_knows_counts_and_no_other() {
    let some = Some(vec!["rev=x".to_owned()]);
    let stateful = "---\n{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: o}, spec: {serviceName: s, selector: {matchLabels: {rev: x}}, template: {}}}\n";
    assert_eq!(selected(&(owned("StatefulSet", "apps/v1") + stateful)), some);
    let replication = "---\n{apiVersion: v1, kind: ReplicationController, metadata: {name: o}, spec: {selector: {rev: x}}}\n";
    assert_eq!(selected(&(owned("ReplicationController", "v1") + replication)), some);
    assert_eq!(selected(&(owned("Job", "batch/v1") + replication + stateful)), None);
}

#[test]
fn a_pod_with_a_constraint_of_its_own_keeps_it_and_gets_none() {
    let own = "topologySpreadConstraints: [{maxSkew: 3, topologyKey: x, whenUnsatisfiable: ScheduleAnyway}]";
    let text = owned("Job", "batch/v1").replace("containers: []", &format!("containers: [], {own}"));
    let config = SchedulerConfig::parse(CONFIG).unwrap();
    let options = InputOptions { scheduler_config: config, ..options(Origin::Files) };
    let made = made_with(&(text + &service("s", "{app: web}")), &options);
    let [constraint] = made.input.pods[0].topology_spread.as_slice() else { panic!("one is right") };
    assert_eq!((constraint.max_skew, constraint.topology_key.as_str()), (3, "x"));
}

#[test]
fn nothing_is_given_by_default_without_a_configuration() {
    let made = made(&(owned("Job", "batch/v1") + &service("s", "{app: web}")));
    assert_eq!(made.input.pods[0].topology_spread, []);
}
