//! What is told of NodePools.

use prometheus::{Error, GaugeVec};

use super::register::{Register, forget};
use super::{Metrics, has};

const LABELS: &[&str] = &["resource_type", "nodepool"];

pub(super) struct PoolSeries {
    usage: GaugeVec,
    limit: GaugeVec,
}

impl PoolSeries {
    pub(super) fn new(register: Register<'_>) -> Result<Self, Error> {
        Ok(Self {
            usage: register.gauges(
                "karpenter_nodepools_usage",
                "The amount of resources that have been provisioned for a nodepool. Labeled by nodepool name and resource type.",
                LABELS,
            )?,
            limit: register.gauges(
                "karpenter_nodepools_limit",
                "Limits specified on the nodepool that restrict the quantity of resources provisioned. Labeled by nodepool name and resource type.",
                LABELS,
            )?,
        })
    }

    pub(super) fn forget(&self, node_pool: &str) {
        for family in [&self.usage, &self.limit] {
            forget(family, |series| has(series, "nodepool", node_pool));
        }
    }
}

impl Metrics {
    /// What a NodePool's nodes have, and what it may have at most, by resource name, in the resource's base unit (cores, bytes,
    /// pieces). Resources that are no longer named end.
    pub fn node_pool_resources<'a>(
        &self,
        node_pool: &str,
        usage: impl IntoIterator<Item = (&'a str, f64)>,
        limits: impl IntoIterator<Item = (&'a str, f64)>,
    ) {
        replace(&self.pools.usage, node_pool, usage);
        replace(&self.pools.limit, node_pool, limits);
    }
}

fn replace<'a>(family: &GaugeVec, node_pool: &str, values: impl IntoIterator<Item = (&'a str, f64)>) {
    let values: Vec<_> = values.into_iter().collect();
    forget(family, |series| {
        has(series, "nodepool", node_pool)
            && !values.iter().any(|(resource, _)| has(series, "resource_type", resource))
    });
    for (resource, value) in values {
        family.with_label_values(&[resource, node_pool]).set(value);
    }
}
