//! `go build` of all eight programs in one module, so that packages they share are compiled once.

use std::{
    fs,
    io::ErrorKind,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};

use super::Binary;

pub(super) const GO_MOD: &str = include_str!("../../control-plane/go.mod");
pub(super) const GO_SUM: &str = include_str!("../../control-plane/go.sum");
/// The folder of the programs inside the cache folder.
pub(super) const FOLDER: &str = "bin";

/// Arguments of `go build` other than output and packages.
pub(super) fn arguments() -> Vec<String> {
    // Components refuse or misreport version skew when they don't know their own version.
    let versions = [
        ("k8s.io/component-base/version", "k8s.io/kubernetes"),
        ("sigs.k8s.io/cluster-api/version", "sigs.k8s.io/cluster-api"),
    ];
    let stamps = versions.map(|(package, module)| {
        let version = module_version(module);
        let minor = version.split('.').nth(1).unwrap_or("0");
        format!(
            "-X {package}.gitVersion={version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor} \
             -X {package}.gitTreeState=clean -X {package}.gitCommit=unknown -X {package}.buildDate=1970-01-01T00:00:00Z"
        )
    });
    vec!["build".into(), "-trimpath".into(), "-ldflags".into(), format!("-s -w {}", stamps.join(" "))]
}

/// The version that `go.mod` requires of a module.
fn module_version(module: &str) -> &'static str {
    let mut required = GO_MOD.lines().map(str::split_whitespace).filter_map(|mut words| {
        let first = words.next()?;
        let name = if first == "require" { words.next()? } else { first };
        (name == module).then(|| words.next()).flatten().filter(|version| version.starts_with('v'))
    });
    required.next().unwrap_or("v0.0.0")
}

/// Builds all programs into `<folder>/bin`, which appears only when it is complete.
pub(super) fn build(folder: &Path) -> Result<()> {
    check_go()?;
    let scratch =
        tempfile::Builder::new().prefix("building-").tempdir_in(folder).context("creating a build folder")?;
    let module = scratch.path().join("module");
    let output = scratch.path().join(FOLDER);
    write_module(&module)?;
    fs::create_dir(&output)?;

    let log = folder.join("go-build.log");
    eprintln!("building the control plane (about ten CPU minutes, once); log: {}", log.display());
    let started = Instant::now();
    let mut go = go(&module);
    go.args(arguments()).arg("-o").arg(&output).args(Binary::ALL.map(Binary::package));
    let status =
        go.stdout(Stdio::null()).stderr(fs::File::create(&log)?).status().context("running go build")?;
    if !status.success() {
        let text = fs::read_to_string(&log).unwrap_or_default();
        bail!(
            "`go build` of the control plane failed ({status}). The end of {}:\n{}",
            log.display(),
            last_lines(&text, 30)
        );
    }
    for binary in Binary::ALL {
        adopt_name(&output, binary)?;
    }
    let target = folder.join(FOLDER);
    if target.exists() {
        fs::remove_dir_all(&target)
            .with_context(|| format!("removing the incomplete {}", target.display()))?;
    }
    fs::rename(&output, &target).with_context(|| format!("moving the programs to {}", target.display()))?;
    eprintln!("built the control plane in {} s", started.elapsed().as_secs());
    Ok(())
}

fn adopt_name(output: &Path, binary: Binary) -> Result<()> {
    let wanted = output.join(binary.file_name());
    for built in binary.built_names() {
        let built = output.join(built);
        if built.is_file() {
            fs::rename(&built, &wanted)?;
        }
    }
    ensure!(wanted.is_file(), "`go build` left no {} in {}", binary.file_name(), output.display());
    Ok(())
}

/// Writes the embedded module into a folder, so that the sources of this crate needn't be where they were compiled.
pub(super) fn write_module(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("go.mod"), GO_MOD)?;
    fs::write(folder.join("go.sum"), GO_SUM)?;
    Ok(())
}

/// Go in a module folder, with the installed toolchain only.
pub(super) fn go(module: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(module)
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .stdin(Stdio::null());
    command
}

/// Fails with a remedy when Go is missing or older than the module wants.
pub(super) fn check_go() -> Result<()> {
    let wanted = GO_MOD.lines().find_map(|line| line.strip_prefix("go ")).unwrap_or("1.26.0").trim();
    let remedy = format!(
        "the control plane of the end-to-end tests is built from Go modules and needs Go {wanted} or newer: \
         install it from https://go.dev/dl/ or your distribution and put its bin folder on PATH"
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

fn version_number(version: &str) -> Vec<u32> {
    let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>();
    version.split('.').map(|part| digits(part).parse().unwrap_or(0)).collect()
}

/// The last `count` lines of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_module_file() {
        assert!(
            module_version("k8s.io/kubernetes").starts_with("v1."),
            "{}",
            module_version("k8s.io/kubernetes")
        );
        assert!(module_version("sigs.k8s.io/cluster-api").starts_with("v1."));
    }

    #[test]
    fn newer_patch_and_minor_versions_of_go_are_accepted() {
        assert!(version_number("1.26.8") >= version_number("1.26.0"));
        assert!(version_number("1.27rc1") >= version_number("1.26.0"));
        assert!(version_number("1.9.9") < version_number("1.26.0"));
    }
}
