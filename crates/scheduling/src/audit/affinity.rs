//! Required pod affinity and anti-affinity.
//!
//! Anti-affinity repels in both directions and doesn't depend on order: a pod with a term and a pod that the term selects,
//! at least one of them placed by the plan, must not share a domain. A claim whose topology label is still open may become
//! each of its options, so two claims conflict as soon as one domain is possible for both.
//!
//! Affinity depends on order: somebody has to be first. A placed pod's term is met by a pod that is in every domain that the
//! pod's place may become, and came earlier; or the pod selects itself, and no pod that the term selects was there when it
//! came, anywhere (kube-scheduler's rule for the first of a group). The plan is right if pods can come in an order in which
//! each term is met at its time. Terms are judged one by one; kube-scheduler itself counts only pods that meet all terms.
//!
//! Bound pods that are being deleted repel nobody here (upstream's reading), attract (kube-scheduler's) and don't keep others
//! from being first (upstream's).

use super::Auditor;
use super::place::{Domains, Resident, Residents};
use karpenter_capi_model::pod::PodAffinityTerm;
use std::collections::{BTreeMap, BTreeSet};

/// Pods with the same term, by index into [`Residents::all`].
struct Group<'a> {
    term: &'a PodAffinityTerm,
    owners: Vec<usize>,
    /// In ascending order.
    selected: Vec<usize>,
    /// Some pod that it selects was there before the plan.
    has_bound: bool,
}

impl Group<'_> {
    fn selects(&self, resident: usize) -> bool {
        self.selected.binary_search(&resident).is_ok()
    }
}

/// A required term of a placed pod.
struct Need {
    owner: usize,
    group: usize,
    /// The owner is the first of the group.
    first: bool,
}

/// Pods coming one by one.
struct Coming<'a, 'r> {
    residents: &'r Residents<'a>,
    groups: &'r [Group<'a>],
    needs: Vec<Need>,
    present: Vec<bool>,
    /// Who was first in some group.
    firsts: BTreeSet<usize>,
}

impl<'a> Auditor<'a> {
    pub(super) fn anti_affinity(&mut self, residents: &Residents<'a>) {
        for group in self.groups(residents, |resident| &resident.pod.pod_anti_affinity) {
            let domains = residents.domains(&group.term.topology_key);
            for owner in group.owners.iter().filter_map(|index| residents.all.get(*index)) {
                let repelled =
                    group.selected.iter().filter_map(|index| residents.all.get(*index)).find(|other| {
                        (owner.placed || other.placed)
                            && owner.pod.name != other.pod.name
                            && [owner, other].iter().all(|one| one.placed || one.pod.deleting.is_none())
                            && may_share(domains, owner.place, other.place)
                    });
                if let Some(other) = repelled {
                    let (mover, stays) = if owner.placed { (owner, other) } else { (other, owner) };
                    self.blame_pod(
                        mover.pod,
                        format!(
                            "may share {} with {} (on {}), which anti-affinity of {} forbids",
                            group.term.topology_key,
                            stays.pod.name,
                            residents.name_of(stays.place),
                            owner.pod.name
                        ),
                    );
                }
            }
        }
    }

    pub(super) fn affinity(&mut self, residents: &Residents<'a>) {
        let groups =
            self.groups(residents, |resident| if resident.placed { &resident.pod.pod_affinity } else { &[] });
        let needs = groups.iter().enumerate().flat_map(|(index, group)| {
            group.owners.iter().map(move |owner| Need { owner: *owner, group: index, first: false })
        });
        let mut coming = Coming {
            residents,
            groups: &groups,
            needs: needs.collect(),
            present: residents.all.iter().map(|resident| !resident.placed).collect(),
            firsts: BTreeSet::new(),
        };
        coming.all_come();
        let unmet: Vec<&Need> = coming.unmet().filter_map(|index| coming.needs.get(index)).collect();
        for need in unmet {
            let (Some(owner), Some(group)) = (residents.all.get(need.owner), groups.get(need.group)) else {
                continue;
            };
            self.blame_pod(
                owner.pod,
                format!(
                    "isn't sure to find a pod that its affinity wants in the {} of {}",
                    group.term.topology_key,
                    residents.name_of(owner.place)
                ),
            );
        }
    }

