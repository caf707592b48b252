//! Pods that this version refuses to judge, so that none is ever misplaced.

use crate::input::{Input, PreferencePolicy};
use karpenter_capi_model::pod::{Pod, PodAffinityTerm};
use karpenter_capi_model::reason::ReasonCode;
use std::collections::{BTreeMap, BTreeSet};

/// Decides which pods can be judged.
pub(crate) struct Screen<'a> {
    respects_preferences: bool,
    namespaces: &'a BTreeMap<String, BTreeMap<String, String>>,
    /// Required anti-affinity of any pod, bound or pending, with the namespace of the pod that carries it.
    repelling: BTreeSet<(&'a str, &'a PodAffinityTerm)>,
}

impl<'a> Screen<'a> {
    pub(crate) fn new(input: &'a Input) -> Self {
        let all = input.pods.iter().chain(input.bound_pods.values().flatten());
        let repelling = all
            .flat_map(|pod| pod.pod_anti_affinity.iter().map(|term| (pod.name.namespace.as_str(), term)))
            .collect();
        Self {
            respects_preferences: input.options.preference_policy == PreferencePolicy::Respect,
            namespaces: &input.namespaces,
            repelling,
        }
    }

    /// Why the pod isn't judged; None where it is.
    pub(crate) fn refuse(&self, pod: &Pod) -> Option<(ReasonCode, String)> {
        if let Some(problem) = pod.invalid.first() {
            return Some((ReasonCode::Invalid, problem.clone()));
        }
        if pod.needs_dynamic_resources {
            let message = "spec.resourceClaims: dynamic resources aren't simulated".to_owned();
            return Some((ReasonCode::DynamicResources, message));
        }
        let what = self.unsupported(pod)?;
        Some((ReasonCode::NotEvaluated, format!("{what}: not evaluated by this version")))
    }

    fn unsupported(&self, pod: &Pod) -> Option<&'static str> {
        let soft = self.respects_preferences;
        let spread = pod.topology_spread.iter().any(|constraint| constraint.required || soft);
        let checks = [
            (pod.gated, "spec.schedulingGates"),
            (spread, "spec.topologySpreadConstraints"),
            (!pod.pod_affinity.is_empty(), "spec.affinity.podAffinity"),
            (soft && !pod.preferred_pod_affinity.is_empty(), "preferred spec.affinity.podAffinity"),
            (!pod.pod_anti_affinity.is_empty(), "spec.affinity.podAntiAffinity"),
            (soft && !pod.preferred_pod_anti_affinity.is_empty(), "preferred spec.affinity.podAntiAffinity"),
            (!pod.volume_claims.is_empty(), "volumes with a PersistentVolumeClaim"),
            (!pod.host_ports.is_empty(), "host ports"),
            (self.is_repelled(pod), "required anti-affinity of another pod that selects this one"),
        ];
        checks.into_iter().find(|(found, _)| *found).map(|(_, what)| what)
    }

    fn is_repelled(&self, pod: &Pod) -> bool {
        self.repelling.iter().any(|(namespace, term)| {
            term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
                && self.covers(namespace, term, &pod.name.namespace)
        })
    }

    /// Whether the term, of a pod in `own`, looks at pods of `other`.
    fn covers(&self, own: &str, term: &PodAffinityTerm, other: &str) -> bool {
        if term.namespaces.is_empty() && term.namespace_selector.is_none() {
            return own == other;
        }
        let none = BTreeMap::new();
        term.namespaces.iter().any(|name| name == other)
            || term
                .namespace_selector
                .as_ref()
                .is_some_and(|selector| selector.matches(self.namespaces.get(other).unwrap_or(&none)))
    }
}
