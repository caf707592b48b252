//! Topology spread constraints with `DoNotSchedule`.
//!
//! *Domains.* Eligible are the values of the topology key on nodes that pass the constraint's node filter (`nodeAffinityPolicy`,
//! `nodeTaintsPolicy`) and carry the keys of all the pod's constraints; nodes that go away don't count. A label with an empty
//! value is a domain, an absent one isn't. Values count as well that a NodePool could provide now: ready, below its limits,
//! by an offering that can be had, and within the pod's own node constraints. For host names that is a node to come, empty,
//! as long as some NodePool can make one. The global minimum is taken over these, and is 0 where there are fewer than
//! `minDomains`. A solver may count more domains (those of offerings that can't be had now), which makes it stricter, not wrong.
//!
//! *Order.* Pods that the selector matches but that don't carry the constraint may come at any time, and may raise the skew.
//! So the rule isn't that the final skew is kept, but that there is an order of all placed pods in which each pod that carries
//! the constraint kept it when it came: its domain's count, with itself where it matches, less the minimum, at most `maxSkew`.
//! To find one: in each domain those that carry the constraint come first, each as soon as it may; the others come when all of
//! these are there. (In a domain at the minimum a pod that carries the constraint may always come, so it never has to wait for
//! another one in its own domain; and what may come now may come later, since the minimum never falls.) Each constraint is
//! judged by itself.
//!
//! *Claims.* A pod that carries a constraint must know its domain: all options of its claim are in one. Other pods count in the
//! domain of the option that is to be launched.

use super::options::Machine;
use super::place::{Domains, Place, Residents};
use super::servable::usable;
use super::{Auditor, hard_taint, new_host_meets, node_constraints_hold, nodes};
use karpenter_capi_model::label::HOSTNAME;
use karpenter_capi_model::pod::{Pod, TopologySpreadConstraint};
use std::collections::{BTreeMap, BTreeSet};

/// The domain of a machine that some NodePool can still make, among host names.
const NEW_HOST: &str = "a new node";

/// Placed pods that carry the same constraint with the same filter, by index into [`Residents::all`].
pub(super) struct Group<'a> {
    pub(super) pod: &'a Pod,
    pub(super) constraint: &'a TopologySpreadConstraint,
    pub(super) members: Vec<usize>,
}

impl Group<'_> {
    /// Whether a pod with such a constraint belongs to the group.
    pub(super) fn is_of(&self, pod: &Pod, constraint: &TopologySpreadConstraint) -> bool {
        let own = self.pod;
        self.constraint == constraint
            && own.name.namespace == pod.name.namespace
            && own.node_selector == pod.node_selector
            && own.required_node_affinity == pod.required_node_affinity
            && (!constraint.honor_node_taints || own.tolerations == pod.tolerations)
            && keys_of(own).eq(keys_of(pod))
    }
}

/// Pods of a domain.
#[derive(Clone, Debug, Default)]
struct Count {
    /// Counted now.
    now: usize,
    /// Carry the constraint, match it, and are still to come.
    constrained: usize,
    /// Match it without carrying it, and are still to come.
    free: usize,
}

impl<'a> Auditor<'a> {
    pub(super) fn spread(&mut self, residents: &Residents<'a>) {
        for group in groups(residents) {
            self.group(residents, &group);
        }
    }

    fn group(&mut self, residents: &Residents<'a>, group: &Group<'a>) {
        let key = &group.constraint.topology_key;
        let domains = residents.domains(key);
        for member in group.members.iter().filter_map(|index| residents.all.get(*index)) {
            if domains.get(member.place).and_then(Domains::pinned).is_none() {
                self.blame_pod(
                    member.pod,
                    format!(
                        "isn't sure of its {key} on {}, which its topology spread constraint needs",
                        residents.name_of(member.place)
                    ),
                );
                return;
            }
        }
        let figures = self.figures(residents, group);
        for (domain, left) in figures.left_over() {
            let stuck = group.members.iter().filter_map(|index| residents.all.get(*index)).find(|member| {
                domains.get(member.place).and_then(Domains::pinned) == Some(&domain)
                    && matches(group, member.pod)
            });
            if let Some(member) = stuck {
                self.blame_pod(
                    member.pod,
                    format!(
                        "{left} like it are in {key} {domain:?} against maxSkew {}: {figures}",
                        figures.max_skew
                    ),
                );
            }
        }
        for member in group.members.iter().filter_map(|index| residents.all.get(*index)) {
            let domain = domains.get(member.place).and_then(Domains::pinned).unwrap_or_default();
            if !matches(group, member.pod) && !figures.ever_admits(domain) {
                self.blame_pod(
                    member.pod,
                    format!("is in {key} {domain:?} against maxSkew {}: {figures}", figures.max_skew),
                );
            }
        }
    }

