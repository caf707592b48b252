//! Label selectors as Kubernetes means them: a missing selector matches nothing, an empty one everything.

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
