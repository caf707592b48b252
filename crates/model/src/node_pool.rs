//! A NodePool and the node template in it.

use crate::quantity::Rounding;
use crate::requirement::Requirement;
use crate::requirements::Requirements;
use crate::resources::{ResourceList, Resources};
use crate::taint::Taint;
use jiff::Timestamp;
use karpenter_capi_api::names::{annotations, labels};
use karpenter_capi_api::v1;
use std::collections::BTreeMap;

/// The key in `spec.limits` that counts nodes.
const NODES: &str = "nodes";

/// A NodePool, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePool {
    /// Its name.
    pub name: String,
    /// Higher is tried first; ties by name, descending, as upstream.
    pub weight: i32,
    /// Template labels together with `karpenter.sh/nodepool` and the node class label.
    pub labels: BTreeMap<String, String>,
    /// Template annotations.
    pub annotations: BTreeMap<String, String>,
    /// Template requirements together with those from the labels.
    pub requirements: Requirements,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Taints that something removes while the node starts.
    pub startup_taints: Vec<Taint>,
    /// `spec.limits`, by resource name; `nodes` apart. Empty: not limited. A limit of zero is one.
    pub limits: ResourceList,
    /// `spec.limits.nodes`.
    pub node_limit: Option<i64>,
    /// What the pool's nodes and claims use now, each claim at its type's capacity, launched or not.
    pub usage: Resources,
    /// Nodes and claims that count for `limits.nodes`.
    pub node_count: i64,
    /// `spec.replicas` is set: provisioned by number, not by pods.
    pub is_static: bool,
    /// Why the pool can't be used now; None when it is ready.
    pub not_ready: Option<String>,
    /// Provisioning is paused (annotation `karpenter.cluster.x-k8s.io/paused: all`, not yet past `paused-until`).
    pub paused: bool,
}

/// What a NodePool doesn't say of itself.
#[derive(Clone, Debug)]
pub struct NodePoolState {
    /// Why the pool can't be used (its conditions, its node class); None when it can.
    pub not_ready: Option<String>,
    /// What its nodes and claims use now, each claim at its type's capacity, launched or not.
    pub usage: Resources,
    /// Its nodes and claims.
    pub node_count: i64,
    /// The time, for `paused-until`.
    pub now: Timestamp,
}

/// Converts a NodePool. Where a part can't be read, the pool is not ready and says why: using the rest would make nodes that
/// nobody asked for.
pub fn from_api(pool: &v1::NodePool, state: NodePoolState) -> NodePool {
    let mut problems = Vec::new();
    let name = pool.metadata.name.clone().unwrap_or_default();
    let template = &pool.spec.template;
    let class = &template.spec.node_class_ref;
    let mut node_labels = template.metadata.labels.clone();
    node_labels.insert(labels::NODEPOOL.to_owned(), name.clone());
    node_labels.insert(format!("{}/{}", class.group, class.kind.to_lowercase()), class.name.clone());
    let (limits, node_limit) = limits(&pool.spec.limits, &mut problems);
    let taints = taints("taints", &template.spec.taints, &mut problems);
    let startup_taints = self::taints("startupTaints", &template.spec.startup_taints, &mut problems);
    check_duplicates(&taints, &startup_taints, &mut problems);
    NodePool {
        weight: pool.spec.weight.unwrap_or(0),
        requirements: requirements(&template.spec.requirements, &node_labels, &mut problems),
        labels: node_labels,
        annotations: template.metadata.annotations.clone(),
        taints,
        startup_taints,
        limits,
        node_limit,
        usage: state.usage,
        node_count: state.node_count,
        is_static: pool.spec.replicas.is_some(),
        paused: is_paused(pool, state.now, &["all"]),
        not_ready: problems.into_iter().next().or(state.not_ready),
        name,
    }
}

