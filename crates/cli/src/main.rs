//! `karpenter-capi`: the command line. It reads files or clusters, calls the same pure functions as the operator, and prints what they
//! say. It never reconciles anything; the one thing that it writes is what `doctor --release-hooks` takes off.

mod doctor;
mod output;
mod simulate;
mod version;

use clap::builder::Resettable;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
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
    /// Show what is wrong in the operator's clusters, and let go of them.
    // Boxed: it has many more arguments than the others.
    Doctor(Box<doctor::Args>),
    /// Print the version.
    Version(version::Args),
}

/// What a command has to say.
struct Answer {
    text: String,
    outcome: Outcome,
}

/// What an answer means for the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Everything that was asked for is possible.
    Complete,
    /// Something has no place, is wrong, or was refused.
    Incomplete,
    /// The answer itself is wrong, by the program's own account.
    Defect,
}

impl Outcome {
    const fn of(complete: bool) -> Self {
        if complete { Self::Complete } else { Self::Incomplete }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Incomplete => INCOMPLETE,
            Self::Defect => DEFECT,
        }
    }
}

/// Something that was asked for and isn't done, although the input is right.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

/// Bad input or usage, as clap's own.
const BAD_INPUT: u8 = 2;
/// Something has no place, is wrong, or was refused.
const INCOMPLETE: u8 = 1;
/// `EX_SOFTWARE` of sysexits.h: an internal error.
const DEFECT: u8 = 70;

fn main() -> ExitCode {
    let answer = match parse().command {
        Command::Simulate(args) => simulate::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Version(args) => version::run(&args),
    };
    match answer {
        Ok(answer) => {
            // A reader that has seen enough closes the pipe; that is no failure.
            match io::stdout().write_all(answer.text.as_bytes()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => complain(&error, BAD_INPUT),
                _ => ExitCode::from(answer.outcome.code()),
            }
        }
        Err(error) => {
            let code = if error.is::<Refused>() { INCOMPLETE } else { BAD_INPUT };
            complain(format_args!("{error:#}"), code)
        }
    }
}

/// Reads the arguments. A variable that is empty counts as not set, as with the operator.
fn parse() -> Cli {
    let command = Cli::command().mut_subcommand("doctor", |doctor| {
        doctor.mut_args(|argument| {
            let variable = argument.get_env().and_then(std::env::var_os);
            if variable.is_some_and(|value| value.is_empty()) {
                argument.env(Resettable::Reset)
            } else {
                argument
            }
        })
    });
    Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}

fn complain(error: impl std::fmt::Display, code: u8) -> ExitCode {
    // Nobody is left to tell if stderr is gone.
    _ = writeln!(io::stderr(), "error: {error}");
    ExitCode::from(code)
}
