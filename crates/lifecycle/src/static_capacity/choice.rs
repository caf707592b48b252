//! Which MachineDeployment makes the next node of a static pool.

use karpenter_capi_model::instance_type::{InstanceType, Offering, order_prices};
use karpenter_capi_model::label::well_known;
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::requirement::Requirement;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An instance type and the offering that is taken of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The type.
    pub instance_type: Arc<InstanceType>,
    /// Its cheapest available offering that meets the pool's requirements.
    pub offering: Offering,
}

/// Everything that would serve a claim without pods, best first: by price, an unknown one last, then priority and name, as for
/// claims with pods. `taken` is what was planned already and isn't in the picture, by the type's name: it takes room below maximum
/// sizes.
pub fn choose(pool: &NodePool, types: &[Arc<InstanceType>], taken: &BTreeMap<String, i64>) -> Vec<Chosen> {
    let decided = keys_of_types(types);
    let mut serving: Vec<Chosen> = types
        .iter()
        .filter(|of| of.headroom.is_none_or(|room| room > taken.get(&of.name).copied().unwrap_or(0)))
        .filter_map(|of| {
            let meets = |offering: &&Offering| {
                offering.is_available()
                    && pool.requirements.iter().all(|wanted| serves(of, offering, wanted, pool, &decided))
            };
            let offering = of.offerings.iter().filter(meets).min_by(|a, b| Offering::order(a, b))?;
            Some(Chosen { instance_type: Arc::clone(of), offering: offering.clone() })
        })
        .collect();
    serving.sort_by(|a, b| {
        order_prices(a.offering.price, b.offering.price)
            .then_with(|| Reverse(a.instance_type.priority).cmp(&Reverse(b.instance_type.priority)))
            .then_with(|| a.instance_type.name.cmp(&b.instance_type.name))
    });
    serving
}

/// Keys that the instance type decides, and not the pool.
fn keys_of_types(types: &[Arc<InstanceType>]) -> BTreeSet<String> {
    let mut keys = well_known();
    for of in types {
        let offered = of.offerings.iter().flat_map(|offering| offering.requirements.iter());
        keys.extend(of.requirements.iter().chain(offered).map(|requirement| requirement.key().to_owned()));
    }
    keys
}

/// A label that neither type nor offering defines is one that its nodes lack, unless the pool has it written.
fn serves(
    of: &InstanceType,
    offering: &Offering,
    wanted: &Requirement,
    pool: &NodePool,
    decided: &BTreeSet<String>,
) -> bool {
    let key = wanted.key();
    let defined: Vec<&Requirement> =
        [of.requirements.get(key), offering.requirements.get(key)].into_iter().flatten().collect();
    if defined.is_empty() {
        return wanted.allows_absence() || pool.labels.contains_key(key) || !decided.contains(key);
    }
    defined.iter().all(|requirement| requirement.meets(wanted))
}
