//! The processes of a control plane.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use kube::{Client, Config};
use rustix::process::Signal;

use super::{program::Program, watchdog::Watchdog};
use crate::binaries::Binary;

/// How often readiness is asked for.
const POLL: Duration = Duration::from_millis(50);

/// A process of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controller manager.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// kwok, the kubelet of all Nodes.
    Kwok,
    /// Cluster API's core manager.
    CapiCore,
}

impl Component {
    /// The name of the program and of its log.
    pub fn name(self) -> &'static str {
        self.binary().file_name()
    }

    pub(super) fn binary(self) -> Binary {
        match self {
            Self::Etcd => Binary::Etcd,
            Self::ApiServer => Binary::ApiServer,
            Self::ControllerManager => Binary::ControllerManager,
            Self::Scheduler => Binary::Scheduler,
            Self::Kwok => Binary::Kwok,
            Self::CapiCore => Binary::CapiCore,
        }
    }
}

/// How a component is started and how its readiness is asked for.
pub(super) struct Recipe {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) working_folder: PathBuf,
    pub(super) log: PathBuf,
    pub(super) probe: Probe,
}

/// A path that answers 200 when the component is ready.
#[derive(Clone)]
pub(super) struct Probe {
    pub(super) config: Config,
    pub(super) path: &'static str,
}

impl Probe {
    /// A probe of a server on 127.0.0.1 that wants no credentials; `authority` is the DER of who signed its certificate.
    pub(super) fn of_port(port: u16, path: &'static str, authority: Option<&[u8]>) -> Result<Self> {
        let scheme = if authority.is_some() { "https" } else { "http" };
        let mut config =
            Config::new(format!("{scheme}://127.0.0.1:{port}").parse().context("a component's address")?);
        config.root_cert = authority.map(|der| vec![der.to_vec()]);
        Ok(Self { config, path })
    }
}

async fn answers(client: &Client, path: &str) -> Result<()> {
    let answer = tokio::time::timeout(Duration::from_secs(5), client.request_text(http_get(path)?)).await;
    answer.context("no answer within 5 s")?.map(drop).map_err(Into::into)
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    http::Request::get(path).body(Vec::new()).context("building a request")
}

struct Process {
    recipe: Recipe,
    program: Option<Program>,
}

/// All processes of a control plane; dropping them kills each with its process group.
pub(super) struct Processes {
    inner: Mutex<BTreeMap<Component, Process>>,
    watchdog: Arc<Watchdog>,
}

impl std::fmt::Debug for Processes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.lock().keys()).finish()
    }
}

impl Processes {
    pub(super) fn new(watchdog: Watchdog) -> Self {
        Self { inner: Mutex::new(BTreeMap::new()), watchdog: Arc::new(watchdog) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Component, Process>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn watchdog(&self) -> Arc<Watchdog> {
        Arc::clone(&self.watchdog)
    }

    /// Remembers how to start a component and starts it.
    pub(super) fn add(&self, component: Component, recipe: Recipe) -> Result<()> {
        self.lock().insert(component, Process { recipe, program: None });
        self.start(component)
    }

    pub(super) fn start(&self, component: Component) -> Result<()> {
        let mut inner = self.lock();
        let process = find(&mut inner, component)?;
        let recipe = &process.recipe;
        let mut command = Command::new(&recipe.program);
        command.args(&recipe.arguments).current_dir(&recipe.working_folder).env_remove("KUBECONFIG");
        process.program =
            Some(Program::start(component.name(), command, recipe.log.clone(), self.watchdog())?);
        Ok(())
    }

    /// Waits until a component is ready. Fails at once when any component has ended.
    pub(super) async fn ready(&self, component: Component, within: Duration) -> Result<()> {
        let started = Instant::now();
        let Probe { config, path } = find(&mut self.lock(), component)?.recipe.probe.clone();
        let client = Client::try_from(config).context("building a client")?;
        loop {
            self.all_alive()?;
            let Err(error) = answers(&client, path).await else {
                return Ok(());
            };
            if started.elapsed() > within {
                let tail = self
                    .lock()
                    .get(&component)
                    .and_then(|process| Some(process.program.as_ref()?.log_tail(20)));
                bail!(
                    "{} isn't ready after {} s: {error:#}\n{}",
                    component.name(),
                    within.as_secs(),
                    tail.unwrap_or_default()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Fails when a component has ended that nobody killed.
    pub(super) fn all_alive(&self) -> Result<()> {
        for (component, process) in self.lock().iter_mut() {
            let Some(program) = &mut process.program else {
                continue;
            };
            if let Some(status) = program.ended()? {
                bail!("{} ended early ({status}):\n{}", component.name(), program.log_tail(20));
            }
        }
        Ok(())
    }

    pub(super) fn process_id(&self, component: Component) -> Option<u32> {
        self.lock().get(&component)?.program.as_ref().map(Program::process_id)
    }

    pub(super) fn signal(&self, component: Component, signal: Signal) -> Result<()> {
        let mut inner = self.lock();
        let program = find(&mut inner, component)?.program.as_ref();
        program.with_context(|| format!("{} isn't running", component.name()))?.signal(signal)
    }

    pub(super) fn kill(&self, component: Component) -> Result<()> {
        find(&mut self.lock(), component)?.program = None;
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // All at once, and only then one after the other is awaited, as each drops.
        for process in self.lock().values() {
            let _ = process.program.as_ref().map(|program| program.signal(Signal::KILL));
        }
    }
}

fn find(inner: &mut BTreeMap<Component, Process>, component: Component) -> Result<&mut Process> {
    inner.get_mut(&component).with_context(|| format!("this control plane has no {}", component.name()))
}
