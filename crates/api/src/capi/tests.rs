use kube::core::Resource;
use serde_json::{Value, json};

use super::*;
use crate::condition;
use crate::names::labels;

fn deployment_v1beta2() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {
            "name": "small", "namespace": "capi", "generation": 4,
            "labels": { "node.cluster.x-k8s.io/karpenter-member": "" },
            "annotations": { "karpenter.cluster.x-k8s.io/claims": "0b1c2d3e-4f50" },
        },
        "spec": {
            "clusterName": "demo",
            "replicas": 3,
            "paused": false,
            "rollout": { "strategy": { "type": "OnDelete" } },
            "deletion": { "order": "Oldest" },
            "remediation": { "maxInFlight": "20%" },
            "selector": { "matchLabels": { "cluster.x-k8s.io/deployment-name": "small" } },
            "template": {
                "metadata": { "labels": { "node-role.kubernetes.io/worker": "" }, "annotations": { "a": "b" } },
                "spec": {
                    "clusterName": "demo",
                    "bootstrap": { "configRef": {
                        "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfigTemplate", "name": "small",
                    } },
                    "infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachineTemplate", "name": "small",
                    },
                    "version": "v1.36.0",
                    "failureDomain": "eu-west-1a",
                    "taints": [{ "key": "dedicated", "value": "x", "effect": "NoSchedule", "propagation": "Always" }],
                    "deletion": { "nodeDrainTimeoutSeconds": 60 },
                },
            },
        },
        "status": {
            "observedGeneration": 4, "replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "upToDateReplicas": 3,
            "phase": "Running",
            "conditions": [
                { "type": "RollingOut", "status": "False", "reason": "NotRollingOut", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z" },
            ],
            "deprecated": { "v1beta1": { "updatedReplicas": 1, "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z" },
            ] } },
        },
    })
}

/// The same MachineDeployment, as a `v1beta1` server gives it.
fn deployment_v1beta1() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "MachineDeployment",
        "metadata": deployment_v1beta2()["metadata"],
        "spec": {
            "clusterName": "demo",
            "replicas": 3,
            "minReadySeconds": 0,
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 1,
            "strategy": {
                "type": "OnDelete",
                "rollingUpdate": { "deletePolicy": "Oldest" },
                "remediation": { "maxInFlight": "20%" },
            },
            "selector": { "matchLabels": { "cluster.x-k8s.io/deployment-name": "small" } },
            "template": {
                "metadata": { "labels": { "node-role.kubernetes.io/worker": "" }, "annotations": { "a": "b" } },
                "spec": {
                    "clusterName": "demo",
                    "bootstrap": { "configRef": {
                        "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1", "kind": "KubeadmConfigTemplate",
                        "name": "small", "namespace": "capi",
                    } },
                    "infrastructureRef": {
                        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
                        "name": "small", "namespace": "capi",
                    },
                    "version": "v1.36.0",
                    "failureDomain": "eu-west-1a",
                    "nodeDrainTimeout": "1m0s",
                    "taints": [{ "key": "dedicated", "value": "x", "effect": "NoSchedule", "propagation": "Always" }],
                },
            },
        },
        "status": {
            "observedGeneration": 4, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
            "unavailableReplicas": 2, "phase": "Running",
            "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z" },
            ],
            "v1beta2": {
                "readyReplicas": 2, "availableReplicas": 2, "upToDateReplicas": 3,
                "conditions": [
                    { "type": "RollingOut", "status": "False", "reason": "NotRollingOut", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z" },
                ],
            },
        },
    })
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_machine_deployment_is_the_same_in_both_versions() {
    let newer: MachineDeployment = read(deployment_v1beta2());
    let mut older: MachineDeployment = read(deployment_v1beta1());
    assert_eq!(newer.spec.strategy(), StrategyType::OnDelete);
    assert_eq!(newer.spec.template.spec.infrastructure_ref.api_group, "infrastructure.cluster.x-k8s.io");
    assert_eq!(newer.status.up_to_date_replicas, Some(3));
    assert!(condition::is_false(&newer.status.conditions, "RollingOut"));
    assert_eq!(newer.spec.template.spec.taints[0].propagation, "Always");

    // Only v1beta1 knows versions of what is referred to, and has settings beside a strategy that doesn't use them.
    let spec = &mut older.spec.template.spec;
    assert_eq!(
        spec.infrastructure_ref.api_version.take().as_deref(),
        Some("infrastructure.cluster.x-k8s.io/v1beta2")
    );
    let config = spec.bootstrap.config_ref.as_mut().unwrap();
    assert_eq!(config.api_version.take().as_deref(), Some("bootstrap.cluster.x-k8s.io/v1beta1"));
    older.spec.rollout.strategy.as_mut().unwrap().rolling_update = None;
    assert_eq!(older, newer);
}

