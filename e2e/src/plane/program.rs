//! A process in a group of its own that ends with its handle, or with this process at the latest.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::watchdog::Watchdog;
use karpenter_capi_go_programs::last_lines;

/// A running process, such as a component or the operator under test; dropping it kills its process group.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
    watchdog: Arc<Watchdog>,
}

impl Program {
    /// Starts a command with an empty standard input and both outputs appended to a log.
    pub(super) fn start(
        name: &str,
        mut command: Command,
        log: PathBuf,
        watchdog: Arc<Watchdog>,
    ) -> Result<Self> {
        let file = fs::File::options().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("opening {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        // A proxy of the machine is of no use between processes of one machine.
        for variable in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env_remove(variable);
        }
        let child =
            command.spawn().with_context(|| format!("starting {}", command.get_program().display()))?;
        watchdog.watch(child.id());
        Ok(Self { name: name.to_owned(), child, log, watchdog })
    }

    /// The process id, which is that of its group too.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// The log of both outputs.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of the log, headed by its path.
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        format!("end of {}:\n{}", self.log.display(), last_lines(&String::from_utf8_lossy(&text), lines))
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("asking whether {} has ended", self.name))
    }

    /// Sends a signal to its process group.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let group = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .context("a process id out of range")?;
        kill_process_group(group, signal).with_context(|| format!("signalling {}", self.name))
    }

    /// Kills it and its group without notice (SIGKILL) and waits until it is gone.
    pub fn kill(mut self) {
        self.end();
    }

    /// Asks it to end (SIGTERM) and waits for how it ends.
    pub async fn terminate(mut self, within: Duration) -> Result<ExitStatus> {
        let started = Instant::now();
        self.signal(Signal::TERM)?;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if started.elapsed() > within {
                bail!(
                    "{} didn't end within {} s of SIGTERM; {}",
                    self.name,
                    within.as_secs(),
                    self.log_tail(20)
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn end(&mut self) {
        // An error says that the group is gone already.
        let _ = self.signal(Signal::KILL);
        let _ = self.child.wait();
        self.watchdog.forget(self.child.id());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}