    pub(super) fn figures(&self, residents: &Residents<'a>, group: &Group<'a>) -> Figures {
        let eligible: Vec<bool> =
            residents.places.iter().map(|place| self.is_eligible(group, place)).collect();
        Figures {
            counts: count(residents, group, &eligible),
            eligible: self.eligible_domains(residents, group, &eligible),
            max_skew: usize::try_from(group.constraint.max_skew).unwrap_or(0),
            min_domains: usize::try_from(group.constraint.min_domains.unwrap_or(0)).unwrap_or(0),
        }
    }

    /// Whether pods in this place count.
    fn is_eligible(&self, group: &Group<'_>, place: &Place<'_>) -> bool {
        let Group { pod, constraint, .. } = *group;
        let by_affinity = !constraint.honor_node_affinity;
        let by_taints = !constraint.honor_node_taints;
        match place {
            Place::Node(node) => {
                keys_of(pod).all(|key| key == HOSTNAME || node.labels.contains_key(key))
                    && (by_affinity || node_constraints_hold(pod, |wanted| nodes::label_meets(node, wanted)))
                    && (by_taints || hard_taint(pod, &node.taints).is_none())
            }
            Place::Claim { claim, pool, .. } => claim.chosen().is_some_and(|chosen| {
                let machine = Machine::of_option(claim, pool, chosen);
                keys_of(pod).all(|key| key == HOSTNAME || !self.label_of(&machine, key).is_empty())
                    && (by_affinity || self.serves(&machine, pod))
                    && (by_taints || hard_taint(pod, machine.lasting_taints()).is_none())
            }),
        }
    }

    /// The domains over which the minimum is taken.
    fn eligible_domains(
        &self,
        residents: &Residents<'_>,
        group: &Group<'_>,
        eligible: &[bool],
    ) -> BTreeSet<String> {
        let mut found = self.domains_to_be_had(group);
        let domains = residents.domains(&group.constraint.topology_key);
        for ((place, domain), eligible) in residents.places.iter().zip(domains).zip(eligible) {
            let stays = !matches!(place, Place::Node(node) if node.marked_for_deletion);
            if let (true, true, Some(value)) = (*eligible, stays, domain.pinned()) {
                found.insert(value.to_owned());
            }
        }
        found
    }

    /// The domains in which some NodePool could make a node now.
    fn domains_to_be_had(&self, group: &Group<'_>) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for pool in self.input.node_pools.iter().filter(|pool| usable(pool)) {
            let types = self.input.instance_types.get(&pool.name).into_iter().flatten();
            for of_type in types {
                let within = pool.limits.exceeded(&pool.usage, &of_type.capacity).is_none()
                    && pool.node_limit.is_none_or(|limit| pool.node_count < limit)
                    && of_type.headroom.is_none_or(|machines| machines > 0);
                if !within {
                    continue;
                }
                for offering in of_type.offerings.iter().filter(|offering| offering.is_available()) {
                    found
                        .extend(self.domains_of_machine(group, &Machine::unclaimed(pool, of_type, offering)));
                }
            }
        }
        found
    }

    fn domains_of_machine(&self, group: &Group<'_>, machine: &Machine<'_>) -> Vec<String> {
        let Group { pod, constraint, .. } = *group;
        let key = &constraint.topology_key;
        let lacks = |key: &str| key != HOSTNAME && self.label_of(machine, key).is_empty();
        if !self.could_be_made(machine)
            || keys_of(pod).any(lacks)
            || (constraint.honor_node_taints && hard_taint(pod, machine.lasting_taints()).is_some())
        {
            return Vec::new();
        }
        let serves_in = |value: &str| {
            !constraint.honor_node_affinity
                || node_constraints_hold(pod, |wanted| {
                    if wanted.key() == HOSTNAME {
                        new_host_meets(wanted)
                    } else if wanted.key() == key {
                        wanted.has(value)
                    } else {
                        self.label_of(machine, wanted.key()).meets(wanted)
                    }
                })
        };
        if key == HOSTNAME {
            return if serves_in(NEW_HOST) { vec![NEW_HOST.to_owned()] } else { Vec::new() };
        }
        let label = self.label_of(machine, key);
        let values = label.values().filter(|value| label.is_enumerated() && serves_in(value));
        values.map(str::to_owned).collect()
    }
}

