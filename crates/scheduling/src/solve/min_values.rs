//! `minValues`: how many different values of a label the types of a claim must keep open.

use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use std::collections::BTreeSet;

/// A minimum that can't be met.
pub(super) struct Unmet {
    pub(super) key: String,
    pub(super) wanted: u32,
    /// Values that are left.
    pub(super) found: BTreeSet<String>,
}

/// At most `cap` of the types (cheapest first), so that every minimum is met: indices, ascending. The cheapest is always
/// among them; then come those that a minimum needs, then the cheapest of the rest.
pub(super) fn select(
    types: &[&InstanceType],
    requirements: &Requirements,
    cap: usize,
) -> Result<Vec<usize>, Unmet> {
    let needs: Vec<Need<'_>> = requirements.iter().filter_map(Need::new).collect();
    let cap = cap.max(1);
    let mut picked: Vec<usize> = if types.len() <= cap || needs.is_empty() {
        (0..types.len().min(cap)).collect()
    } else {
        pick(types, &needs, cap)
    };
    picked.sort_unstable();
    let chosen: Vec<&InstanceType> = picked.iter().filter_map(|index| types.get(*index).copied()).collect();
    match needs.iter().find_map(|need| need.unmet(&chosen)) {
        Some(unmet) => Err(unmet),
        None => Ok(picked),
    }
}

/// The same requirements with every minimum lowered to what the types can give within `cap`.
pub(super) fn relaxed(types: &[&InstanceType], requirements: &Requirements, cap: usize) -> Requirements {
    let mut relaxed = requirements.clone();
    while let Err(unmet) = select(types, &relaxed, cap) {
        let Some(requirement) = relaxed.get(&unmet.key) else {
            break;
        };
        let reachable = u32::try_from(unmet.found.len()).ok().filter(|count| *count > 0);
        relaxed.replace(requirement.clone().with_min_values(reachable));
    }
    relaxed
}

/// Greedy: first what the minima need most, then what is cheapest.
fn pick(types: &[&InstanceType], needs: &[Need<'_>], cap: usize) -> Vec<usize> {
    let mut picked = vec![0];
    while picked.len() < cap {
        let chosen: Vec<&InstanceType> =
            picked.iter().filter_map(|index| types.get(*index).copied()).collect();
        let gain =
            |of_type: &InstanceType| needs.iter().map(|need| need.gain(of_type, &chosen)).sum::<usize>();
        // The first of the largest gain: ties go to the cheaper type.
        let mut best = (0, 0);
        for (index, of_type) in types.iter().enumerate() {
            let gained = gain(of_type);
            if gained > best.0 && !picked.contains(&index) {
                best = (gained, index);
            }
        }
        if best.0 == 0 {
            break;
        }
        picked.push(best.1);
    }
    let taken: BTreeSet<usize> = picked.iter().copied().collect();
    let rest = (0..types.len()).filter(|index| !taken.contains(index));
    let free = cap.saturating_sub(picked.len());
    picked.extend(rest.take(free));
    picked
}

struct Need<'a> {
    requirement: &'a Requirement,
    minimum: u32,
}

impl<'a> Need<'a> {
    fn new(requirement: &'a Requirement) -> Option<Self> {
        requirement.min_values().map(|minimum| Self { requirement, minimum })
    }

    /// Values of the label that the type may have and the requirement allows.
    fn values<'t>(&self, of_type: &'t InstanceType) -> BTreeSet<&'t str> {
        let own = of_type.requirements.get(self.requirement.key()).filter(|own| own.is_enumerated());
        own.into_iter().flat_map(Requirement::values).filter(|value| self.requirement.has(value)).collect()
    }

    fn found<'t>(&self, types: &[&'t InstanceType]) -> BTreeSet<&'t str> {
        types.iter().flat_map(|of_type| self.values(of_type)).collect()
    }

    fn unmet(&self, types: &[&InstanceType]) -> Option<Unmet> {
        let found = self.found(types);
        let enough = usize::try_from(self.minimum).is_ok_and(|minimum| found.len() >= minimum);
        (!enough).then(|| Unmet {
            key: self.requirement.key().to_owned(),
            wanted: self.minimum,
            found: found.into_iter().map(str::to_owned).collect(),
        })
    }

    /// New values that the type would add and the minimum still lacks.
    fn gain(&self, of_type: &InstanceType, types: &[&InstanceType]) -> usize {
        let found = self.found(types);
        let missing = usize::try_from(self.minimum).unwrap_or(usize::MAX).saturating_sub(found.len());
        self.values(of_type).difference(&found).count().min(missing)
    }
}