    /// Equal terms together, each with the pods that carry it and those that it selects.
    fn groups(
        &self,
        residents: &Residents<'a>,
        terms: impl Fn(&Resident<'a>) -> &'a [PodAffinityTerm],
    ) -> Vec<Group<'a>> {
        let mut owners: BTreeMap<(&'a PodAffinityTerm, &'a str), Vec<usize>> = BTreeMap::new();
        for (index, resident) in residents.all.iter().enumerate() {
            for term in terms(resident) {
                let carrying = owners.entry((term, &resident.pod.name.namespace)).or_default();
                if carrying.last() != Some(&index) {
                    carrying.push(index);
                }
            }
        }
        let mut groups = Vec::new();
        for ((term, _), owners) in owners {
            let Some(owner) = owners.first().and_then(|index| residents.all.get(*index)) else {
                continue;
            };
            let all = residents.all.iter().enumerate();
            let selected = all.filter(|(_, other)| self.selects(owner.pod, term, other.pod));
            let selected: Vec<usize> = selected.map(|(index, _)| index).collect();
            let has_bound = selected
                .iter()
                .filter_map(|index| residents.all.get(*index))
                .any(|one| !one.placed && one.pod.deleting.is_none());
            groups.push(Group { term, owners, selected, has_bound });
        }
        groups
    }
}

/// Whether two places may be in one domain of a topology key.
fn may_share(domains: &[Domains], a: usize, b: usize) -> bool {
    let (Some(of_a), Some(of_b)) = (domains.get(a), domains.get(b)) else {
        return false;
    };
    if a == b { of_a.open || !of_a.values.is_empty() } else { !of_a.values.is_disjoint(&of_b.values) }
}

impl Coming<'_, '_> {
    /// Lets pods come while their needs are met, and somebody be first where nobody can come.
    fn all_come(&mut self) {
        self.come();
        while let Some(first) = self.first() {
            if let Some(need) = self.needs.get_mut(first) {
                need.first = true;
                self.firsts.insert(need.owner);
            }
            self.come();
        }
    }

    fn come(&mut self) {
        loop {
            let waiting: BTreeSet<usize> =
                self.unmet().filter_map(|index| Some(self.needs.get(index)?.owner)).collect();
            let mut changed = false;
            for (index, present) in self.present.iter_mut().enumerate() {
                if !*present && !waiting.contains(&index) {
                    *present = true;
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Needs of pods that haven't come which nothing meets yet.
    fn unmet(&self) -> impl Iterator<Item = usize> {
        let open = self.needs.iter().enumerate().filter(|(_, need)| {
            !need.first && self.present.get(need.owner) == Some(&false) && !self.is_met(need)
        });
        open.map(|(index, _)| index)
    }

    fn is_met(&self, need: &Need) -> bool {
        let (Some(owner), Some(group)) = (self.residents.all.get(need.owner), self.groups.get(need.group))
        else {
            return false;
        };
        let domains = self.residents.domains(&group.term.topology_key);
        let Some(own) = domains.get(owner.place).filter(|own| is_there(own)) else {
            return false;
        };
        let present = group
            .selected
            .iter()
            .filter(|index| **index != need.owner && self.present.get(**index) == Some(&true));
        let places: Vec<usize> =
            present.filter_map(|index| Some(self.residents.all.get(*index)?.place)).collect();
        let in_domain = |value: &String| {
            places.iter().any(|place| domains.get(*place).and_then(Domains::pinned) == Some(value))
        };
        places.contains(&owner.place) || (!own.open && own.values.iter().all(in_domain))
    }

    /// A need whose owner may be the first of the group: preferably one that keeps nobody else from being first.
    fn first(&self) -> Option<usize> {
        let candidates: Vec<usize> = self.unmet().filter(|index| self.may_be_first(*index)).collect();
        let harmless = candidates.iter().find(|index| {
            let Some(owner) = self.needs.get(**index).map(|need| need.owner) else {
                return false;
            };
            candidates.iter().all(|other| {
                self.needs.get(*other).is_none_or(|need| {
                    need.owner == owner
                        || !self.group_of(need).is_some_and(|group| group.selects(owner))
                        || self.place_of(need.owner) == self.place_of(owner)
                })
            })
        });
        harmless.or(candidates.first()).copied()
    }

    /// The owner selects itself, in a domain, and neither a bound pod nor one that was first in something is selected.
    fn may_be_first(&self, index: usize) -> bool {
        let Some(need) = self.needs.get(index) else {
            return false;
        };
        let Some(group) = self.group_of(need) else {
            return false;
        };
        let domains = self.residents.domains(&group.term.topology_key);
        let in_domain = self.place_of(need.owner).and_then(|place| domains.get(place)).is_some_and(is_there);
        let mut others = self.firsts.iter().filter(|first| **first != need.owner);
        in_domain
            && group.selects(need.owner)
            && !group.has_bound
            && !others.any(|first| group.selects(*first))
    }

    fn group_of(&self, need: &Need) -> Option<&Group<'_>> {
        self.groups.get(need.group)
    }

    fn place_of(&self, resident: usize) -> Option<usize> {
        self.residents.all.get(resident).map(|resident| resident.place)
    }
}

/// Whether the label is sure to be there, whatever its value.
fn is_there(domains: &Domains) -> bool {
    !domains.may_lack && (domains.open || !domains.values.is_empty())
}
