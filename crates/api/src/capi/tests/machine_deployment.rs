use super::*;

pub(super) fn deployment_v1beta2() -> Value {
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
pub(super) fn deployment_v1beta1() -> Value {
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
