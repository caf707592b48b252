//! Pods as manifests.

use karpenter_capi_model::pod;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A pod as a manifest.
#[derive(Clone)]
pub(crate) struct PodOf(pub(crate) Value);

/// A pending pod of namespace `default` with one container.
pub(crate) fn pod(name: &str, requests: &str) -> PodOf {
    let requests: BTreeMap<&str, &str> =
        requests.split_whitespace().map(|pair| pair.split_once('=').unwrap()).collect();
    PodOf(json!({
        "metadata": {"name": name, "namespace": "default", "labels": {}},
        "spec": {"nodeSelector": {}, "tolerations": [], "affinity": {},
            "containers": [{"name": "c", "resources": {"requests": requests}}]}
    }))
}

impl PodOf {
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    pub(crate) fn selects(mut self, key: &str, value: &str) -> Self {
        self.0["spec"]["nodeSelector"][key] = json!(value);
        self
    }

    /// `key=value` (any effect), or `*`.
    pub(crate) fn tolerates(mut self, text: &str) -> Self {
        let toleration = match text.split_once('=') {
            _ if text == "*" => json!({"operator": "Exists"}),
            Some((key, value)) => json!({"key": key, "value": value}),
            None => json!({"key": text, "operator": "Exists"}),
        };
        self.0["spec"]["tolerations"].as_array_mut().unwrap().push(toleration);
        self
    }

    /// One more OR-ed term with one expression.
    pub(crate) fn requires(mut self, key: &str, operator: &str, values: &[&str]) -> Self {
        let term = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let terms =
            &mut self.0["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        if terms.is_null() {
            *terms = json!({"nodeSelectorTerms": []});
        }
        terms["nodeSelectorTerms"].as_array_mut().unwrap().push(term);
        self
    }

    pub(crate) fn prefers(mut self, weight: i32, key: &str, operator: &str, values: &[&str]) -> Self {
        let term = json!({"weight": weight, "preference": {"matchExpressions": [
            {"key": key, "operator": operator, "values": values}]}});
        let terms = &mut self.0["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
        if terms.is_null() {
            *terms = json!([]);
        }
        terms.as_array_mut().unwrap().push(term);
        self
    }

    pub(crate) fn repels(mut self, app: &str) -> Self {
        self.0["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}]);
        self
    }

    pub(crate) fn spec(mut self, field: &str, value: Value) -> Self {
        self.0["spec"][field] = value;
        self
    }

    pub(crate) fn in_namespace(mut self, namespace: &str) -> Self {
        self.0["metadata"]["namespace"] = json!(namespace);
        self
    }

    pub(crate) fn build(&self) -> pod::Pod {
        pod::from_api(&serde_json::from_value(self.0.clone()).unwrap())
    }
}
