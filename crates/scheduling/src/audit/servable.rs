//! Pods without a place that would plainly fit on a node of their own, or on one that is there.
//!
//! Plainly: nothing is asked for that depends on other pods' places, as node constraints, taints and resources don't. On a node of
//! its own a pod may besides have host ports that no DaemonSet takes, volumes that are in reach, and constraints between host
//! names, which an empty host always meets. Claims of the plan count with the largest of their options, and DaemonSets that might
//! run count as if they did: then no packing and no order of trial excuses that the pod has no place.

use super::host_ports::clash;
use super::nodes::label_meets;
use super::options::Machine;
use super::place::{Place, Residents};
use super::{Auditor, hard_taint, new_host_meets, node_constraints_hold, sum};
use crate::input::{ReservedOfferingMode, VolumeClaim};
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::label::HOSTNAME;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::pod::{Pod, PodAffinityTerm};
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::taint;

impl<'a> Auditor<'a> {
    pub(super) fn servable(&mut self, residents: &Residents<'a>) {
        for pending in &self.plan.pending {
            let not_looked_at = pending.reasons.iter().any(|reason| reason.code == ReasonCode::NotEvaluated);
            let Some(pod) = self.pods.get(&pending.pod).copied() else {
                continue;
            };
            if not_looked_at || !pod.invalid.is_empty() || pod.needs_dynamic_resources || pod.gated {
                continue;
            }
            // In strict mode a pod waits for reserved capacity rather than take anything else; whether that is true is asked of the reason.
            let waits = self.input.options.reserved_offering_mode == ReservedOfferingMode::Strict
                && pending.reasons.iter().any(|reason| reason.code == ReasonCode::Reserved);
            if !waits
                && self.is_free_alone(pod)
                && let Some(where_to) = self.new_node_for(pod)
            {
                self.blame_pod(pod, format!("is pending, and {where_to} would take it"));
            }
            if self.is_plain(pod)
                && let Some(node) = self.node_for(pod, residents)
            {
                self.blame_pod(pod, format!("is pending, and node {node} has room for it"));
            }
        }
    }

    /// Whether only node constraints, taints and resources decide about the pod.
    fn is_plain(&self, pod: &Pod) -> bool {
        pod.volume_claims.is_empty()
            && pod.host_ports.is_empty()
            && pod.pod_affinity.is_empty()
            && pod.pod_anti_affinity.is_empty()
            && !pod.topology_spread.iter().any(|constraint| constraint.required)
            && !self.is_repelled(pod, |_| true)
    }

    /// Whether no other pod decides about the pod on a node of its own.
    fn is_free_alone(&self, pod: &Pod) -> bool {
        let between_hosts = |key: &str| key == HOSTNAME;
        pod.pod_affinity.is_empty()
            && pod.pod_anti_affinity.iter().all(|term| between_hosts(&term.topology_key))
            && pod.topology_spread.iter().all(|one| !one.required || between_hosts(&one.topology_key))
            && !self.is_repelled(pod, |term| !between_hosts(&term.topology_key))
    }

    /// Whether such a term of required anti-affinity of some other pod selects this one.
    pub(super) fn is_repelled(&self, pod: &Pod, counts: impl Fn(&PodAffinityTerm) -> bool) -> bool {
        let mut others = self.input.pods.iter().chain(self.input.bound_pods.values().flatten());
        others.any(|other| {
            other.name != pod.name
                && other.pod_anti_affinity.iter().any(|term| counts(term) && self.selects(other, term, pod))
        })
    }

    fn new_node_for(&self, pod: &Pod) -> Option<String> {
        let asks_for_variety =
            |pool: &NodePool| pool.requirements.iter().any(|own| own.min_values().is_some());
        let pools = self.input.node_pools.iter().filter(|pool| usable(pool) && !asks_for_variety(pool));
        for pool in pools {
            for of_type in self.input.instance_types.get(&pool.name).into_iter().flatten() {
                if self.limits_allow_one_more(pool, of_type)
                    && self.headroom_allows_one_more(of_type)
                    && self.would_take(pool, of_type, pod)
                {
                    return Some(format!("a new {} of NodePool {}", of_type.name, pool.name));
                }
            }
        }
        None
    }

