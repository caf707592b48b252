//! Label selectors as Kubernetes means them: a missing selector matches nothing, an empty one everything.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use std::collections::BTreeMap;

/// A parsed `metav1.LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSelector {
    /// All must hold.
    pub expressions: Vec<SelectorExpression>,
}

/// One expression of a label selector; `matchLabels` become `In` with one value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SelectorExpression {
    /// The label key.
    pub key: String,
    /// The operator.
    pub operator: SelectorOperator,
    /// Sorted, without duplicates.
    pub values: Vec<String>,
}

/// Operators of label selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SelectorOperator {
    /// The label is one of the values.
    In,
    /// The label is absent or none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// A selector that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("label selector: {key} {operator} {values:?}: {reason}")]
pub struct InvalidSelector {
    /// The label key.
    pub key: String,
    /// The operator as written.
    pub operator: String,
    /// The values as written.
    pub values: Vec<String>,
    /// What is wrong and what would be right.
    pub reason: &'static str,
}

impl LabelSelector {
    /// Reads a selector. Values that no label could have are kept: they match nothing.
    pub fn from_api(selector: &meta::LabelSelector) -> Result<Self, InvalidSelector> {
        // Exactly as many as there are: every pod that is kept has a selector or two.
        let count = selector.match_labels.as_ref().map_or(0, BTreeMap::len)
            + selector.match_expressions.as_ref().map_or(0, Vec::len);
        let mut parsed = Self { expressions: Vec::with_capacity(count) };
        for (key, value) in selector.match_labels.iter().flatten() {
            parsed.require(key, SelectorOperator::In, std::slice::from_ref(value));
        }
        for expression in selector.match_expressions.iter().flatten() {
            let values = expression.values.as_deref().unwrap_or_default();
            let invalid = |reason| InvalidSelector {
                key: expression.key.clone(),
                operator: expression.operator.clone(),
                values: values.to_vec(),
                reason,
            };
            let operator = match expression.operator.as_str() {
                "In" | "NotIn" if values.is_empty() => {
                    return Err(invalid("In and NotIn need at least one value"));
                }
                "Exists" | "DoesNotExist" if !values.is_empty() => {
                    return Err(invalid("Exists and DoesNotExist take no values"));
                }
                "In" => SelectorOperator::In,
                "NotIn" => SelectorOperator::NotIn,
                "Exists" => SelectorOperator::Exists,
                "DoesNotExist" => SelectorOperator::DoesNotExist,
                _ => return Err(invalid("the operator is one of In, NotIn, Exists, DoesNotExist")),
            };
            parsed.require(&expression.key, operator, values);
        }
        parsed.expressions.sort_unstable();
        parsed.expressions.dedup();
        Ok(parsed)
    }

    /// Adds an expression.
    pub fn require(&mut self, key: &str, operator: SelectorOperator, values: &[String]) {
        let mut values = values.to_vec();
        values.sort_unstable();
        values.dedup();
        self.expressions.push(SelectorExpression { key: key.to_owned(), operator, values });
    }

    /// Whether every expression holds for these labels.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.expressions.iter().all(|expression| expression.matches(labels))
    }
}

impl SelectorExpression {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let listed = value.is_some_and(|value| self.values.binary_search(value).is_ok());
        match self.operator {
            SelectorOperator::In => listed,
            SelectorOperator::NotIn => !listed,
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> meta::LabelSelector {
        meta::LabelSelector {
            match_expressions: Some(vec![meta::LabelSelectorRequirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
            }]),
            match_labels: None,
        }
    }

    #[test]
    fn an_empty_selector_matches_everything() {
        let selector = LabelSelector::from_api(&meta::LabelSelector::default()).unwrap();
        assert!(selector.matches(&labels(&[])) && selector.matches(&labels(&[("app", "z")])));
    }

    #[test]
    fn each_operator_means_what_kubernetes_says() {
        let (web, none) = (labels(&[("app", "web")]), labels(&[]));
        for (operator, values, on_web, on_none) in [
            ("In", &["web", "api"][..], true, false),
            ("NotIn", &["api"], true, true),
            ("NotIn", &["web"], false, true),
            ("Exists", &[], true, false),
            ("DoesNotExist", &[], false, true),
        ] {
            let selector = LabelSelector::from_api(&expression("app", operator, values)).unwrap();
            assert_eq!(
                (selector.matches(&web), selector.matches(&none)),
                (on_web, on_none),
                "{operator} {values:?}"
            );
        }
    }

    #[test]
    fn a_value_that_no_label_can_have_matches_nothing() {
        let selector = LabelSelector::from_api(&expression("app", "In", &["{{ bad }}"])).unwrap();
        assert!(!selector.matches(&labels(&[("app", "web")])));
    }

    #[test]
    fn bad_expressions_are_refused() {
        for (operator, values) in [("In", &[][..]), ("Exists", &["a"]), ("Gt", &["1"])] {
            assert!(LabelSelector::from_api(&expression("app", operator, values)).is_err(), "{operator}");
        }
    }
}
