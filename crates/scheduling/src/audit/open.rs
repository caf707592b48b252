//! Which domains topology spread leaves to a pod as things are, before anything is placed.

use super::Auditor;
use super::place::Residents;
use super::spread::{Group, matches};
use crate::input::Input;
use crate::plan::Plan;
use karpenter_capi_model::pod::Pod;
use std::collections::BTreeSet;

/// Answers for one topology key; pods with equal constraints are judged once.
pub(crate) struct OpenDomains<'a> {
    auditor: Auditor<'a>,
    residents: Residents<'a>,
    key: &'a str,
    /// Domains for a pod that the constraint doesn't count, and for one that it does.
    judged: Vec<(Group<'a>, [BTreeSet<String>; 2])>,
}

impl<'a> OpenDomains<'a> {
    /// `nothing` is a plan that places nobody.
    pub(crate) fn new(input: &'a Input, nothing: &'a Plan, key: &'a str) -> Self {
        let auditor = Auditor::new(input, nothing);
        Self { residents: auditor.residents(Some(key)), auditor, key, judged: Vec::new() }
    }

    /// The domains that each required constraint over the key leaves to the pod.
    pub(crate) fn of(&mut self, pod: &'a Pod) -> Vec<&BTreeSet<String>> {
        let of_key = |constraint: &&'a karpenter_capi_model::pod::TopologySpreadConstraint| {
            constraint.required && constraint.topology_key == self.key
        };
        let constraints: Vec<_> = pod.topology_spread.iter().filter(of_key).collect();
        for constraint in &constraints {
            if !self.judged.iter().any(|(group, _)| group.is_of(pod, constraint)) {
                let group = Group { pod, constraint, members: Vec::new() };
                let figures = self.auditor.figures(&self.residents, &group);
                self.judged.push((group, [figures.open(false), figures.open(true)]));
            }
        }
        let judged = constraints
            .into_iter()
            .filter_map(|constraint| self.judged.iter().find(|(group, _)| group.is_of(pod, constraint)));
        judged
            .map(|(group, [uncounted, counted])| if matches(group, pod) { counted } else { uncounted })
            .collect()
    }
}
