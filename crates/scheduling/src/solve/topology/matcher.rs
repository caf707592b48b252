//! Which pods a term looks at.

use karpenter_capi_model::pod::{Pod, PodAffinityTerm};
use karpenter_capi_model::selector::{LabelSelector, SelectorOperator};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::hash::Hash;

/// Which namespaces a term looks into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Scope {
    named: Vec<String>,
    labelled: Option<LabelSelector>,
}

impl Scope {
    /// One namespace.
    fn of(namespace: &str) -> Self {
        Self { named: vec![namespace.to_owned()], labelled: None }
    }

    /// Those of a term of a pod in the namespace `own`.
    fn of_term(term: &PodAffinityTerm, own: &str) -> Self {
        if term.namespaces.is_empty() && term.namespace_selector.is_none() {
            return Self::of(own);
        }
        Self { named: term.namespaces.clone(), labelled: term.namespace_selector.clone() }
    }

    fn covers(&self, namespace: &str, namespaces: &BTreeMap<String, Labels>) -> bool {
        let none = Labels::new();
        let labels = namespaces.get(namespace).unwrap_or(&none);
        self.named.iter().any(|name| name == namespace)
            || self.labelled.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

/// Labels of a pod or a namespace.
pub(in crate::solve) type Labels = BTreeMap<String, String>;

/// Pods in some namespaces that a selector matches; without a selector, none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Selection {
    scope: Scope,
    selector: Option<LabelSelector>,
}

/// Pods that are in all of the selections: the scheduler counts a pod for required affinity only if it matches every term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::solve) struct Matcher(Vec<Selection>);

impl Matcher {
    pub(in crate::solve) fn of_terms<'a>(
        terms: impl IntoIterator<Item = &'a PodAffinityTerm>,
        own: &str,
    ) -> Self {
        let selection = |term: &PodAffinityTerm| Selection {
            scope: Scope::of_term(term, own),
            selector: term.selector.clone(),
        };
        let mut all: Vec<Selection> = terms.into_iter().map(selection).collect();
        all.sort_unstable();
        all.dedup();
        Self(all)
    }

    pub(in crate::solve) fn of_selector(selector: Option<&LabelSelector>, own: &str) -> Self {
        Self(vec![Selection { scope: Scope::of(own), selector: selector.cloned() }])
    }

    fn matches(&self, pod: &Pod, namespaces: &BTreeMap<String, Labels>) -> bool {
        self.0.iter().all(|selection| {
            let selector = selection.selector.as_ref();
            selector.is_some_and(|selector| selector.matches(&pod.labels))
                && selection.scope.covers(&pod.name.namespace, namespaces)
        })
    }

    /// A label that every matched pod has, if the selectors name one.
    fn hint(&self) -> Option<(&str, &[String])> {
        let expressions =
            self.0.iter().filter_map(|one| one.selector.as_ref()).flat_map(|one| &one.expressions);
        let mut named = expressions.filter(|expression| expression.operator == SelectorOperator::In);
        named.next().map(|expression| (expression.key.as_str(), expression.values.as_slice()))
    }
}

/// Things with a matcher, each once, found by the pods that they match.
pub(in crate::solve) struct Catalogue<T> {
    numbers: FxHashMap<(Matcher, T), usize>,
    /// By label key, then by value: those whose matcher asks for it.
    hinted: BTreeMap<String, FxHashMap<String, Vec<usize>>>,
    /// Those that any pod might match.
    others: Vec<usize>,
    all: Vec<(Matcher, T)>,
}

impl<T> Default for Catalogue<T> {
    fn default() -> Self {
        Self { numbers: FxHashMap::default(), hinted: BTreeMap::new(), others: Vec::new(), all: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Catalogue<T> {
    pub(in crate::solve) fn number(&mut self, matcher: Matcher, of: T) -> usize {
        let key = (matcher, of);
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = self.all.len();
        match key.0.hint() {
            Some((label, values)) => {
                let by_value = self.hinted.entry(label.to_owned()).or_default();
                for value in values {
                    by_value.entry(value.clone()).or_default().push(number);
                }
            }
            None => self.others.push(number),
        }
        self.all.push(key.clone());
        self.numbers.insert(key, number);
        number
    }

    pub(in crate::solve) fn get(&self, number: usize) -> &T {
        &self.all[number].1
    }

    pub(in crate::solve) fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter().map(|(_, of)| of)
    }

    /// Those that match the pod, ascending.
    pub(in crate::solve) fn matching(&self, pod: &Pod, namespaces: &BTreeMap<String, Labels>) -> Vec<usize> {
        let hinted = self.hinted.iter().filter_map(|(label, by_value)| by_value.get(pod.labels.get(label)?));
        let candidates = hinted.flatten().chain(&self.others).copied();
        let mut matching: Vec<usize> =
            candidates.filter(|number| self.all[*number].0.matches(pod, namespaces)).collect();
        matching.sort_unstable();
        matching
    }
}
