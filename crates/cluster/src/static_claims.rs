//! The claims that NodePools with `replicas` lack, planned like those that are made for pods.

use crate::input::{ProvisioningInput, StaticPool};
use karpenter_capi_lifecycle::static_capacity::{Chosen, Missing, choose, missing};
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::label::restricted;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_scheduling::plan::{InstanceOption, PlannedNodeClaim, Warning};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What static pools lack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticPlan {
    /// Claims to make, by pool.
    pub node_claims: Vec<PlannedNodeClaim>,
    /// What keeps pools from having as many nodes as they are to have, and pools that have more.
    pub warnings: Vec<Warning>,
}

/// Plans what static pools lack. It comes before pods are placed: these may use what is made here.
pub fn plan(made: &ProvisioningInput) -> StaticPlan {
    let mut plan = StaticPlan::default();
    // Pools may share a MachineDeployment, and so its maximum size.
    let mut taken: BTreeMap<String, i64> = BTreeMap::new();
    for each in made.static_pools.iter().filter(|each| each.pool.not_ready.is_none() && !each.pool.paused) {
        let choice = made.overlaid.choices.get(&each.pool.name);
        let types = choice.map(|choice| choice.instance_types.as_slice()).unwrap_or_default();
        let lacking = missing(each.replicas, each.pool.node_limit, each.count);
        let planned = plan_pool(each, types, lacking.create, &mut taken);
        plan.warnings.extend(warnings(each, lacking, planned.len()));
        plan.node_claims.extend(planned);
    }
    plan
}

fn plan_pool(
    each: &StaticPool,
    types: &[Arc<InstanceType>],
    wanted: i64,
    taken: &mut BTreeMap<String, i64>,
) -> Vec<PlannedNodeClaim> {
    let mut planned = Vec::new();
    for _ in 0..wanted {
        let options = choose(&each.pool, types, taken);
        let Some(first) = options.first() else { break };
        *taken.entry(first.instance_type.name.clone()).or_default() += 1;
        planned.push(claim(each, options));
    }
    planned
}

fn claim(each: &StaticPool, options: Vec<Chosen>) -> PlannedNodeClaim {
    let mut requirements = each.pool.requirements.clone();
    requirements.retain_keys(|key| restricted(key).is_none());
    let option =
        |chosen: Chosen| InstanceOption { instance_type: chosen.instance_type, offering: chosen.offering };
    PlannedNodeClaim {
        node_pool: each.pool.name.clone(),
        requirements,
        requests: Resources::ZERO,
        daemon_requests: Resources::ZERO,
        pods: Vec::new(),
        options: options.into_iter().map(option).collect(),
        min_values_relaxed: false,
    }
}

fn warnings(each: &StaticPool, lacking: Missing, planned: usize) -> Vec<Warning> {
    let planned = i64::try_from(planned).unwrap_or(i64::MAX);
    let unserved = lacking.create.saturating_sub(planned);
    let surplus = each.count.running.saturating_sub(each.replicas);
    let mut messages = Vec::new();
    if lacking.held_back > 0 {
        messages.push(format!(
            "spec.limits.nodes keeps {} of {} replicas from being made",
            lacking.held_back, each.replicas
        ));
    }
    if unserved > 0 {
        messages
            .push(format!("no available MachineDeployment serves {unserved} of {} replicas", each.replicas));
    }
    if surplus > 0 {
        messages.push(format!("it has {surplus} nodes more than its {} replicas", each.replicas));
    }
    let object = format!("NodePool/{}", each.pool.name);
    messages.into_iter().map(|message| Warning { object: object.clone(), message }).collect()
}
