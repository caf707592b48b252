//! What `doctor` says: findings, and the report that they stand in. The names of fields and codes are an interface.

use crate::output::counted;
use karpenter_capi_lifecycle::invariants::Rule;
use serde::Serialize;
use std::fmt::Write;

/// Whether something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// It is.
    Problem,
    /// It isn't, but a person should know.
    Note,
}

/// What a finding is about, the more fundamental first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Code {
    /// Something couldn't be read.
    Unreadable,
    /// The books weren't checked, since a part of them couldn't be read.
    BooksUnchecked,
    /// Cluster API isn't served, or not all of it.
    ClusterApiMissing,
    /// A custom resource of ours isn't installed, or not served in our version.
    DefinitionMissing,
    /// A custom resource of that name lacks what this version needs.
    DefinitionOutdated,
    /// There is no such Cluster.
    ClusterNotFound,
    /// The workload cluster isn't the one that the Cluster's Machines belong to.
    ForeignWorkloadCluster,
    /// Nothing says which workload cluster the Machines belong to.
    WorkloadClusterUnrecorded,
    /// No operator leads.
    NoLeader,
    /// More than one operator leads, each by a Lease of its own.
    SeveralLeaders,
    /// One object is not of the form that its kind has.
    BrokenObject,
    /// A ClusterAPINodeClass isn't Ready.
    NodeClassNotReady,
    /// A NodePool isn't Ready.
    NodePoolNotReady,
    /// An annotation of a MachineDeployment can't be read.
    Warning,
    /// Somebody has paused the Cluster or a MachineDeployment.
    Paused,
    /// A MachineDeployment is being rolled out: its figures aren't judged meanwhile.
    RollingOut,
    /// The books, see [`Rule`].
    #[serde(untagged)]
    Books(Rule),
}

impl Code {
    /// Whether waiting changes nothing about it, so that one reading is enough.
    pub(crate) fn is_lasting(self) -> bool {
        match self {
            Self::Unreadable
            | Self::BooksUnchecked
            | Self::ClusterApiMissing
            | Self::DefinitionMissing
            | Self::DefinitionOutdated
            | Self::ClusterNotFound
            | Self::ForeignWorkloadCluster
            | Self::WorkloadClusterUnrecorded
            | Self::BrokenObject
            | Self::Warning
            | Self::Paused
            | Self::RollingOut => true,
            Self::NoLeader
            | Self::SeveralLeaders
            | Self::NodeClassNotReady
            | Self::NodePoolNotReady
            | Self::Books(_) => false,
        }
    }

    /// Whether the second reading finds it by comparing itself with the first, so that it needn't have been found before.
    pub(crate) fn is_of_both_readings(self) -> bool {
        matches!(self, Self::NoLeader | Self::SeveralLeaders)
    }
}

/// Something that a person should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) code: Code,
    /// `Kind name` or `Kind namespace/name`; empty where it is about no one object.
    pub(crate) object: String,
    pub(crate) message: String,
    /// What helps.
    pub(crate) remedy: String,
}

impl Finding {
    pub(crate) fn problem(
        code: Code,
        object: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Problem,
            code,
            object: object.into(),
            message: message.into(),
            remedy: remedy.into(),
        }
    }

    pub(crate) fn note(
        code: Code,
        object: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Note, ..Self::problem(code, object, message, remedy) }
    }
}

/// How much was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    pub(crate) node_pools: usize,
    pub(crate) node_claims: usize,
    pub(crate) nodes: usize,
    pub(crate) machine_deployments: usize,
    pub(crate) machines: usize,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// `namespace/name`; null where none could be chosen.
    pub(crate) cluster: Option<String>,
    /// No finding is a problem.
    pub(crate) healthy: bool,
    /// Who leads; null where nobody is known to.
    pub(crate) leader: Option<String>,
    /// How often both clusters were read: 2 where something might have passed.
    pub(crate) readings: u8,
    pub(crate) counts: Counts,
    pub(crate) findings: Vec<Finding>,
}

/// The report for people.
pub(crate) fn table(report: &Report) -> String {
    let counts = [
        (report.counts.node_pools, "NodePool"),
        (report.counts.node_claims, "NodeClaim"),
        (report.counts.nodes, "Node"),
        (report.counts.machine_deployments, "MachineDeployment"),
        (report.counts.machines, "Machine"),
    ];
    let counts = counts.map(|(count, noun)| counted(count, noun)).join(", ");
    let cluster = report.cluster.as_deref().unwrap_or("none");
    let leader = report.leader.as_deref().unwrap_or("nobody");
    let mut text = format!("Cluster {cluster}: {counts}. Leading: {leader}.\n");
    let of = |severity| report.findings.iter().filter(move |finding| finding.severity == severity);
    for (severity, title) in [(Severity::Problem, "Problems"), (Severity::Note, "Notes")] {
        let lines: Vec<String> = of(severity).map(line).collect();
        if !lines.is_empty() {
            // Writing to a String can't fail.
            _ = write!(text, "\n{title}\n{}", lines.concat());
        }
    }
    let (problems, notes) = (of(Severity::Problem).count(), of(Severity::Note).count());
    let summary = if problems == 0 {
        "Nothing is wrong.".to_owned()
    } else {
        format!("{}.", counted(problems, "problem"))
    };
    let remarks = if notes == 0 { String::new() } else { format!(" {}.", counted(notes, "note")) };
    _ = writeln!(text, "\n{summary}{remarks}");
    text
}

fn line(finding: &Finding) -> String {
    let Finding { severity: _, code, object, message, remedy } = finding;
    let code = code_name(*code);
    let object = if object.is_empty() { String::new() } else { format!("{object}: ") };
    let remedy = if remedy.is_empty() { String::new() } else { format!("      {remedy}\n") };
    format!("  {code}  {object}{message}\n{remedy}")
}

/// As it is in JSON.
fn code_name(code: Code) -> String {
    match serde_json::to_value(code) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{code:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_plain_words_for_the_books_too() {
        assert_eq!(code_name(Code::NoLeader), "NoLeader");
        assert_eq!(code_name(Code::Books(Rule::Hook)), "Hook");
    }

    #[test]
    fn problems_come_before_notes_and_both_are_counted() {
        let report = Report {
            cluster: Some("d/c".into()),
            healthy: false,
            leader: None,
            readings: 2,
            counts: Counts::default(),
            findings: vec![
                Finding::note(Code::Paused, "Cluster d/c", "spec.paused is true", ""),
                Finding::problem(Code::Books(Rule::Hook), "Machine d/m", "a claim, but not our hook", "wait"),
            ],
        };
        let text = table(&report);
        let places: Vec<_> = [
            "Leading: nobody",
            "Problems",
            "Hook  Machine d/m: a claim",
            "wait",
            "Notes",
            "1 problem. 1 note.",
        ]
        .map(|part| text.find(part).unwrap_or_else(|| panic!("{part:?} isn't in {text}")))
        .into();
        assert!(places.is_sorted(), "{text}");
    }
}
