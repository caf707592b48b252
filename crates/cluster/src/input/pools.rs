//! NodePools of ours, ready or not, and what each may choose from.

use super::deployments::Deployment;
use super::nodes::Usage;
use super::{InputOptions, Origin, Warnings};
use crate::snapshot::Snapshot;
use karpenter_capi_api::condition;
use karpenter_capi_api::names::{GROUP, conditions, labels};
use karpenter_capi_api::v1;
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_api::validation;
use karpenter_capi_catalog::{Overlaid, Selection, is_member};
use karpenter_capi_lifecycle::static_capacity::{self, Count};
use karpenter_capi_model::feature_gates::Gate;
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::node_pool::{self, NodePool, NodePoolState};
use karpenter_capi_model::resources::Resources;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Pools {
    /// Pools that follow the pods, by name.
    pub(super) dynamic: Vec<NodePool>,
    /// Pools with `replicas`, by name.
    pub(super) fixed: Vec<StaticPool>,
    /// By pool.
    pub(super) instance_types: BTreeMap<String, Vec<Arc<InstanceType>>>,
    /// MachineDeployments that some node class takes.
    pub(super) taken: BTreeSet<NamespacedName>,
}

/// A NodePool with `replicas`: its nodes don't depend on pods.
#[derive(Clone, Debug)]
pub struct StaticPool {
    /// The pool.
    pub pool: NodePool,
    /// How many nodes it is to hold.
    pub replicas: i64,
    /// Its claims.
    pub count: Count,
}

/// A node class and what it takes.
#[derive(Debug, Default)]
pub(super) struct Class {
    not_ready: Option<String>,
    pub(super) takes: Vec<NamespacedName>,
}

/// Node classes by name.
pub(super) type Classes<'a> = BTreeMap<&'a str, Class>;

/// What NodePools are read with.
#[derive(Clone, Copy)]
pub(super) struct Picture<'a> {
    pub(super) classes: &'a Classes<'a>,
    pub(super) deployments: &'a BTreeMap<NamespacedName, Deployment>,
    pub(super) overlaid: &'a Overlaid,
    pub(super) usage: &'a BTreeMap<String, Usage>,
}

/// Reads the node classes.
pub(super) fn classes<'a>(
    snapshot: &'a Snapshot,
    options: &InputOptions,
    deployments: &BTreeMap<NamespacedName, Deployment>,
) -> Classes<'a> {
    snapshot
        .node_classes
        .iter()
        .map(|(name, class)| (name.name.as_str(), read_class(class, options.origin, deployments)))
        .collect()
}

pub(super) fn read(
    snapshot: &Snapshot,
    options: &InputOptions,
    picture: Picture<'_>,
    warnings: &mut Warnings,
) -> Pools {
    let Picture { classes, deployments, overlaid, usage } = picture;
    let mut found = Pools::default();
    found.taken.extend(classes.values().flat_map(|class| class.takes.iter().cloned()));
    for (name, pool) in snapshot.node_pools.iter() {
        let object = format!("NodePool/{}", name.name);
        let reference = &pool.spec.template.spec.node_class_ref;
        if !reference.is_ours() {
            let message = format!(
                "its nodeClassRef is a {} of group {}, not a ClusterAPINodeClass of {GROUP}: it belongs to another Karpenter and is left alone",
                reference.kind, reference.group
            );
            warnings.add(object, message);
            continue;
        }
        if pool.metadata.deletion_timestamp.is_some() {
            warnings.add(object, "it is being deleted and makes no nodes");
            continue;
        }
        let replicas = pool.spec.replicas;
        if replicas.is_some() && !options.gates.is_on(Gate::StaticCapacity) {
            let message =
                "it is static (spec.replicas), and the feature gate StaticCapacity is off: it makes no nodes";
            warnings.add(object, message);
            continue;
        }
        let class = classes.get(reference.name.as_str());
        let types =
            overlaid.choices.get(&name.name).map(|choice| choice.instance_types.clone()).unwrap_or_default();
        let used = usage.get(&name.name).cloned().unwrap_or_default();
        let state = NodePoolState {
            not_ready: not_ready(pool, class, options.origin),
            usage: used.resources,
            node_count: used.nodes,
            now: options.now,
        };
        let pool = node_pool::from_api(pool, state);
        warn_about(&pool, &types, &reference.name, deployments, warnings);
        if let Some(replicas) = replicas {
            let claims = snapshot.node_claims.values().map(Arc::as_ref);
            let count = static_capacity::count(&name.name, claims);
            found.fixed.push(StaticPool { pool, replicas, count });
            continue;
        }
        found.instance_types.insert(name.name.clone(), types);
        found.dynamic.push(pool);
    }
    found
}

