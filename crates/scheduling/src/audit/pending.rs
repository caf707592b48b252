//! Pods without a place: each has a reason, and each reason is true as far as its code names a fact that can be checked.
//!
//! Reasons are about new nodes: of a NodePool as a whole, or of one of its instance types. A reason is blamed only where nothing
//! that a solver may take into account makes it true.

use super::Auditor;
use super::host_ports::clash;
use super::options::Machine;
use crate::input::VolumeClaim;
use crate::plan::{PendingPod, PendingReason};
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::reason::ReasonCode;
use std::sync::Arc;

impl Auditor<'_> {
    pub(super) fn pending(&mut self) {
        for pending in &self.plan.pending {
            if let Some(pod) = self.pods.get(&pending.pod).copied() {
                self.reasons(pod, pending);
            }
        }
    }

    fn reasons(&mut self, pod: &Pod, pending: &PendingPod) {
        if pending.reasons.is_empty() {
            self.blame_pod(pod, "is pending without a reason");
        }
        for reason in &pending.reasons {
            if reason.message.is_empty() {
                self.blame_pod(pod, format!("has reason {} without words", reason.code));
            }
            let pool = reason.node_pool.as_ref().map(|name| (name, self.pool(name)));
            if let Some((name, None)) = pool {
                self.blame_pod(pod, format!("has a reason for NodePool {name:?}, which isn't there"));
            }
            let pool = pool.and_then(|(_, pool)| pool);
            if !self.is_true(pod, pool, reason) {
                let place = [reason.node_pool.as_deref(), reason.instance_type.as_deref()];
                let place: Vec<&str> = place.into_iter().flatten().collect();
                let place = place.join("/");
                self.blame_pod(pod, format!("reason {} isn't true of it [{place}]", reason.code));
            }
        }
    }

    fn is_true(&self, pod: &Pod, pool: Option<&NodePool>, reason: &PendingReason) -> bool {
        let types = pool.map(|pool| self.types_of(pool, reason)).unwrap_or_default();
        if types.iter().any(|of_type| is_unavailable_by(of_type, reason.code)) {
            return true;
        }
        match reason.code {
            ReasonCode::Invalid => pool.is_some() || !pod.invalid.is_empty(),
            ReasonCode::DynamicResources => pod.needs_dynamic_resources,
            ReasonCode::VolumeMissing => self.volumes_of(pod).any(|claim| !is_usable(claim)),
            ReasonCode::Affinity => {
                !pod.pod_affinity.is_empty()
                    || !pod.pod_anti_affinity.is_empty()
                    || self.is_repelled(pod, |_| true)
            }
            ReasonCode::Topology => pod.topology_spread.iter().any(|constraint| constraint.required),
            ReasonCode::Volumes => {
                self.volumes_of(pod).any(|claim| pool.is_none() || is_bound_to_places(claim))
            }
            ReasonCode::HostPorts => {
                let clashes = |daemon: &Arc<Pod>| clash(pod, daemon).is_some();
                !pod.host_ports.is_empty() && (pool.is_none() || self.input.daemon_pods.iter().any(clashes))
            }
            // Not looked at, for want of an evaluation or of time: nothing is claimed.
            ReasonCode::NotEvaluated => true,
            _ => pool.is_none_or(|pool| self.is_true_of_pool(pod, pool, &types, reason)),
        }
    }

    /// Codes that say something about the NodePool and its instance types.
    fn is_true_of_pool(
        &self,
        pod: &Pod,
        pool: &NodePool,
        types: &[&InstanceType],
        reason: &PendingReason,
    ) -> bool {
        match reason.code {
            ReasonCode::NodePoolNotReady => pool.not_ready.is_some() || pool.paused || pool.is_static,
            ReasonCode::Paused => pool.paused,
            ReasonCode::MinValues => pool.requirements.iter().any(|own| own.min_values().is_some()),
            ReasonCode::Reserved => types.iter().any(|of_type| {
                of_type.offerings.iter().any(|offering| offering.reservation_capacity.is_some())
            }),
            ReasonCode::Limits => {
                types.is_empty() || !types.iter().all(|of_type| self.limits_allow_one_more(pool, of_type))
            }
            ReasonCode::MaxSize => {
                types.is_empty() || !types.iter().all(|of_type| self.headroom_allows_one_more(of_type))
            }
            ReasonCode::Taints => {
                let machines = machines(pool, types);
                super::hard_taint(pod, &pool.taints).is_some()
                    || machines
                        .iter()
                        .any(|machine| super::hard_taint(pod, machine.lasting_taints()).is_some())
            }
            ReasonCode::Requirements => !self.every(pool, types, |machine| self.could_serve(machine, pod)),
            ReasonCode::InsufficientResources => {
                !self.every(pool, types, |machine| self.has_room_for(machine, pod))
            }
            ReasonCode::NoOffering => !self.every(pool, types, |machine| {
                machine.offering.is_available()
                    && self.reservation_allows_one_more(machine.of_type, machine.offering)
                    && self.could_serve(machine, pod)
            }),
            // Codes of offerings that can't be had, of which none has this one.
            _ => false,
        }
    }

    /// Whether this holds of each type in question by some offering; not where there is no type.
    fn every(&self, pool: &NodePool, types: &[&InstanceType], holds: impl Fn(&Machine<'_>) -> bool) -> bool {
        let one = |of_type: &&InstanceType| {
            of_type.offerings.iter().any(|offering| {
                let machine = Machine::unclaimed(pool, of_type, offering);
                self.could_be_made(&machine) && holds(&machine)
            })
        };
        !types.is_empty() && types.iter().all(one)
    }

    /// The type that the reason names, all that the named MachineDeployment makes, or all of the NodePool.
    fn types_of(&self, pool: &NodePool, reason: &PendingReason) -> Vec<&InstanceType> {
        let made = |of_type: &&InstanceType| {
            reason.machine_deployment.is_none() || reason.machine_deployment == of_type.machine_deployment
        };
        if let Some(name) = &reason.instance_type {
            let named = self.types.by_name.get(&(pool.name.as_str(), name.as_str())).copied();
            return named.filter(made).into_iter().collect();
        }
        let types = self.input.instance_types.get(&pool.name).into_iter().flatten();
        types.map(|of_type| &**of_type).filter(made).collect()
    }

    /// What is known of each claim that the pod mounts.
    fn volumes_of(&self, pod: &Pod) -> impl Iterator<Item = Option<&VolumeClaim>> {
        pod.volume_claims.iter().map(|name| self.input.volumes.claims.get(name))
    }
}

fn machines<'m>(pool: &'m NodePool, types: &[&'m InstanceType]) -> Vec<Machine<'m>> {
    let of_type = |of_type: &&'m InstanceType| {
        let of_type: &'m InstanceType = of_type;
        of_type.offerings.iter().map(move |offering| Machine::unclaimed(pool, of_type, offering))
    };
    types.iter().flat_map(of_type).collect()
}

fn is_unavailable_by(of_type: &InstanceType, code: ReasonCode) -> bool {
    of_type
        .offerings
        .iter()
        .any(|offering| offering.unavailable.as_ref().is_some_and(|unavailable| unavailable.code == code))
}

const fn is_usable(claim: Option<&VolumeClaim>) -> bool {
    matches!(claim, Some(VolumeClaim::Usable { .. }))
}

fn is_bound_to_places(claim: Option<&VolumeClaim>) -> bool {
    matches!(claim, Some(VolumeClaim::Usable { alternatives, .. }) if !alternatives.is_empty())
}
