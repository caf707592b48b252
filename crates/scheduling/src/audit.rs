//! A checker of plans, written independently of the solver: it starts from the finished plan and asks of each node, existing
//! or to be made, whether everything on it may be there, and of each pod without a place, whether that is so.
//!
//! It judges the *final state*: pods that hold a place, pods that the plan places, and DaemonSets. Where the order in which
//! pods come matters (topology spread, self-affinity) it asks whether some order leads there. It errs on the side of silence:
//! what it blames is wrong under every reading of Kubernetes' rules that a solver may follow, and each module says which
//! readings it allows.

mod affinity;
mod budget;
mod claims;
mod host_ports;
mod nodes;
mod open;
mod options;
mod pending;
mod place;
mod servable;
mod spread;
mod volumes;

pub(crate) use open::OpenDomains;

use crate::input::Input;
use crate::plan::Plan;
use karpenter_capi_model::label::{self, HOSTNAME};
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_model::taint::{Taint, TaintEffect};
use std::collections::{BTreeMap, BTreeSet};

/// Something in a plan that must not be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The pod, node, claim or NodePool that it is about.
    pub subject: String,
    /// What is wrong, with figures.
    pub message: String,
}

/// Everything that is wrong with a plan; empty for a good one, in stable order.
pub fn audit(input: &Input, plan: &Plan) -> Vec<Violation> {
    let mut auditor = Auditor::new(input, plan);
    auditor.each_pod_once();
    auditor.placements();
    auditor.claims();
    auditor.limits();
    auditor.headroom();
    auditor.reservations();
    let residents = auditor.residents(None);
    auditor.anti_affinity(&residents);
    auditor.affinity(&residents);
    auditor.spread(&residents);
    auditor.pending();
    auditor.servable(&residents);
    auditor.violations.sort();
    auditor.violations.dedup();
    auditor.violations
}

struct Auditor<'a> {
    input: &'a Input,
    plan: &'a Plan,
    pods: BTreeMap<&'a NamespacedName, &'a Pod>,
    /// By NodePool: label keys that the instance type decides, so that no NodePool's requirement is written onto nodes as a label.
    decided_by_types: BTreeMap<&'a str, BTreeSet<String>>,
    /// What claims of the plan may take at most.
    taken: budget::Taken<'a>,
    types: options::Types<'a>,
    violations: Vec<Violation>,
}

impl<'a> Auditor<'a> {
    fn new(input: &'a Input, plan: &'a Plan) -> Self {
        Self {
            input,
            plan,
            pods: input.pods.iter().map(|pod| (&pod.name, &**pod)).collect(),
            decided_by_types: decided_by_types(input),
            taken: budget::Taken::of(plan),
            types: options::Types::of(input),
            violations: Vec::new(),
        }
    }

    fn blame(&mut self, subject: impl Into<String>, message: impl Into<String>) {
        self.violations.push(Violation { subject: subject.into(), message: message.into() });
    }

    fn blame_pod(&mut self, pod: &Pod, message: impl Into<String>) {
        self.blame(format!("Pod/{}", pod.name), message);
    }

    fn each_pod_once(&mut self) {
        let mut times: BTreeMap<&NamespacedName, usize> = self.pods.keys().map(|name| (*name, 0)).collect();
        let placed = self.plan.placements.iter().flat_map(|placement| &placement.pods);
        let claimed = self.plan.node_claims.iter().flat_map(|claim| &claim.pods);
        let pending = self.plan.pending.iter().map(|pending| &pending.pod);
        for name in placed.chain(claimed).chain(pending) {
            *times.entry(name).or_insert(0) += 1;
        }
        for (name, count) in times {
            if !self.pods.contains_key(name) {
                self.blame(format!("Pod/{name}"), "stands in the plan but not in the input");
            } else if count != 1 {
                self.blame(format!("Pod/{name}"), format!("stands {count} times in the plan"));
            }
        }
    }

    /// What nobody may place.
    fn may_be_placed(&mut self, pod: &Pod) {
        for (found, what) in [
            (!pod.invalid.is_empty(), "it can't be read"),
            (pod.needs_dynamic_resources, "it needs dynamic resources"),
            (pod.gated, "it is gated"),
        ] {
            if found {
                self.blame_pod(pod, format!("has a place though {what}"));
            }
        }
    }

    /// The pods of this list that are known; the others are blamed elsewhere.
    fn known(&self, names: &[NamespacedName]) -> Vec<&'a Pod> {
        names.iter().filter_map(|name| self.pods.get(name).copied()).collect()
    }
}

fn decided_by_types(input: &Input) -> BTreeMap<&str, BTreeSet<String>> {
    let everywhere: BTreeSet<String> = &label::well_known() | &input.well_known_labels;
    let of_pool = |types: &[std::sync::Arc<karpenter_capi_model::instance_type::InstanceType>]| {
        let mut keys = everywhere.clone();
        for of_type in types {
            let offered = of_type.offerings.iter().flat_map(|offering| offering.requirements.iter());
            keys.extend(of_type.requirements.iter().chain(offered).map(|own| own.key().to_owned()));
        }
        keys
    };
    input.instance_types.iter().map(|(pool, types)| (pool.as_str(), of_pool(types))).collect()
}

/// A taint that keeps the pod away for good; `PreferNoSchedule` never does.
fn hard_taint<'t>(pod: &Pod, taints: impl IntoIterator<Item = &'t Taint>) -> Option<&'t Taint> {
    let hard = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
    let borne = |taint: &Taint| pod.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    taints.into_iter().filter(hard).find(|taint| !borne(taint))
}

/// Whether node selector and one of the required terms hold, given how to judge one requirement.
fn node_constraints_hold(pod: &Pod, holds: impl Fn(&Requirement) -> bool) -> bool {
    pod.node_selector.iter().all(&holds)
        && (pod.required_node_affinity.is_empty()
            || pod.required_node_affinity.iter().any(|term| term.iter().all(&holds)))
}

/// Whether a node that doesn't exist yet meets a requirement on its host name: nobody knows the name, so only exclusions do.
fn new_host_meets(wanted: &Requirement) -> bool {
    wanted.key() == HOSTNAME && !wanted.is_enumerated() && wanted.has("some-other-name")
}

fn sum<'p>(pods: impl IntoIterator<Item = &'p Pod>) -> Resources {
    pods.into_iter().fold(Resources::ZERO, |sum, pod| sum.plus(&pod.requests))
}