    /// Whether a machine of the type by an unreserved offering that can be had is sure to serve the pod alone.
    pub(super) fn would_take(&self, pool: &NodePool, of_type: &InstanceType, pod: &Pod) -> bool {
        of_type.offerings.iter().any(|offering| {
            let machine = Machine::unclaimed(pool, of_type, offering);
            offering.is_available()
                && offering.reservation_capacity.is_none()
                && self.could_be_made(&machine)
                && hard_taint(pod, machine.lasting_taints()).is_none()
                && self.could_serve(&machine, pod)
                && self.has_room_for(&machine, pod)
                && !self.daemons_that_may_run_on(&machine).any(|daemon| clash(pod, daemon).is_some())
                && pod.volume_claims.iter().all(|name| self.reaches(&machine, name))
        })
    }

    /// Whether a volume is sure to be reached from the machine.
    fn reaches(&self, machine: &Machine<'_>, claim: &NamespacedName) -> bool {
        match self.input.volumes.claims.get(claim) {
            Some(VolumeClaim::Usable { alternatives, .. }) => {
                let here = |place: &Requirements| place.iter().all(|wanted| self.is_sure_of(machine, wanted));
                alternatives.is_empty() || alternatives.iter().any(here)
            }
            _ => false,
        }
    }

    /// Whether the pod alone fits beside DaemonSets, on as little as machines like it have given.
    pub(super) fn has_room_for(&self, machine: &Machine<'_>, pod: &Pod) -> bool {
        let used = sum(self.daemons_that_may_run_on(machine)).plus(&pod.requests);
        used.fits(&machine.of_type.allocatable_by(machine.offering))
            && self.seen(machine.of_type).is_none_or(|(least, _)| used.fits(least))
    }

    /// Whether the NodePool's own requirements leave a value for each label of the machine.
    pub(super) fn could_be_made(&self, machine: &Machine<'_>) -> bool {
        machine.pool.requirements.iter().all(|own| self.label_of(machine, own.key()).meets(own))
    }

    /// Whether a claim for the pod alone could get labels that meet its node constraints.
    pub(super) fn could_serve(&self, machine: &Machine<'_>, pod: &Pod) -> bool {
        let holds = |wanted: &Requirement| {
            if wanted.key() == HOSTNAME {
                return new_host_meets(wanted);
            }
            self.label_of(machine, wanted.key()).meets(wanted)
        };
        if pod.required_node_affinity.is_empty() {
            return pod.node_selector.iter().all(holds);
        }
        let together = |term| pod.node_selector.and(term);
        pod.required_node_affinity.iter().any(|term| together(term).iter().all(holds))
    }

    /// Pods of DaemonSets for which nothing that is known rules the machine out.
    pub(super) fn daemons_that_may_run_on(&self, machine: &Machine<'_>) -> impl Iterator<Item = &'a Pod> {
        self.input.daemon_pods.iter().map(|daemon| &**daemon).filter(|daemon| {
            hard_taint(daemon, machine.lasting_taints()).is_none()
                && node_constraints_hold(daemon, |wanted| {
                    wanted.key() == HOSTNAME || self.label_of(machine, wanted.key()).meets(wanted)
                })
        })
    }

    /// A node with room in the final state, which holds more than when the pod was looked at. Preferences of taints count as
    /// taints here: they are given up only in some cases.
    fn node_for(&self, pod: &Pod, residents: &Residents<'a>) -> Option<&'a str> {
        residents.places.iter().enumerate().find_map(|(index, place)| {
            let Place::Node(node) = place else {
                return None;
            };
            let here = residents.all.iter().filter(|resident| resident.place == index);
            let used = sum(here.map(|resident| resident.pod).chain(self.daemons_to_come(node)));
            (node.ready
                && node.initialized
                && !node.marked_for_deletion
                && taint::untolerated(&node.taints, &pod.tolerations, false).is_none()
                && node_constraints_hold(pod, |wanted| label_meets(node, wanted))
                && used.plus(&pod.requests).fits(&node.allocatable))
            .then_some(node.name.as_str())
        })
    }
}

/// Whether claims of the NodePool may be made at all.
pub(super) const fn usable(pool: &NodePool) -> bool {
    pool.not_ready.is_none() && !pool.paused && !pool.is_static
}
