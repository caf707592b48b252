//! A control plane as ordinary processes on 127.0.0.1.

mod capi;
mod certificates;
mod component;
mod kubeconfig;
mod launch;
mod options;
mod ports;
mod program;
mod shared;
mod state;
mod watchdog;

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use kube::{Client, Config, config::KubeConfigOptions, config::Kubeconfig};
use tokio::io::AsyncWriteExt;

use crate::binaries::{Binaries, Binary};
pub use capi::Served;
pub use component::Component;
pub use options::Options;
pub use program::Program;
pub use shared::Shared;

use certificates::Authority;
use component::Processes;
use state::State;

/// A running control plane; dropping it ends every process that it started and removes its files.
///
/// The files are kept, and their place and the ends of the logs printed, when the thread is panicking, after
/// [`keep_files`](Self::keep_files), or when `KARPENTER_CAPI_E2E_KEEP=1` is set.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields drop in this order: processes end before their files go.
    processes: Processes,
    state: State,
    authority: Authority,
    binaries: Binaries,
    server: String,
    kubeconfig: PathBuf,
    config: Config,
}

impl ControlPlane {
    /// Starts a control plane and waits until all of its parts are ready.
    ///
    /// A component that ends early is reported at once with the end of its log. A port that was taken by somebody else between
    /// choosing and using it leads to another try.
    pub async fn start(options: Options) -> Result<Self> {
        launch::start(options).await
    }

    /// Starts a control plane, runs `body` with it, and keeps the files when the body returns an error or panics.
    ///
    /// A test that returns errors instead of panicking needs this to have its logs kept, as dropping alone can't see an error.
    pub async fn with<T>(options: Options, body: impl AsyncFnOnce(&Self) -> Result<T>) -> Result<T> {
        let plane = Self::start(options).await?;
        let result = body(&plane).await;
        if result.is_err() {
            plane.keep_files();
        }
        result
    }

    /// The plane of this name that the tests of one process share: the first caller starts it with `options()`, and it lives
    /// until the process ends.
    pub async fn shared(name: &'static str, options: impl FnOnce() -> Options) -> Result<Shared> {
        shared::shared(name, options).await
    }

    /// Runs `body` with the shared plane of this name, and keeps the files when the body returns an error or panics.
    pub async fn with_shared<T>(
        name: &'static str,
        options: impl FnOnce() -> Options,
        body: impl AsyncFnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let plane = Self::shared(name, options).await?;
        let result = body(&plane).await;
        if result.is_err() {
            plane.keep_files();
            eprintln!("files of the shared control plane {name} are kept in {}", plane.state_dir().display());
        }
        result
    }

    /// A new client with all rights and no limit on requests.
    ///
    /// A client's background work belongs to the runtime in which it was made, and each test has its own: take one per test.
    pub fn client(&self) -> Result<Client> {
        Client::try_from(self.config.clone()).context("building a client")
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Writes a kubeconfig with a client certificate for a user and at most two groups.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<PathBuf> {
        let identity = self.authority.client(user, groups)?;
        let file_name = user.replace(|character: char| !character.is_ascii_alphanumeric(), "-");
        let path = self.state.path().join(format!("{file_name}.user.kubeconfig"));
        kubeconfig::write(&path, &self.server, &self.authority, &identity)?;
        Ok(path)
    }

    /// The address of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Runs kubectl as administrator and returns what it printed; the error holds what it said on stderr.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with_input(arguments, "").await
    }

    /// Runs kubectl with a text on its standard input, as for `apply -f -`.
    pub async fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut child = tokio::process::Command::new(self.binaries.path(Binary::Kubectl))
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting kubectl")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).await.context("writing to kubectl")?;
        }
        let output = child.wait_with_output().await.context("waiting for kubectl")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`kubectl {}` failed: {}", arguments.join(" "), errors.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The programs that this plane was started from.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// The folder of the plane's files, also a place for files of a test.
    pub fn state_dir(&self) -> &Path {
        self.state.path()
    }

    /// The folder with one log per component; a test may put logs of its own processes there.
    pub fn logs_dir(&self) -> PathBuf {
        self.state.logs()
    }

    /// Keeps all files when this plane ends.
    pub fn keep_files(&self) {
        self.state.keep();
    }

    /// Fails when a component has ended that nobody killed, with the end of its log.
    pub fn all_alive(&self) -> Result<()> {
        self.processes.all_alive()
    }

    /// Starts another program, such as the operator under test, with its log beside those of the components.
    ///
    /// A log of that name from before is continued. The program ends with its handle.
    pub fn start_program(&self, name: &str, command: Command) -> Result<Program> {
        Program::start(name, command, self.logs_dir().join(format!("{name}.log")), self.processes.watchdog())
    }

    /// The process id of a running component.
    pub fn process_id(&self, component: Component) -> Option<u32> {
        self.processes.process_id(component)
    }

    /// Stops a component without ending it (SIGSTOP): it keeps its connections and answers nothing.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.processes.signal(component, rustix::process::Signal::STOP)
    }

    /// Lets a paused component go on (SIGCONT).
    pub fn resume(&self, component: Component) -> Result<()> {
        self.processes.signal(component, rustix::process::Signal::CONT)
    }

    /// Kills a component (SIGKILL) and waits until it is gone.
    pub fn kill(&self, component: Component) -> Result<()> {
        self.processes.kill(component)
    }

    /// Starts a killed component again, kills it first when it is running, and waits until it is ready.
    pub async fn restart(&self, component: Component) -> Result<()> {
        self.processes.kill(component)?;
        self.processes.start(component)?;
        self.processes.ready(component, Duration::from_mins(1)).await
    }
}

/// Reads a kubeconfig file.
pub(crate) async fn config_from(kubeconfig: &Path) -> Result<Config> {
    let file =
        Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
    Ok(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}

/// Chooses the process's TLS implementation. Whoever chose before stays chosen.
fn install_crypto() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
