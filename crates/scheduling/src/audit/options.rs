//! The ways to launch a claim: each must really serve, whatever the labels that are still open become.

use super::{Auditor, hard_taint, new_host_meets, node_constraints_hold, sum};
use crate::input::Input;
use crate::plan::{InstanceOption, PlannedNodeClaim};
use karpenter_capi_model::instance_type::{InstanceType, Offering};
use karpenter_capi_model::label::HOSTNAME;
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_model::taint::Taint;
use std::collections::BTreeMap;

/// A machine that may be made: of this type, by this offering, for a claim with these requirements.
#[derive(Clone, Copy)]
pub(super) struct Machine<'m> {
    pub(super) pool: &'m NodePool,
    pub(super) asked: &'m Requirements,
    pub(super) of_type: &'m InstanceType,
    pub(super) offering: &'m Offering,
}

/// Instance types, for looking them up.
pub(super) struct Types<'a> {
    /// By NodePool and name.
    pub(super) by_name: BTreeMap<(&'a str, &'a str), &'a InstanceType>,
    /// By the type's name.
    seen: BTreeMap<&'a str, (Resources, Resources)>,
}

impl<'a> Types<'a> {
    pub(super) fn of(input: &'a Input) -> Self {
        let mut types = Self { by_name: BTreeMap::new(), seen: BTreeMap::new() };
        for (pool, of_pool) in &input.instance_types {
            for of_type in of_pool {
                types.by_name.insert((pool, &of_type.name), of_type);
                let alike = input.nodes.iter().filter(|node| node.has_node && node.is_like(of_type));
                let seen = alike.map(|node| (node.allocatable.clone(), node.allocatable.clone()));
                let seen = seen.reduce(|(least, most), (a, b)| (least.min(&a), most.max(&b)));
                types.seen.extend(seen.map(|seen| (of_type.name.as_str(), seen)));
            }
        }
        types
    }
}

impl<'m> Machine<'m> {
    pub(super) fn of_option(
        claim: &'m PlannedNodeClaim,
        pool: &'m NodePool,
        option: &'m InstanceOption,
    ) -> Self {
        Self { pool, asked: &claim.requirements, of_type: &option.instance_type, offering: &option.offering }
    }

    /// The machine of a claim that asks for nothing but what the NodePool asks for.
    pub(super) const fn unclaimed(
        pool: &'m NodePool,
        of_type: &'m InstanceType,
        offering: &'m Offering,
    ) -> Self {
        Self { pool, asked: &pool.requirements, of_type, offering }
    }

    /// Taints that stay once the node has started: the NodePool's and the MachineDeployment's.
    pub(super) fn lasting_taints(self) -> impl Iterator<Item = &'m Taint> {
        let starting = move |taint: &&Taint| {
            taint.is_ephemeral() || self.pool.startup_taints.iter().any(|own| own.matches(taint))
        };
        self.pool.taints.iter().chain(self.of_type.taints.iter().filter(move |taint| !starting(taint)))
    }
}

impl<'a> Auditor<'a> {
    pub(super) fn option(&mut self, subject: &str, machine: &Machine<'_>, pods: &[&Pod]) {
        let Machine { pool, asked, of_type, offering } = *machine;
        let subject = format!("{subject} as {}", of_type.name);
        let listed = self.types.by_name.get(&(pool.name.as_str(), of_type.name.as_str()));
        let listed = listed.is_some_and(|own| **own == *of_type);
        if !listed || !of_type.offerings.contains(offering) {
            self.blame(&subject, "isn't an instance type of the NodePool, or not an offering of it");
        }
        if offering.unavailable.is_some() || of_type.headroom.is_some_and(|machines| machines < 1) {
            self.blame(&subject, "can't be had now");
        }
        for requirement in asked.iter() {
            if !self.label_of(machine, requirement.key()).meets(requirement) {
                self.blame(&subject, format!("doesn't meet {requirement}"));
            }
        }
        for pod in pods {
            if let Some(taint) = hard_taint(pod, machine.lasting_taints()) {
                self.blame_pod(pod, format!("is in {subject} in spite of taint {taint}"));
            }
            if !self.serves(machine, pod) {
                self.blame_pod(pod, format!("isn't sure to have its affinity met by {subject}"));
            }
            for name in self.out_of_reach(pod, |wanted| self.is_sure_of(machine, wanted)) {
                self.blame_pod(pod, format!("isn't sure to reach its volume {name} from {subject}"));
            }
        }
        let room = of_type.allocatable_by(offering);
        let daemons = self.daemons_on(machine);
        let used = sum(pods.iter().chain(&daemons).copied());
        if !used.fits(&room) {
            self.blame(&subject, format!("{used} are more than {room}"));
        }
        if let Some((_, most)) = self.seen(of_type)
            && !used.fits(most)
        {
            self.blame(&subject, format!("{used} are more than {most}, the most that such machines gave"));
        }
        self.host_ports(&subject, pods, &daemons);
    }

    /// Whether the machine is sure to meet the pod's node selector and required node affinity.
    pub(super) fn serves(&self, machine: &Machine<'_>, pod: &Pod) -> bool {
        node_constraints_hold(pod, |wanted| self.is_sure_of(machine, wanted))
    }

    pub(super) fn is_sure_of(&self, machine: &Machine<'_>, wanted: &Requirement) -> bool {
        if wanted.key() == HOSTNAME {
            return new_host_meets(wanted);
        }
        let label = self.label_of(machine, wanted.key());
        !label.is_contradiction() && label.implies(wanted)
    }

    /// What a label will be on the machine: what type and offering say, else what the claim says (the operator writes it),
    /// within what the claim requires; else it is absent.
    pub(super) fn label_of(&self, machine: &Machine<'_>, key: &str) -> Requirement {
        let Machine { pool, asked, of_type, offering } = *machine;
        let by_machine = match (of_type.requirements.get(key), offering.requirements.get(key)) {
            (Some(a), Some(b)) => Some(a.intersection(b)),
            (a, b) => a.or(b).cloned(),
        };
        let decided_by_type =
            self.decided_by_types.get(pool.name.as_str()).is_some_and(|keys| keys.contains(key));
        let written =
            pool.labels.contains_key(key) || (pool.requirements.contains_key(key) && !decided_by_type);
        match (by_machine, asked.get(key)) {
            (Some(machine), Some(asked)) => machine.intersection(asked),
            (Some(machine), None) => machine,
            (None, Some(asked)) if written => asked.clone(),
            (None, _) => Requirement::does_not_exist(key),
        }
    }

    /// The least and the most that machines like those of the type turned out to give to pods, resource by resource; none where
    /// there is no such machine.
    pub(super) fn seen(&self, of_type: &InstanceType) -> Option<&(Resources, Resources)> {
        self.types.seen.get(of_type.name.as_str())
    }

    /// Pods of DaemonSets that are sure to run on the machine.
    pub(super) fn daemons_on(&self, machine: &Machine<'_>) -> Vec<&'a Pod> {
        let runs = |daemon: &&Pod| {
            hard_taint(daemon, machine.lasting_taints()).is_none()
                && node_constraints_hold(daemon, |wanted| {
                    let label = self.label_of(machine, wanted.key());
                    label.implies(wanted) || (wanted.key() == HOSTNAME && !wanted.is_enumerated())
                })
        };
        self.input.daemon_pods.iter().map(|daemon| &**daemon).filter(runs).collect()
    }
}
