//! A shell beside the test process that ends the plane when the test process can't.
//!
//! Drop runs after a panic, but not after SIGKILL, an abort or Ctrl-C, and never for a static. The shell waits at a pipe; when
//! the pipe closes without a farewell, it kills the process groups it was told of and removes the files unless they are kept.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result};

const SCRIPT: &str = r#"
groups=" "
while read -r verb group; do
  case "$verb" in
    watch) groups="$groups$group " ;;
    forget) groups="${groups%% $group *} ${groups#* $group }" ;;
    farewell) exit 0 ;;
  esac
done
for group in $groups; do kill -9 -"$group" 2>/dev/null; done
[ -e "$1/$2" ] || rm -rf "$1"
"#;

/// The running watchdog of one control plane.
#[derive(Debug)]
pub(super) struct Watchdog {
    shell: Child,
    pipe: Mutex<Option<ChildStdin>>,
}

impl Watchdog {
    pub(super) fn start(state: &Path, keep: &str) -> Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "watchdog"])
            .arg(state)
            .arg(keep)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A group of its own, or Ctrl-C would end the watchdog together with what it watches over.
            .process_group(0)
            .spawn()
            .context("starting `sh` as watchdog of the control plane")?;
        let pipe = Mutex::new(shell.stdin.take());
        Ok(Self { shell, pipe })
    }

    /// From now on the group is killed when this process ends without a farewell.
    pub(super) fn watch(&self, group: u32) {
        self.tell(&format!("watch {group}\n"));
    }

    /// The group is gone; its number may belong to somebody else soon.
    pub(super) fn forget(&self, group: u32) {
        self.tell(&format!("forget {group}\n"));
    }

    fn tell(&self, line: &str) {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = pipe.as_mut() {
            // A watchdog that somebody killed is no reason to fail a test.
            let _ = pipe.write_all(line.as_bytes());
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.tell("farewell\n");
        *self.pipe.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.shell.wait();
    }
}
