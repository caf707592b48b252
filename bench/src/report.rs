//! What a run has found, as data.

use serde::Serialize;

use crate::audit::Tally;
use crate::process::Memory;
use crate::reaction::Reaction;
use crate::watches::Mark;

/// Everything that a run has found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Versions of what the control plane is made of.
    pub(crate) versions: Vec<(String, String)>,
    pub(crate) settings: Settings,
    /// The operator, and the peer if it was there.
    pub(crate) subjects: Vec<Findings>,
    /// The peer's figures divided by the operator's.
    pub(crate) ratios: Vec<Ratio>,
}

/// Where it ran.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) memory_kib: u32,
}

/// How it ran.
#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    /// Nodes that the fleet grows to.
    pub(crate) nodes: u32,
    /// MachineDeployments that the fleet is spread over.
    pub(crate) machine_deployments: u32,
    pub(crate) batch_idle_milliseconds: f64,
    /// How long a Node's lease lasts.
    pub(crate) node_lease_seconds: u64,
    /// Arguments of components that differ from the end-to-end suite's.
    pub(crate) relaxed: Vec<String>,
    /// In which versions the API server serves Cluster API's kinds.
    pub(crate) cluster_api_versions: &'static str,
    /// What the hollow cloud waits before a machine has a provider ID and before it is a Node.
    pub(crate) cloud_delay_milliseconds: f64,
}

/// What was found of one subject.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    pub(crate) name: &'static str,
    pub(crate) reactions: Vec<Reaction>,
    pub(crate) scale_up: ScaleUp,
    pub(crate) idle: Idle,
    /// Memory at several moments, in order.
    pub(crate) memory: Vec<Moment>,
}

/// Memory and processor time of the subject at a moment.
#[derive(Debug, Serialize)]
pub(crate) struct Moment {
    pub(crate) when: &'static str,
    #[serde(flatten)]
    pub(crate) memory: Memory,
    /// Since its start.
    pub(crate) processor_seconds: f64,
}

/// From no fleet to a whole one.
#[derive(Debug, Serialize)]
pub(crate) struct ScaleUp {
    pub(crate) nodes: u32,
    /// From the first Deployment applied to the last pod Running and the last NodeClaim Initialized.
    pub(crate) seconds: f64,
    pub(crate) timeline: Vec<Reached>,
    /// Processor time that each process used meanwhile, in seconds.
    pub(crate) processor_seconds: Vec<(String, f64)>,
    pub(crate) requests: Requests,
}

/// When a mark was reached, in seconds since the first Deployment was applied.
#[derive(Debug, Serialize)]
pub(crate) struct Reached {
    pub(crate) mark: Mark,
    pub(crate) first: f64,
    pub(crate) half: f64,
    pub(crate) all: f64,
}

/// A span in which nothing happens.
#[derive(Debug, Serialize)]
pub(crate) struct Idle {
    pub(crate) seconds: f64,
    pub(crate) processor_seconds: f64,
    pub(crate) requests: Requests,
}

/// The subject's requests in a span of time.
#[derive(Debug, Serialize)]
pub(crate) struct Requests {
    pub(crate) count: u32,
    pub(crate) per_second: f64,
    pub(crate) by_kind: Vec<Tally>,
}

impl Requests {
    pub(crate) fn over(seconds: f64, by_kind: Vec<Tally>) -> Self {
        let count: u32 = by_kind.iter().map(|tally| tally.count).sum();
        Self { count, per_second: f64::from(count) / seconds, by_kind }
    }
}

/// The peer's figure divided by the operator's.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    pub(crate) what: String,
    pub(crate) ours: f64,
    pub(crate) peer: f64,
    /// Above 1, the peer's figure is the larger one.
    pub(crate) times: f64,
}

fn ratio(what: String, ours: f64, peer: f64) -> Ratio {
    Ratio { what, ours, peer, times: peer / ours }
}

/// Both subjects' figures, where they are of the same thing.
pub(crate) fn ratios(ours: &Findings, peer: &Findings, window_milliseconds: f64) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for (place, ours) in ours.reactions.iter().enumerate() {
        let Some(peer) = peer.reactions.get(place).filter(|peer| peer.pods == ours.pods) else { continue };
        let (mine, theirs) = (&ours.beyond_window, &peer.beyond_window);
        let what = format!("{} pods, {} Nodes: ", ours.pods, ours.nodes);
        ratios.push(ratio(
            format!("{what}unschedulable to replicas, median, ms, window included"),
            mine.median + window_milliseconds,
            theirs.median + window_milliseconds,
        ));
        ratios.push(ratio(format!("{what}the same beyond the window"), mine.median, theirs.median));
    }
    ratios.push(ratio(
        "scale-up, s a Node".to_owned(),
        per_node(ours, ours.scale_up.seconds),
        per_node(peer, peer.scale_up.seconds),
    ));
    ratios.push(ratio(
        "requests a Node during the scale-up".to_owned(),
        per_node(ours, f64::from(ours.scale_up.requests.count)),
        per_node(peer, f64::from(peer.scale_up.requests.count)),
    ));
    ratios.push(ratio(
        "requests a second at idle".to_owned(),
        ours.idle.requests.per_second,
        peer.idle.requests.per_second,
    ));
    if let (Some(ours), Some(peer)) = (ours.memory.last(), peer.memory.last()) {
        let mebibytes = |moment: &Moment| f64::from(moment.memory.peak_kib) / 1024.0;
        ratios.push(ratio("peak memory, MiB".to_owned(), mebibytes(ours), mebibytes(peer)));
    }
    ratios
}

fn per_node(findings: &Findings, figure: f64) -> f64 {
    figure / f64::from(findings.scale_up.nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_summed_over_kinds() {
        let tally = |count| Tally { cluster: "workload", verb: "get".into(), resource: "pods".into(), count };
        let requests = Requests::over(10.0, vec![tally(15), tally(5)]);
        assert_eq!(requests.count, 20);
        assert!((requests.per_second - 2.0).abs() < f64::EPSILON);
    }
}
