mod ends;
mod held_up;
mod progress;
mod termination;

use super::*;
use crate::drain::{Budgets, DrainRules};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_capi_api::capi::Machine;
use karpenter_capi_api::v1::{NodeClaim, NodeClaimStatus};
use serde_json::{Value, json};

fn at(text: &str) -> Timestamp {
    format!("2026-01-05T{text}Z").parse().unwrap()
}

fn claim(status: &Value) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "p-x", "uid": "u", "creationTimestamp": "2026-01-05T12:00:00Z", "generation": 1},
        "spec": {
            "requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
            "startupTaints": [{"key": "net", "effect": "NoExecute"}],
            "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1", "memory": "0"}}
        },
        "status": status
    }))
    .unwrap()
}

fn machine(provider_id: Option<&str>) -> Machine {
    serde_json::from_value(json!({
        "metadata": {"name": "m", "namespace": "default"},
        "spec": {"providerID": provider_id},
        "status": {"conditions": [{
            "type": "InfrastructureReady", "status": "False", "reason": "InsufficientCapacity", "message": "no capacity in zone a",
            "lastTransitionTime": "2026-01-05T12:00:00Z"
        }]}
    }))
    .unwrap()
}

fn node(taints: &Value, gpu: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "n1", "resourceVersion": "1"},
        "spec": {"providerID": "x://1", "taints": taints},
        "status": {
            "capacity": {"cpu": "4", "nvidia.com/gpu": gpu}, "allocatable": {"cpu": "3900m", "nvidia.com/gpu": gpu},
            "conditions": [{"type": "Ready", "status": "True"}]
        }
    }))
    .unwrap()
}

fn step(claim: &NodeClaim, machine: Option<&Machine>, nodes: &[&Node], now: &str) -> Step {
    progress(&Observed {
        now: at(now),
        claim,
        machine,
        nodes,
        promise: None,
        blocked: None,
        timeouts: Timeouts {
            launch: SignedDuration::from_mins(15),
            registration: SignedDuration::from_mins(10),
        },
    })
}

fn told(status: &NodeClaimStatus, kind: &str) -> (String, String) {
    let condition = condition::find(&status.conditions, kind).unwrap();
    (condition.status.clone(), condition.reason.clone())
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// The claim with the status that a step wanted, as the next pass would see it.
fn after(step: &Step) -> NodeClaim {
    claim(&serde_json::to_value(&step.status).unwrap())
}
