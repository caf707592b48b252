//! Who stands where: counts of pods by domain, for spread, affinity and anti-affinity.
//!
//! A *group* counts the pods that a term looks at; terms that look at the same pods in the same domains share it. A *repulsion* counts
//! the pods that carry a required anti-affinity term, as these keep others away wherever they are.

mod matcher;

use super::bits::Bits;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::taint::Toleration;
pub(super) use matcher::{Catalogue, Labels, Matcher};

/// Where something is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Field {
    /// By host.
    Host,
    /// By the domains of a topology key.
    Key(usize),
}

impl Field {
    /// The topology key; none for hosts.
    pub(super) const fn key(self) -> Option<usize> {
        match self {
            Self::Host => None,
            Self::Key(key) => Some(key),
        }
    }
}

/// Which nodes take part in a spread: those that the pod could be on, by `nodeAffinityPolicy` and `nodeTaintsPolicy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Filter {
    /// Alternatives; empty where affinity doesn't matter.
    pub(super) alternatives: Vec<Requirements>,
    /// None where taints don't matter.
    pub(super) tolerations: Option<Vec<Toleration>>,
}

/// A group or a repulsion.
pub(super) struct Group {
    pub(super) field: Field,
    /// Only spreads have one that says something.
    pub(super) filter: usize,
    counts: Vec<u32>,
    total: u64,
    /// Grows with each change.
    pub(super) version: u64,
    /// For a spread over a key: domains of nodes that take part, existing or to come.
    pub(super) eligible: Bits,
    /// Claims with pods of which it isn't known yet in which domain they will be.
    pub(super) unsettled: Vec<usize>,
}

impl Group {
    pub(super) fn new(field: Field, filter: usize, domains: usize) -> Self {
        let counts = vec![0; domains];
        Self {
            field,
            filter,
            counts,
            total: 0,
            version: 0,
            eligible: Bits::empty(domains),
            unsettled: Vec::new(),
        }
    }

    /// Pods in a domain, or on a host.
    pub(super) fn count(&self, place: usize) -> u32 {
        self.counts.get(place).copied().unwrap_or(0)
    }

    /// Pods anywhere.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn add(&mut self, place: usize) {
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.total += 1;
        self.version += 1;
    }

    /// A pod that is somewhere where the key has no value: it is in no domain, yet there.
    pub(super) const fn add_nowhere(&mut self) {
        self.total += 1;
        self.version += 1;
    }

    /// The fewest pods in an eligible domain; 0 where there are fewer domains than there have to be.
    pub(super) fn minimum(&self, min_domains: u32) -> u32 {
        if self.field == Field::Host || self.eligible.count() < min_domains as usize {
            return 0;
        }
        self.eligible.iter().map(|domain| self.count(domain)).min().unwrap_or(0)
    }
}

/// What a pod's term asks of the place where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// No more than so many pods above the emptiest domain.
    Spread { most: u32, min_domains: u32, itself: bool },
    /// Where one of the group is; anywhere for the first of a group that looks at itself.
    Near { itself: bool },
    /// Where none of the group is.
    Away,
}

impl Rule {
    /// The rule for a pod that is, or isn't, one of the group itself.
    pub(super) const fn seen_by(self, itself: bool) -> Self {
        match self {
            Self::Spread { most, min_domains, .. } => Self::Spread { most, min_domains, itself },
            Self::Near { .. } => Self::Near { itself },
            Self::Away => Self::Away,
        }
    }
}

/// A rule over a group, or over a repulsion where the pod is the one kept away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constraint {
    pub(super) rule: Rule,
    pub(super) group: usize,
}

impl Constraint {
    /// Whether a place will do, as things stand.
    pub(super) fn allows(self, group: &Group, place: usize) -> bool {
        self.allows_above(group, place, self.fewest(group))
    }

    /// The fewest pods in a domain, for those who spread.
    pub(super) fn fewest(self, group: &Group) -> u32 {
        match self.rule {
            Rule::Spread { min_domains, .. } => group.minimum(min_domains),
            Rule::Near { .. } | Rule::Away => 0,
        }
    }

    /// As [`Self::allows`] where the fewest are known.
    pub(super) fn allows_above(self, group: &Group, place: usize, fewest: u32) -> bool {
        let count = group.count(place);
        match self.rule {
            Rule::Spread { most, itself, .. } => {
                let known = group.field == Field::Host || group.eligible.contains(place);
                known && (count + u32::from(itself)).saturating_sub(fewest) <= most
            }
            Rule::Near { itself } => count > 0 || (itself && group.total() == 0),
            Rule::Away => count == 0,
        }
    }

    /// Whether a place that won't do now may do later. Counts only grow: what is crowded stays so, unless the emptiest domain fills up.
    pub(super) fn may_change(self, group: &Group) -> bool {
        match self.rule {
            Rule::Spread { .. } => group.field != Field::Host,
            Rule::Near { .. } => true,
            Rule::Away => false,
        }
    }

    /// Whether the place has to have the label at all.
    pub(super) const fn needs_label(self) -> bool {
        !matches!(self.rule, Rule::Away)
    }
}
