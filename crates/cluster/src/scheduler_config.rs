//! `--scheduler-config`: what kube-scheduler's own configuration says about pods that say nothing.

use karpenter_capi_api::names::labels;
use karpenter_capi_api::validation::qualified_name_problem;
use karpenter_capi_model::pod::TopologySpreadConstraint;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// Defaults for pods, as kube-scheduler applies them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Topology spread constraints of pods that have none. Their selectors are made for each pod.
    pub(crate) default_constraints: Vec<TopologySpreadConstraint>,
}

/// A configuration that can't be used, with everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct InvalidSchedulerConfig(Vec<String>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    pod_topology_spread: Option<PodTopologySpread>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodTopologySpread {
    #[serde(default)]
    default_constraints: Vec<Constraint>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Constraint {
    max_skew: i32,
    topology_key: String,
    when_unsatisfiable: String,
    min_domains: Option<i32>,
    node_affinity_policy: Option<String>,
    node_taints_policy: Option<String>,
    label_selector: Option<Value>,
    match_label_keys: Option<Value>,
}

impl SchedulerConfig {
    /// Reads a configuration. A text without anything in it says nothing.
    pub fn parse(text: &str) -> Result<Self, InvalidSchedulerConfig> {
        let says_something = text
            .lines()
            .map(str::trim)
            .any(|line| !line.is_empty() && !line.starts_with('#') && line != "---");
        if !says_something {
            return Ok(Self::default());
        }
        let document: Document =
            serde_saphyr::from_str_with_options(text, serde_saphyr::options! { with_snippet: false })
                .map_err(|error| InvalidSchedulerConfig(vec![error.without_snippet().to_string()]))?;
        let listed =
            document.pod_topology_spread.map(|spread| spread.default_constraints).unwrap_or_default();
        let mut problems = Vec::new();
        let mut seen = BTreeSet::new();
        for (index, constraint) in listed.iter().enumerate() {
            let path = format!("podTopologySpread.defaultConstraints[{index}]");
            constraint.check(&path, &mut problems);
            if !seen.insert((&constraint.topology_key, &constraint.when_unsatisfiable)) {
                problems.push(format!(
                    "{path}: {} with {} stands twice; leave one",
                    constraint.topology_key, constraint.when_unsatisfiable
                ));
            }
        }
        if problems.is_empty() {
            Ok(Self { default_constraints: listed.into_iter().map(Constraint::into_model).collect() })
        } else {
            Err(InvalidSchedulerConfig(problems))
        }
    }

    /// Whether pods without topology spread constraints get some, so that Services and owners of pods have to be known.
    pub fn has_default_constraints(&self) -> bool {
        !self.default_constraints.is_empty()
    }
}

impl Constraint {
    fn check(&self, path: &str, problems: &mut Vec<String>) {
        let mut wrong = |field: &str, words: String| problems.push(format!("{path}.{field}: {words}"));
        if self.max_skew < 1 {
            wrong("maxSkew", format!("{} is below 1", self.max_skew));
        }
        if let Some(problem) = qualified_name_problem(&self.topology_key) {
            wrong("topologyKey", format!("{:?} is no label key: {problem}", self.topology_key));
        }
        let hard = self.when_unsatisfiable == "DoNotSchedule";
        if !hard && self.when_unsatisfiable != "ScheduleAnyway" {
            wrong(
                "whenUnsatisfiable",
                format!("{:?} is neither DoNotSchedule nor ScheduleAnyway", self.when_unsatisfiable),
            );
        }
        match self.min_domains {
            Some(count) if count < 1 => wrong("minDomains", format!("{count} is below 1")),
            Some(_) if !hard => wrong("minDomains", "it goes with DoNotSchedule only".to_owned()),
            _ => {}
        }
        let policies = [
            ("nodeAffinityPolicy", &self.node_affinity_policy),
            ("nodeTaintsPolicy", &self.node_taints_policy),
        ];
        for (field, policy) in policies {
            if let Some(policy) = policy.as_deref().filter(|policy| !["Honor", "Ignore"].contains(policy)) {
                wrong(field, format!("{policy:?} is neither Honor nor Ignore"));
            }
        }
        for (field, value) in
            [("labelSelector", &self.label_selector), ("matchLabelKeys", &self.match_label_keys)]
        {
            if value.is_some() {
                wrong(
                    field,
                    "a default can't have it: each pod's Services and owner make the selector; remove it"
                        .to_owned(),
                );
            }
        }
    }

    fn into_model(self) -> TopologySpreadConstraint {
        TopologySpreadConstraint {
            topology_key: labels::normalized(&self.topology_key).to_owned(),
            max_skew: self.max_skew,
            required: self.when_unsatisfiable == "DoNotSchedule",
            selector: None,
            min_domains: self.min_domains,
            honor_node_affinity: self.node_affinity_policy.as_deref() != Some("Ignore"),
            honor_node_taints: self.node_taints_policy.as_deref() == Some("Honor"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(constraints: &str) -> Result<SchedulerConfig, String> {
        let text = format!("podTopologySpread: {{defaultConstraints: [{constraints}]}}");
        SchedulerConfig::parse(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn constraints_are_read_with_the_defaults_of_pods() {
        let config = with(
            "{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3}, \
             {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, nodeAffinityPolicy: Ignore, \
              nodeTaintsPolicy: Honor}",
        )
        .unwrap();
        let [zone, host] = config.default_constraints.as_slice() else { panic!("{config:?}") };
        assert_eq!((zone.max_skew, zone.required, zone.min_domains), (2, true, Some(3)));
        assert_eq!((zone.honor_node_affinity, zone.honor_node_taints), (true, false));
        assert_eq!((host.required, host.honor_node_affinity, host.honor_node_taints), (false, false, true));
    }

    #[test]
    fn a_text_that_says_nothing_is_no_default() {
        for text in [
            "",
            " \n",
            "# nothing yet\n---\n",
            "{}",
            "podTopologySpread: {}",
            "podTopologySpread: {defaultConstraints: []}",
        ] {
            assert_eq!(SchedulerConfig::parse(text), Ok(SchedulerConfig::default()), "{text:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (constraint, words) in [
            ("{maxSkew: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule}", "[0].maxSkew: 0 is below 1"),
            (
                "{maxSkew: 1, topologyKey: '-z', whenUnsatisfiable: DoNotSchedule}",
                "[0].topologyKey: \"-z\" is no label key",
            ),
            (
                "{maxSkew: 1, topologyKey: '', whenUnsatisfiable: DoNotSchedule}",
                "[0].topologyKey: \"\" is no label key",
            ),
            (
                "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: Never}",
                "\"Never\" is neither DoNotSchedule nor",
            ),
            (
                "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}",
                "minDomains: it goes with",
            ),
            (
                "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Maybe}",
                "\"Maybe\" is neither",
            ),
            (
                "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}",
                "labelSelector: a default",
            ),
            (
                "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [a]}",
                "matchLabelKeys: a default",
            ),
            (
                "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule}",
                "[1]: z with DoNotSchedule stands twice",
            ),
            ("{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, weight: 1}", "weight"),
            ("{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}", "topologyKey"),
        ] {
            let error = with(constraint).unwrap_err();
            assert!(error.contains(words), "{constraint}: {error}");
        }
        let error = SchedulerConfig::parse("podTopologySpred: {}").unwrap_err().to_string();
        assert!(error.contains("podTopologySpred"), "{error}");
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let error = with("{maxSkew: 0, topologyKey: '', whenUnsatisfiable: ''}").unwrap_err();
        assert_eq!(error.split("; ").count(), 3, "{error}");
    }
}
