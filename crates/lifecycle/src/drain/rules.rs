//! Cluster API's drain rules and the drain label, as Cluster API itself reads them.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use karpenter_capi_api::capi::{Cluster, Machine, MachineDrainRule};
use karpenter_capi_api::names::labels;
use karpenter_capi_model::selector::LabelSelector;
use std::collections::BTreeMap;

/// How a pod is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Evicted; pods of a lower order first.
    Drain {
        /// 0 where no rule gives another.
        order: i32,
    },
    /// Neither evicted nor waited for.
    Skip,
    /// Waited for, never evicted; its order is 0.
    WaitCompleted,
}

impl Treatment {
    pub(super) fn order(self) -> i32 {
        match self {
            Self::Drain { order } => order,
            Self::Skip | Self::WaitCompleted => 0,
        }
    }
}

/// A rule that can't be read. As in Cluster API it holds every drain up: it may be the one that protects the pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("MachineDrainRule {rule} can't be read, correct or delete it: {message}")]
pub struct UnreadableRule {
    /// Namespace and name.
    pub rule: String,
    /// What is wrong.
    pub message: String,
}

/// The rules that apply to one Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainRules {
    /// By name: the first that matches a pod holds.
    rules: Vec<Rule>,
    /// Labels of the namespaces.
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    name: String,
    treatment: Treatment,
    /// Pod and namespace; empty for all pods.
    pods: Vec<(LabelSelector, LabelSelector)>,
}

impl DrainRules {
    /// Chooses from the rules of the Machine's namespace; `namespaces` are those of the workload cluster.
    pub fn of_machine<'a>(
        rules: impl IntoIterator<Item = &'a MachineDrainRule>,
        machine: Option<&Machine>,
        cluster: Option<&Cluster>,
        namespaces: impl IntoIterator<Item = &'a Namespace>,
    ) -> Result<Self, UnreadableRule> {
        let machine = machine.and_then(|machine| machine.metadata.labels.clone()).unwrap_or_default();
        let cluster = cluster.and_then(|cluster| cluster.metadata.labels.clone()).unwrap_or_default();
        let mut chosen = Vec::new();
        for rule in rules {
            if applies(rule, &machine, &cluster)? {
                chosen.push(parse(rule)?);
            }
        }
        if chosen.is_empty() {
            return Ok(Self::default());
        }
        chosen.sort_by(|a, b| a.name.cmp(&b.name));
        let namespaces = namespaces
            .into_iter()
            .map(|namespace| {
                let metadata = &namespace.metadata;
                (metadata.name.clone().unwrap_or_default(), metadata.labels.clone().unwrap_or_default())
            })
            .collect();
        Ok(Self { rules: chosen, namespaces })
    }

    /// How the pod is drained: its own label holds before every rule.
    pub fn of(&self, pod: &Pod) -> Treatment {
        let none = BTreeMap::new();
        let own = pod.metadata.labels.as_ref().unwrap_or(&none);
        match own.get(labels::DRAIN) {
            Some(value) if value.eq_ignore_ascii_case(labels::DRAIN_SKIP) => return Treatment::Skip,
            // Cluster API drops the first hyphen and compares without case, so `WaitCompleted` is right, too.
            Some(value) if value.replacen('-', "", 1).eq_ignore_ascii_case("waitcompleted") => {
                return Treatment::WaitCompleted;
            }
            _ => {}
        }
        let namespace =
            pod.metadata.namespace.as_ref().and_then(|name| self.namespaces.get(name)).unwrap_or(&none);
        let matches = |rule: &&Rule| {
            rule.pods.is_empty()
                || rule.pods.iter().any(|(pod, of)| pod.matches(own) && of.matches(namespace))
        };
        self.rules.iter().find(matches).map_or(Treatment::Drain { order: 0 }, |rule| rule.treatment)
    }
}

fn applies(
    rule: &MachineDrainRule,
    machine: &BTreeMap<String, String>,
    cluster: &BTreeMap<String, String>,
) -> Result<bool, UnreadableRule> {
    let mut any = rule.spec.machines.is_empty();
    for one in &rule.spec.machines {
        let machines = selector(rule, one.selector.as_ref())?;
        let clusters = selector(rule, one.cluster_selector.as_ref())?;
        any = any || machines.matches(machine) && clusters.matches(cluster);
    }
    Ok(any)
}

fn parse(rule: &MachineDrainRule) -> Result<Rule, UnreadableRule> {
    let treatment = match rule.spec.drain.behavior.as_str() {
        "Drain" => Treatment::Drain { order: rule.spec.drain.order.unwrap_or(0) },
        "Skip" => Treatment::Skip,
        "WaitCompleted" => Treatment::WaitCompleted,
        other => {
            let message =
                format!("spec.drain.behavior is {other:?}; it is one of Drain, Skip, WaitCompleted");
            return Err(unreadable(rule, message));
        }
    };
    let mut pods = Vec::new();
    for one in &rule.spec.pods {
        pods.push((selector(rule, one.selector.as_ref())?, selector(rule, one.namespace_selector.as_ref())?));
    }
    Ok(Rule { name: rule.metadata.name.clone().unwrap_or_default(), treatment, pods })
}

/// A selector that isn't given matches everything, as an empty one does.
fn selector(
    rule: &MachineDrainRule,
    selector: Option<&meta::LabelSelector>,
) -> Result<LabelSelector, UnreadableRule> {
    let Some(selector) = selector else {
        return Ok(LabelSelector::default());
    };
    LabelSelector::from_api(selector).map_err(|error| unreadable(rule, error.to_string()))
}

fn unreadable(rule: &MachineDrainRule, message: String) -> UnreadableRule {
    let metadata = &rule.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    UnreadableRule { rule: format!("{namespace}/{name}"), message }
}
