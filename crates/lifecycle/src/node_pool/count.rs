//! What the nodes of a pool add up to.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use karpenter_capi_api::condition;
use karpenter_capi_api::names::{conditions, labels};
use karpenter_capi_api::v1::{NodeClaim, ResourceList};
use karpenter_capi_model::quantity::Rounding;
use karpenter_capi_model::resources::{
    CPU, EPHEMERAL_STORAGE, InvalidResource, MEMORY, PODS, format_amount, read_amount,
};

/// Key of the number of nodes in `status.resources` and `spec.limits`.
pub const NODES: &str = "nodes";

/// What the nodes of a pool add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// For `status.resources`: capacity added up, and `nodes`. CPU, memory, pods, ephemeral storage and nodes are always there.
    pub resources: ResourceList,
    /// For `status.nodes`.
    pub nodes: i64,
    /// Amounts that couldn't be read and are missing from the sum.
    pub unreadable: Vec<UnreadableAmount>,
}

/// An amount in a Node's or NodeClaim's capacity that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: status.capacity: {error}")]
pub struct UnreadableAmount {
    /// `Node name` or `NodeClaim name`.
    pub object: String,
    /// Resource, value and what would be right.
    pub error: InvalidResource,
}

/// How the claims of a pool are, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimTally {
    /// All claims.
    pub claims: usize,
    /// Those that are `Drifted`, including those that are already being replaced.
    pub drifted: usize,
    /// Those that are being disrupted, for whatever reason.
    pub disrupting: usize,
}

/// Adds up the nodes of the pool of that name, as upstream's counter does it.
///
/// A node is known by its provider ID, so that claims count from their launch on; what is being deleted no longer counts. Until a
/// node is initialized, the claim's capacity stands for whatever the Node doesn't tell yet. A Node without a claim belongs to the
/// pool that its label names. `claims` and `nodes` may hold those of other pools, and claims of other Karpenters, which don't count.
pub fn counted<'a>(
    pool: &str,
    claims: impl IntoIterator<Item = &'a NodeClaim>,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> Counted {
    let mut total: BTreeMap<&str, i64> =
        [CPU, EPHEMERAL_STORAGE, MEMORY, NODES, PODS].into_iter().map(|resource| (resource, 0)).collect();
    let mut counted = Counted::default();
    let claims = claims.into_iter().filter(|claim| claim.spec.node_class_ref.is_ours());
    for pair in joined(claims, nodes).values().filter(|pair| pair.pool() == Some(pool) && !pair.is_leaving())
    {
        counted.nodes += 1;
        for (resource, (amount, (kind, name))) in pair.capacity() {
            match read_amount(resource, &amount.0, Rounding::Down) {
                // A Node is one node, whatever it says.
                Ok(_) if resource == NODES => {}
                Ok(amount) => {
                    let sum = total.entry(resource).or_default();
                    *sum = sum.saturating_add(amount);
                }
                Err(error) => {
                    counted.unreadable.push(UnreadableAmount { object: format!("{kind} {name}"), error });
                }
            }
        }
    }
    total.insert(NODES, counted.nodes);
    counted.resources = total
        .into_iter()
        .map(|(resource, amount)| (resource.to_owned(), Quantity(format_amount(resource, amount))))
        .collect();
    counted
}

/// A claim, its Node, or both.
#[derive(Clone, Copy, Default)]
struct Pair<'a> {
    claim: Option<&'a NodeClaim>,
    node: Option<&'a Node>,
}

/// By provider ID, or by name for a Node that has none. Of several with one ID, the first by name is taken.
fn joined<'a>(
    claims: impl IntoIterator<Item = &'a NodeClaim>,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> BTreeMap<&'a str, Pair<'a>> {
    let mut pairs: BTreeMap<&str, Pair<'_>> = BTreeMap::new();
    for claim in claims {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            continue;
        };
        let pair = pairs.entry(id).or_default();
        if pair.claim.is_none_or(|present| claim.metadata.name < present.metadata.name) {
            pair.claim = Some(claim);
        }
    }
    for node in nodes {
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).filter(|id| !id.is_empty());
        let Some(id) = id.or(node.metadata.name.as_deref()) else {
            continue;
        };
        let pair = pairs.entry(id).or_default();
        if pair.node.is_none_or(|present| node.metadata.name < present.metadata.name) {
            pair.node = Some(node);
        }
    }
    pairs
}

/// An amount and the object that it is from.
type Amount<'a> = (&'a Quantity, Object<'a>);

/// Kind and name.
type Object<'a> = (&'static str, &'a str);

impl<'a> Pair<'a> {
    fn pool(&self) -> Option<&'a str> {
        let metadata = self.claim.map(|claim| &claim.metadata).or(self.node.map(|node| &node.metadata))?;
        label(metadata.labels.as_ref(), labels::NODEPOOL)
    }

    fn is_leaving(&self) -> bool {
        match (self.claim, self.node) {
            (Some(claim), _) => {
                let terminating = claim.status.as_ref().is_some_and(|status| {
                    condition::is_true(&status.conditions, conditions::INSTANCE_TERMINATING)
                });
                terminating || claim.metadata.deletion_timestamp.is_some()
            }
            (None, Some(node)) => node.metadata.deletion_timestamp.is_some(),
            (None, None) => true,
        }
    }

    fn capacity(&self) -> BTreeMap<&'a str, Amount<'a>> {
        let mut capacity = BTreeMap::new();
        if let Some(node) = self.node {
            let object = ("Node", node.metadata.name.as_deref().unwrap_or_default());
            let amounts = node.status.iter().flat_map(|status| status.capacity.iter().flatten());
            capacity.extend(amounts.map(|(resource, amount)| (resource.as_str(), (amount, object))));
        }
        let Some(claim) = self.claim.filter(|_| !self.is_initialized()) else {
            return capacity;
        };
        let object = ("NodeClaim", claim.metadata.name.as_deref().unwrap_or_default());
        for (resource, amount) in claim.status.iter().flat_map(|status| &status.capacity) {
            let told = capacity
                .get(resource.as_str())
                .is_some_and(|(told, _)| !matches!(read_amount(resource, &told.0, Rounding::Up), Ok(0)));
            if !told {
                capacity.insert(resource, (amount, object));
            }
        }
        capacity
    }

    fn is_initialized(&self) -> bool {
        self.node
            .is_some_and(|node| label(node.metadata.labels.as_ref(), labels::INITIALIZED) == Some("true"))
    }
}

fn label<'a>(labels: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    labels?.get(key).map(String::as_str)
}

/// Counts the claims of the pool of that name.
pub fn tally<'a>(pool: &str, claims: impl IntoIterator<Item = &'a NodeClaim>) -> ClaimTally {
    let mut tally = ClaimTally::default();
    let of_pool = |claim: &&NodeClaim| label(claim.metadata.labels.as_ref(), labels::NODEPOOL) == Some(pool);
    for claim in claims.into_iter().filter(of_pool) {
        let is =
            |type_| claim.status.as_ref().is_some_and(|status| condition::is_true(&status.conditions, type_));
        tally.claims += 1;
        tally.drifted += usize::from(is(conditions::DRIFTED));
        tally.disrupting += usize::from(is(conditions::DISRUPTION_REASON));
    }
    tally
}