/// The topology keys of the pod's required constraints: a node that lacks one is no candidate for any of them.
fn keys_of(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.topology_spread
        .iter()
        .filter(|constraint| constraint.required)
        .map(|constraint| constraint.topology_key.as_str())
}

fn groups<'a>(residents: &Residents<'a>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (index, resident) in residents.all.iter().enumerate().filter(|(_, resident)| resident.placed) {
        let pod = resident.pod;
        for constraint in pod.topology_spread.iter().filter(|constraint| constraint.required) {
            match groups.iter_mut().find(|group| group.is_of(pod, constraint)) {
                Some(group) if group.members.last() == Some(&index) => {}
                Some(group) => group.members.push(index),
                None => groups.push(Group { pod, constraint, members: vec![index] }),
            }
        }
    }
    groups
}

/// Whether the constraint counts the pod.
pub(super) fn matches(group: &Group<'_>, pod: &Pod) -> bool {
    group.pod.name.namespace == pod.name.namespace
        && group.constraint.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

fn count(residents: &Residents<'_>, group: &Group<'_>, eligible: &[bool]) -> BTreeMap<String, Count> {
    let domains = residents.domains(&group.constraint.topology_key);
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for (index, resident) in residents.all.iter().enumerate() {
        let carries = group.members.binary_search(&index).is_ok();
        let counted =
            matches(group, resident.pod) && (carries || eligible.get(resident.place) == Some(&true));
        let Some(domain) = domains.get(resident.place).and_then(|domain| domain.chosen.clone()) else {
            continue;
        };
        if counted && (resident.placed || resident.pod.deleting.is_none()) {
            let count = counts.entry(domain).or_default();
            match (resident.placed, carries) {
                (false, _) => count.now += 1,
                (true, true) => count.constrained += 1,
                (true, false) => count.free += 1,
            }
        }
    }
    counts
}

/// A constraint with its figures.
pub(super) struct Figures {
    counts: BTreeMap<String, Count>,
    eligible: BTreeSet<String>,
    max_skew: usize,
    min_domains: usize,
}

impl Figures {
    /// The domains into which one more pod may come now, which the constraint counts or doesn't.
    pub(super) fn open(&self, counted: bool) -> BTreeSet<String> {
        let most = self.minimum(&self.counts).saturating_add(self.max_skew);
        let then =
            |domain: &String| self.counts.get(domain).map_or(0, |count| count.now) + usize::from(counted);
        self.eligible.iter().filter(|domain| then(domain) <= most).cloned().collect()
    }

    /// Domains, with how many pods that carry the constraint can't come to them in any order.
    fn left_over(&self) -> Vec<(String, usize)> {
        let after = self.all_come_but(None);
        after
            .into_iter()
            .filter(|(_, count)| count.constrained > 0)
            .map(|(domain, count)| (domain, count.constrained))
            .collect()
    }

    /// Whether a pod that the constraint doesn't count may come to the domain at some time: best when all others have come and
    /// nobody has come there.
    fn ever_admits(&self, domain: &str) -> bool {
        let after = self.all_come_but(Some(domain));
        let now = after.get(domain).map_or(0, |count| count.now);
        now <= self.minimum(&after).saturating_add(self.max_skew)
    }

    /// The counts when everybody has come who may, to all domains but one.
    fn all_come_but(&self, without: Option<&str>) -> BTreeMap<String, Count> {
        let mut counts = self.counts.clone();
        loop {
            let most = self.minimum(&counts).saturating_add(self.max_skew);
            let mut changed = false;
            for (domain, count) in &mut counts {
                if without == Some(domain) {
                    continue;
                }
                let coming = count.constrained.min(most.saturating_sub(count.now));
                count.now += coming;
                count.constrained -= coming;
                let others = if count.constrained == 0 { std::mem::take(&mut count.free) } else { 0 };
                count.now += others;
                changed |= coming + others > 0;
            }
            if !changed {
                return counts;
            }
        }
    }

    fn minimum(&self, counts: &BTreeMap<String, Count>) -> usize {
        if self.eligible.len() < self.min_domains {
            return 0;
        }
        let of = |domain: &String| counts.get(domain).map_or(0, |count| count.now);
        self.eligible.iter().map(of).min().unwrap_or(0)
    }
}

/// `z1: 0 there, 2 placed, 1 of others; z2: …; eligible z1, z2`.
impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (domain, count) in &self.counts {
            write!(
                f,
                "{domain:?}: {} there, {} placed, {} of others; ",
                count.now, count.constrained, count.free
            )?;
        }
        let eligible: Vec<String> = self.eligible.iter().map(|domain| format!("{domain:?}")).collect();
        write!(f, "eligible: {}", eligible.join(", "))
    }
}
