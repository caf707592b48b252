//! Taints and tolerations.

use k8s_openapi::api::core::v1 as core;
use karpenter_capi_api::names::taints as names;
use std::fmt;
use std::str::FromStr;

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

/// A taint or toleration that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTaint {
    /// The effect isn't one of the three.
    #[error("effect {0:?} of {1:?} is unknown; use NoSchedule, PreferNoSchedule or NoExecute")]
    Effect(String, String),
    /// The key is missing.
    #[error("a taint needs a key")]
    NoKey,
    /// The toleration's operator isn't one of the four.
    #[error("operator {0:?} of the toleration of {1:?} is unknown; use Equal, Exists, Lt or Gt")]
    Operator(String, String),
}

impl TaintEffect {
    /// As written in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => names::NO_SCHEDULE,
            Self::PreferNoSchedule => names::PREFER_NO_SCHEDULE,
            Self::NoExecute => names::NO_EXECUTE,
        }
    }
}

impl fmt::Display for TaintEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TaintEffect {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute];
        all.into_iter().find(|effect| effect.as_str() == text).ok_or(())
    }
}

impl Taint {
    /// Joins the three parts.
    pub fn new(key: impl Into<String>, value: impl Into<String>, effect: TaintEffect) -> Self {
        Self { key: key.into(), value: value.into(), effect }
    }

    /// Reads a taint of a Node, NodePool or NodeClaim.
    pub fn from_api(taint: &core::Taint) -> Result<Self, InvalidTaint> {
        if taint.key.is_empty() {
            return Err(InvalidTaint::NoKey);
        }
        let effect = taint
            .effect
            .parse()
            .map_err(|()| InvalidTaint::Effect(taint.effect.clone(), taint.key.clone()))?;
        Ok(Self::new(taint.key.clone(), taint.value.clone().unwrap_or_default(), effect))
    }

    /// Back to the API's form.
    pub fn to_api(&self) -> core::Taint {
        core::Taint {
            key: self.key.clone(),
            value: (!self.value.is_empty()).then(|| self.value.clone()),
            effect: self.effect.as_str().to_owned(),
            time_added: None,
        }
    }

    /// Same key and effect: how Kubernetes tells taints apart.
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    /// Whether the taint goes away by itself while a node starts, so that it counts only once the node is Initialized.
    pub fn is_ephemeral(&self) -> bool {
        use TaintEffect::{NoExecute, NoSchedule};
        match (self.key.as_str(), self.effect) {
            (names::NOT_READY, NoSchedule | NoExecute)
            | (names::UNREACHABLE | names::CAPI_UNINITIALIZED, NoSchedule)
            | (names::UNREGISTERED, NoExecute) => true,
            (names::CLOUD_PROVIDER_UNINITIALIZED, NoSchedule) => self.value == "true",
            (key, _) => key.starts_with(names::READINESS_PREFIX),
        }
    }
}

/// `key=value:effect`, or `key:effect` where the value is empty.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{}:{}", self.key, self.value, self.effect)
    }
}

impl Toleration {
    /// Tolerates every taint.
    pub const fn everything() -> Self {
        Self { key: String::new(), operator: TolerationOperator::Exists, value: String::new(), effect: None }
    }

    /// Reads a toleration of a pod.
    pub fn from_api(toleration: &core::Toleration) -> Result<Self, InvalidTaint> {
        let key = toleration.key.clone().unwrap_or_default();
        let operator = match toleration.operator.as_deref() {
            None | Some("" | "Equal") => TolerationOperator::Equal,
            Some("Exists") => TolerationOperator::Exists,
            Some("Lt") => TolerationOperator::Lt,
            Some("Gt") => TolerationOperator::Gt,
            Some(other) => return Err(InvalidTaint::Operator(other.to_owned(), key)),
        };
        let effect = match toleration.effect.as_deref() {
            None | Some("") => None,
            Some(text) => {
                Some(text.parse().map_err(|()| InvalidTaint::Effect(text.to_owned(), key.clone()))?)
            }
        };
        Ok(Self { key, operator, value: toleration.value.clone().unwrap_or_default(), effect })
    }

    /// Whether a pod with this toleration bears the taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        let numbers = || Some((taint.value.parse::<i64>().ok()?, self.value.parse::<i64>().ok()?));
        match self.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Lt => numbers().is_some_and(|(taint, own)| taint < own),
            TolerationOperator::Gt => numbers().is_some_and(|(taint, own)| taint > own),
        }
    }
}

/// The first taint that no toleration bears. `PreferNoSchedule` is borne by everybody where `prefer_too` says so.
pub fn untolerated<'a>(
    taints: impl IntoIterator<Item = &'a Taint>,
    tolerations: &[Toleration],
    prefer_too: bool,
) -> Option<&'a Taint> {
    taints.into_iter().find(|taint| {
        let preference = prefer_too && taint.effect == TaintEffect::PreferNoSchedule;
        !preference && !tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(text: &str) -> Taint {
        let (head, effect) = text.rsplit_once(':').unwrap();
        let (key, value) = head.split_once('=').unwrap_or((head, ""));
        Taint::new(key, value, effect.parse().unwrap())
    }

    #[test]
    fn taints_of_a_starting_node_are_ephemeral_and_others_are_not() {
        for text in [
            "node.kubernetes.io/not-ready:NoSchedule",
            "node.kubernetes.io/not-ready:NoExecute",
            "node.kubernetes.io/unreachable:NoSchedule",
            "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
            "node.cluster.x-k8s.io/uninitialized:NoSchedule",
            "karpenter.sh/unregistered:NoExecute",
            "readiness.k8s.io/net:NoSchedule",
        ] {
            assert!(taint(text).is_ephemeral(), "{text}");
            assert_eq!(taint(text).to_string(), text);
        }
        for text in [
            "node.kubernetes.io/unreachable:NoExecute",
            "node.cloudprovider.kubernetes.io/uninitialized:NoSchedule",
            "node.cluster.x-k8s.io/outdated-revision:PreferNoSchedule",
            "karpenter.sh/disrupted:NoSchedule",
            "node.kubernetes.io/unschedulable:NoSchedule",
        ] {
            assert!(!taint(text).is_ephemeral(), "{text}");
        }
    }

    #[test]
    fn the_first_taint_that_nobody_bears_is_named() {
        let taints = [taint("a=1:NoSchedule"), taint("b:PreferNoSchedule"), taint("c:NoExecute")];
        let bears_a = Toleration {
            key: "a".to_owned(),
            value: "1".to_owned(),
            operator: TolerationOperator::Equal,
            effect: None,
        };
        assert_eq!(untolerated(&taints, &[], false), Some(&taints[0]));
        assert_eq!(untolerated(&taints, std::slice::from_ref(&bears_a), false), Some(&taints[1]));
        assert_eq!(untolerated(&taints, std::slice::from_ref(&bears_a), true), Some(&taints[2]));
        assert_eq!(untolerated(&taints, &[Toleration::everything()], false), None);
    }

    #[test]
    fn an_unknown_effect_is_refused_rather_than_guessed_away() {
        let bad = core::Taint { key: "gpu".to_owned(), effect: "Never".to_owned(), ..core::Taint::default() };
        assert!(Taint::from_api(&bad).unwrap_err().to_string().contains("Never"));
        let bad = core::Taint { effect: "NoSchedule".to_owned(), ..core::Taint::default() };
        assert_eq!(Taint::from_api(&bad), Err(InvalidTaint::NoKey));
    }
}
