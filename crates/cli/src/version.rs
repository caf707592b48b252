//! `karpenter-capi version`.

use crate::Answer;
use crate::output::{Format, render};
use serde::Serialize;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Answer> {
    let version = Version { version: env!("CARGO_PKG_VERSION") };
    let text = render(args.output, &version, || format!("karpenter-capi {}\n", version.version))?;
    Ok(Answer { text, outcome: crate::Outcome::Complete })
}
