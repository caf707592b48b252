//! A NodePool's limits, charged as claims are opened.

use super::amounts::FitTable;
use super::bits::Bits;
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::resources::Resources;

/// What is limited, how much of it is in use, and how much each slot's machine has of it.
pub(super) struct Limits {
    names: Vec<String>,
    allowed: Vec<i64>,
    /// In use now, with the claims opened in this solve at the largest type that each may still become.
    used: Vec<i64>,
    capacities: FitTable,
}

impl Limits {
    pub(super) fn new<'a>(pool: &NodePool, slots: impl Iterator<Item = &'a Resources>) -> Self {
        let names: Vec<String> = pool.limits.iter().map(|(name, _)| name.to_owned()).collect();
        let row = |resources: &Resources| names.iter().map(|name| resources.get(name)).collect::<Vec<_>>();
        let rows: Vec<Vec<i64>> = slots.map(row).collect();
        Self {
            allowed: pool.limits.iter().map(|(_, limit)| limit).collect(),
            used: row(&pool.usage),
            capacities: FitTable::new(&rows, names.len()),
            names,
        }
    }

    /// Takes the slots away whose machines would pass a limit.
    pub(super) fn keep_within(&self, slots: &mut Bits) {
        for (axis, (limit, used)) in self.allowed.iter().zip(&self.used).enumerate() {
            self.capacities.drop_above(axis, limit.saturating_sub(*used), slots);
        }
    }

    /// Charges the most that any of the slots' machines has.
    pub(super) fn charge(&mut self, slots: &Bits) {
        let mut most = vec![0; self.used.len()];
        self.capacities.most(slots, &mut most);
        self.used.iter_mut().zip(most).for_each(|(used, most)| *used = used.saturating_add(most));
    }

    /// Whether anything is limited.
    pub(super) const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Charges anew what each claim may still become; whether less is in use than was thought.
    pub(super) fn recharge(&mut self, pool: &NodePool, claims: impl Iterator<Item = Bits>) -> bool {
        let before = std::mem::take(&mut self.used);
        self.used = self.names.iter().map(|name| pool.usage.get(name)).collect();
        claims.for_each(|slots| self.charge(&slots));
        self.used.iter().zip(&before).any(|(now, before)| now < before)
    }

    /// In use now, of what is limited.
    pub(super) fn used(&self) -> Resources {
        let pairs = self.names.iter().zip(&self.used);
        pairs.fold(Resources::ZERO, |all, (name, used)| all.with(name, *used))
    }
}
