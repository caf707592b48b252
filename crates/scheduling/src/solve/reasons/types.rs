//! What stops a pod at an instance type.

use super::super::min_values;
use super::super::states::WantedId;
use super::super::template::{Ask, Candidate, Refusal};
use super::topology;
use super::{Explanation, Passing, Stopped};
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_model::resources::{Resources, Shortfall, format_amount};

impl Explanation<'_, '_> {
    /// What stops the pod at a type; None where nothing does.
    pub(super) fn at_the_type(
        &self,
        index: usize,
        candidate: &Candidate<'_>,
        passed: &Passing,
    ) -> Option<Stopped> {
        let name = candidate.of_type.display_name();
        let ask = Ask {
            requirements: &passed.requirements,
            requests: &self.pod().requests,
            tolerations: &self.pod().tolerations,
            prefer_too: self.level().prefer_too,
        };
        if let Err(refusal) = self.template.assess(candidate, &ask) {
            return Some(self.words(candidate, passed.wanted, &refusal));
        }
        let in_target = passed.targets.iter().any(|target| {
            let slots = &self.world.states.get(*target).slots;
            slots.iter().any(|slot| self.template.slots[slot].candidate == index)
        });
        if !in_target {
            let message = format!("{name} is in no domain that the pod's topology constraints allow now");
            return Some(Stopped::new(9, topology::code(self.world, self.errand), message));
        }
        if let Some(port) = self
            .pod()
            .host_ports
            .iter()
            .find(|port| candidate.daemon_ports.iter().any(|taken| port.conflicts(taken)))
        {
            let message = format!("host port {}/{} is taken by a DaemonSet", port.port, port.protocol);
            return Some(
                Stopped::new(9, ReasonCode::HostPorts, message).helped_by("use another port".to_owned()),
            );
        }
        self.scarce(candidate, name)
    }

    /// What there is no more of.
    fn scarce(&self, candidate: &Candidate<'_>, name: &str) -> Option<Stopped> {
        if !self.world.shared.headroom.allows(candidate.headroom, None) {
            let message = match candidate.of_type.headroom {
                Some(most) if most > 0 => {
                    format!("{name} may grow by {most} before its maximum size, all taken in this pass")
                }
                _ => format!("{name} is at its maximum size"),
            };
            let stopped = Stopped::new(10, ReasonCode::MaxSize, message);
            return Some(stopped.helped_by(format!("raise the maximum size of {name}")));
        }
        let pool = self.template.pool;
        let capacity = &candidate.of_type.capacity;
        if let Some(exceeded) = pool.limits.exceeded(&self.template.limits.used(), capacity) {
            let stopped =
                Stopped::new(11, ReasonCode::Limits, format!("{exceeded}, by NodePool {}", pool.name));
            return Some(stopped.helped_by(format!("raise the limits of NodePool {}", pool.name)));
        }
        None
    }

    fn words(&self, candidate: &Candidate<'_>, asked: WantedId, refusal: &Refusal<'_>) -> Stopped {
        let name = candidate.of_type.display_name();
        let rank = refusal.rank();
        match refusal {
            Refusal::Taint(taint) => {
                let message = format!("{name} has taint {taint}, which the pod doesn't tolerate");
                Stopped::new(rank, ReasonCode::Taints, message).helped_by(format!("tolerate {taint}"))
            }
            Refusal::Requirement(wanted) => {
                let message = format!("{name}: {}", candidate.of_type.requirements.incompatible(wanted));
                let stopped = Stopped::new(rank, self.whose(asked, wanted), message);
                match candidate.of_type.requirements.get(wanted.key()) {
                    Some(offered) => stopped.helped_by(format!("ask for {offered}")),
                    None => stopped.helped_by(format!("declare the label {} on {name}", wanted.key())),
                }
            }
            Refusal::Offering(Some(wanted)) => {
                Stopped::new(rank, ReasonCode::NoOffering, format!("{name} has no offering with {wanted}"))
            }
            Refusal::Offering(None) => {
                Stopped::new(rank, ReasonCode::NoOffering, format!("{name} has no offering"))
            }
            Refusal::Unavailable(why) => Stopped::new(rank, why.code, why.message.clone()),
            Refusal::Room(room) => self.shortfall(rank, candidate, room),
        }
    }

    /// The first resource that is short, with what DaemonSets take where they take some.
    fn shortfall(&self, rank: u8, candidate: &Candidate<'_>, room: &Resources) -> Stopped {
        let name = candidate.of_type.display_name();
        let Some(Shortfall { resource, needed, available }) = self.pod().requests.shortfall(room) else {
            return Stopped::new(rank, ReasonCode::InsufficientResources, format!("{name} is too small"));
        };
        let daemons = candidate.daemons.get(&resource);
        let whole = available.saturating_add(daemons);
        let holder = if candidate.seen_smaller {
            format!("the largest allocatable seen for {name} is")
        } else {
            format!("{name} has")
        };
        let amount = |amount| format_amount(&resource, amount);
        let taken = match daemons {
            0 => String::new(),
            _ => format!(", of which DaemonSets take {}", amount(daemons)),
        };
        let message = format!("{resource}: needs {}, {holder} {}{taken}", amount(needed), amount(whole));
        let stopped = Stopped::new(rank, ReasonCode::InsufficientResources, message);
        if available > 0 {
            stopped.helped_by(format!("request at most {} {resource}", amount(available)))
        } else {
            stopped.helped_by(format!("request no {resource}"))
        }
    }

    /// Types would serve, but not enough different ones.
    pub(super) fn min_values(&self, passing: &[Passing]) -> Stopped {
        let cap = self.world.input.options.max_instance_types;
        let unmet = passing.iter().find_map(|passed| {
            let serving = self.template.candidates.iter().enumerate();
            let serving =
                serving.filter(|(index, candidate)| self.at_the_type(*index, candidate, passed).is_none());
            let types: Vec<&InstanceType> = serving.map(|(_, candidate)| &**candidate.of_type).collect();
            min_values::select(&types, &passed.requirements, cap).err()
        });
        let Some(unmet) = unmet else {
            let message = "the instance types that would serve can't be combined".to_owned();
            return Stopped::new(0, ReasonCode::MinValues, message);
        };
        let found: Vec<String> = unmet.found.into_iter().collect();
        let message = format!(
            "{}: minValues is {}, {} left ({})",
            unmet.key,
            unmet.wanted,
            found.len(),
            found.join(", ")
        );
        let remedy = format!("lower minValues of {} to {}", unmet.key, found.len());
        Stopped::new(0, ReasonCode::MinValues, message).helped_by(remedy)
    }
}
