//! The programs that chores start: cargo, Go, and binaries of this workspace.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::{Profile, Workspace};

/// The packages of every build and test.
///
/// Cargo unifies features over the packages that one call selects. With the same selection everywhere, each dependency is
/// compiled once for tests, binaries and the end-to-end suite; selecting the suite alone would compile the Kubernetes
/// client and all below it a second time.
pub(crate) const SELECTION: [&str; 4] = ["--workspace", "--exclude", "xtask", "--locked"];

/// What test builds have and no other: the operator can be made to kill itself after a given number of writes.
const TEST_FEATURES: &str = "karpenter-capi-manager/crash-points";

/// The operator, as the end-to-end suite and the demo start it.
pub(crate) const MANAGER: &str = "karpenter-capi-manager";
/// The command line tool.
pub(crate) const CLI: &str = "karpenter-capi";

/// Where Go's own archive unpacks to; many machines have it there without having it on the path.
const GO_FOLDER: &str = "/usr/local/go/bin";

/// The cargo that runs us, so that a toolchain chosen by `cargo +toolchain` stays chosen.
pub(crate) fn cargo_path() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

pub(crate) fn cargo<A: AsRef<OsStr>>(
    workspace: &Workspace,
    arguments: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = program(workspace, cargo_path());
    command.args(arguments);
    command
}

/// Builds all binaries as tests see them: with tests selected too, development dependencies take part in the unification
/// of features, and the tests that follow find everything compiled.
pub(crate) fn build_binaries(workspace: &Workspace, profile: Profile) -> Command {
    let mut command = cargo(workspace, ["build"]);
    command.args(SELECTION).arg("--bins");
    match profile {
        Profile::Dev => command.args(["--tests", "--features", TEST_FEATURES]),
        Profile::Release => command.arg("--release"),
    };
    command
}

/// A binary of the end-to-end package, told where the operator and the command line tool are.
pub(crate) fn end_to_end_binary(workspace: &Workspace, profile: Profile, name: &str) -> Command {
    let mut command = program(workspace, workspace.binary(profile, name));
    command.env("CARGO_MANIFEST_DIR", workspace.root.join("e2e"));
    with_binaries(workspace, profile, command)
}

/// `cargo test` for the end-to-end suite; the caller appends options.
pub(crate) fn end_to_end_tests(workspace: &Workspace) -> anyhow::Result<Command> {
    let mut command = cargo(workspace, ["test"]);
    command.args(SELECTION).args(["--features", TEST_FEATURES]);
    for test in workspace.integration_tests(true)? {
        command.args(["--test", test]);
    }
    Ok(with_binaries(workspace, Profile::Dev, command))
}

fn with_binaries(workspace: &Workspace, profile: Profile, mut command: Command) -> Command {
    command
        .env("KARPENTER_CAPI_MANAGER_BIN", workspace.binary(profile, MANAGER))
        .env("KARPENTER_CAPI_BIN", workspace.binary(profile, CLI));
    command
}

/// A program started in the root of the repository.
///
/// It stays in our process group, so that Ctrl-C in a terminal ends it together with everything that it started.
pub(crate) fn program(workspace: &Workspace, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(&workspace.root);
    // What cargo told us of the package `xtask` must not reach the build scripts of other packages.
    for (name, _) in env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(name);
        }
    }
    if let Some(path) = path_with_go(env::var_os("PATH").as_deref(), Path::new(GO_FOLDER)) {
        command.env("PATH", path);
    }
    command
}

/// The search path with Go's usual folder at its end, or nothing when that folder has no Go or is already in.
fn path_with_go(path: Option<&OsStr>, folder: &Path) -> Option<OsString> {
    let mut folders: Vec<PathBuf> = path.into_iter().flat_map(env::split_paths).collect();
    if folders.iter().any(|known| known == folder) || !folder.join("go").is_file() {
        return None;
    }
    folders.push(folder.to_path_buf());
    env::join_paths(folders).ok()
}

/// How a person would type the command.
pub(crate) fn spelled(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(name).chain(arguments).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_spelled_without_the_folder_of_its_program() {
        let mut command = Command::new("/opt/rust/bin/cargo");
        command.args(["fmt", "--all"]);
        assert_eq!(spelled(&command), "cargo fmt --all");
    }

    #[test]
    fn a_folder_without_go_is_not_put_on_the_path() {
        assert_eq!(path_with_go(Some(OsStr::new("/usr/bin")), Path::new("/nowhere/go/bin")), None);
    }
}
