use super::*;
use crate::doctor::picture::{Broken, Wanted, Workload};
use crate::doctor::report::Severity;
use jiff::Timestamp;
use karpenter_capi_api::crd::{crds, is_optional};
use karpenter_capi_lifecycle::invariants::Rule;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const UID: &str = "aaaaaaaa-aaaa-aaaa";

fn now() -> Timestamp {
    Timestamp::from_second(1_790_000_000).unwrap()
}

fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn listed<T: DeserializeOwned>(values: Vec<Value>) -> Listed<T> {
    Listed { objects: values.into_iter().map(of).collect(), broken: Vec::new() }
}

fn failed<T>(sentence: &str) -> Read<T> {
    Err(Unread::Failed(sentence.to_owned()))
}

fn ready(status: &str, reason: &str) -> Value {
    json!([{ "type": "Ready", "status": status, "reason": reason, "message": "so it is", "lastTransitionTime": "2026-01-01T00:00:00Z" }])
}

fn class_reference() -> Value {
    json!({ "group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default" })
}

fn lease(namespace: &str, holder: &str, age: i64) -> Value {
    let renewed = now() - jiff::SignedDuration::from_secs(age);
    json!({
        "metadata": { "name": "karpenter-capi-c", "namespace": namespace, "uid": namespace },
        "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format!("{renewed:.6}") },
    })
}

fn claim() -> Value {
    json!({
        "metadata": { "name": "n1", "uid": UID, "finalizers": ["karpenter.sh/termination"], "annotations": {
            "karpenter.cluster.x-k8s.io/machine-deployment": "d/m1", "cluster.x-k8s.io/machine": "d/ours" } },
        "spec": { "requirements": [], "nodeClassRef": class_reference() },
        "status": { "providerID": "x://1" },
    })
}

fn machine_deployment(name: &str, ledger: &str, replicas: u32) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "d", "labels": { "node.cluster.x-k8s.io/karpenter-member": "" },
            "annotations": { "karpenter.cluster.x-k8s.io/claims": ledger } },
        "spec": { "replicas": replicas },
    })
}

fn machine(name: &str) -> Value {
    json!({ "metadata": {
        "name": name, "namespace": "d", "labels": { "cluster.x-k8s.io/deployment-name": "m1" }, "annotations": {
            "karpenter.cluster.x-k8s.io/nodeclaim": format!("n1/{UID}"),
            "pre-terminate.delete.hook.machine.cluster.x-k8s.io/karpenter": "" },
    } })
}

fn workload() -> Workload {
    let definitions =
        crds().into_iter().map(|shipped| Definition { installed: Ok(Some(shipped.clone())), shipped });
    Workload {
        definitions: definitions.collect(),
        uid: Ok(Some("w1".to_owned())),
        leases: Ok(vec![of(lease("kube-system", "op", 1))]),
        node_pools: Ok(listed(vec![json!({
            "metadata": { "name": "general" },
            "spec": { "template": { "spec": { "requirements": [], "nodeClassRef": class_reference() } } },
            "status": { "conditions": ready("True", "Ready") },
        })])),
        node_classes: Ok(listed(vec![json!({
            "metadata": { "name": "default" }, "spec": {}, "status": { "conditions": ready("True", "Ready") },
        })])),
        claims: Ok(listed(vec![claim()])),
        nodes: Ok(listed(vec![json!({
            "metadata": { "name": "node", "finalizers": ["karpenter.sh/termination"] }, "spec": { "providerID": "x://1" },
        })])),
    }
}

