//! The short chores: each builds what it needs and hands over to one program.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};

use crate::command::{
    MANAGER, SELECTION, build_binaries, cargo, end_to_end_binary, end_to_end_tests, program, spelled,
};
use crate::workspace::{Profile, Workspace};

/// The program that judges plans.
const CONFORMANCE: &str = "karpenter-capi-conformance";
/// The program of `bench/`.
const BENCH: &str = "karpenter-capi-bench";
/// The program of `bench/scheduling/`.
const BENCH_SCHEDULING: &str = "karpenter-capi-bench-scheduling";

#[derive(Args)]
pub(crate) struct Vectors {
    /// Handed over as they are: a folder of `x.in.json` and `x.out.json`, and options; `--help` lists what there is.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<String>,
}

#[derive(Args)]
pub(crate) struct EndToEnd {
    /// Run only tests whose names contain this.
    filter: Option<String>,
    /// How many tests run at once; each keeps a core or more busy.
    #[arg(long, default_value_t = 1, env = "KARPENTER_CAPI_E2E_THREADS")]
    threads: u16,
    /// Show what the tests print, also of those that pass.
    #[arg(long)]
    nocapture: bool,
}

#[derive(Args)]
pub(crate) struct Demo {
    /// Run optimised binaries (their first build takes minutes).
    #[arg(long)]
    release: bool,
    /// Handed to the demo as they are.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Bench {
    /// One of the two; both with their defaults if none is named.
    #[command(subcommand)]
    part: Option<BenchPart>,
}

#[derive(Subcommand)]
enum BenchPart {
    /// Solves: time, price and memory, beside upstream's solver.
    Scheduling {
        /// Handed over as they are; `-- --help` lists what there is.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The operator on a real control plane: reaction time, memory and requests.
    Operator {
        /// Handed over as they are; `-- --help` lists what there is.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

#[derive(Args)]
pub(crate) struct ControlPlane {
    #[command(subcommand)]
    verb: ControlPlaneVerb,
}

#[derive(Subcommand)]
enum ControlPlaneVerb {
    /// Build and cache the binaries.
    Build,
    /// Start it, say where its kubeconfig is, and end it on Ctrl-C.
    Up {
        /// Handed to the control plane as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

pub(crate) fn crds(workspace: &Workspace) -> Result<ExitCode> {
    let arguments = ["run", "--locked", "-p", "karpenter-capi-api", "--example", "crds", "--", "crds"];
    become_program(cargo(workspace, arguments))
}

pub(crate) fn fmt(workspace: &Workspace) -> Result<ExitCode> {
    become_program(cargo(workspace, ["fmt", "--all"]))
}

/// Clippy as the test command runs it.
pub(crate) fn clippy(workspace: &Workspace) -> Command {
    cargo(workspace, ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

pub(crate) fn lint(workspace: &Workspace) -> Result<ExitCode> {
    become_program(clippy(workspace))
}

pub(crate) fn vectors(workspace: &Workspace, options: &Vectors) -> Result<ExitCode> {
    let mut build = cargo(workspace, ["build"]);
    build.args(SELECTION).args(["--bin", CONFORMANCE]);
    prepare(build)?;
    let mut judge = Command::new(workspace.binary(Profile::Dev, CONFORMANCE));
    // Started where the person is, whose folder may be named from there.
    judge.args(&options.arguments);
    become_program(judge)
}

pub(crate) fn end_to_end(workspace: &Workspace, options: &EndToEnd) -> Result<ExitCode> {
    prepare(build_binaries(workspace, Profile::Dev))?;
    prepare(build_control_plane(workspace, Profile::Dev))?;
    let mut tests = end_to_end_tests(workspace)?;
    tests.arg("--").arg(format!("--test-threads={}", options.threads));
    if options.nocapture {
        tests.arg("--nocapture");
    }
    tests.args(&options.filter);
    become_program(tests)
}

pub(crate) fn demo(workspace: &Workspace, options: &Demo) -> Result<ExitCode> {
    let profile = if options.release { Profile::Release } else { Profile::Dev };
    prepare(build_binaries(workspace, profile))?;
    prepare(build_control_plane(workspace, profile))?;
    let mut demo = end_to_end_binary(workspace, profile, "demo");
    demo.args(&options.arguments);
    become_program(demo)
}

pub(crate) fn bench(workspace: &Workspace, options: &Bench) -> Result<ExitCode> {
    match &options.part {
        Some(BenchPart::Scheduling { arguments }) => become_program(scheduling_bench(workspace, arguments)?),
        Some(BenchPart::Operator { arguments }) => become_program(operator_bench(workspace, arguments)?),
        None => {
            prepare(scheduling_bench(workspace, &[])?)?;
            become_program(operator_bench(workspace, &[])?)
        }
    }
}

/// A small program by itself, so that the solver can be measured without optimising the operator. It is selected alone: with
/// the features of the whole workspace it would bring the Kubernetes client along.
fn scheduling_bench(workspace: &Workspace, arguments: &[String]) -> Result<Command> {
    prepare(cargo(workspace, ["build", "--release", "--locked", "-p", BENCH_SCHEDULING]))?;
    let mut bench = program(workspace, workspace.binary(Profile::Release, BENCH_SCHEDULING));
    bench.args(arguments);
    Ok(bench)
}

/// Everything is optimised, the hollow cloud too: it shares the machine with what is measured.
fn operator_bench(workspace: &Workspace, arguments: &[String]) -> Result<Command> {
    // Only what runs: each optimised binary costs minutes of link-time optimisation.
    let mut build = cargo(workspace, ["build"]);
    build.args(SELECTION).args(["--release", "--bin", MANAGER, "--bin", BENCH]);
    prepare(build)?;
    // Says what it needs and builds the control plane itself, if that isn't in the cache.
    let mut bench = end_to_end_binary(workspace, Profile::Release, BENCH);
    bench.args(arguments);
    Ok(bench)
}

pub(crate) fn control_plane(workspace: &Workspace, options: &ControlPlane) -> Result<ExitCode> {
    prepare(build_binaries(workspace, Profile::Dev))?;
    let build = build_control_plane(workspace, Profile::Dev);
    match &options.verb {
        ControlPlaneVerb::Build => become_program(build),
        ControlPlaneVerb::Up { arguments } => {
            prepare(build)?;
            let mut up = end_to_end_binary(workspace, Profile::Dev, "control-plane");
            up.arg("up").args(arguments);
            become_program(up)
        }
    }
}

/// Builds etcd, kube-apiserver and the others into the cache; takes a moment when they are there.
pub(crate) fn build_control_plane(workspace: &Workspace, profile: Profile) -> Command {
    let mut command = end_to_end_binary(workspace, profile, "control-plane");
    command.arg("build");
    command
}

fn prepare(mut command: Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting `{}`", spelled(&command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", spelled(&command));
    }
    Ok(())
}

/// Replaces this process, so that Ctrl-C and the exit code belong to the program alone and a shell waits for its clean-up.
fn become_program(mut command: Command) -> Result<ExitCode> {
    let error = command.exec();
    Err(error).with_context(|| format!("starting `{}`", spelled(&command)))
}
