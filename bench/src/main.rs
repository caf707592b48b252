//! `cargo xtask bench operator`: how quickly the operator reacts, and what it takes, on a real control plane with hollow machines.
//!
//! [bench/README.md](../README.md) says what each figure means.
#![expect(clippy::print_stdout, reason = "a command line tool: its report goes to standard output")]

mod audit;
mod counter;
mod process;
mod reaction;
mod report;
mod scenario;
mod stage;
mod statistics;
mod subject;
mod surroundings;
mod table;
mod watches;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use karpenter_capi_e2e::plane::Served;
use tokio::signal::unix::{SignalKind, signal};

use report::{Report, Settings};
use scenario::Plan;
use statistics::milliseconds;
use subject::Subject;

/// Measures the operator on a control plane of its own, and the Go peer in its place if there is one.
#[derive(Parser)]
#[command(name = "cargo xtask bench operator", max_term_width = 120)]
struct Options {
    /// Nodes that the fleet grows to
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Rounds of one pod, before and after the scale-up
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Rounds of ten pods, before and after the scale-up
    #[arg(long, default_value_t = 5)]
    bursts: u32,
    /// Seconds in which nothing happens, after the scale-up
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(1..))]
    idle: u64,
    /// The report on standard output
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Write the report as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Controller of karpenter-provider-cluster-api, built by you: the same is done to it afterwards, and compared
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<PathBuf>,
    /// Nodes of the peer's fleet [default: --nodes]
    #[arg(long, requires = "peer", value_parser = clap::value_parser!(u32).range(1..))]
    peer_nodes: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

#[tokio::main]
async fn main() -> ExitCode {
    match until_ended(&Options::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A signal drops the bench where it stands: its handles end every process that was started.
async fn until_ended(options: &Options) -> Result<ExitCode> {
    let mut interrupted = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let mut terminated = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    tokio::select! {
        // One future for everything is too large for a stack.
        result = Box::pin(bench(options)) => result.map(|()| ExitCode::SUCCESS),
        _ = interrupted.recv() => Ok(ExitCode::FAILURE),
        _ = terminated.recv() => Ok(ExitCode::FAILURE),
    }
}

async fn bench(options: &Options) -> Result<()> {
    let plan = Plan {
        nodes: options.nodes,
        rounds: options.rounds,
        bursts: options.bursts,
        idle: Duration::from_secs(options.idle),
        served: served(options),
    };
    let ours = Subject::ours()?;
    let peer = options.peer.clone().map(Subject::peer).transpose()?;
    let mut subjects = vec![scenario::run(&ours, plan).await?];
    if let Some(peer) = peer {
        let plan = Plan { nodes: options.peer_nodes.unwrap_or(plan.nodes), ..plan };
        subjects.push(scenario::run(&peer, plan).await?);
    }
    let window = milliseconds(reaction::BATCH_IDLE);
    let ratios = match subjects.as_slice() {
        [ours, peer] => report::ratios(ours, peer, window),
        _ => Vec::new(),
    };
    let report = Report {
        machine: surroundings::machine()?,
        versions: surroundings::versions(),
        settings: settings(options),
        subjects,
        ratios,
    };
    tell(&report, options)
}

/// The peer knows `v1beta1` only. Both subjects meet the same control plane.
fn served(options: &Options) -> Served {
    if options.peer.is_some() { Served::AllVersions } else { Served::StoredVersion }
}

fn settings(options: &Options) -> Settings {
    let relaxed =
        stage::RELAXED.iter().map(|(component, argument)| format!("{} {argument}", component.name()));
    Settings {
        nodes: options.nodes,
        machine_deployments: stage::ZONES,
        batch_idle_milliseconds: milliseconds(reaction::BATCH_IDLE),
        node_lease_seconds: stage::NODE_LEASE.as_secs(),
        relaxed: relaxed.collect(),
        cluster_api_versions: match served(options) {
            Served::AllVersions => "v1beta1 and v1beta2",
            Served::StoredVersion => "v1beta2",
        },
        cloud_delay_milliseconds: milliseconds(stage::CLOUD_DELAY),
    }
}

fn tell(report: &Report, options: &Options) -> Result<()> {
    let json = serde_json::to_string_pretty(report).context("writing the report as JSON")?;
    if let Some(file) = &options.report {
        std::fs::write(file, format!("{json}\n")).with_context(|| format!("writing {}", file.display()))?;
    }
    match options.output {
        Output::Table => println!("{}", table::render(report)),
        Output::Json => println!("{json}"),
    }
    Ok(())
}
