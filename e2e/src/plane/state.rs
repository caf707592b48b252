//! The folder of a control plane's files.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use karpenter_capi_go_programs::last_lines;

/// A file of this name in the state folder keeps the folder; the watchdog looks for it too.
pub(super) const KEEP: &str = "KEEP";

/// How much of each log is shown when a test fails.
const SHOWN_LINES: usize = 8;

/// The folder of a control plane's files, removed at the end unless it is to be kept.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
}

impl State {
    pub(super) fn create(name: &str) -> Result<Self> {
        let path = tempfile::Builder::new()
            .prefix(&format!("karpenter-capi-e2e-{name}-"))
            .tempdir()
            .context("creating a folder for the control plane's files")?
            .keep();
        let state = Self { path };
        for folder in ["pki", "logs"] {
            fs::create_dir(state.path.join(folder)).with_context(|| format!("creating {folder}"))?;
        }
        if env::var("KARPENTER_CAPI_E2E_KEEP").is_ok_and(|value| !value.is_empty() && value != "0") {
            state.keep();
        }
        Ok(state)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    pub(super) fn pki(&self, file: &str) -> String {
        self.path.join("pki").join(file).display().to_string()
    }

    pub(super) fn keep(&self) {
        // Best effort: without the marker the files are lost, which is no reason to fail a test that passes.
        let _ = fs::write(self.path.join(KEEP), "");
    }

    fn kept(&self) -> bool {
        self.path.join(KEEP).exists()
    }

    fn show(&self) {
        eprintln!("control plane files are kept in {}", self.path.display());
        let Ok(entries) = fs::read_dir(self.logs()) else {
            return;
        };
        let mut logs: Vec<PathBuf> =
            entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        logs.sort();
        for log in logs {
            let text = fs::read_to_string(&log).unwrap_or_default();
            eprintln!("--- end of {}\n{}", log.display(), last_lines(&text, SHOWN_LINES));
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.keep();
        }
        if self.kept() {
            self.show();
        } else {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
