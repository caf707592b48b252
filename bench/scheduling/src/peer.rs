//! Upstream's solver on a document: a Go program of this repository around upstream's own packages.

use crate::measure::{Spread, Time};
use crate::report::Outcome;
use anyhow::{Context, Result, ensure};
use karpenter_capi_go_programs::{GoProgram, Module};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const PROGRAM: &str = "peer-solver";

static MODULE: Module = Module {
    name: "upstream's solver",
    folder: "peer-solver",
    takes: "about two CPU minutes",
    go_mod: include_str!("../../peer/go.mod"),
    go_sum: include_str!("../../peer/go.sum"),
    sources: &[
        ("document.go", include_str!("../../peer/document.go")),
        ("main.go", include_str!("../../peer/main.go")),
        ("outcome.go", include_str!("../../peer/outcome.go")),
        ("world.go", include_str!("../../peer/world.go")),
    ],
    programs: &[GoProgram { package: ".", file_name: PROGRAM, built_names: &["peer"] }],
    stamps: &[],
};

/// The built program.
pub(crate) struct Peer(PathBuf);

/// What several runs of one document came to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Theirs {
    pub(crate) version: String,
    pub(crate) runs: usize,
    /// `NewTopology`.
    pub(crate) topology: Spread,
    /// `Solve`.
    pub(crate) solve: Spread,
    /// Both, run by run.
    pub(crate) sum: Spread,
    /// During `Solve`.
    pub(crate) allocations: u64,
    /// Of the run with the lowest price: the runs differ, as upstream breaks ties by chance.
    pub(crate) outcome: Outcome,
}

#[derive(Deserialize)]
struct Printed {
    version: String,
    runs: Vec<Run>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    topology_millis: f64,
    topology_cpu_millis: f64,
    solve_millis: f64,
    solve_cpu_millis: f64,
    allocations: u64,
    #[serde(flatten)]
    outcome: Outcome,
}

impl Run {
    fn topology(&self) -> Time {
        Time { wall: self.topology_millis, cpu: self.topology_cpu_millis }
    }

    fn solve(&self) -> Time {
        Time { wall: self.solve_millis, cpu: self.solve_cpu_millis }
    }
}

impl Peer {
    /// The cached program; it is built first if it isn't there.
    pub(crate) fn ensure() -> Result<Self> {
        Ok(Self(Module::path(&MODULE.programs()?, PROGRAM)))
    }

    pub(crate) fn measure(&self, document: &Value, runs: u32) -> Result<Theirs> {
        let mut program = Command::new(&self.0)
            .arg(format!("-runs={runs}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting upstream's solver")?;
        // It reads the whole document before it writes anything.
        if let Some(mut input) = program.stdin.take() {
            input.write_all(document.to_string().as_bytes()).context("handing the document over")?;
        }
        let output = program.wait_with_output().context("waiting for upstream's solver")?;
        ensure!(output.status.success(), "upstream's solver failed: {}", output.status);
        let printed =
            serde_json::from_slice(&output.stdout).context("reading what upstream's solver printed")?;
        theirs(printed)
    }
}

fn theirs(printed: Printed) -> Result<Theirs> {
    let of = |pick: fn(&Run) -> Time| -> Vec<Time> { printed.runs.iter().map(pick).collect() };
    let better = |a: &&Run, b: &&Run| {
        b.outcome
            .pods_placed
            .cmp(&a.outcome.pods_placed)
            .then(a.outcome.total_price.total_cmp(&b.outcome.total_price))
    };
    let best = printed.runs.iter().min_by(better).context("upstream's solver ran not once")?;
    Ok(Theirs {
        runs: printed.runs.len(),
        topology: Spread::of(&of(Run::topology)),
        solve: Spread::of(&of(Run::solve)),
        sum: Spread::of(&of(|run| run.topology().plus(run.solve()))),
        allocations: printed.runs.iter().map(|run| run.allocations).min().unwrap_or_default(),
        outcome: best.outcome.clone(),
        version: printed.version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_run_stands_for_the_outcome_and_all_for_the_times() {
        let run = |placed: usize, price: f64, wall: f64| {
            serde_json::json!({"topologyMillis": 1.0, "topologyCpuMillis": 1.0, "schedulerMillis": 1.0,
                "solveMillis": wall, "solveCpuMillis": wall, "allocations": 7, "podsPlaced": placed,
                "podErrors": 0, "nodeClaims": 1, "totalPrice": price})
        };
        let runs = [run(9, 1.0, 5.0), run(10, 3.0, 7.0), run(10, 2.0, 9.0)];
        let printed = serde_json::json!({"version": "v1", "runs": runs});
        let theirs = theirs(serde_json::from_value(printed).unwrap()).unwrap();
        assert_eq!(
            (theirs.outcome.pods_placed, theirs.outcome.total_price.to_bits()),
            (10, 2.0_f64.to_bits())
        );
        assert_eq!(theirs.sum.median.wall.to_bits(), 8.0_f64.to_bits());
    }
}
