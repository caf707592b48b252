//! Every chore of the project: `cargo xtask <chore>`.
//!
//! This crate starts other programs and reads what they print; it holds no knowledge of Kubernetes and depends on no
//! crate of the workspace, so that it compiles in seconds on a fresh machine.
#![expect(clippy::print_stdout, reason = "a command line tool: what it has to say goes to standard output")]

mod chores;
mod command;
#[cfg(test)]
mod house;
#[cfg(test)]
mod layering;
#[cfg(test)]
mod licences;
mod test;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The chores of karpenter-capi. On a fresh machine with Rust and Go, `cargo xtask test` is the one to run.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check and test everything: formatting, lints, layers, unit tests, docs, examples, end to end.
    Test(test::Options),
    /// Write the generated CRDs into `crds/`.
    Crds,
    /// Format all Rust code.
    Fmt,
    /// Run clippy on the whole workspace, warnings being errors.
    Lint,
    /// Solve every document of a folder and compare with upstream's recorded answers.
    Vectors(chores::Vectors),
    /// Run the end-to-end suite, or the tests whose names contain FILTER.
    E2e(chores::EndToEnd),
    /// Control plane, operator, sample pools and pods with a live table, until Ctrl-C.
    Demo(chores::Demo),
    /// Measure the solver beside upstream's, and the operator on a control plane with a thousand hollow machines; or one of the two.
    Bench(chores::Bench),
    /// The control plane of the tests by itself: `build` its binaries, or bring it `up` until Ctrl-C.
    ControlPlane(chores::ControlPlane),
}

fn main() -> ExitCode {
    match run(&Arguments::parse().chore) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: &Chore) -> Result<ExitCode> {
    let workspace = workspace::Workspace::read()?;
    match chore {
        Chore::Test(options) => test::run(&workspace, options),
        Chore::Crds => chores::crds(&workspace),
        Chore::Fmt => chores::fmt(&workspace),
        Chore::Lint => chores::lint(&workspace),
        Chore::Vectors(options) => chores::vectors(&workspace, options),
        Chore::E2e(options) => chores::end_to_end(&workspace, options),
        Chore::Demo(options) => chores::demo(&workspace, options),
        Chore::Bench(options) => chores::bench(&workspace, options),
        Chore::ControlPlane(options) => chores::control_plane(&workspace, options),
    }
}
