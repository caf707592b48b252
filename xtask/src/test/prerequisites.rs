//! Whether this machine has what the other stages need, with a remedy for each thing that it lacks.

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};

use super::log::Log;
use crate::command::{cargo, program};
use crate::workspace::Workspace;

const RUST_REMEDY: &str = "install it with https://rustup.rs, or bring it up to date with `rustup update`";
const GO_REMEDY: &str = "install Go from https://go.dev/dl and put its `bin` folder on the PATH \
                         (/usr/local/go/bin is found without that)";

/// The Go modules that programs are built from.
const GO_MODULES: [&str; 3] = ["e2e/control-plane/go.mod", "e2e/kwok-karpenter/go.mod", "bench/peer/go.mod"];

pub(super) fn check(workspace: &Workspace, log: &mut Log) -> Result<()> {
    let go_mods = GO_MODULES.map(|path| fs::read_to_string(workspace.root.join(path)).unwrap_or_default());
    let go = newest_go(&go_mods).unwrap_or("1.26");
    let mut missing = Vec::new();
    let mut need = |what: &str, command: Command, least: Option<&str>, remedy: &str| -> Result<()> {
        let found = match log.capture(command) {
            Ok((Some(0), output)) => Some(String::from_utf8_lossy(&output).trim().to_owned()),
            _ => None,
        };
        log.note(&format!("{what}: {}", found.as_deref().unwrap_or("not found")))?;
        if let Some(complaint) = complaint(what, found.as_deref(), least) {
            missing.push(format!("{complaint}: {remedy}"));
        }
        Ok(())
    };
    let version = |name: &str| {
        let mut command = program(workspace, name);
        command.arg("--version");
        command
    };
    need("cargo", cargo(workspace, ["--version"]), None, RUST_REMEDY)?;
    need("rustc", version("rustc"), Some(env!("CARGO_PKG_RUST_VERSION")), RUST_REMEDY)?;
    need(
        "rustfmt",
        cargo(workspace, ["fmt", "--version"]),
        None,
        "install it with `rustup component add rustfmt`",
    )?;
    need(
        "clippy",
        cargo(workspace, ["clippy", "--version"]),
        None,
        "install it with `rustup component add clippy`",
    )?;
    need(
        "C compiler",
        version("cc"),
        None,
        "install gcc or clang (Debian: `apt-get install gcc libc6-dev`)",
    )?;
    let mut go_version = program(workspace, "go");
    go_version.args(["env", "GOVERSION"]);
    need("go", go_version, Some(go), GO_REMEDY)?;
    if !missing.is_empty() {
        bail!("this machine lacks what the other stages need:\n      {}", missing.join("\n      "));
    }
    Ok(())
}

/// What is wrong with a tool, given what it said of its version.
fn complaint(what: &str, found: Option<&str>, least: Option<&str>) -> Option<String> {
    let Some(found) = found else {
        return Some(format!("{what} was not found"));
    };
    let least = least?;
    match (numbers(found), numbers(least)) {
        (Some(have), Some(want)) if have < want => {
            Some(format!("{what} is too old ({found}, need {least} or newer)"))
        }
        _ => None,
    }
}

/// The first dotted number of a text: `rustc 1.95.0 (…)` and `go1.26.8` both have one.
fn numbers(text: &str) -> Option<Vec<u32>> {
    let start = text.find(|character: char| character.is_ascii_digit())?;
    let dotted = text.get(start..)?;
    let end = dotted
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(dotted.len());
    dotted.get(..end)?.trim_end_matches('.').split('.').map(|part| part.parse().ok()).collect()
}

/// The newest of the Go versions that several `go.mod` ask for.
fn newest_go(go_mods: &[String]) -> Option<&str> {
    let asked = go_mods.iter().filter_map(|go_mod| go_mod.lines().find_map(|line| line.strip_prefix("go ")));
    asked.map(str::trim).max_by_key(|version| numbers(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(complaint("go", Some("go1.26.8"), Some("1.26.0")), None);
        assert_eq!(complaint("go", Some("go1.100"), Some("1.26.0")), None);
        assert_eq!(complaint("rustc", Some("rustc 1.95.0 (59807616e 2026-04-14)"), Some("1.94")), None);
    }

    #[test]
    fn an_old_tool_is_named_with_both_versions() {
        let text = complaint("go", Some("go1.9.2"), Some("1.26.0")).unwrap();
        assert_eq!(text, "go is too old (go1.9.2, need 1.26.0 or newer)");
    }

    #[test]
    fn a_missing_tool_is_named() {
        assert_eq!(complaint("clippy", None, None).as_deref(), Some("clippy was not found"));
    }

    #[test]
    fn the_newest_go_version_of_all_modules_is_wanted() {
        let go_mods = ["1.26.0", "1.26.10", "1.26.9"]
            .map(|version| format!("module example.com/x\n\ngo {version}\n\ntool (\n)\n"));
        assert_eq!(newest_go(&go_mods), Some("1.26.10"));
    }
}
