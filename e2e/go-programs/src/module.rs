//! `go build` of all programs of one Go module, so that packages they share are compiled once, into a cache folder of that module.

use std::{
    env, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

/// The folder of the programs inside the cache folder.
const FOLDER: &str = "bin";

/// A Go module that exists for the programs it requires, or for one of its own.
#[derive(Debug)]
pub struct Module {
    /// What people are told is built.
    pub name: &'static str,
    /// Its folder in the cache.
    pub folder: &'static str,
    /// How long a build takes, for people.
    pub takes: &'static str,
    /// The text of `go.mod`.
    pub go_mod: &'static str,
    /// The text of `go.sum`.
    pub go_sum: &'static str,
    /// Go files of the module's own package, by name; empty where only programs of other modules are built.
    pub sources: &'static [(&'static str, &'static str)],
    /// What is built.
    pub programs: &'static [GoProgram],
    /// Which programs are told their version.
    pub stamps: &'static [Stamp],
}

/// Tells programs their own version.
#[derive(Debug)]
pub struct Stamp {
    /// The module that has the version.
    pub module: &'static str,
    /// Linker flags for a version.
    pub flags: fn(&str) -> String,
}

/// A program of a [`Module`].
#[derive(Debug)]
pub struct GoProgram {
    /// The Go package it is built from.
    pub package: &'static str,
    /// File name in the cache.
    pub file_name: &'static str,
    /// The names that `go build` may give the file, where they differ. A package whose path ends in a major version is named after
    /// the element before it, except by older toolchains.
    pub built_names: &'static [&'static str],
}

/// Folders that manifests are made from and in.
#[derive(Debug)]
pub struct Rendering<'a> {
    /// The module's cache folder, with the programs.
    pub cache: &'a Path,
    /// Holds `go.mod` and `go.sum`.
    pub module: &'a Path,
    /// What is written here is kept.
    pub output: &'a Path,
}

impl Module {
    /// Builds the programs, unless they are there; returns the cache folder. See [`Module::fill`].
    pub fn programs(&self) -> Result<PathBuf> {
        let folder = self.folder()?;
        if self.programs_exist(&folder) {
            return Ok(folder);
        }
        let _lock = self.lock(&folder)?;
        if !self.programs_exist(&folder) {
            self.build(&folder)?;
        }
        Ok(folder)
    }

