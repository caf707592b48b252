//! What admission adds to a pod before the API server stores it.

use crate::object::{Object, PodRecord};
use k8s_openapi::api::core::v1::{LimitRange, Pod, PodSpec};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use karpenter_capi_model::pod::apply_limit_ranges;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Priority of a pod whose class nobody knows; these two classes are there in every cluster.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

#[derive(Default)]
struct Policies {
    limit_ranges: Vec<Arc<LimitRange>>,
    runtime_classes: BTreeMap<String, Arc<RuntimeClass>>,
    priority_classes: BTreeMap<String, Arc<PriorityClass>>,
}

/// Gives pods what limit ranges, their runtime class and their priority class give them. What is set already stays.
pub(super) fn admit(objects: &mut [Object]) {
    let policies = policies(objects);
    for object in objects {
        let Object::Pod(record) = object else { continue };
        let mut pod = record.object.clone();
        if policies.admit(&mut pod) {
            *record = Arc::new(PodRecord::from(pod));
        }
    }
}

fn policies(objects: &[Object]) -> Policies {
    let mut policies = Policies::default();
    for object in objects {
        match object {
            Object::LimitRange(range) => policies.limit_ranges.push(Arc::clone(range)),
            Object::RuntimeClass(class) => {
                let name = class.metadata.name.clone().unwrap_or_default();
                policies.runtime_classes.insert(name, Arc::clone(class));
            }
            Object::PriorityClass(class) => {
                let name = class.metadata.name.clone().unwrap_or_default();
                policies.priority_classes.insert(name, Arc::clone(class));
            }
            _ => {}
        }
    }
    policies
}

impl Policies {
    /// Returns whether anything changed.
    fn admit(&self, pod: &mut Pod) -> bool {
        let before = pod.spec.clone();
        let namespace = pod.metadata.namespace.clone();
        if let Some(spec) = &mut pod.spec {
            let ranges = self.limit_ranges.iter().filter(|range| range.metadata.namespace == namespace);
            apply_limit_ranges(spec, ranges.map(Arc::as_ref));
            self.runtime_class(spec);
            self.priority_class(spec);
        }
        before != pod.spec
    }

    fn runtime_class(&self, spec: &mut PodSpec) {
        let name = spec.runtime_class_name.as_deref().unwrap_or_default();
        let Some(class) = self.runtime_classes.get(name) else {
            return;
        };
        let fixed = class.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.clone());
        if spec.overhead.as_ref().is_none_or(BTreeMap::is_empty) {
            spec.overhead = fixed;
        }
        let Some(scheduling) = &class.scheduling else {
            return;
        };
        if let Some(selector) = &scheduling.node_selector {
            let own = spec.node_selector.get_or_insert_default();
            for (key, value) in selector {
                own.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        for toleration in scheduling.tolerations.iter().flatten() {
            let own = spec.tolerations.get_or_insert_default();
            if !own.contains(toleration) {
                own.push(toleration.clone());
            }
        }
    }

    fn priority_class(&self, spec: &mut PodSpec) {
        if spec.priority.is_some() {
            return;
        }
        let named = spec.priority_class_name.as_deref().filter(|name| !name.is_empty());
        spec.priority = match named {
            Some(name) => {
                let built_in =
                    BUILT_IN.iter().find(|(built_in, _)| *built_in == name).map(|(_, value)| *value);
                self.priority_classes.get(name).and_then(|class| class.value).or(built_in)
            }
            None => self
                .priority_classes
                .values()
                .find(|class| class.global_default == Some(true))
                .and_then(|class| class.value),
        };
    }
}