#[test]
fn what_was_read_is_read_again_after_it_was_written() {
    for object in [deployment_v1beta2(), deployment_v1beta1()] {
        let deployment: MachineDeployment = read(object);
        let written = serde_json::to_value(&deployment).unwrap();
        assert_eq!(written["apiVersion"], "cluster.x-k8s.io/v1beta2");
        assert_eq!(written["kind"], "MachineDeployment");
        assert_eq!(written["spec"]["rollout"]["strategy"]["type"], "OnDelete");
        assert_eq!(read::<MachineDeployment>(written), deployment);
    }
    for object in [machine_v1beta2(), machine_v1beta1()] {
        let machine: Machine = read(object);
        assert_eq!(read::<Machine>(serde_json::to_value(&machine).unwrap()), machine);
    }
    let cluster: Cluster = read(cluster_v1beta2());
    assert_eq!(read::<Cluster>(serde_json::to_value(&cluster).unwrap()), cluster);
}

#[test]
fn a_strategy_that_is_not_set_is_rolling_update() {
    for spec in [
        json!({}),
        json!({ "rollout": {} }),
        json!({ "rollout": { "strategy": {} } }),
        json!({ "strategy": null }),
    ] {
        let deployment: MachineDeployment = read(json!({ "metadata": { "name": "a" }, "spec": spec }));
        assert_eq!(deployment.spec.strategy(), StrategyType::RollingUpdate, "{spec}");
    }
}

#[test]
fn surge_is_read_in_both_versions() {
    let rolling =
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": "25%" } });
    for spec in [json!({ "rollout": { "strategy": rolling } }), json!({ "strategy": rolling })] {
        let deployment: MachineDeployment = read(json!({ "metadata": {}, "spec": spec }));
        let strategy = deployment.spec.rollout.strategy.unwrap();
        let update = strategy.rolling_update.unwrap();
        assert_eq!(serde_json::to_value(&update).unwrap(), json!({ "maxSurge": 1, "maxUnavailable": "25%" }));
    }
}

