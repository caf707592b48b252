//! What must hold when everything is settled and idle: one checker for end-to-end tests and for people.

use crate::ledger::{ClaimRef, Entry, Ledger, bound};
use crate::node;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::capi::{Machine, MachineDeployment, MachineSet};
use karpenter_capi_api::hypershift;
use karpenter_capi_api::names::{annotations, finalizers, labels};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_model::name::NamespacedName;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Everything of one workload cluster and its part of the management cluster.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// MachineDeployments of the Cluster.
    pub machine_deployments: Vec<MachineDeployment>,
    /// HyperShift NodePools that own the replicas of some of them.
    pub hypershift_node_pools: Vec<hypershift::NodePool>,
    /// MachineSets of the Cluster.
    pub machine_sets: Vec<MachineSet>,
    /// Machines of the Cluster.
    pub machines: Vec<Machine>,
    /// NodeClaims, those of other Karpenters as well.
    pub claims: Vec<NodeClaim>,
    /// Nodes.
    pub nodes: Vec<Node>,
}

/// What should hold. The names are stable: scripts read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Rule {
    /// A MachineDeployment has as many Machines and replicas of MachineSets as it asks for.
    Replicas,
    /// An entry of a ledger belongs to one claim, a claim stands in the ledger of its MachineDeployment, and there are no more entries
    /// than replicas.
    Ledger,
    /// A claim and its Machine name each other, and nobody else.
    Binding,
    /// The claim that a Machine carries exists.
    Orphan,
    /// A Machine has our hook exactly while it has a claim.
    Hook,
    /// A claim has our finalizer.
    Finalizer,
    /// Nothing of ours is left on a Machine, MachineDeployment or Node without its reason.
    Leftover,
}

/// Something that doesn't hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// `Kind name` or `Kind namespace/name`.
    pub object: String,
    /// What should hold.
    pub rule: Rule,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.message)
    }
}

/// Checks the books. An empty list means: replicas are exact, each entry has one claim, each bound claim one Machine and that Machine
/// that claim, each claim has our finalizer, no hook, mark, pause, taint or finalizer of ours is without its reason, and nothing of ours
/// is on what belongs to another Karpenter.
pub fn check(world: &World) -> Vec<Violation> {
    let (ours, of_others) = world.claims.iter().partition(|claim| claim.spec.node_class_ref.is_ours());
    let mut checker = Checker { world, ours, of_others, found: Vec::new() };
    world.machine_deployments.iter().for_each(|deployment| checker.machine_deployment(deployment));
    world.machines.iter().for_each(|machine| checker.machine(machine));
    for claim in checker.ours.clone() {
        checker.claim(claim);
    }
    for claim in checker.of_others.clone() {
        checker.claim_of_others(claim);
    }
    world.nodes.iter().for_each(|node| checker.node(node));
    checker.found.sort();
    checker.found
}

struct Checker<'a> {
    world: &'a World,
    ours: Vec<&'a NodeClaim>,
    of_others: Vec<&'a NodeClaim>,
    found: Vec<Violation>,
}

