use super::*;

pub(super) fn machine_v1beta2() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {
            "name": "small-abcde", "namespace": "capi", "uid": "u1",
            "deletionTimestamp": "2026-01-02T03:04:00Z",
            "labels": { "cluster.x-k8s.io/cluster-name": "demo", "cluster.x-k8s.io/deployment-name": "small" },
            "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "small-x", "uid": "u2",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "clusterName": "demo",
            "bootstrap": { "dataSecretName": "small-data" },
            "infrastructureRef": { "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachine", "name": "small-abcde" },
            "providerID": "aws:///eu-west-1a/i-0123",
            "failureDomain": "",
            "readinessGates": [{ "conditionType": "x" }],
            "deletion": { "nodeDeletionTimeoutSeconds": 10 },
        },
        "status": {
            "observedGeneration": 2,
            "phase": "Deleting",
            "nodeRef": { "name": "ip-10-0-0-1" },
            "nodeInfo": { "architecture": "arm64", "operatingSystem": "linux", "kubeletVersion": "v1.36.0", "osImage": "x", "swap": { "capacity": 1 } },
            "initialization": { "infrastructureProvisioned": true, "bootstrapDataSecretCreated": true },
            "deletion": { "waitForPreTerminateHookStartTime": "2026-01-02T03:04:09Z", "nodeDrainStartTime": "2026-01-02T03:04:05Z" },
            "conditions": [
                { "type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 2 },
            ],
            "deprecated": { "v1beta1": { "failureReason": "CreateError", "failureMessage": "no quota" } },
        },
    })
}

/// The same Machine, as a `v1beta1` server gives it.
pub(super) fn machine_v1beta1() -> Value {
    let mut machine = machine_v1beta2();
    machine["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
    machine["metadata"]["ownerReferences"][0]["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
    machine["spec"] = json!({
        "clusterName": "demo",
        "bootstrap": { "dataSecretName": "small-data" },
        "infrastructureRef": { "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine", "name": "small-abcde", "namespace": "capi" },
        "providerID": "aws:///eu-west-1a/i-0123",
        "nodeDeletionTimeout": "10s",
    });
    let status = machine["status"].as_object_mut().unwrap();
    for newer in ["initialization", "deprecated", "conditions"] {
        status.remove(newer);
    }
    status.insert(
        "nodeRef".to_owned(),
        json!({ "apiVersion": "v1", "kind": "Node", "name": "ip-10-0-0-1", "uid": "u9" }),
    );
    status.insert("infrastructureReady".to_owned(), json!(true));
    status.insert("bootstrapReady".to_owned(), json!(true));
    status.insert("failureReason".to_owned(), json!("CreateError"));
    status.insert("failureMessage".to_owned(), json!("no quota"));
    status.insert(
        "conditions".to_owned(),
        json!([{ "type": "DrainingSucceeded", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z" }]),
    );
    status.insert("v1beta2".to_owned(), json!({ "conditions": machine_v1beta2()["status"]["conditions"] }));
    machine
}

#[test]
fn a_machine_is_the_same_in_both_versions() {
    let newer: Machine = read(machine_v1beta2());
    let mut older: Machine = read(machine_v1beta1());
    assert_eq!(newer.node_name(), Some("ip-10-0-0-1"));
    assert_eq!(newer.spec.provider_id.as_deref(), Some("aws:///eu-west-1a/i-0123"));
    assert_eq!(newer.spec.failure_domain, None, "an empty string is no domain");
    assert_eq!(newer.status.failure_reason.as_deref(), Some("CreateError"));
    assert!(newer.status.initialization.infrastructure_provisioned);
    assert_eq!(newer.status.node_info.as_ref().unwrap().architecture, "arm64");

    older.spec.infrastructure_ref.api_version = None;
    for owner in older.metadata.owner_references.iter_mut().flatten() {
        owner.api_version = "cluster.x-k8s.io/v1beta2".to_owned();
    }
    assert_eq!(older, newer);
}

#[test]
fn deletion_is_acknowledged_by_condition_or_by_status() {
    let acknowledged: Machine = read(machine_v1beta2());
    assert!(acknowledged.deletion_is_acknowledged());
    let started = acknowledged.status.deletion.as_ref().unwrap().started_at().unwrap();
    assert_eq!(started.to_string(), "2026-01-02T03:04:05Z");

    let mut by_condition = acknowledged.clone();
    by_condition.status.deletion = None;
    assert!(by_condition.deletion_is_acknowledged());

    let mut unseen = by_condition.clone();
    unseen.status.conditions.clear();
    assert!(!unseen.deletion_is_acknowledged());

    let mut empty_status = machine_v1beta2();
    empty_status["status"] = json!({ "deletion": {} });
    assert!(read::<Machine>(empty_status).deletion_is_acknowledged());

    let mut not_deleted = acknowledged;
    not_deleted.metadata.deletion_timestamp = None;
    assert!(!not_deleted.deletion_is_acknowledged());
}

#[test]
fn fields_that_are_not_needed_may_hold_anything() {
    let mut machine = machine_v1beta2();
    machine["spec"]["readinessGates"] = json!("nonsense");
    machine["spec"]["deletion"] = json!(["nonsense"]);
    machine["status"]["nodeInfo"] = json!(7);
    machine["status"]["addresses"] = json!({ "nonsense": true });
    machine["status"]["deprecated"] = json!("nonsense");
    machine["status"]["v1beta2"] = json!(null);
    machine["status"]["conditions"] = json!([
        { "type": "Broken", "status": "True" },
        { "type": "Deleting", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z" },
    ]);
    let machine: Machine = read(machine);
    assert_eq!(machine.status.node_info, None);
    assert_eq!(machine.spec.deletion, None);
    assert_eq!(machine.status.conditions.len(), 1, "the condition that can't be read is left out");
    assert_eq!(machine.node_name(), Some("ip-10-0-0-1"));
}

#[test]
fn the_owner_is_found_whatever_version_it_is_named_in() {
    let mut machine: Machine = read(machine_v1beta1());
    let owner = controller_of_kind(&machine.metadata, "MachineSet").unwrap();
    assert_eq!((owner.name.as_str(), owner.uid.as_str()), ("small-x", "u2"));
    assert_eq!(controller_of_kind(&machine.metadata, "MachineDeployment"), None);
    assert_eq!(machine.metadata.labels.as_ref().unwrap()[labels::DEPLOYMENT_NAME], "small");

    let owners = machine.metadata.owner_references.as_mut().unwrap();
    owners[0].controller = None;
    assert_eq!(controller_of_kind(&machine.metadata, "MachineSet"), None);
    assert!(owner_of_kind(&machine.metadata, "MachineSet").is_some());
    machine.metadata.owner_references.as_mut().unwrap()[0].api_version = "example.com/v1".to_owned();
    assert_eq!(owner_of_kind(&machine.metadata, "MachineSet"), None, "same kind, another group");
}
