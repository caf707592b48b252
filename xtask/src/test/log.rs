//! The log of one stage, and programs that write into it.
//!
//! Programs get the file itself as their output, not a pipe: a grandchild that outlives its parent can then neither block
//! nor be lost, and the log is whole whatever happens to us.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::command::spelled;

const HEARTBEAT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);

pub(super) struct Log {
    stage: &'static str,
    path: PathBuf,
    file: File,
    verbose: bool,
    /// Bytes of the file that a verbose run has shown.
    shown: u64,
    started: Instant,
}

impl Log {
    pub(super) fn create(stage: &'static str, path: PathBuf, verbose: bool) -> Result<Self> {
        File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        // Appending keeps the writes of several programs from overwriting each other.
        let file = OpenOptions::new()
            .append(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        Ok(Self { stage, path, file, verbose, shown: 0, started: Instant::now() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line of our own.
    pub(super) fn note(&mut self, line: &str) -> Result<()> {
        writeln!(self.file, "{line}").with_context(|| format!("writing {}", self.path.display()))?;
        self.follow()
    }

    /// Runs a program to its end; an exit code other than 0 is an error.
    pub(super) fn run(&mut self, mut command: Command) -> Result<()> {
        let spelled = spelled(&command);
        self.note(&format!("$ {spelled}"))?;
        let mut child = command
            // Colour codes would hide the lines that are counted.
            .env("CARGO_TERM_COLOR", "never")
            .stdin(Stdio::null())
            .stdout(self.file.try_clone()?)
            .stderr(self.file.try_clone()?)
            .spawn()
            .with_context(|| format!("starting `{spelled}`"))?;
        let mut told = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().with_context(|| format!("waiting for `{spelled}`"))? {
                break status;
            }
            thread::sleep(POLL);
            self.follow()?;
            if told.elapsed() >= HEARTBEAT {
                told = Instant::now();
                self.heartbeat()?;
            }
        };
        self.follow()?;
        if !status.success() {
            bail!("`{spelled}` failed: {status}");
        }
        Ok(())
    }

    /// Runs a short program and gives its exit code with what it printed; only its errors go to the log.
    pub(super) fn capture(&mut self, mut command: Command) -> Result<(Option<i32>, Vec<u8>)> {
        let spelled = spelled(&command);
        self.note(&format!("$ {spelled}"))?;
        let output = command
            .stdin(Stdio::null())
            .stderr(self.file.try_clone()?)
            .output()
            .with_context(|| format!("starting `{spelled}`"))?;
        self.follow()?;
        Ok((output.status.code(), output.stdout))
    }

    /// The log so far; bytes that are not UTF-8 are replaced, for the log shows what others printed.
    pub(super) fn text(&self) -> Result<String> {
        let bytes = fs::read(&self.path).with_context(|| format!("reading {}", self.path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The last lines of the log, unless a verbose run has shown them already.
    pub(super) fn tail(&self, lines: usize) -> Result<String> {
        if self.verbose { Ok(String::new()) } else { Ok(last_lines(&self.text()?, lines)) }
    }

    fn heartbeat(&self) -> Result<()> {
        let text = self.text()?;
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let last: String = last.trim().chars().take(100).collect();
        super::say(&format!("... {:<14} {} s, now: {last}", self.stage, self.started.elapsed().as_secs()));
        Ok(())
    }

    /// Copies to the console what has come since the last call.
    fn follow(&mut self) -> Result<()> {
        if !self.verbose {
            return Ok(());
        }
        let mut reader =
            File::open(&self.path).with_context(|| format!("reading {}", self.path.display()))?;
        reader.seek(SeekFrom::Start(self.shown))?;
        let mut news = Vec::new();
        reader.read_to_end(&mut news)?;
        let mut console = io::stdout().lock();
        // As in `say`: a console that has gone ends no stage.
        let _ = console.write_all(&news).and_then(|()| console.flush());
        self.shown += news.len() as u64;
        Ok(())
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let omitted = lines.len().saturating_sub(count);
    let kept = lines.iter().skip(omitted).copied();
    if omitted == 0 {
        return kept.collect::<Vec<_>>().join("\n");
    }
    let head = format!("[{omitted} lines before these are in the log file]");
    std::iter::once(head.as_str()).chain(kept).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str) -> Log {
        let folder = std::env::temp_dir().join(format!("xtask-log-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Log::create("test", folder.join(format!("{name}.log")), false).unwrap()
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_errors_of_several_programs_are_kept_in_order() {
        let mut log = log("order");
        log.run(shell("echo first; echo second >&2")).unwrap();
        log.run(shell("echo third")).unwrap();
        let text = log.text().unwrap();
        let plain: Vec<_> = text.lines().filter(|line| !line.starts_with('$')).collect();
        assert_eq!(plain, ["first", "second", "third"]);
    }

    #[test]
    fn a_program_that_fails_is_an_error_that_names_it_and_its_code() {
        let message = log("failure").run(shell("exit 7")).unwrap_err().to_string();
        assert!(message.contains("sh -c exit 7") && message.contains('7'), "{message}");
    }

    #[test]
    fn a_missing_program_is_an_error_that_names_it() {
        let message = log("missing").run(Command::new("no-such-program-here")).unwrap_err().to_string();
        assert!(message.contains("no-such-program-here"), "{message}");
    }

    #[test]
    fn a_long_log_is_cut_at_its_head_and_says_so() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "[1 lines before these are in the log file]\nb\nc");
        assert_eq!(last_lines("a\nb\n", 2), "a\nb");
    }
}