impl Checker<'_> {
    fn report(&mut self, kind: &str, metadata: &ObjectMeta, rule: Rule, message: impl Into<String>) {
        let own = name(metadata);
        let object =
            if own.namespace.is_empty() { format!("{kind} {}", own.name) } else { format!("{kind} {own}") };
        self.found.push(Violation { object, rule, message: message.into() });
    }

    fn machine_deployment(&mut self, deployment: &MachineDeployment) {
        let world = self.world;
        let metadata = &deployment.metadata;
        let own = name(metadata);
        let ledger = self.ledger(deployment);
        let replicas = i64::from(deployment.spec.replicas.unwrap_or_default());
        self.hosted(deployment, replicas);
        let machines = || {
            world.machines.iter().filter(|machine| {
                crate::ledger::MachineView::machine_deployment(machine).as_ref() == Some(&own)
            })
        };
        let live = machines().filter(|machine| machine.metadata.deletion_timestamp.is_none()).count();
        let live = i64::try_from(live).unwrap_or(i64::MAX);
        if live != replicas {
            self.report(
                "MachineDeployment",
                metadata,
                Rule::Replicas,
                format!("{replicas} replicas, but {live} Machines that are not going"),
            );
        }
        if ledger.len() > replicas {
            self.report(
                "MachineDeployment",
                metadata,
                Rule::Ledger,
                format!("{} claims in the ledger, but {replicas} replicas", ledger.len()),
            );
        }
        for entry in ledger.iter() {
            let claims = self.ours.iter().filter(|claim| Entry::of(claim) == *entry).count();
            if claims != 1 {
                self.report(
                    "MachineDeployment",
                    metadata,
                    Rule::Ledger,
                    format!("ledger entry {entry} has {claims} claims"),
                );
            }
        }
        let sets: i64 = world
            .machine_sets
            .iter()
            .filter(|set| {
                let owner = karpenter_capi_api::capi::owner_of_kind(&set.metadata, "MachineDeployment");
                set.metadata.namespace == metadata.namespace
                    && owner.map(|owner| &owner.name) == metadata.name.as_ref()
            })
            .map(|set| i64::from(set.spec.replicas.unwrap_or_default()))
            .sum();
        if sets != replicas {
            self.report(
                "MachineDeployment",
                metadata,
                Rule::Replicas,
                format!("{replicas} replicas, but its MachineSets want {sets}"),
            );
        }
        if annotation(metadata, annotations::PAUSE_FOR).is_some() {
            self.report("MachineDeployment", metadata, Rule::Leftover, "our own pause was left behind");
        }
    }

    /// The HyperShift NodePool that owns its replicas: number and ledger stand there.
    fn node_pool(&self, deployment: &MachineDeployment) -> Option<&hypershift::NodePool> {
        let owner = annotation(&deployment.metadata, annotations::HYPERSHIFT_NODE_POOL)?;
        self.world.hypershift_node_pools.iter().find(|pool| name(&pool.metadata).to_string() == owner)
    }

    fn ledger(&self, deployment: &MachineDeployment) -> Ledger {
        Ledger::of(self.node_pool(deployment).map_or(&deployment.metadata, |pool| &pool.metadata))
    }

    fn hosted(&mut self, deployment: &MachineDeployment, replicas: i64) {
        let Some(pool) = self.node_pool(deployment) else { return };
        let wanted = pool.wanted().map(i64::from);
        let pool = name(&pool.metadata);
        if let Some(wanted) = wanted.filter(|wanted| *wanted != replicas) {
            let message = format!("{replicas} replicas, but HyperShift NodePool {pool} wants {wanted}");
            self.report("MachineDeployment", &deployment.metadata, Rule::Replicas, message);
        }
        if annotation(&deployment.metadata, annotations::CLAIMS).is_some() {
            let message = format!("a ledger, but HyperShift NodePool {pool} has one, too");
            self.report("MachineDeployment", &deployment.metadata, Rule::Ledger, message);
        }
    }

    fn machine(&mut self, machine: &Machine) {
        let metadata = &machine.metadata;
        let hooked = annotation(metadata, annotations::PRE_TERMINATE_HOOK).is_some();
        let Some(owner) = annotation(metadata, annotations::NODECLAIM) else {
            if hooked {
                self.report("Machine", metadata, Rule::Hook, "our hook, but no claim");
            }
            return;
        };
        if !hooked {
            self.report("Machine", metadata, Rule::Hook, "a claim, but not our hook");
        }
        let claim = self.ours.iter().find(|claim| ClaimRef::of(claim).to_string() == owner);
        match claim {
            None => self.report("Machine", metadata, Rule::Orphan, format!("claim {owner} does not exist")),
            Some(claim) if bound(claim).as_ref() != Some(&name(metadata)) => {
                self.report("Machine", metadata, Rule::Binding, format!("claim {owner} does not name it"));
            }
            Some(claim) if claim.metadata.deletion_timestamp.is_none() => {
                let marks = [
                    annotations::EXCLUDE_NODE_DRAINING,
                    annotations::EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH,
                    annotations::DELETE_MACHINE,
                ];
                for mark in marks.into_iter().filter(|mark| annotation(metadata, mark).is_some()) {
                    self.report(
                        "Machine",
                        metadata,
                        Rule::Leftover,
                        format!("marked with {mark}, but its claim stays"),
                    );
                }
            }
            Some(_) => {}
        }
    }

    fn claim(&mut self, claim: &NodeClaim) {
        let world = self.world;
        let metadata = &claim.metadata;
        let reference = ClaimRef::of(claim).to_string();
        let entry = Entry::of(claim);
        let ledgers: Vec<NamespacedName> = world
            .machine_deployments
            .iter()
            .filter(|deployment| self.ledger(deployment).contains(&entry))
            .map(|deployment| name(&deployment.metadata))
            .collect();
        let assigned = crate::ledger::assigned(claim);
        if ledgers.len() > 1 || ledgers.first().is_some_and(|only| Some(only) != assigned.as_ref()) {
            self.report(
                "NodeClaim",
                metadata,
                Rule::Ledger,
                "stands in the ledger of a MachineDeployment that it is not assigned to",
            );
        }
        if ledgers.is_empty() {
            self.report("NodeClaim", metadata, Rule::Ledger, "stands in no ledger");
        }
        let holding = world
            .machines
            .iter()
            .filter(|machine| annotation(&machine.metadata, annotations::NODECLAIM) == Some(&reference));
        if holding.count() > 1 {
            self.report("NodeClaim", metadata, Rule::Binding, "more than one Machine");
        }
        if let Some(machine) = bound(claim) {
            match world.machines.iter().find(|other| name(&other.metadata) == machine) {
                None => self.report(
                    "NodeClaim",
                    metadata,
                    Rule::Binding,
                    format!("its Machine {machine} does not exist"),
                ),
                Some(other) if annotation(&other.metadata, annotations::NODECLAIM) != Some(&reference) => {
                    self.report(
                        "NodeClaim",
                        metadata,
                        Rule::Binding,
                        format!("its Machine {machine} does not carry it"),
                    );
                }
                Some(_) => {}
            }
        }
        let mut finalizers = metadata.finalizers.iter().flatten();
        let going = metadata.deletion_timestamp.is_some();
        if !going && !finalizers.any(|finalizer| finalizer == finalizers::TERMINATION) {
            self.report(
                "NodeClaim",
                metadata,
                Rule::Finalizer,
                format!(
                    "without our finalizer {}: its deletion would leave its Machine behind",
                    finalizers::TERMINATION
                ),
            );
        }
    }

    fn claim_of_others(&mut self, claim: &NodeClaim) {
        if let Some(machine) = bound(claim) {
            let message = format!("it is another Karpenter's, but Machine {machine} is written on it");
            self.report("NodeClaim", &claim.metadata, Rule::Leftover, message);
        }
    }

    fn node(&mut self, node: &Node) {
        let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref());
        let has_it = |claim: &&&NodeClaim| {
            provider_id.is_some()
                && claim.status.as_ref().and_then(|status| status.provider_id.as_ref()) == provider_id
        };
        if self.of_others.iter().any(|claim| has_it(&claim)) {
            if label(&node.metadata, labels::NODECLASS).is_some() {
                let message = "it is another Karpenter's, but our label is on it";
                self.report("Node", &node.metadata, Rule::Leftover, message);
            }
            // Finalizer and taints have the same names there.
            return;
        }
        let claim = self.ours.iter().find(has_it).copied();
        let has_finalizer =
            node.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == finalizers::TERMINATION);
        let ours: BTreeMap<&str, bool> = [
            ("the disruption taint", node::is_disrupted(node)),
            ("our finalizer", has_finalizer),
            (
                "the label that keeps load balancers away",
                label(&node.metadata, labels::EXCLUDE_BALANCERS) == Some("karpenter"),
            ),
        ]
        .into();
        for (mark, present) in ours {
            let wanted = match claim {
                None => false,
                Some(claim) => mark == "our finalizer" || claim.metadata.deletion_timestamp.is_some(),
            };
            if present && !wanted {
                self.report("Node", &node.metadata, Rule::Leftover, format!("{mark} without reason"));
            }
        }
    }
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn name(metadata: &ObjectMeta) -> NamespacedName {
    NamespacedName::new(
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests;
