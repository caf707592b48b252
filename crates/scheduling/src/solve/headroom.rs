//! How many machines each MachineDeployment may still add, shared by all NodePools and all claims of one solve.

use super::bits::Bits;
use super::template::Slot;
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::name::NamespacedName;
use std::collections::BTreeMap;

/// Headroom by MachineDeployment. A claim holds one machine of the MachineDeployment that it would be launched on now, and
/// moves its hold along when pods that join it change the choice.
#[derive(Default)]
pub(super) struct Headroom<'a> {
    index: BTreeMap<Owner<'a>, usize>,
    left: Vec<Option<i64>>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Owner<'a> {
    Deployment(&'a NamespacedName),
    Type(&'a str),
}

impl<'a> Headroom<'a> {
    /// The index under which a type's headroom is kept. Types of one MachineDeployment share; the least that any says counts.
    pub(super) fn register(&mut self, of_type: &'a InstanceType) -> usize {
        let owner = of_type.machine_deployment.as_ref().map_or(Owner::Type(&of_type.name), Owner::Deployment);
        let next = self.left.len();
        let index = *self.index.entry(owner).or_insert(next);
        match self.left.get_mut(index) {
            None => self.left.push(of_type.headroom),
            Some(left) => {
                *left = match (*left, of_type.headroom) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        index
    }

    /// Whether a claim that holds `own` now could be launched on `index`.
    pub(super) fn allows(&self, index: usize, own: Option<usize>) -> bool {
        own == Some(index) || self.left.get(index).copied().flatten().is_none_or(|left| left > 0)
    }

    /// Takes the slots away on which such a claim couldn't be launched.
    pub(super) fn keep_allowed(&self, slots: &mut Bits, all: &[Slot], own: Option<usize>) {
        if self.left.iter().flatten().all(|left| *left > 0) {
            return;
        }
        slots.retain(|slot| self.allows(all[slot].headroom, own));
    }

    /// Moves a claim's hold.
    pub(super) fn hold(&mut self, index: usize, instead_of: Option<usize>) {
        if let Some(before) = instead_of {
            self.add(before, 1);
        }
        self.add(index, -1);
    }

    fn add(&mut self, index: usize, amount: i64) {
        if let Some(Some(left)) = self.left.get_mut(index) {
            *left = left.saturating_add(amount);
        }
    }
}