fn read_class(
    class: &ClusterAPINodeClass,
    origin: Origin,
    deployments: &BTreeMap<NamespacedName, Deployment>,
) -> Class {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    if class.metadata.deletion_timestamp.is_some() {
        return Class {
            not_ready: Some(format!("ClusterAPINodeClass {name} is being deleted")),
            takes: Vec::new(),
        };
    }
    let selection = match Selection::of(class) {
        Ok(selection) => selection,
        Err(error) => {
            return Class { not_ready: Some(error.to_string()), takes: Vec::new() };
        }
    };
    let takes = deployments.iter().filter(|(_, deployment)| selection.takes(&deployment.object));
    let of_status = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let not_ready = (origin == Origin::Cluster)
        .then(|| not_true(of_status, &format!("ClusterAPINodeClass {name}")))
        .flatten();
    Class { not_ready, takes: takes.map(|(name, _)| name.clone()).collect() }
}

fn not_ready(pool: &v1::NodePool, class: Option<&Class>, origin: Origin) -> Option<String> {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let Some(class) = class else {
        let class = &pool.spec.template.spec.node_class_ref.name;
        return Some(format!(
            "ClusterAPINodeClass {class} isn't there; create it, or name another in spec.template.spec.nodeClassRef"
        ));
    };
    if let Some(reason) = &class.not_ready {
        return Some(reason.clone());
    }
    if origin == Origin::Cluster {
        let of_status = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        return not_true(of_status, &format!("NodePool {name}"));
    }
    validation::validate_node_pool(pool).first().map(ToString::to_string)
}

/// Why the root condition isn't `True`.
fn not_true(of_status: &[condition::Condition], object: &str) -> Option<String> {
    match condition::find(of_status, conditions::READY) {
        Some(ready) if ready.status == condition::TRUE => None,
        Some(ready) => Some(format!(
            "{object} isn't ready: {}",
            [&ready.reason, &ready.message].map(String::as_str).join(": ")
        )),
        None => Some(format!("{object} hasn't been checked yet")),
    }
}

fn warn_about(
    pool: &NodePool,
    types: &[Arc<InstanceType>],
    class: &str,
    deployments: &BTreeMap<NamespacedName, Deployment>,
    warnings: &mut Warnings,
) {
    let object = || format!("NodePool/{}", pool.name);
    if let Some(reason) = &pool.not_ready {
        warnings.add(object(), format!("it isn't ready: {reason}"));
        return;
    }
    if types.is_empty() {
        let strangers = deployments.values().filter(|deployment| !is_member(&deployment.object)).count();
        let hint = match strangers {
            0 => String::new(),
            count => format!(
                "; {count} of {} MachineDeployments lack the label {}: \"\"",
                deployments.len(),
                labels::MEMBER
            ),
        };
        warnings.add(object(), format!("its node class {class} takes no MachineDeployment{hint}"));
    } else if let Some(Err(first)) = first_conflict(pool, types) {
        warnings.add(object(), format!("no MachineDeployment meets its requirements; for {first}"));
    }
    if let Some(exceeded) = pool.limits.exceeded(&pool.usage, &Resources::default()) {
        warnings.add(object(), format!("it is above its limit: {exceeded}"));
    }
    if let Some(limit) = pool.node_limit.filter(|limit| pool.node_count > *limit) {
        warnings
            .add(object(), format!("it is above its limit: nodes: {} of at most {limit}", pool.node_count));
    }
}

/// `Err` with the first type's conflict if no type meets the pool's requirements.
fn first_conflict(pool: &NodePool, types: &[Arc<InstanceType>]) -> Option<Result<(), String>> {
    let mut first = None;
    for each in types {
        match pool.requirements.intersects(&each.requirements) {
            Ok(()) => return Some(Ok(())),
            Err(conflict) => _ = first.get_or_insert_with(|| format!("{}: {conflict}", each.display_name())),
        }
    }
    first.map(Err)
}
