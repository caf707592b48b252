//! `karpenter-capi doctor`: what is wrong with the operator's clusters, and how to let go of them.

mod connect;
mod definitions;
mod judge;
mod leader;
mod picture;
mod read;
mod release;
mod report;

use crate::Answer;
use crate::output::{Format, counted, render};
use anyhow::Context;
use connect::Clusters;
use judge::{counts, judge, leading, stays};
use karpenter_capi_api::duration::parse_go;
use picture::Picture;
use read::Reader;
use report::{Finding, Report, Severity, table};
use std::io::Write;
use std::time::Duration;

const AFTER_HELP: &str = "\
Exit status: 0 nothing is wrong (or all was released), 1 something is, or couldn't be read or written, 2 bad usage.

Examples:
  karpenter-capi doctor
  karpenter-capi doctor --context workload --management-context management --cluster-namespace capi --cluster-name web
  karpenter-capi doctor --release-hooks --dry-run
  karpenter-capi doctor --release-hooks --force --management-kubeconfig management.yaml --cluster-name web   # the workload cluster is gone";

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    clusters: Clusters,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// What may be a passing state is looked at again after this long, and counts if it is still the same; 0s for one look
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    settle: Duration,
    /// Take our hooks off all Machines of the Cluster, and end our own pauses: for uninstalling, or when the operator is lost
    #[arg(long)]
    release_hooks: bool,
    /// With --release-hooks: only list what would be done
    #[arg(long, requires = "release_hooks")]
    dry_run: bool,
    /// With --release-hooks: don't look whether an operator is at work; needed where the workload cluster is gone
    #[arg(long, requires = "release_hooks")]
    force: bool,
}

/// A duration in Go's spelling that isn't negative.
fn duration(text: &str) -> Result<Duration, String> {
    let length = parse_go(text).map_err(|error| error.to_string())?;
    Duration::try_from(length)
        .map_err(|_| format!("{text:?} is negative; a duration such as \"30s\" is right"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Answer> {
    // One cryptography library for everything that talks TLS. It fails only where one is installed already.
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("no runtime for network requests")?.block_on(async {
        if args.release_hooks {
            let request = release::Request { force: args.force, dry_run: args.dry_run };
            let released = release::release(&args.clusters, &request).await?;
            let text = render(args.output, &released, || release::table(&released))?;
            return Ok(Answer { text, outcome: crate::Outcome::of(released.complete) });
        }
        let report = examine(args).await?;
        let text = render(args.output, &report, || table(&report))?;
        Ok(Answer { text, outcome: crate::Outcome::of(report.healthy) })
    })
}

/// Reads, judges, and where something may pass reads and judges again.
async fn examine(args: &Args) -> anyhow::Result<Report> {
    let reader = Reader::new(&args.clusters).await?;
    let first = reader.read().await?;
    let found = judge(&first, None);
    let passing = found.iter().filter(|finding| !finding.code.is_lasting()).count();
    if passing == 0 || args.settle.is_zero() {
        return Ok(report(&first, None, found));
    }
    let passing = counted(passing, "finding");
    say(&format!("{passing} may pass: looking again in {:?} (--settle)", args.settle));
    tokio::time::sleep(args.settle).await;
    let second = reader.read().await?;
    let found = stays(&found, judge(&second, Some(&first)));
    Ok(report(&second, Some(&first), found))
}

fn report(picture: &Picture, earlier: Option<&Picture>, findings: Vec<Finding>) -> Report {
    let wanted = &picture.wanted;
    Report {
        cluster: wanted.name.as_ref().map(|name| format!("{}/{name}", wanted.namespace)),
        healthy: findings.iter().all(|finding| finding.severity == Severity::Note),
        leader: leading(picture, earlier),
        readings: if earlier.is_some() { 2 } else { 1 },
        counts: counts(picture),
        findings,
    }
}

/// Tells a person who waits what is waited for; nobody is left to tell if stderr is gone.
fn say(sentence: &str) {
    _ = writeln!(std::io::stderr(), "{sentence}");
}
