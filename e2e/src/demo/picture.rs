//! What is seen of the cluster at one moment, as plain values.

use std::collections::BTreeSet;

/// What is seen of the cluster at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// Deployments of pods, by name.
    pub workloads: Vec<Workload>,
    /// MachineDeployments, by price and name.
    pub machine_deployments: Vec<MachineDeployment>,
    /// NodeClaims, oldest first.
    pub claims: Vec<Claim>,
    /// What the operator has told in Events on NodeClaims, node classes and MachineDeployments, oldest first.
    pub events: Vec<Told>,
}

/// An Event that the operator has written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// `kind/name` of the object.
    pub about: String,
    /// Its reason and message.
    pub message: String,
}

/// A Deployment of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Pods that it asks for.
    pub wanted: usize,
    /// Pods without a Node.
    pub pending: usize,
    /// Pods that run.
    pub running: usize,
}

/// A MachineDeployment and what it has led to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineDeployment {
    /// Its name.
    pub name: String,
    /// Size of a machine, for people.
    pub size: String,
    /// Zone of its machines.
    pub zone: String,
    /// US dollars an hour for each machine.
    pub price: Option<f64>,
    /// `spec.replicas`.
    pub replicas: u32,
    /// Names of Machines that aren't being deleted.
    pub machines: BTreeSet<String>,
    /// Names of Machines that are being deleted.
    pub going: BTreeSet<String>,
    /// Nodes that are ready.
    pub nodes: usize,
    /// Pods that run on its Nodes.
    pub pods: usize,
}

/// How far a NodeClaim is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It is there, and counted in no replica or waiting for its Machine.
    #[default]
    Created,
    /// Its Machine has its infrastructure.
    Launched,
    /// Its Node has joined.
    Registered,
    /// Its Node takes pods.
    Initialized,
    /// It is drained and gives its Machine back.
    Deleting,
}

impl Stage {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Launched => "launched",
            Self::Registered => "registered",
            Self::Initialized => "initialized",
            Self::Deleting => "deleting",
        }
    }
}

/// A NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub name: String,
    /// The NodePool that it belongs to.
    pub node_pool: String,
    /// The MachineDeployment that it is assigned to, without namespace.
    pub machine_deployment: String,
    /// The Machine that it is bound to, without namespace.
    pub machine: Option<String>,
    /// How far it is.
    pub stage: Stage,
    /// Pods that run on its Node.
    pub pods: usize,
}

impl Picture {
    /// Pods without a Node.
    pub fn pending(&self) -> usize {
        self.workloads.iter().map(|workload| workload.pending).sum()
    }

    /// Pods that run.
    pub fn running(&self) -> usize {
        self.workloads.iter().map(|workload| workload.running).sum()
    }

    /// Replicas of all MachineDeployments.
    pub fn replicas(&self) -> u32 {
        self.machine_deployments.iter().map(|deployment| deployment.replicas).sum()
    }

    /// Machines that aren't being deleted.
    pub fn machines(&self) -> BTreeSet<&str> {
        let all = self.machine_deployments.iter().flat_map(|deployment| &deployment.machines);
        all.map(String::as_str).collect()
    }

    /// Machines that are being deleted.
    pub fn going(&self) -> BTreeSet<&str> {
        let all = self.machine_deployments.iter().flat_map(|deployment| &deployment.going);
        all.map(String::as_str).collect()
    }

    /// Nodes that are ready.
    pub fn nodes(&self) -> usize {
        self.machine_deployments.iter().map(|deployment| deployment.nodes).sum()
    }

    /// US dollars an hour for all replicas that have a price.
    pub fn cost(&self) -> f64 {
        self.machine_deployments
            .iter()
            .map(|deployment| deployment.price.unwrap_or_default() * f64::from(deployment.replicas))
            .sum()
    }

    /// Whether as many pods run as are wanted, and none waits.
    pub fn all_pods_run(&self) -> bool {
        !self.workloads.is_empty()
            && self
                .workloads
                .iter()
                .all(|workload| workload.pending == 0 && workload.running == workload.wanted)
    }

    /// Whether nothing is being made or taken away: every claim is initialized, and no Machine goes.
    pub fn is_quiet(&self) -> bool {
        self.claims.iter().all(|claim| claim.stage == Stage::Initialized) && self.going().is_empty()
    }

    /// The claim of that name.
    pub fn claim(&self, name: &str) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.name == name)
    }
}
