//! `cargo xtask demo`: a control plane, the operator, pods that need Nodes, and a live table of what becomes of them.

use std::{env, process::ExitCode};

use anyhow::{Context, Result};
use karpenter_capi_e2e::demo;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: cargo xtask demo [-- OPTIONS]

  --once      plays the acts once and ends; fails when one of them doesn't come out as announced
  --acts N    ends after N acts
  --plain     lines instead of a table that is redrawn; the default when standard output is no terminal

  Without options the acts are played again and again until Ctrl-C, which ends every process.

  KARPENTER_CAPI_MANAGER_BIN   the operator to start, by default the one beside this program
  KARPENTER_CAPI_E2E_KEEP=1    keeps logs and other files at the end
  NO_COLOR=1                   no colours";

#[tokio::main]
async fn main() -> ExitCode {
    let options = match options(env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            eprintln!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error:#}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match until_ended(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line; nothing stands for a call for help.
fn options(mut arguments: impl Iterator<Item = String>) -> Result<Option<demo::Options>> {
    let mut options = demo::Options::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--once" => options.acts = Some(demo::SCRIPT.len()),
            "--acts" => {
                let number = arguments.next().context("--acts needs a number")?;
                let number =
                    number.parse().with_context(|| format!("--acts {number}: not a whole number"))?;
                options.acts = Some(number);
            }
            "--plain" => options.plain = true,
            "--" => {}
            "-h" | "--help" => return Ok(None),
            other => anyhow::bail!("{other}: no such option"),
        }
    }
    Ok(Some(options))
}

/// A signal drops the demo where it stands: its handles end every process that was started.
async fn until_ended(options: &demo::Options) -> Result<()> {
    let mut interrupted = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let mut terminated = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    tokio::select! {
        result = demo::run(options) => result,
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
    }
}