/// One claim with its Machine and Node, an operator that leads, and nothing wrong.
fn sound() -> Picture {
    let owner = json!([{ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "m1", "uid": "x", "controller": true }]);
    Picture {
        now: now(),
        wanted: Wanted { namespace: "d".into(), name: Some("c".into()) },
        workload: workload(),
        management: Ok(Some(Management {
            missing: Vec::new(),
            cluster: Ok(Some(of(json!({ "metadata": { "name": "c", "namespace": "d", "annotations": {
                "karpenter.cluster.x-k8s.io/workload-uid": "w1" } } })))),
            machine_deployments: Ok(listed(vec![machine_deployment("m1", &UID[..13], 1)])),
            hypershift_node_pools: Ok(Vec::new()),
            machine_sets: Ok(listed(vec![json!({
                "metadata": { "name": "s", "namespace": "d", "ownerReferences": owner }, "spec": { "replicas": 1 },
            })])),
            machines: Ok(listed(vec![machine("ours")])),
        })),
    }
}

fn capi(picture: &mut Picture) -> &mut Management {
    picture.management.as_mut().unwrap().as_mut().unwrap()
}

/// Code and object of each finding.
fn codes(picture: &Picture) -> Vec<(Code, String)> {
    judge(picture, None).into_iter().map(|finding| (finding.code, finding.object)).collect()
}

/// The only finding's message.
fn only(picture: &Picture) -> Finding {
    let mut found = judge(picture, None);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

#[test]
fn a_sound_cluster_has_no_finding() {
    assert_eq!(judge(&sound(), None), []);
    assert_eq!(leading(&sound(), None).as_deref(), Some("op"));
}

#[test]
fn a_definition_that_only_an_optional_feature_needs_may_be_missing() {
    let mut picture = sound();
    let optional = picture.workload.definitions.iter_mut();
    optional.filter(|each| is_optional(&each.shipped)).for_each(|each| each.installed = Ok(None));
    assert_eq!(judge(&picture, None), []);
}

#[test]
fn one_broken_thing_hides_no_other() {
    let mut picture = sound();
    picture.workload.node_pools = failed("no pools");
    picture.workload.definitions[0].installed = Ok(None);
    picture.workload.leases = Ok(Vec::new());
    capi(&mut picture).machines.as_mut().unwrap().objects[0]
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .remove(annotations::PRE_TERMINATE_HOOK);
    assert_eq!(
        codes(&picture),
        [
            (Code::Unreadable, String::new()),
            (
                Code::DefinitionMissing,
                "CustomResourceDefinition clusterapinodeclasses.karpenter.cluster.x-k8s.io".to_owned()
            ),
            (Code::NoLeader, "Cluster d/c".to_owned()),
            (Code::Books(Rule::Hook), "Machine d/ours".to_owned()),
        ]
    );
}

#[test]
fn a_cluster_that_cant_be_reached_is_told_once_and_its_books_arent_judged() {
    let mut picture = sound();
    picture.management = failed("management cluster at https://m: no answer");
    let found = judge(&picture, None);
    let messages: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "management cluster at https://m: no answer",
            "the books of claims, Machines and replicas weren't checked, as MachineDeployments, MachineSets, Machines can't be read",
        ]
    );
}

#[test]
fn a_kind_that_isnt_served_is_told_by_its_definition_where_that_is_known() {
    let mut picture = sound();
    picture.workload.node_pools = Err(Unread::NotServed("nodepools aren't served".into()));
    assert_eq!(codes(&picture), []);
    picture.workload.definitions[0].installed = failed("definitions: forbidden");
    let messages: Vec<String> = judge(&picture, None).into_iter().map(|finding| finding.message).collect();
    assert_eq!(messages, ["definitions: forbidden", "nodepools aren't served"]);
}

#[test]
fn the_cluster_and_cluster_api_are_missed() {
    let mut picture = sound();
    capi(&mut picture).cluster = Ok(None);
    assert_eq!(codes(&picture), [(Code::ClusterNotFound, "Cluster d/c".to_owned())]);
    picture.wanted.name = None;
    assert_eq!(only(&picture).message, "there is no Cluster in namespace d");
    let mut picture = sound();
    capi(&mut picture).missing = vec!["machinesets.cluster.x-k8s.io".into()];
    assert_eq!(only(&picture).code, Code::ClusterApiMissing);
    picture.management = Ok(None);
    assert!(codes(&picture).contains(&(Code::ClusterApiMissing, String::new())));
}

