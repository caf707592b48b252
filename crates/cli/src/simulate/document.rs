//! The answer. Names and order of the fields are an interface that people script on.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What would happen.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Simulation {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) node_claims: Vec<NodeClaim>,
    pub(super) placements: Vec<Placement>,
    pub(super) pending: Vec<PendingPod>,
    pub(super) machine_deployments: Vec<MachineDeployment>,
    pub(super) disruptions: Vec<Disruption>,
    pub(super) blocked: Vec<Blocked>,
    pub(super) warnings: Vec<Warning>,
    pub(super) cost: Cost,
    /// Only under `--audit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) audit: Option<Vec<Finding>>,
    /// Objects of kinds that aren't used, by kind; for people only.
    #[serde(skip)]
    pub(super) others: BTreeMap<String, usize>,
    /// Pods that stand for CapacityBuffers; their names tell them apart.
    #[serde(skip)]
    pub(super) buffer_pods: BTreeSet<String>,
}

impl Simulation {
    /// How many of these are somebody's pods, and not those that stand for a buffer.
    pub(super) fn count_real<'a>(&self, pods: impl IntoIterator<Item = &'a String>) -> usize {
        pods.into_iter().filter(|pod| !self.buffer_pods.contains(*pod)).count()
    }

    /// Whether every pod that is there has a place.
    pub(super) fn is_complete(&self) -> bool {
        self.count_real(self.pending.iter().map(|pending| &pending.pod)) == 0
    }
}

/// A claim that is new in this run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeClaim {
    pub(super) name: String,
    pub(super) pass: u32,
    pub(super) node_pool: String,
    #[serde(flatten)]
    pub(super) offer: Offer,
    pub(super) alternatives: Vec<Offer>,
    pub(super) requests: BTreeMap<String, String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) pods: Vec<String>,
}

/// One way to get a machine.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Offer {
    pub(super) machine_deployment: String,
    pub(super) instance_type: String,
    /// Empty where there is none.
    pub(super) zone: String,
    /// Empty where there is none.
    pub(super) capacity_type: String,
    /// US dollars an hour; null is unknown.
    pub(super) price: Option<f64>,
}

/// Pods on capacity that is there or on its way; one of `node` and `node_claim` is set.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Placement {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_claim: Option<String>,
    pub(super) pods: Vec<String>,
}

/// A pod without a place.
#[derive(Debug, Serialize)]
pub(super) struct PendingPod {
    pub(super) pod: String,
    pub(super) reasons: Vec<Reason>,
}

/// Why one NodePool, and one MachineDeployment of it, doesn't serve; empty where it is about the whole.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reason {
    pub(super) node_pool: String,
    pub(super) machine_deployment: String,
    pub(super) code: &'static str,
    pub(super) message: String,
    /// The smallest change that would have got the pod past this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

/// A MachineDeployment that a node class takes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MachineDeployment {
    pub(super) name: String,
    pub(super) replicas: i64,
    pub(super) desired_replicas: i64,
    pub(super) available: bool,
    /// Empty where it is available.
    pub(super) reason: &'static str,
}

/// A node that would be taken away; there is none while disruption isn't evaluated.
#[derive(Debug, Serialize)]
pub(super) enum Disruption {}

/// A node that may not be taken away; there is none while disruption isn't evaluated.
#[derive(Debug, Serialize)]
pub(super) enum Blocked {}

/// What a person should know.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Warning {
    pub(super) object: String,
    pub(super) message: String,
}

/// Something in a plan that must not be.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) pass: u32,
    pub(super) subject: String,
    pub(super) message: String,
}

/// US dollars an hour for nodes of NodePools.
#[derive(Debug, Serialize)]
pub(super) struct Cost {
    pub(super) before: f64,
    pub(super) after: f64,
    /// Nodes and claims whose price nobody knows.
    pub(super) unpriced: usize,
}