fn machine_v1beta2() -> Value {
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
fn machine_v1beta1() -> Value {
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
fn a_machine_set_is_read_in_both_versions() {
    let newer: MachineSet = read(json!({
        "metadata": { "name": "small-x", "namespace": "capi", "generation": 2 },
        "spec": { "clusterName": "demo", "replicas": 2, "deletion": { "order": "Newest" }, "selector": {}, "template": {} },
        "status": { "observedGeneration": 2, "replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "upToDateReplicas": 2 },
    }));
    let older: MachineSet = read(json!({
        "metadata": { "name": "small-x", "namespace": "capi", "generation": 2 },
        "spec": { "clusterName": "demo", "replicas": 2, "deletePolicy": "Newest", "selector": {}, "template": {} },
        "status": {
            "observedGeneration": 2, "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 0,
            "v1beta2": { "readyReplicas": 1, "availableReplicas": 1, "upToDateReplicas": 2 },
        },
    }));
    assert_eq!(newer.status.observed_generation, Some(2));
    assert_eq!(newer.spec.deletion, Some(ReplicaDeletion { order: Some("Newest".to_owned()) }));
    assert_eq!(older, newer);
}

fn cluster_v1beta2() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": { "name": "demo", "namespace": "capi" },
        "spec": {
            "paused": true,
            "controlPlaneRef": { "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "demo" },
            "infrastructureRef": {},
            "topology": {
                "classRef": { "name": "quick" }, "version": "v1.36.0",
                "workers": { "machineDeployments": [
                    { "class": "w", "name": "fixed", "replicas": 3 },
                    { "class": "w", "name": "open" },
                ] },
            },
        },
        "status": {
            "observedGeneration": 1, "phase": "Provisioned",
            "initialization": { "infrastructureProvisioned": true, "controlPlaneInitialized": true },
        },
    })
}

#[test]
fn a_cluster_is_read_in_both_versions() {
    let newer: Cluster = read(cluster_v1beta2());
    assert!(newer.spec.paused);
    assert_eq!(newer.spec.infrastructure_ref, None, "an empty reference is none");
    assert_eq!(newer.spec.topology_replicas("fixed"), Some(3));
    assert_eq!(newer.spec.topology_replicas("open"), None);
    assert_eq!(newer.spec.topology_replicas("missing"), None);

    let mut object = cluster_v1beta2();
    object["spec"]["topology"].as_object_mut().unwrap().remove("classRef");
    object["spec"]["topology"]["class"] = json!("quick");
    object["status"] = json!({
        "observedGeneration": 1, "phase": "Provisioned", "infrastructureReady": true, "controlPlaneReady": true,
        "failureDomains": { "a": { "controlPlane": true } },
    });
    assert_eq!(read::<Cluster>(object), newer);
}

#[test]
fn requests_go_to_the_version_that_is_served() {
    for (version, text) in [(CapiVersion::V1Beta1, "v1beta1"), (CapiVersion::V1Beta2, "v1beta2")] {
        assert_eq!(
            MachineDeployment::url_path(&version, Some("capi")),
            format!("/apis/cluster.x-k8s.io/{text}/namespaces/capi/machinedeployments")
        );
        assert_eq!(Machine::url_path(&version, None), format!("/apis/cluster.x-k8s.io/{text}/machines"));
        assert_eq!(MachineSet::plural(&version), "machinesets");
        assert_eq!(Cluster::plural(&version), "clusters");
        assert_eq!(CapiVersion::from_api_version(version.api_version()), Some(version));
    }
    assert_eq!(CapiVersion::from_api_version("cluster.x-k8s.io/v1alpha4"), None);
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

#[test]
fn a_template_says_what_it_makes() {
    let template = InfrastructureTemplate::parse(&json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "AWSMachineTemplate",
        "metadata": { "name": "small", "namespace": "capi" },
        "spec": { "template": { "spec": { "instanceType": "m7g.large" } } },
        "status": {
            "capacity": { "cpu": "2", "memory": "8Gi", "pods": 110 },
            "nodeInfo": { "architecture": "arm64", "operatingSystem": "linux" },
        },
    }))
    .unwrap();
    assert_eq!(template.group(), "infrastructure.cluster.x-k8s.io");
    assert_eq!(template.capacity["pods"].0, "110");
    assert_eq!(template.capacity["memory"].0, "8Gi");
    assert_eq!(template.architecture.as_deref(), Some("arm64"));
    assert_eq!(template.operating_system.as_deref(), Some("linux"));
    assert_eq!(template.problems, Vec::<String>::new());
}

#[test]
fn a_template_is_read_as_far_as_it_can_be() {
    let template = InfrastructureTemplate::parse(&json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "TestMachineTemplate",
        "metadata": { "name": "small" },
        "status": { "capacity": { "cpu": "2", "memory": ["8Gi"] }, "nodeInfo": { "architecture": 64 } },
    }))
    .unwrap();
    assert_eq!(template.capacity.len(), 1);
    assert_eq!(template.architecture, None);
    assert_eq!(template.problems.len(), 2);
    assert!(template.problems[0].contains("status.capacity[memory]"), "{:?}", template.problems);
    assert!(template.problems[1].contains("status.nodeInfo.architecture"), "{:?}", template.problems);

    let bare =
        InfrastructureTemplate::parse(&json!({ "apiVersion": "g/v1", "kind": "K", "metadata": {} })).unwrap();
    assert!(bare.capacity.is_empty() && bare.problems.is_empty());
    assert_eq!(
        InfrastructureTemplate::parse(&json!({ "kind": "K" })),
        Err(TemplateError::Missing("metadata"))
    );
}
