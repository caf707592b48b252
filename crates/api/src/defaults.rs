//! What the API server fills in, for objects that come from files.

use crate::v1::{
    Budget, DEFAULT_CONSOLIDATE_AFTER, DEFAULT_CONSOLIDATION_POLICY, DEFAULT_EXPIRE_AFTER, NodeClaim, NodePool,
};

/// Fills in what the definition of NodePool would fill in.
pub fn node_pool(pool: &mut NodePool) {
    let disruption = &mut pool.spec.disruption;
    disruption.consolidate_after.get_or_insert_with(|| DEFAULT_CONSOLIDATE_AFTER.into());
    disruption.consolidation_policy.get_or_insert(DEFAULT_CONSOLIDATION_POLICY);
    disruption.budgets.get_or_insert_with(|| vec![Budget::default()]);
    pool.spec.template.spec.expire_after.get_or_insert_with(|| DEFAULT_EXPIRE_AFTER.into());
    if let Some(status) = &mut pool.status {
        status.nodes.get_or_insert(0);
    }
}

/// Fills in what the definition of NodeClaim would fill in.
pub fn node_claim(claim: &mut NodeClaim) {
    claim.spec.expire_after.get_or_insert_with(|| DEFAULT_EXPIRE_AFTER.into());
}
