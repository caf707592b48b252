//! `karpenter-capi simulate`: the operator's decisions, on files.

mod document;
mod manifests;
mod passes;
mod table;

use crate::output::{Format, render};
use crate::{Answer, Outcome};
use anyhow::{Context, bail};
use clap::ValueEnum;
use jiff::Timestamp;
use karpenter_capi_cluster::input::Scope;
use karpenter_capi_cluster::scheduler_config::SchedulerConfig;
use karpenter_capi_model::feature_gates::{self, FeatureGates};
use karpenter_capi_scheduling::input::{MinValuesPolicy, Options, PreferencePolicy, ReservedOfferingMode};
use karpenter_capi_scheduling::solve;
use std::path::{Path, PathBuf};

/// Most instance types that a claim lists, as upstream.
const MAX_INSTANCE_TYPES: usize = 600;

const AFTER_HELP: &str = "\
Exit status: 0 every pending pod has a place, 1 some have none, 2 bad input or usage, 70 --audit found the plan wrong.

Examples:
  karpenter-capi simulate -f examples/web-shop
  kubectl get pods,nodes,nodepools,nodeclaims,clusterapinodeclasses,machinedeployments -A -o yaml | karpenter-capi simulate -f -
  karpenter-capi simulate -f cluster.yaml -f more-pods.yaml -o json";

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Manifests: a file, a folder (its .yaml, .yml and .json files), or - for standard input. May be given several times.
    #[arg(short, long = "filename", value_name = "PATH", required = true)]
    filename: Vec<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// The time of the simulation, for example 2026-01-05T12:00:00Z; now, if it isn't given.
    #[arg(long, value_name = "RFC3339")]
    now: Option<Timestamp>,
    /// How many scheduling passes to run, each with the claims of the earlier ones in flight.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    passes: u32,
    /// The Cluster to look at, where the files hold objects of several.
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// The namespace of the Cluster.
    #[arg(long, value_name = "NAMESPACE")]
    cluster_namespace: Option<String>,
    /// Whether preferences of pods count before they are given up.
    #[arg(long, value_enum, ignore_case = true, default_value = "Respect")]
    preference_policy: Preference,
    /// What happens when minValues can't be met.
    #[arg(long, value_enum, ignore_case = true, default_value = "Strict")]
    min_values_policy: MinValues,
    /// What kube-scheduler's configuration gives to pods: a file with podTopologySpread.defaultConstraints.
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
    /// Optional features, Name=true or Name=false, separated by commas; as the operator's flag.
    #[arg(long, value_name = "GATES", default_value = feature_gates::DEFAULT)]
    feature_gates: FeatureGates,
    /// Check each plan by code that was written independently of the solver; exit with 70 if it finds something.
    #[arg(long)]
    audit: bool,
    /// Evaluate disruption of the existing nodes (not in this version).
    #[arg(long, value_name = "all", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    disrupt: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Preference {
    #[value(name = "Respect")]
    Respect,
    #[value(name = "Ignore")]
    Ignore,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MinValues {
    #[value(name = "Strict")]
    Strict,
    #[value(name = "BestEffort")]
    BestEffort,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Answer> {
    if args.disrupt.is_some() {
        bail!("--disrupt: this version doesn't evaluate disruption yet; leave the flag out");
    }
    let texts = manifests::read(&args.filename)?;
    let loaded = manifests::load(&texts).context("nothing was simulated")?;
    let scope = Scope { cluster_name: args.cluster_name.clone(), namespace: args.cluster_namespace.clone() };
    manifests::check_scope(&loaded.objects, &scope)?;
    let scheduler_config = args.scheduler_config.as_deref().map(scheduler_config).transpose()?;
    let request = passes::Request {
        now: args.now.unwrap_or_else(Timestamp::now),
        passes: args.passes,
        scope,
        options: options(args),
        scheduler_config: scheduler_config.unwrap_or_default(),
        gates: args.feature_gates.clone(),
        audit: args.audit,
    };
    let simulation = passes::simulate(loaded, &request, solve);
    let text = render(args.output, &simulation, || table::table(&simulation, &table::Style::of_stdout()))?;
    Ok(Answer { text, outcome: outcome(&simulation) })
}

fn outcome(simulation: &document::Simulation) -> Outcome {
    if simulation.audit.as_ref().is_some_and(|findings| !findings.is_empty()) {
        Outcome::Defect
    } else {
        Outcome::of(simulation.is_complete())
    }
}

fn scheduler_config(path: &Path) -> anyhow::Result<SchedulerConfig> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("--scheduler-config: {}: the file can't be read", path.display()))?;
    SchedulerConfig::parse(&text).with_context(|| format!("--scheduler-config: {}", path.display()))
}

fn options(args: &Args) -> Options {
    Options {
        preference_policy: match args.preference_policy {
            Preference::Respect => PreferencePolicy::Respect,
            Preference::Ignore => PreferencePolicy::Ignore,
        },
        min_values_policy: match args.min_values_policy {
            MinValues::Strict => MinValuesPolicy::Strict,
            MinValues::BestEffort => MinValuesPolicy::BestEffort,
        },
        reserved_offering_mode: ReservedOfferingMode::Strict,
        max_instance_types: MAX_INSTANCE_TYPES,
    }
}