    /// Builds the programs and renders the manifests in the folder `manifests`, unless they are there; returns the cache folder.
    ///
    /// Of several processes that call this at once, one builds and the others wait.
    pub fn fill(
        &self,
        manifests: &str,
        render: impl FnOnce(&Rendering<'_>) -> Result<()>,
    ) -> Result<PathBuf> {
        let folder = self.folder()?;
        if self.programs_exist(&folder) && folder.join(manifests).is_dir() {
            return Ok(folder);
        }
        let _lock = self.lock(&folder)?;
        if !self.programs_exist(&folder) {
            self.build(&folder)?;
        }
        if !folder.join(manifests).is_dir() {
            self.render(&folder, manifests, render)?;
        }
        Ok(folder)
    }

    /// The cache folder, filled or not.
    fn folder(&self) -> Result<PathBuf> {
        Ok(cache_root()?.join(self.folder).join(self.fingerprint()))
    }

    /// Where a program lies in a cache folder.
    pub fn path(folder: &Path, file_name: &str) -> PathBuf {
        folder.join(FOLDER).join(file_name)
    }

    fn programs_exist(&self, folder: &Path) -> bool {
        self.programs.iter().all(|program| Self::path(folder, program.file_name).is_file())
    }

    /// Of module, packages, flags and machine, so that another version never meets stale files.
    fn fingerprint(&self) -> String {
        let mut hasher = Sha256::new();
        let parts = [self.go_mod, self.go_sum, env::consts::OS, env::consts::ARCH];
        for part in parts
            .into_iter()
            .chain(self.programs.iter().map(|program| program.package))
            .chain(self.arguments().iter().map(String::as_str))
            .chain(self.sources.iter().flat_map(|(name, text)| [*name, *text]))
        {
            hasher.update(part);
            hasher.update([0]);
        }
        // Eight bytes tell folders apart and keep paths short.
        let digest = hasher.finalize();
        let head = digest.first_chunk::<8>().copied().unwrap_or_default();
        format!("{:016x}", u64::from_be_bytes(head))
    }

    /// Makes the folder and locks it until the returned file is dropped, also by the end of the process.
    fn lock(&self, folder: &Path) -> Result<fs::File> {
        fs::create_dir_all(folder)
            .with_context(|| format!("creating the cache folder {}", folder.display()))?;
        let path = folder.join("lock");
        let file = fs::File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        if file.try_lock().is_err() {
            eprintln!("waiting for another process that builds {} ({} is locked)", self.name, path.display());
            file.lock().with_context(|| format!("locking {}", path.display()))?;
        }
        Ok(file)
    }

    /// Arguments of `go build` other than output and packages.
    fn arguments(&self) -> Vec<String> {
        let stamps = self.stamps.iter().map(|stamp| (stamp.flags)(self.version(stamp.module)));
        let flags: Vec<String> = ["-s -w".to_owned()].into_iter().chain(stamps).collect();
        vec!["build".into(), "-trimpath".into(), "-ldflags".into(), flags.join(" ")]
    }

    /// The version that `go.mod` requires of a module.
    pub fn version(&self, module: &str) -> &'static str {
        let mut required = self.go_mod.lines().map(str::split_whitespace).filter_map(|mut words| {
            let first = words.next()?;
            let name = if first == "require" { words.next()? } else { first };
            (name == module).then(|| words.next()).flatten().filter(|version| version.starts_with('v'))
        });
        required.next().unwrap_or("v0.0.0")
    }

    /// Builds all programs into `<folder>/bin`, which appears only when it is complete.
    fn build(&self, folder: &Path) -> Result<()> {
        self.check_go()?;
        let scratch = tempfile::Builder::new()
            .prefix("building-")
            .tempdir_in(folder)
            .context("creating a build folder")?;
        let module = self.write(scratch.path())?;
        let output = scratch.path().join(FOLDER);
        fs::create_dir(&output)?;

        let log = folder.join("go-build.log");
        eprintln!("building {} ({}, once); log: {}", self.name, self.takes, log.display());
        let started = Instant::now();
        let mut go = go(&module);
        go.args(self.arguments()).arg("-o").arg(&output);
        go.args(self.programs.iter().map(|program| program.package));
        let status =
            go.stdout(Stdio::null()).stderr(fs::File::create(&log)?).status().context("running go build")?;
        if !status.success() {
            let text = fs::read_to_string(&log).unwrap_or_default();
            bail!(
                "`go build` of {} failed ({status}). The end of {}:\n{}",
                self.name,
                log.display(),
                last_lines(&text, 30)
            );
        }
        for program in self.programs {
            program.adopt_name(&output)?;
        }
        let target = folder.join(FOLDER);
        if target.exists() {
            fs::remove_dir_all(&target)
                .with_context(|| format!("removing the incomplete {}", target.display()))?;
        }
        fs::rename(&output, &target)
            .with_context(|| format!("moving the programs to {}", target.display()))?;
        eprintln!("built {} in {} s", self.name, started.elapsed().as_secs());
        Ok(())
    }

