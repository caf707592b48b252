//! Requirements by key.

use crate::requirement::{InvalidRequirement, Requirement};
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use karpenter_capi_api::names::labels;
use karpenter_capi_api::v1::{NodeSelectorRequirementWithMinValues, Operator as ApiOperator};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// At most one [`Requirement`] for a key; adding another for the same key intersects the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements(
    /// Sorted by key.
    Vec<Requirement>,
);

/// Why two sets of requirements don't meet: the first key in order, and both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incompatible {
    /// The label key.
    pub key: String,
    /// What the node (or NodePool, or instance type) offers; None where it doesn't define the label at all.
    pub offered: Option<Requirement>,
    /// What is asked for.
    pub wanted: Requirement,
}

/// `zone In [z1] is wanted, zone In [z2] is offered`.
impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.offered {
            _ if self.wanted.is_contradiction() => {
                write!(f, "the requirements on {} contradict each other", self.key)
            }
            None => write!(f, "{} is wanted, but the label isn't defined", self.wanted),
            Some(offered) => write!(f, "{} is wanted, {offered} is offered", self.wanted),
        }
    }
}

impl std::error::Error for Incompatible {}

impl Requirements {
    /// No requirement.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// `In` with one value for each label; keys are normalised.
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Self {
        labels.iter().map(|(key, value)| Requirement::one_of(labels::normalized(key), &[value])).collect()
    }

    /// Reads the expressions of one term of a node affinity. Everything that is wrong with it is in the error.
    pub fn from_term(term: &NodeSelectorTerm) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        if term.match_fields.as_ref().is_some_and(|fields| !fields.is_empty()) {
            problems.push("matchFields isn't supported; use matchExpressions".to_owned());
        }
        let mut requirements = Self::new();
        for expression in term.match_expressions.iter().flatten() {
            match from_expression(expression) {
                Ok(requirement) => requirements.add(requirement),
                Err(error) => problems.push(error.to_string()),
            }
        }
        if problems.is_empty() { Ok(requirements) } else { Err(problems) }
    }

    /// Reads the requirements of a NodePool or NodeClaim. Everything that is wrong with them is in the error.
    pub fn from_api(list: &[NodeSelectorRequirementWithMinValues]) -> Result<Self, Vec<InvalidRequirement>> {
        let mut problems = Vec::new();
        let mut requirements = Self::new();
        for item in list {
            let parsed = Requirement::parse(&item.key, item.operator.as_str(), &item.values);
            match parsed.and_then(|requirement| refuse_negative(item, requirement)) {
                Ok(requirement) => {
                    let min_values = item.min_values.and_then(|count| u32::try_from(count).ok());
                    requirements.add(requirement.with_min_values(min_values));
                }
                Err(error) => problems.push(error),
            }
        }
        if problems.is_empty() { Ok(requirements) } else { Err(problems) }
    }

    /// Back to the requirements of a NodeClaim, sorted by key; a requirement with two bounds becomes several.
    pub fn to_api(&self) -> Vec<NodeSelectorRequirementWithMinValues> {
        let mut list = Vec::new();
        for requirement in &self.0 {
            for (operator, values) in requirement.written() {
                list.push(NodeSelectorRequirementWithMinValues {
                    key: requirement.key().to_owned(),
                    operator: ApiOperator::from(operator.as_str()),
                    values,
                    min_values: requirement.min_values().and_then(|count| i32::try_from(count).ok()),
                });
            }
        }
        list
    }

    /// Adds a requirement; where there is one for the key already, what meets both remains.
    pub fn add(&mut self, requirement: Requirement) {
        match self.position(requirement.key()) {
            Ok(index) => {
                if let Some(own) = self.0.get_mut(index) {
                    *own = own.intersection(&requirement);
                }
            }
            Err(index) => self.0.insert(index, requirement),
        }
    }

    /// Adds each requirement of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for requirement in &other.0 {
            self.add(requirement.clone());
        }
    }

    /// What meets both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.add_all(other);
        both
    }

    /// Replaces or adds a requirement without regard to the one that was there.
    pub fn replace(&mut self, requirement: Requirement) {
        match self.position(requirement.key()) {
            Ok(index) => {
                if let Some(own) = self.0.get_mut(index) {
                    *own = requirement;
                }
            }
            Err(index) => self.0.insert(index, requirement),
        }
    }

    /// Keeps the requirements whose key passes.
    pub fn retain_keys(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0.retain(|requirement| keep(requirement.key()));
    }

    /// The requirement on a key.
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.position(key).ok().and_then(|index| self.0.get(index))
    }

    /// Whether there is one for the key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_ok()
    }

    /// All requirements, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Requirement> {
        self.0.iter()
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|own| own.key().cmp(key))
    }

    /// The first key whose requirements contradict each other, so that nothing can meet them.
    pub fn contradiction(&self) -> Option<&Requirement> {
        self.0.iter().find(|requirement| requirement.is_contradiction())
    }

    /// Whether something described by `self` (a node, a NodePool's template) may serve `wanted`: every key must be defined,
    /// unless it is in `allow_undefined` or absence will do, and common keys must have a value in common.
    /// An empty `allow_undefined` is right for real nodes: what they lack, they lack.
    pub fn compatible(
        &self,
        wanted: &Self,
        allow_undefined: &BTreeSet<String>,
    ) -> Result<(), Box<Incompatible>> {
        self.first_conflict(wanted, allow_undefined).map_or(Ok(()), |wanted| Err(self.incompatible(wanted)))
    }

    /// The requirement of `wanted` for which [`Self::compatible`] fails, without making words of it. Allocates nothing.
    pub fn first_conflict<'a>(
        &self,
        wanted: &'a Self,
        allow_undefined: &BTreeSet<String>,
    ) -> Option<&'a Requirement> {
        wanted.0.iter().find(|requirement| match self.get(requirement.key()) {
            Some(own) => !own.meets(requirement),
            None => {
                requirement.is_contradiction()
                    || !(requirement.allows_absence() || allow_undefined.contains(requirement.key()))
            }
        })
    }

    /// Whether the keys that both define have a value in common, or may both be absent. Keys that only one defines are free.
    pub fn intersects(&self, wanted: &Self) -> Result<(), Box<Incompatible>> {
        let conflict = wanted.0.iter().find(|requirement| match self.get(requirement.key()) {
            Some(own) => !own.meets(requirement),
            None => requirement.is_contradiction(),
        });
        conflict.map_or(Ok(()), |wanted| Err(self.incompatible(wanted)))
    }

    /// What a conflict on this requirement is told as.
    pub fn incompatible(&self, wanted: &Requirement) -> Box<Incompatible> {
        incompatible(self.get(wanted.key()), wanted)
    }

    /// Whether a node with these labels meets every requirement, as kube-scheduler judges it.
    pub fn met_by(&self, labels: &BTreeMap<String, String>) -> Result<(), Box<Incompatible>> {
        for requirement in &self.0 {
            let met = match labels.get(requirement.key()) {
                Some(value) => requirement.has(value),
                None => requirement.allows_absence(),
            };
            if !met {
                let offered = labels
                    .get(requirement.key())
                    .map(|value| Requirement::one_of(requirement.key(), &[value]));
                return Err(incompatible(offered.as_ref(), requirement));
            }
        }
        Ok(())
    }

    /// Labels that a node gets from these requirements: a value for each key that is neither well-known (the cloud sets
    /// those, unless there is but one value) nor restricted, and that isn't to stay away.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let settable = self.0.iter().filter(|requirement| {
            let well_known = labels::is_well_known(requirement.key()) && requirement.single_value().is_none();
            !well_known
                && crate::label::restricted(requirement.key()).is_none()
                && !requirement.allows_absence()
        });
        settable.filter_map(|requirement| Some((requirement.key().to_owned(), requirement.any()?))).collect()
    }

    /// The keys with one possible value, and that value: what is certain of a node's labels.
    pub fn single_values(&self) -> BTreeMap<String, String> {
        let single = |requirement: &Requirement| {
            requirement.single_value().map(|value| (requirement.key().to_owned(), value.to_owned()))
        };
        self.0.iter().filter_map(single).collect()
    }
}

