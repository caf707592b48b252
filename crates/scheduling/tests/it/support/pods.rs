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

    pub(crate) fn repels(self, app: &str) -> Self {
        self.repels_in("kubernetes.io/hostname", app)
    }

    /// Required anti-affinity to pods of this app.
    pub(crate) fn repels_in(self, topology_key: &str, app: &str) -> Self {
        self.term("podAntiAffinity", topology_key, app)
    }

    /// Required affinity to pods of this app.
    pub(crate) fn wants_in(self, topology_key: &str, app: &str) -> Self {
        self.term("podAffinity", topology_key, app)
    }

    fn term(mut self, kind: &str, topology_key: &str, app: &str) -> Self {
        let terms = &mut self.0["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"];
        if terms.is_null() {
            *terms = json!([]);
        }
        let term = json!({"topologyKey": topology_key, "labelSelector": {"matchLabels": {"app": app}}});
        terms.as_array_mut().unwrap().push(term);
        self
    }

    /// A topology spread constraint with `DoNotSchedule` over pods of this app; `more` is merged into it.
    pub(crate) fn spreads(mut self, topology_key: &str, max_skew: i32, app: &str, more: Value) -> Self {
        let mut constraint = json!({"topologyKey": topology_key, "maxSkew": max_skew, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}}});
        if let Value::Object(more) = more {
            for (key, value) in more {
                constraint[key] = value;
            }
        }
        let constraints = &mut self.0["spec"]["topologySpreadConstraints"];
        if constraints.is_null() {
            *constraints = json!([]);
        }
        constraints.as_array_mut().unwrap().push(constraint);
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