    /// Renders into a folder that appears only when it is complete.
    fn render(
        &self,
        folder: &Path,
        manifests: &str,
        render: impl FnOnce(&Rendering<'_>) -> Result<()>,
    ) -> Result<()> {
        self.check_go()?;
        let scratch =
            tempfile::Builder::new().prefix("rendering-").tempdir_in(folder).context("creating a folder")?;
        let module = self.write(scratch.path())?;
        let output = scratch.path().join(manifests);
        fs::create_dir(&output)?;
        render(&Rendering { cache: folder, module: &module, output: &output })?;
        fs::rename(&output, folder.join(manifests)).context("moving the rendered manifests into place")
    }

    /// Writes the embedded module into a folder, so that the sources of this crate needn't be where they were compiled.
    fn write(&self, scratch: &Path) -> Result<PathBuf> {
        let module = scratch.join("module");
        fs::create_dir_all(&module)?;
        fs::write(module.join("go.mod"), self.go_mod)?;
        fs::write(module.join("go.sum"), self.go_sum)?;
        for (name, text) in self.sources {
            fs::write(module.join(name), text)?;
        }
        Ok(module)
    }

    /// Fails with a remedy when Go is missing or older than the module wants.
    fn check_go(&self) -> Result<()> {
        let wanted = self.go_mod.lines().find_map(|line| line.strip_prefix("go ")).unwrap_or("1.26.0").trim();
        let remedy = format!(
            "{} is built from Go modules and needs Go {wanted} or newer: \
             install it from https://go.dev/dl/ or your distribution and put its bin folder on PATH",
            self.name
        );
        let output = match go(Path::new(".")).args(["env", "GOVERSION"]).output() {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => bail!("no `go` on PATH; {remedy}"),
            Err(error) => return Err(error).context("running `go env GOVERSION`"),
        };
        let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(
            output.status.success(),
            "`go env GOVERSION` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        ensure!(
            version_number(found.trim_start_matches("go")) >= version_number(wanted),
            "found {found}; {remedy}"
        );
        Ok(())
    }
}

impl GoProgram {
    fn adopt_name(&self, output: &Path) -> Result<()> {
        let wanted = output.join(self.file_name);
        for built in self.built_names {
            let built = output.join(built);
            if built.is_file() {
                fs::rename(&built, &wanted)?;
            }
        }
        ensure!(wanted.is_file(), "`go build` left no {} in {}", self.file_name, output.display());
        Ok(())
    }
}

/// The folder with the sources of a module that the module in `folder` requires.
pub fn sources(folder: &Path, required: &str) -> Result<PathBuf> {
    // `go list -m` knows no folder for a module that was never downloaded, as when only the programs were kept.
    for arguments in [&["mod", "download", required][..], &["list", "-m", "-f", "{{.Dir}}", required]] {
        let output = go(folder).args(arguments).output().context("running go")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`go {}` failed: {}", arguments.join(" "), errors.trim());
        let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !found.is_empty() {
            return Ok(PathBuf::from(found));
        }
    }
    bail!("Go knows no folder for module {required}")
}

/// Go in a module folder, with the installed toolchain only.
fn go(module: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(module)
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .stdin(Stdio::null());
    command
}

fn version_number(version: &str) -> Vec<u32> {
    let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>();
    version.split('.').map(|part| digits(part).parse().unwrap_or(0)).collect()
}

/// The last `count` lines of a text.
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join("\n")
}

fn cache_root() -> Result<PathBuf> {
    let base = match (env::var_os("KARPENTER_CAPI_CACHE"), env::var_os("XDG_CACHE_HOME")) {
        (Some(own), _) if !own.is_empty() => PathBuf::from(own),
        (_, Some(xdg)) if !xdg.is_empty() => PathBuf::from(xdg).join("karpenter-capi"),
        _ => env::home_dir()
            .context(
                "no home folder is known: set KARPENTER_CAPI_CACHE to a folder for the built control plane",
            )?
            .join(".cache/karpenter-capi"),
    };
    // Components are started in other working folders, so a relative path from the environment must not stay relative.
    std::path::absolute(&base).with_context(|| format!("resolving the cache folder {}", base.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_patch_and_minor_versions_of_go_are_accepted() {
        assert!(version_number("1.26.8") >= version_number("1.26.0"));
        assert!(version_number("1.27rc1") >= version_number("1.26.0"));
        assert!(version_number("1.9.9") < version_number("1.26.0"));
    }
}
