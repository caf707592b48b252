use serde_json::{Value, json};

use super::*;
use crate::duration::NillableDuration;

/// A NodePool in the style of upstream's documentation, with every field, as the API server gives it back.
fn full_pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": { "name": "default", "annotations": { "karpenter.sh/nodepool-hash": "1" } },
        "spec": {
            "template": {
                "metadata": {
                    "labels": { "billing-team": "my-team" },
                    "annotations": { "example.com/owner": "my-team" },
                },
                "spec": {
                    "taints": [{ "key": "example.com/special-taint", "effect": "NoSchedule" }],
                    "startupTaints": [{ "key": "example.com/another", "value": "x", "effect": "NoExecute" }],
                    "requirements": [
                        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["a", "b"], "minValues": 2 },
                        { "key": "example.com/cpus", "operator": "Gte", "values": ["4"] },
                        { "key": "example.com/gpu", "operator": "DoesNotExist" },
                        { "key": "example.com/later", "operator": "Resembles", "values": ["x"] },
                    ],
                    "nodeClassRef": { "group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default" },
                    "terminationGracePeriod": "48h",
                    "expireAfter": "8760h",
                },
            },
            "disruption": {
                "consolidateAfter": "1m",
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "budgets": [
                    { "nodes": "10%" },
                    { "nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h", "reasons": ["Drifted"] },
                ],
            },
            "limits": { "cpu": "1000", "memory": "1000Gi" },
            "weight": 10,
            "replicas": 3,
        },
        "status": {
            "resources": { "cpu": "20" },
            "nodes": 5,
            "nodeClassObservedGeneration": 1,
            "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z",
                "reason": "Ready", "message": "", "observedGeneration": 2,
            }],
        },
    })
}

#[test]
fn a_pool_is_written_back_as_it_was_read() {
    let pool: NodePool = serde_json::from_value(full_pool()).unwrap();
    assert_eq!(serde_json::to_value(pool).unwrap(), full_pool());
}

#[test]
fn an_empty_list_of_budgets_is_not_taken_for_none() {
    let mut object = full_pool();
    object["spec"]["disruption"]["budgets"] = json!([]);
    let pool: NodePool = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(pool.spec.disruption.effective_budgets(), vec![]);
    assert_eq!(serde_json::to_value(pool).unwrap(), object);
}

#[test]
fn a_value_of_a_newer_api_is_kept() {
    let pool: NodePool = serde_json::from_value(full_pool()).unwrap();
    let operator = &pool.spec.template.spec.requirements[3].operator;
    assert_eq!(*operator, Operator::Other("Resembles".to_owned()));
}

#[test]
fn quantities_may_be_written_as_numbers() {
    let mut object = full_pool();
    object["spec"]["limits"] = json!({ "cpu": 1000 });
    let pool: NodePool = serde_json::from_value(object).unwrap();
    assert_eq!(pool.spec.limits["cpu"].0, "1000");
}

#[test]
fn a_claim_of_upstream_is_written_back_as_it_was_read() {
    let object = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": { "name": "default-x7k2p", "labels": { "karpenter.sh/nodepool": "default" } },
        "spec": {
            "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }],
            "resources": { "requests": { "cpu": "1500m", "pods": "4" } },
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "terminationGracePeriod": "48h0m0s",
            "expireAfter": "Never",
        },
        "status": {
            "nodeName": "ip-10-0-0-1",
            "providerID": "aws:///eu-west-1a/i-1",
            "imageID": "ami-1",
            "capacity": { "cpu": "2" },
            "allocatable": { "cpu": "1930m" },
            "conditions": [{
                "type": "Launched", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "", "message": "",
            }],
            "lastPodEventTime": "2026-01-02T03:05:05Z",
        },
    });
    let claim: NodeClaim = serde_json::from_value(object.clone()).unwrap();
    assert!(!claim.spec.node_class_ref.is_ours());
    assert_eq!(claim.spec.effective_expire_after().parse(), Ok(None));
    assert_eq!(serde_json::to_value(claim).unwrap(), object);
}

#[test]
fn what_is_not_set_has_upstreams_defaults() {
    let disruption = Disruption::default();
    assert_eq!(disruption.effective_consolidate_after(), NillableDuration::from("0s"));
    assert_eq!(disruption.effective_consolidation_policy(), ConsolidationPolicy::WhenEmptyOrUnderutilized);
    assert_eq!(disruption.effective_budgets(), vec![Budget { nodes: "10%".to_owned(), ..Budget::default() }]);
    assert_eq!(NodeClaimTemplateSpec::default().effective_expire_after(), NillableDuration::from("720h"));
}
