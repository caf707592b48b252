//! The demo plays its acts as announced, and leaves nothing behind, however it ends.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The operator is the one that the environment names, else the one beside the demo.
fn demo(arguments: &[&str]) -> Result<Child> {
    Command::new(env!("CARGO_BIN_EXE_demo"))
        .args(arguments)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("starting the demo")
}

/// The folder of the plane's files, from the line that tells people the kubeconfig.
fn folder(line: &str) -> Option<PathBuf> {
    Path::new(line.strip_prefix("export KUBECONFIG=")?).parent().map(Path::to_path_buf)
}

/// No process has the folder in its command line, and the folder is gone.
fn nothing_is_left(folder: &Path) -> Result<()> {
    ensure!(!folder.exists(), "{} is still there", folder.display());
    let name = folder.to_string_lossy().into_owned();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        ensure!(!line.contains(&name), "still running: {line}");
    }
    Ok(())
}

#[tokio::test]
async fn the_demo_plays_its_acts_as_announced_and_leaves_nothing_behind() -> Result<()> {
    let child = demo(&["--once"])?;
    let output = tokio::time::timeout(Duration::from_mins(8), child.wait_with_output()).await??;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{}: {text}", output.status);
    for needle in ["All 20 pods run", "is gone, the other", "an hour became"] {
        ensure!(text.contains(needle), "{needle:?} isn't in {text}");
    }
    // A pipe gets plain text: neither colours nor movements of a cursor.
    ensure!(!text.contains('\x1b'), "{text:?}");
    nothing_is_left(&text.lines().find_map(folder).context("no line tells the kubeconfig")?)
}

#[tokio::test]
async fn ctrl_c_ends_the_demo_and_everything_that_it_started() -> Result<()> {
    let mut child = demo(&[])?;
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let mut files = None;
    let pods_wait = async {
        while let Some(line) = lines.next_line().await? {
            files = files.take().or_else(|| folder(&line));
            if line.contains("pods pending 20") {
                return Ok(());
            }
        }
        anyhow::bail!("the demo has ended")
    };
    tokio::time::timeout(Duration::from_mins(2), pods_wait).await??;
    let process = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)).context("no process id")?;
    kill_process(process, Signal::INT)?;
    let status = tokio::time::timeout(Duration::from_secs(20), child.wait()).await??;
    ensure!(status.success(), "{status}");
    nothing_is_left(&files.context("no line told the kubeconfig")?)
}