#[test]
fn another_workload_cluster_is_a_problem_and_an_unrecorded_one_a_note() {
    let mut picture = sound();
    picture.workload.uid = Ok(Some("w2".into()));
    let finding = only(&picture);
    assert_eq!((finding.code, finding.severity), (Code::ForeignWorkloadCluster, Severity::Problem));
    assert!(finding.message.contains("w1") && finding.message.contains("w2"), "{}", finding.message);
    capi(&mut picture).cluster = Ok(Some(of(json!({ "metadata": { "name": "c", "namespace": "d" } }))));
    let finding = only(&picture);
    assert_eq!((finding.code, finding.severity), (Code::WorkloadClusterUnrecorded, Severity::Note));
    assert!(finding.remedy.ends_with("set it to w2"), "{}", finding.remedy);
}

#[test]
fn a_lease_that_is_missing_given_back_or_stale_is_no_leader_and_two_are_one_too_many() {
    for (leases, told) in [
        (vec![], "there is no Lease"),
        (vec![lease("kube-system", "", 1)], "Lease kube-system/karpenter-capi-c was given back"),
        (vec![lease("kube-system", "op", 60)], "is held by op, who hasn't renewed it since 2026-"),
    ] {
        let mut picture = sound();
        picture.workload.leases = Ok(leases.into_iter().map(of).collect());
        let finding = only(&picture);
        assert_eq!(finding.code, Code::NoLeader);
        assert!(finding.message.contains(told), "{}", finding.message);
        assert_eq!(leading(&picture, None), None);
    }
    let mut picture = sound();
    picture.workload.leases = Ok(vec![of(lease("a", "op", 1)), of(lease("b", "other", 2))]);
    assert_eq!(only(&picture).code, Code::SeveralLeaders);
    picture.workload.leases = Ok(vec![of(lease("a", "op", 1)), of(lease("b", "other", 99))]);
    assert_eq!(codes(&picture), [], "an old Lease beside a live one is no harm");
}

#[test]
fn what_isnt_ready_is_told_with_its_reason() {
    let mut picture = sound();
    let classes = &mut picture.workload.node_classes.as_mut().unwrap().objects;
    classes[0].status.as_mut().unwrap().conditions = of(ready("False", "NoMachineDeployments"));
    let pools = &mut picture.workload.node_pools.as_mut().unwrap().objects;
    pools[0].status = None;
    let found = judge(&picture, None);
    assert_eq!(found[0].object, "ClusterAPINodeClass default");
    assert_eq!(found[0].message, "Ready is False (NoMachineDeployments): so it is");
    assert_eq!(found[1].object, "NodePool general");
    assert_eq!(found[1].message, "it has no condition Ready: no operator has looked at it yet");
}

#[test]
fn objects_of_another_karpenter_are_its_own_affair() {
    let mut picture = sound();
    let other = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
    let pools = &mut picture.workload.node_pools.as_mut().unwrap().objects;
    pools.push(of(json!({ "metadata": { "name": "theirs" },
        "spec": { "template": { "spec": { "requirements": [], "nodeClassRef": other } } } })));
    let claims = &mut picture.workload.claims.as_mut().unwrap().objects;
    claims.push(of(json!({ "metadata": { "name": "theirs", "uid": "bbbb" },
        "spec": { "requirements": [], "nodeClassRef": other }, "status": { "providerID": "aws://1" } })));
    let nodes = &mut picture.workload.nodes.as_mut().unwrap().objects;
    nodes.push(of(json!({ "metadata": { "name": "theirs", "finalizers": ["karpenter.sh/termination"] },
        "spec": { "providerID": "aws://1" } })));
    assert_eq!(codes(&picture), []);
}

#[test]
fn a_machine_whose_claim_is_gone_is_an_orphan() {
    let mut picture = sound();
    picture.workload.claims = Ok(listed(vec![]));
    let found = codes(&picture);
    assert!(found.contains(&(Code::Books(Rule::Orphan), "Machine d/ours".to_owned())), "{found:?}");
    assert!(found.contains(&(Code::Books(Rule::Ledger), "MachineDeployment d/m1".to_owned())), "{found:?}");
}