fn limits(list: &v1::ResourceList, problems: &mut Vec<String>) -> (ResourceList, Option<i64>) {
    let mut limits = ResourceList::from_quantities(list, Rounding::Down).unwrap_or_else(|error| {
        problems.push(format!("spec.limits: {error}"));
        ResourceList::default()
    });
    let nodes = limits.0.remove(NODES);
    (limits, nodes)
}

fn taints(field: &str, list: &[k8s_openapi::api::core::v1::Taint], problems: &mut Vec<String>) -> Vec<Taint> {
    let mut taints = Vec::new();
    for taint in list {
        match Taint::from_api(taint) {
            Ok(taint) => taints.push(taint),
            Err(error) => problems.push(format!("spec.template.spec.{field}: {error}")),
        }
    }
    taints
}

/// Taints are told apart by key and effect, so that two alike would fight.
fn check_duplicates(taints: &[Taint], startup_taints: &[Taint], problems: &mut Vec<String>) {
    let all: Vec<&Taint> = taints.iter().chain(startup_taints).collect();
    for (index, taint) in all.iter().enumerate() {
        if all.iter().skip(index + 1).any(|other| other.matches(taint)) {
            problems.push(format!(
                "spec.template.spec: key {} with effect {} stands twice in taints and startupTaints; leave one",
                taint.key, taint.effect
            ));
        }
    }
}

fn requirements(
    list: &[v1::NodeSelectorRequirementWithMinValues],
    node_labels: &BTreeMap<String, String>,
    problems: &mut Vec<String>,
) -> Requirements {
    let mut requirements = Requirements::from_api(list).unwrap_or_else(|errors| {
        problems.extend(errors.iter().map(|error| format!("spec.template.spec.requirements: {error}")));
        Requirements::new()
    });
    for requirement in requirements.iter() {
        let key = requirement.key();
        let why = if key == labels::NODEPOOL {
            Some("is set by the controller")
        } else {
            crate::label::restricted(key)
        };
        if let Some(why) = why {
            problems.push(format!("spec.template.spec.requirements: {key} {why}; remove it"));
        }
    }
    requirements.add_all(&Requirements::from_labels(node_labels));
    if let Some(contradiction) = requirements.contradiction() {
        problems.push(format!(
            "spec.template.spec.requirements: what is said about {} contradicts itself or the template's label",
            contradiction.key()
        ));
    }
    check_capacity_types(requirements.get(labels::CAPACITY_TYPE), problems);
    requirements
}

/// At least one capacity type that exists, and as many as `minValues` asks for.
fn check_capacity_types(requirement: Option<&Requirement>, problems: &mut Vec<String>) {
    let Some(requirement) =
        requirement.filter(|requirement| requirement.is_enumerated() && !requirement.is_empty())
    else {
        return;
    };
    let known = requirement.values().filter(|value| labels::CAPACITY_TYPES.contains(value)).count();
    let needed = requirement.min_values().map_or(1, |count| usize::try_from(count).unwrap_or(usize::MAX));
    if known < needed {
        problems.push(format!(
            "spec.template.spec.requirements: {requirement}: {known} of the values are capacity types, {needed} are needed; \
             use on-demand, spot or reserved"
        ));
    }
}

/// Whether no node of the pool may be taken away of our own accord: `paused: disruption` or `paused: all`.
pub fn is_disruption_paused(pool: &v1::NodePool, now: Timestamp) -> bool {
    is_paused(pool, now, &["disruption", "all"])
}