impl FromIterator<Requirement> for Requirements {
    fn from_iter<I: IntoIterator<Item = Requirement>>(iter: I) -> Self {
        let mut requirements = Self::new();
        for requirement in iter {
            requirements.add(requirement);
        }
        requirements
    }
}

/// `a In [1], b Exists`.
impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.0.iter().enumerate() {
            write!(f, "{}{requirement}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

fn incompatible(offered: Option<&Requirement>, wanted: &Requirement) -> Box<Incompatible> {
    Box::new(Incompatible { key: wanted.key().to_owned(), offered: offered.cloned(), wanted: wanted.clone() })
}

/// The CRDs' own rule, which a file that no API server has seen may break.
fn refuse_negative(
    item: &NodeSelectorRequirementWithMinValues,
    requirement: Requirement,
) -> Result<Requirement, InvalidRequirement> {
    let ordered =
        matches!(item.operator, ApiOperator::Gt | ApiOperator::Lt | ApiOperator::Gte | ApiOperator::Lte);
    if ordered && item.values.iter().any(|value| value.starts_with('-')) {
        return Err(InvalidRequirement {
            key: item.key.clone(),
            operator: item.operator.as_str().to_owned(),
            values: item.values.clone(),
            reason: "Gt, Lt, Gte and Lte take exactly one whole number, 0 or more",
        });
    }
    Ok(requirement)
}

fn from_expression(expression: &NodeSelectorRequirement) -> Result<Requirement, InvalidRequirement> {
    Requirement::parse(
        &expression.key,
        &expression.operator,
        expression.values.as_deref().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests;