#[test]
fn figures_are_judged_unless_cluster_api_rolls_out_and_only_of_what_is_ours() {
    let mut picture = sound();
    let deployments = &mut capi(&mut picture).machine_deployments.as_mut().unwrap().objects;
    deployments[0].spec.replicas = Some(2);
    assert!(codes(&picture).iter().all(|(code, _)| *code == Code::Books(Rule::Replicas)));
    assert_eq!(codes(&picture).len(), 2, "Machines and MachineSets");
    let rolling =
        json!([{ "type": "RollingOut", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    let deployments = &mut capi(&mut picture).machine_deployments.as_mut().unwrap().objects;
    deployments[0].status.conditions = of(rolling);
    assert_eq!(codes(&picture), [(Code::RollingOut, "MachineDeployment d/m1".to_owned())]);

    let mut picture = sound();
    let deployments = &mut capi(&mut picture).machine_deployments.as_mut().unwrap().objects;
    deployments
        .push(of(json!({ "metadata": { "name": "theirs", "namespace": "d" }, "spec": { "replicas": 9 } })));
    assert_eq!(codes(&picture), []);
}

#[test]
fn pauses_of_others_are_noted_and_our_own_is_left_over() {
    let mut picture = sound();
    let deployments = &mut capi(&mut picture).machine_deployments.as_mut().unwrap().objects;
    let annotations = deployments[0].metadata.annotations.as_mut().unwrap();
    annotations.insert(annotations::CAPI_PAUSED.to_owned(), String::new());
    assert_eq!(codes(&picture), [(Code::Paused, "MachineDeployment d/m1".to_owned())]);
    let deployments = &mut capi(&mut picture).machine_deployments.as_mut().unwrap().objects;
    let annotations = deployments[0].metadata.annotations.as_mut().unwrap();
    annotations.insert(annotations::PAUSE_FOR.to_owned(), "u/s/1".to_owned());
    assert_eq!(codes(&picture), [(Code::Books(Rule::Leftover), "MachineDeployment d/m1".to_owned())]);
}

#[test]
fn an_object_that_cant_be_parsed_is_named() {
    let mut picture = sound();
    let pools = picture.workload.node_pools.as_mut().unwrap();
    pools.broken.push(Broken { object: "NodePool p".into(), problem: "spec.weight: invalid type".into() });
    let finding = only(&picture);
    assert_eq!((finding.code, finding.object.as_str()), (Code::BrokenObject, "NodePool p"));
}

#[test]
fn what_passes_between_two_readings_is_no_finding() {
    let (mut first, second) = (sound(), sound());
    first.workload.claims = Ok(listed(vec![]));
    let before = judge(&first, None);
    assert!(!before.is_empty());
    assert_eq!(stays(&before, judge(&second, Some(&first))), []);
    assert_eq!(stays(&[], before), [], "nor is what has just begun");
    let mut lasting = sound();
    lasting.workload.definitions[0].installed = Ok(None);
    assert_eq!(stays(&[], judge(&lasting, None)).len(), 1, "a definition doesn't come and go");
}

#[test]
fn a_leader_that_dies_before_the_first_reading_is_missed_after_the_second() {
    let first = sound();
    let mut second = sound();
    second.now = first.now + jiff::SignedDuration::from_secs(16);
    let found = stays(&judge(&first, None), judge(&second, Some(&first)));
    assert_eq!(found.iter().map(|finding| finding.code).collect::<Vec<_>>(), [Code::NoLeader]);
    second.workload.leases = Ok(vec![of(lease("kube-system", "", 1))]);
    assert_eq!(judge(&second, Some(&first)), [], "given back a moment ago");
    assert_eq!(judge(&second, Some(&second)).len(), 1, "given back before the first reading");
}
