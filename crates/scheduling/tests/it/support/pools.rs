//! NodePools as manifests.

use super::{resources, taint_json};
use karpenter_capi_model::node_pool::{self, NodePool, NodePoolState};
use karpenter_capi_model::resources::Resources;
use serde_json::{Value, json};

/// A NodePool as a manifest, with what its nodes use.
pub(crate) struct Pool {
    manifest: Value,
    usage: Resources,
    node_count: i64,
    not_ready: Option<String>,
}

pub(crate) fn pool(name: &str) -> Pool {
    let manifest = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name, "annotations": {}},
        "spec": {"limits": {}, "template": {"metadata": {"labels": {}}, "spec": {"requirements": [], "taints": [],
            "startupTaints": [], "nodeClassRef": {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass",
            "name": "default"}}}}
    });
    Pool { manifest, usage: Resources::ZERO, node_count: 0, not_ready: None }
}

impl Pool {
    fn list(&mut self, field: &str) -> &mut Vec<Value> {
        self.manifest["spec"]["template"]["spec"][field].as_array_mut().unwrap()
    }

    pub(crate) fn requires(mut self, key: &str, operator: &str, values: &[&str]) -> Self {
        self.list("requirements").push(json!({"key": key, "operator": operator, "values": values}));
        self
    }

    pub(crate) fn min_values(mut self, key: &str, count: u32) -> Self {
        self.list("requirements").push(json!({"key": key, "operator": "Exists", "minValues": count}));
        self
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.manifest["spec"]["template"]["metadata"]["labels"][key] = json!(value);
        self
    }

    pub(crate) fn taint(mut self, text: &str) -> Self {
        self.list("taints").push(taint_json(text));
        self
    }

    pub(crate) fn startup_taint(mut self, text: &str) -> Self {
        self.list("startupTaints").push(taint_json(text));
        self
    }

    pub(crate) fn weight(mut self, weight: i32) -> Self {
        self.manifest["spec"]["weight"] = json!(weight);
        self
    }

    pub(crate) fn limit(mut self, resource: &str, amount: &str) -> Self {
        self.manifest["spec"]["limits"][resource] = json!(amount);
        self
    }

    pub(crate) fn uses(mut self, usage: &str, nodes: i64) -> Self {
        self.usage = resources(usage);
        self.node_count = nodes;
        self
    }

    pub(crate) fn not_ready(mut self, why: &str) -> Self {
        self.not_ready = Some(why.to_owned());
        self
    }

    pub(crate) fn paused(mut self) -> Self {
        self.manifest["metadata"]["annotations"]["karpenter.cluster.x-k8s.io/paused"] = json!("all");
        self
    }

    pub(super) fn build(self) -> NodePool {
        let state = NodePoolState {
            not_ready: self.not_ready,
            usage: self.usage,
            node_count: self.node_count,
            now: "2026-01-05T12:00:00Z".parse().unwrap(),
        };
        node_pool::from_api(&serde_json::from_value(self.manifest).unwrap(), state)
    }
}
