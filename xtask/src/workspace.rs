//! What `cargo metadata` says of the workspace: its folders, packages and the edges between them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

/// The package with the end-to-end suite, the control plane and the demo.
pub(crate) const END_TO_END: &str = "karpenter-capi-e2e";

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

pub(crate) struct Package {
    pub(crate) name: String,
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the tests of layers and house rules"))]
    /// Relative to the root, with forward slashes: `crates/api`.
    pub(crate) folder: String,
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the tests of layers and house rules"))]
    /// Dependencies of every origin, those of other workspace members among them.
    pub(crate) dependencies: Vec<Dependency>,
    /// Names of the targets in `tests/`.
    pub(crate) integration_tests: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

#[cfg_attr(not(test), expect(dead_code, reason = "read by the tests of layers and house rules"))]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

impl Workspace {
    pub(crate) fn read() -> Result<Self> {
        let root = root()?;
        let output = Command::new(crate::command::cargo_path())
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .current_dir(&root)
            .output()
            .context("starting `cargo metadata`")?;
        if !output.status.success() {
            bail!("`cargo metadata` failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        let metadata =
            serde_json::from_slice(&output.stdout).context("reading the answer of `cargo metadata`")?;
        Self::from_metadata(root, &metadata)
    }

    fn from_metadata(root: PathBuf, metadata: &Value) -> Result<Self> {
        let target = PathBuf::from(text(metadata, "target_directory")?);
        let packages = list(metadata, "packages")?
            .iter()
            .map(|package| Package::from_metadata(&root, package))
            .collect::<Result<_>>()?;
        Ok(Self { root, target, packages })
    }

    /// Where cargo puts a binary of this workspace.
    pub(crate) fn binary(&self, profile: Profile, name: &str) -> PathBuf {
        self.target.join(profile.folder()).join(format!("{name}{}", env::consts::EXE_SUFFIX))
    }

    /// Names of the integration tests of the end-to-end package (`true`) or of all others (`false`).
    ///
    /// Both are asked for by name from a build of the whole workspace (see [`crate::command::SELECTION`]), so a name that
    /// stands on both sides would run in the wrong stage.
    pub(crate) fn integration_tests(&self, end_to_end: bool) -> Result<Vec<&str>> {
        let (inside, outside): (Vec<_>, Vec<_>) =
            self.packages.iter().partition(|package| (package.name == END_TO_END) == end_to_end);
        let names = |packages: &[&Package]| -> Vec<String> {
            packages.iter().flat_map(|package| package.integration_tests.iter().cloned()).collect()
        };
        let taken = names(&outside);
        if let Some(name) = names(&inside).iter().find(|name| taken.contains(name)) {
            bail!(
                "the integration test `{name}` exists in {END_TO_END} and in another crate: rename one of the two files"
            );
        }
        Ok(inside
            .into_iter()
            .flat_map(|package| package.integration_tests.iter().map(String::as_str))
            .collect())
    }
}

impl Package {
    fn from_metadata(root: &Path, package: &Value) -> Result<Self> {
        let manifest = Path::new(text(package, "manifest_path")?);
        let folder = manifest.parent().and_then(|folder| folder.strip_prefix(root).ok()).unwrap_or(manifest);
        let dependencies = list(package, "dependencies")?
            .iter()
            .map(|dependency| {
                let kind = match dependency["kind"].as_str() {
                    Some("dev") => Kind::Dev,
                    Some("build") => Kind::Build,
                    _ => Kind::Normal,
                };
                Ok(Dependency { name: text(dependency, "name")?.to_owned(), kind })
            })
            .collect::<Result<_>>()?;
        let is_test =
            |target: &&Value| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&"test".into()));
        let integration_tests = list(package, "targets")?
            .iter()
            .filter(is_test)
            .map(|target| text(target, "name").map(str::to_owned))
            .collect::<Result<_>>()?;
        Ok(Self {
            name: text(package, "name")?.to_owned(),
            folder: folder.to_string_lossy().replace('\\', "/"),
            dependencies,
            integration_tests,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Dev,
    Release,
}

impl Profile {
    fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// The folder above `xtask/`. Cargo sets the variable at run time too, which keeps a moved checkout right.
pub(crate) fn root() -> Result<PathBuf> {
    let here =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().map(Path::to_path_buf).ok_or_else(|| anyhow!("{} has no parent folder", here.display()))
}

fn text<'v>(value: &'v Value, key: &str) -> Result<&'v str> {
    value[key].as_str().ok_or_else(|| anyhow!("`cargo metadata` gave no text under `{key}`"))
}

fn list<'v>(value: &'v Value, key: &str) -> Result<&'v Vec<Value>> {
    value[key].as_array().ok_or_else(|| anyhow!("`cargo metadata` gave no list under `{key}`"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace(e2e_test: &str) -> Workspace {
        let package = |name: &str, folder: &str, test: &str| {
            json!({
                "name": name,
                "manifest_path": format!("/checkout/{folder}/Cargo.toml"),
                "dependencies": [{"name": "serde", "kind": null}, {"name": "insta", "kind": "dev"}],
                "targets": [{"name": name, "kind": ["lib"]}, {"name": test, "kind": ["test"]}],
            })
        };
        let metadata = json!({
            "target_directory": "/checkout/target",
            "packages": [package("karpenter-capi-api", "crates/api", "crd"), package(END_TO_END, "e2e", e2e_test)],
        });
        Workspace::from_metadata("/checkout".into(), &metadata).unwrap()
    }

    #[test]
    fn folders_kinds_and_integration_tests_are_read() {
        let workspace = workspace("scale_up");
        let api = &workspace.packages[0];
        assert_eq!(api.folder, "crates/api");
        let kinds: Vec<_> = api.dependencies.iter().map(|dependency| dependency.kind).collect();
        assert_eq!(kinds, [Kind::Normal, Kind::Dev]);
        assert_eq!(workspace.integration_tests(true).unwrap(), ["scale_up"]);
        assert_eq!(workspace.integration_tests(false).unwrap(), ["crd"]);
    }

    #[test]
    fn an_integration_test_name_on_both_sides_is_refused() {
        let message = workspace("crd").integration_tests(true).unwrap_err().to_string();
        assert!(message.contains("`crd`"), "{message}");
    }
}