/// Until `paused-until` where that can be read; a time that can't be read never ends the pause.
fn is_paused(pool: &v1::NodePool, now: Timestamp, values: &[&str]) -> bool {
    let annotation =
        |key: &str| pool.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
    let until = annotation(annotations::PAUSED_UNTIL).and_then(|text| text.parse::<Timestamp>().ok());
    annotation(annotations::PAUSED).is_some_and(|value| values.contains(&value.as_str()))
        && until.is_none_or(|until| now < until)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(manifest: &serde_json::Value) -> NodePool {
        let mut whole = serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {
                "group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default"}}}}
        });
        merge(&mut whole, manifest);
        let state = NodePoolState {
            not_ready: None,
            usage: Resources::ZERO,
            node_count: 0,
            now: "2026-01-05T12:00:00Z".parse().unwrap(),
        };
        from_api(&serde_json::from_value(whole).unwrap(), state)
    }

    fn merge(base: &mut serde_json::Value, patch: &serde_json::Value) {
        match (base, patch) {
            (serde_json::Value::Object(base), serde_json::Value::Object(patch)) => {
                for (key, value) in patch {
                    merge(base.entry(key.as_str()).or_insert(serde_json::Value::Null), value);
                }
            }
            (base, patch) => *base = patch.clone(),
        }
    }

    fn with_requirements(requirements: &serde_json::Value) -> NodePool {
        pool(&serde_json::json!({"spec": {"template": {"spec": {"requirements": requirements}}}}))
    }

    #[test]
    fn labels_become_requirements() {
        let pool =
            pool(&serde_json::json!({"spec": {"template": {"metadata": {"labels": {"team": "blue"}}}}}));
        assert_eq!(pool.not_ready, None);
        let shown = pool.requirements.to_string();
        assert_eq!(
            shown,
            "karpenter.cluster.x-k8s.io/clusterapinodeclass In [default], karpenter.sh/nodepool In [p], team In [blue]"
        );
    }

    #[test]
    fn a_limit_of_zero_is_kept_and_nodes_stand_apart() {
        let pool = pool(&serde_json::json!({"spec": {"limits": {"cpu": "0", "nodes": "3"}}}));
        assert_eq!(
            (pool.limits.get("cpu"), pool.limits.get("memory"), pool.node_limit),
            (Some(0), None, Some(3))
        );
    }

    #[test]
    fn what_can_not_be_read_makes_the_pool_not_ready_and_says_why() {
        for (requirements, words) in [
            (serde_json::json!([{"key": "gen", "operator": "Gt", "values": ["a"]}]), "gen Gt [\"a\"]"),
            (serde_json::json!([{"key": "gen", "operator": "Gt", "values": ["1", "2"]}]), "exactly one"),
            (
                serde_json::json!([{"key": "karpenter.sh/registered", "operator": "Exists"}]),
                "karpenter.sh/registered",
            ),
            (
                serde_json::json!([{"key": "kubernetes.io/hostname", "operator": "Exists"}]),
                "kubernetes.io/hostname",
            ),
            (
                serde_json::json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["cheap"]}]),
                "on-demand",
            ),
        ] {
            let not_ready = with_requirements(&requirements).not_ready.unwrap();
            assert!(not_ready.contains(words), "{not_ready}");
        }
        let broken = pool(&serde_json::json!({"spec": {"limits": {"memory": "16GB"}}}));
        assert!(broken.not_ready.unwrap().contains("16GB"));
        let taint = serde_json::json!({"key": "a", "effect": "NoSchedule"});
        let twice = serde_json::json!({"spec": {"template": {"spec": {"taints": [taint], "startupTaints": [taint]}}}});
        assert!(pool(&twice).not_ready.unwrap().contains("twice"));
    }

    #[test]
    fn a_pause_ends_at_its_time() {
        let paused = |until: Option<&str>, value: &str| {
            let mut annotations = serde_json::json!({"karpenter.cluster.x-k8s.io/paused": value});
            if let Some(until) = until {
                annotations["karpenter.cluster.x-k8s.io/paused-until"] = until.into();
            }
            pool(&serde_json::json!({"metadata": {"annotations": annotations}})).paused
        };
        assert!(paused(None, "all"));
        assert!(!paused(None, "disruption"));
        assert!(paused(Some("2026-01-05T12:00:01Z"), "all"));
        assert!(!paused(Some("2026-01-05T12:00:00Z"), "all"));
        assert!(paused(Some("tomorrow"), "all"));
    }
}
