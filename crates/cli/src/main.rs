//! `karpenter-capi`: the command line. It reads files (and, with later commands, clusters), calls the same pure functions as the
//! operator, and prints what they say. It never reconciles anything.

mod output;
mod simulate;
mod version;

use clap::{Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;

/// Karpenter for Cluster API.
#[derive(Debug, Parser)]
#[command(name = "karpenter-capi", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show which pods fit where, which MachineDeployments would be scaled, and why the rest has no place; on files alone.
    Simulate(simulate::Args),
    /// Print the version.
    Version(version::Args),
}

/// What a command has to say.
struct Answer {
    text: String,
    /// Whether everything that was asked for is possible.
    complete: bool,
}

/// Bad input or usage, as clap's own.
const BAD_INPUT: u8 = 2;
/// Something has no place.
const INCOMPLETE: u8 = 1;

fn main() -> ExitCode {
    let answer = match Cli::parse().command {
        Command::Simulate(args) => simulate::run(&args),
        Command::Version(args) => version::run(&args),
    };
    match answer {
        Ok(answer) => {
            // A reader that has seen enough closes the pipe; that is no failure.
            match io::stdout().write_all(answer.text.as_bytes()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => complain(&error),
                _ if answer.complete => ExitCode::SUCCESS,
                _ => ExitCode::from(INCOMPLETE),
            }
        }
        Err(error) => complain(format_args!("{error:#}")),
    }
}

fn complain(error: impl std::fmt::Display) -> ExitCode {
    // Nobody is left to tell if stderr is gone.
    _ = writeln!(io::stderr(), "error: {error}");
    ExitCode::from(BAD_INPUT)
}
