//! The stages of `cargo xtask test`, cheap ones first, so that a slip is told in seconds.
//!
//! Builds run one after the other: each uses all cores by itself.

use std::process::Command;

use anyhow::{Result, bail};

use super::log::Log;
use super::purity::{PURE, impurities};
use super::{Options, examples, prerequisites};
use crate::chores::{build_control_plane, clippy};
use crate::command::{SELECTION, build_binaries, cargo, end_to_end_tests};
use crate::workspace::{Profile, Workspace};

pub(crate) struct Stage {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    /// Whether the stage must have executed tests to be worth anything.
    pub(super) has_tests: bool,
    pub(super) run: fn(&Workspace, &Options, &mut Log) -> Result<()>,
}

pub(super) static STAGES: [Stage; 10] = [
    Stage {
        name: "prerequisites",
        summary: "the tools that everything else needs, and their versions",
        has_tests: false,
        run: |workspace, _, log| prerequisites::check(workspace, log),
    },
    Stage { name: "fmt", summary: "formatting (remedy: cargo xtask fmt)", has_tests: false, run: fmt },
    Stage {
        name: "layering",
        summary: "edges between crates, licences, house rules: the tests of xtask",
        has_tests: true,
        run: layering,
    },
    Stage {
        name: "clippy",
        summary: "lints on all targets, warnings being errors",
        has_tests: false,
        run: |workspace, _, log| log.run(clippy(workspace)),
    },
    Stage {
        name: "alone",
        summary: "each pure crate compiles by itself and depends on nothing impure",
        has_tests: false,
        run: alone,
    },
    Stage {
        name: "unit",
        summary: "all tests but the end-to-end suite, doc tests among them",
        has_tests: true,
        run: unit,
    },
    Stage { name: "doc", summary: "the documentation builds without a warning", has_tests: false, run: doc },
    Stage {
        name: "examples",
        summary: "each folder of examples/ is simulated, twice with the same answer",
        has_tests: false,
        run: |workspace, _, log| examples::check(workspace, log),
    },
    Stage {
        name: "control-plane",
        summary: "builds Kubernetes, Cluster API and another Karpenter from Go modules (about 15 CPU minutes, then cached)",
        has_tests: false,
        run: |workspace, _, log| control_plane(workspace, log),
    },
    Stage {
        name: "e2e",
        summary: "the end-to-end suite on a real control plane",
        has_tests: true,
        run: end_to_end,
    },
];

/// Finds a stage by the name that a user typed.
pub(super) fn find(name: &str) -> Result<&'static Stage, String> {
    STAGES.iter().find(|stage| stage.name == name).ok_or_else(|| {
        let names: Vec<_> = STAGES.iter().map(|stage| stage.name).collect();
        format!("no such stage; there are: {}", names.join(", "))
    })
}

fn fmt(workspace: &Workspace, _: &Options, log: &mut Log) -> Result<()> {
    log.run(cargo(workspace, ["fmt", "--all", "--check", "--", "--color", "never"]))
}

fn layering(workspace: &Workspace, options: &Options, log: &mut Log) -> Result<()> {
    let mut command = cargo(workspace, ["test", "-p", "xtask", "--locked"]);
    keep_going(&mut command, options);
    log.run(command)
}

fn alone(workspace: &Workspace, _: &Options, log: &mut Log) -> Result<()> {
    let mut complaints = Vec::new();
    for package in PURE {
        // What a procedural macro depends on runs in the compiler only.
        let arguments = ["tree", "--locked", "-p", package, "-e", "normal,no-proc-macro", "--prefix", "none"];
        let (code, tree) = log.capture(cargo(workspace, arguments))?;
        if code != Some(0) {
            bail!("`cargo tree` failed for {package}");
        }
        let tree = String::from_utf8_lossy(&tree).into_owned();
        let impure = impurities(&tree);
        if !impure.is_empty() {
            complaints
                .push(format!("{package} decides and must stay pure, but depends on {}", impure.join(", ")));
        }
    }
    if !complaints.is_empty() {
        bail!("{}", complaints.join("\n      "));
    }
    // Features unify in a build of the workspace, so one crate may lean on a feature that only another asks for.
    PURE.iter().try_for_each(|package| log.run(cargo(workspace, ["check", "--locked", "-p", package])))
}

fn unit(workspace: &Workspace, options: &Options, log: &mut Log) -> Result<()> {
    let mut command = cargo(workspace, ["test"]);
    command.args(SELECTION).args(["--lib", "--bins"]);
    for test in workspace.integration_tests(false)? {
        command.args(["--test", test]);
    }
    keep_going(&mut command, options);
    let targets = log.run(command);
    if targets.is_err() && !options.keep_going {
        return targets;
    }
    let mut doc_tests = cargo(workspace, ["test"]);
    doc_tests.args(SELECTION).arg("--doc");
    keep_going(&mut doc_tests, options);
    targets.and(log.run(doc_tests))
}

fn doc(workspace: &Workspace, _: &Options, log: &mut Log) -> Result<()> {
    let mut command = cargo(workspace, ["doc", "--workspace", "--no-deps", "--locked"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    log.run(command)
}

fn control_plane(workspace: &Workspace, log: &mut Log) -> Result<()> {
    log.run(build_binaries(workspace, Profile::Dev))?;
    log.run(build_control_plane(workspace, Profile::Dev))
}

fn end_to_end(workspace: &Workspace, options: &Options, log: &mut Log) -> Result<()> {
    if workspace.integration_tests(true)?.is_empty() {
        bail!("e2e/tests holds no test");
    }
    control_plane(workspace, log)?;
    let mut command = end_to_end_tests(workspace)?;
    keep_going(&mut command, options);
    command.arg("--").arg(format!("--test-threads={}", options.e2e_threads));
    log.run(command)
}

fn keep_going(command: &mut Command, options: &Options) {
    if options.keep_going {
        command.arg("--no-fail-fast");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_names_are_unique_and_found() {
        for stage in &STAGES {
            assert_eq!(find(stage.name).map(|found| found.summary), Ok(stage.summary));
        }
    }

    #[test]
    fn an_unknown_stage_is_answered_with_the_known_ones() {
        let message = find("units").err().unwrap();
        assert!(message.contains("unit, doc"), "{message}");
    }
}
