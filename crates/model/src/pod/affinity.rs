//! Affinity and topology spread: API objects to the model's.

use super::{PodAffinityTerm, PreferredTerm, TopologySpreadConstraint};
use crate::requirements::Requirements;
use crate::selector::{LabelSelector, SelectorOperator};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use std::collections::BTreeMap;

type Labels = BTreeMap<String, String>;

/// Required terms, then preferred ones. A term without expressions matches no node (required) or says nothing (preferred).
pub(super) fn node_affinity(
    affinity: &core::NodeAffinity,
    invalid: &mut Vec<String>,
) -> (Vec<Requirements>, Vec<PreferredTerm<Requirements>>) {
    const REQUIRED: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution";
    let mut required = Vec::new();
    if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
        let before = invalid.len();
        for (index, term) in selector.node_selector_terms.iter().enumerate() {
            match Requirements::from_term(term) {
                Ok(requirements) if !requirements.is_empty() => required.push(requirements),
                Ok(_) => {}
                Err(problems) => note(invalid, &format!("{REQUIRED}[{index}]"), problems),
            }
        }
        if required.is_empty() && invalid.len() == before {
            invalid.push(format!("{REQUIRED}: no term has expressions, so that no node matches"));
        }
    }
    let mut preferred = Vec::new();
    let wishes = affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten();
    for (index, wish) in wishes.enumerate() {
        // A wish for a node by its name says nothing about nodes to come, and no wish may hide a pod.
        if wish.preference.match_fields.as_ref().is_some_and(|fields| !fields.is_empty()) {
            continue;
        }
        match Requirements::from_term(&wish.preference) {
            Ok(requirements) if !requirements.is_empty() => {
                preferred.push(PreferredTerm { weight: wish.weight, term: requirements });
            }
            Ok(_) => {}
            Err(problems) => note(invalid, &format!("{PREFERRED}[{index}]"), problems),
        }
    }
    (required, preferred)
}

fn note(invalid: &mut Vec<String>, path: &str, problems: Vec<String>) {
    invalid.extend(problems.into_iter().map(|problem| format!("{path}: {problem}")));
}

/// Terms of pod affinity or anti-affinity.
pub(super) fn terms(
    required: Option<&[core::PodAffinityTerm]>,
    preferred: Option<&[core::WeightedPodAffinityTerm]>,
    pod_labels: &Labels,
    invalid: &mut Vec<String>,
) -> (Vec<PodAffinityTerm>, Vec<PreferredTerm<PodAffinityTerm>>) {
    // Slices and not flattened options, so that the lists are made with the right length.
    let required = required.unwrap_or_default();
    let required = required.iter().map(|term| affinity_term(term, pod_labels, invalid)).collect();
    let preferred = preferred
        .unwrap_or_default()
        .iter()
        .map(|weighted| PreferredTerm {
            weight: weighted.weight,
            term: affinity_term(&weighted.pod_affinity_term, pod_labels, invalid),
        })
        .collect();
    (required, preferred)
}

fn affinity_term(
    term: &core::PodAffinityTerm,
    pod_labels: &Labels,
    invalid: &mut Vec<String>,
) -> PodAffinityTerm {
    let mut parsed = selector(term.label_selector.as_ref(), invalid);
    if let Some(selector) = &mut parsed {
        merge_keys(selector, SelectorOperator::In, term.match_label_keys.as_deref(), pod_labels);
        merge_keys(selector, SelectorOperator::NotIn, term.mismatch_label_keys.as_deref(), pod_labels);
    }
    let mut namespaces = term.namespaces.clone().unwrap_or_default();
    namespaces.sort_unstable();
    namespaces.dedup();
    PodAffinityTerm {
        topology_key: karpenter_capi_api::names::labels::normalized(&term.topology_key).to_owned(),
        selector: parsed,
        namespaces,
        namespace_selector: selector(term.namespace_selector.as_ref(), invalid),
    }
}

/// A topology spread constraint.
pub(super) fn spread(
    constraint: &core::TopologySpreadConstraint,
    pod_labels: &Labels,
    invalid: &mut Vec<String>,
) -> TopologySpreadConstraint {
    let mut parsed = selector(constraint.label_selector.as_ref(), invalid);
    if let Some(selector) = &mut parsed {
        merge_keys(selector, SelectorOperator::In, constraint.match_label_keys.as_deref(), pod_labels);
    }
    if constraint.max_skew < 1 {
        invalid.push(format!("spec.topologySpreadConstraints: maxSkew {} is below 1", constraint.max_skew));
    }
    let required = match constraint.when_unsatisfiable.as_str() {
        "DoNotSchedule" => true,
        "ScheduleAnyway" => false,
        other => {
            invalid.push(format!(
                "spec.topologySpreadConstraints: whenUnsatisfiable {other:?} is neither DoNotSchedule nor ScheduleAnyway"
            ));
            true
        }
    };
    TopologySpreadConstraint {
        topology_key: karpenter_capi_api::names::labels::normalized(&constraint.topology_key).to_owned(),
        max_skew: constraint.max_skew,
        required,
        selector: parsed,
        min_domains: constraint.min_domains,
        honor_node_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
        honor_node_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
    }
}

fn selector(selector: Option<&meta::LabelSelector>, invalid: &mut Vec<String>) -> Option<LabelSelector> {
    LabelSelector::from_api(selector?).map_err(|error| invalid.push(error.to_string())).ok()
}

/// `matchLabelKeys`: the pod's own value of each key, where it has one.
fn merge_keys(
    selector: &mut LabelSelector,
    operator: SelectorOperator,
    keys: Option<&[String]>,
    pod_labels: &Labels,
) {
    let keys = keys.unwrap_or_default();
    if keys.is_empty() {
        return;
    }
    for key in keys {
        if let Some(value) = pod_labels.get(key) {
            selector.require(key, operator, std::slice::from_ref(value));
        }
    }
    selector.expressions.sort_unstable();
    selector.expressions.dedup();
}
