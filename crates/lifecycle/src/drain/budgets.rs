//! Budgets of pods (`PodDisruptionBudget`), to say which of them holds a pod.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_capi_model::selector::LabelSelector;
use std::collections::BTreeMap;

/// Budgets of the cluster, parsed. One whose selector is missing or can't be read covers no pod.
#[derive(Clone, Debug, Default)]
pub struct Budgets<'a>(Vec<(&'a PodDisruptionBudget, LabelSelector)>);

impl<'a> Budgets<'a> {
    /// Reads the budgets.
    pub fn of(budgets: impl IntoIterator<Item = &'a PodDisruptionBudget>) -> Self {
        let parsed = budgets.into_iter().filter_map(|budget| {
            let selector = budget.spec.as_ref()?.selector.as_ref()?;
            Some((budget, LabelSelector::from_api(selector).ok()?))
        });
        Self(parsed.collect())
    }

    /// Why an eviction is refused for now, as a sentence's end.
    pub(super) fn refusal(&self, pod: &Pod) -> Option<String> {
        let none = BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
        let covers = |(budget, selector): &&(&PodDisruptionBudget, LabelSelector)| {
            budget.metadata.namespace == pod.metadata.namespace && selector.matches(labels)
        };
        let covering: Vec<&PodDisruptionBudget> =
            self.0.iter().filter(covers).map(|(budget, _)| *budget).collect();
        let name = |budget: &&PodDisruptionBudget| budget.metadata.name.clone().unwrap_or_default();
        match covering.as_slice() {
            [] => None,
            [only] => {
                let allowed = only.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0);
                (allowed <= 0).then(|| format!("is protected by PodDisruptionBudget {}", name(only)))
            }
            // The eviction API refuses such a pod whatever the budgets allow.
            several => {
                let mut names: Vec<String> = several.iter().map(name).collect();
                names.sort();
                Some(format!(
                    "is covered by more than one PodDisruptionBudget ({}), so it can't be evicted",
                    names.join(", ")
                ))
            }
        }
    }
}
