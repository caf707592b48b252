//! Taints and tolerations.

/// What an untolerated taint does to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaintEffect {
    /// The scheduler doesn't place the pod.
    NoSchedule,
    /// The scheduler avoids placing the pod.
    PreferNoSchedule,
    /// The pod isn't placed, and is evicted where it runs.
    NoExecute,
}

/// A taint on a node or on the nodes of a NodePool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// Label-like key.
    pub key: String,
    /// May be empty.
    pub value: String,
    /// What it does.
    pub effect: TaintEffect,
}

/// A pod's toleration; see `Toleration::tolerates`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// Empty with `Exists` tolerates every key.
    pub key: String,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// Compared under `Equal`, `Lt`, `Gt`.
    pub value: String,
    /// None tolerates every effect.
    pub effect: Option<TaintEffect>,
}

/// How a toleration compares values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TolerationOperator {
    /// Values are equal.
    Equal,
    /// Any value.
    Exists,
    /// The taint's value is an integer below the toleration's.
    Lt,
    /// The taint's value is an integer above the toleration's.
    Gt,
}
