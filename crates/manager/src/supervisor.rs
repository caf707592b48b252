//! All tasks of the process under one roof: the first that ends, fails or panics ends the process.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};

/// Time between two heartbeats.
const BEAT: Duration = Duration::from_secs(1);
/// A heart that hasn't beaten for so long has stopped.
const DEAD_AFTER: Duration = Duration::from_secs(30);

/// How a task ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// By itself, without an error.
    Done,
    Failed(anyhow::Error),
    /// With the panic's message.
    Panicked(String),
    /// It was aborted.
    Cancelled,
}

/// A task that ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) task: &'static str,
    pub(crate) ending: Ending,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = self.task;
        match &self.ending {
            Ending::Done => write!(f, "task {task} ended although nobody asked it to"),
            Ending::Failed(error) => write!(f, "{error:#}"),
            Ending::Panicked(message) => {
                write!(
                    f,
                    "task {task} panicked: {message}; this is a defect, please report it with the lines above"
                )
            }
            Ending::Cancelled => write!(f, "task {task} was cancelled"),
        }
    }
}

/// The supervisor's heart, for the liveness probe. It stops with the supervisor, and where the runtime is stuck.
#[derive(Clone, Debug)]
pub(crate) struct Pulse(Arc<Mutex<Option<Instant>>>);

impl Pulse {
    pub(crate) fn is_beating(&self) -> bool {
        self.is_beating_at(Instant::now())
    }

    fn is_beating_at(&self, now: Instant) -> bool {
        self.0.lock().is_some_and(|beat| now.saturating_duration_since(beat) < DEAD_AFTER)
    }
}

/// Starts tasks and waits for them.
pub(crate) struct Supervisor {
    tasks: JoinSet<anyhow::Result<()>>,
    running: BTreeMap<Id, (&'static str, AbortHandle)>,
    pulse: Pulse,
}

impl Supervisor {
    pub(crate) fn new() -> Self {
        Self {
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            pulse: Pulse(Arc::new(Mutex::new(Some(Instant::now())))),
        }
    }

    pub(crate) fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    pub(crate) fn start<E>(
        &mut self,
        task: &'static str,
        work: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: Into<anyhow::Error> + 'static,
    {
        let handle = self.tasks.spawn(async { work.await.map_err(Into::into) });
        self.running.insert(handle.id(), (task, handle));
    }

    /// Waits for the next task that ends; never returns where there is none.
    pub(crate) async fn next_end(&mut self) -> Ended {
        loop {
            *self.pulse.0.lock() = Some(Instant::now());
            tokio::select! {
                Some(joined) = self.tasks.join_next_with_id() => return self.ended(joined),
                () = sleep(BEAT) => {}
            }
        }
    }

    /// Waits until a task has ended, at most for `limit`; none if it hasn't. Other tasks that end meanwhile are told in the log.
    pub(crate) async fn end_of(&mut self, task: &'static str, limit: Duration) -> Option<Ended> {
        let waited = timeout(limit, async {
            while self.is_running(task) {
                let ended = self.next_end().await;
                if ended.task == task {
                    return Some(ended);
                }
                tracing::debug!("while ending: {ended}");
            }
            None
        });
        waited.await.ok().flatten()
    }

    pub(crate) fn is_running(&self, task: &'static str) -> bool {
        self.running.values().any(|(name, _)| *name == task)
    }

    /// Drops the work of a task at its next pause, and waits for that as [`Supervisor::end_of`] does.
    pub(crate) async fn abort(&mut self, task: &'static str, limit: Duration) {
        for (name, handle) in self.running.values() {
            if *name == task {
                handle.abort();
            }
        }
        let _ = self.end_of(task, limit).await;
    }

    fn ended(&mut self, joined: Result<(Id, anyhow::Result<()>), JoinError>) -> Ended {
        let (id, ending) = match joined {
            Ok((id, Ok(()))) => (id, Ending::Done),
            Ok((id, Err(error))) => (id, Ending::Failed(error)),
            Err(error) => {
                let id = error.id();
                let ending = match error.try_into_panic() {
                    Ok(payload) => Ending::Panicked(message(payload.as_ref())),
                    Err(_) => Ending::Cancelled,
                };
                (id, ending)
            }
        };
        Ended { task: self.running.remove(&id).map_or("unknown", |(name, _)| name), ending }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        *self.pulse.0.lock() = None;
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn forever() -> anyhow::Result<()> {
        std::future::pending().await
    }

    #[tokio::test]
    async fn a_panic_is_the_end_of_its_task_with_name_and_message() {
        let mut supervisor = Supervisor::new();
        supervisor.start("steady", forever());
        supervisor.start("shaky", async {
            let nothing: Option<u8> = None;
            assert!(nothing.is_some(), "the floor is gone");
            anyhow::Ok(())
        });
        let ended = supervisor.next_end().await;
        assert_eq!(ended.task, "shaky");
        let text = ended.to_string();
        assert!(text.contains("shaky panicked: the floor is gone"), "{text}");
        assert!(supervisor.is_running("steady") && !supervisor.is_running("shaky"));
    }

    #[tokio::test]
    async fn an_error_ends_its_task() {
        let mut supervisor = Supervisor::new();
        supervisor.start("server", async { Err(anyhow::anyhow!("out of paper")) });
        assert_eq!(supervisor.next_end().await.to_string(), "out of paper");
    }

    #[tokio::test]
    async fn waiting_for_a_task_is_bounded() {
        let mut supervisor = Supervisor::new();
        supervisor.start("steady", forever());
        assert!(supervisor.end_of("steady", Duration::from_millis(50)).await.is_none());
        supervisor.start("short", async { anyhow::Ok(()) });
        let ended = supervisor.end_of("short", Duration::from_mins(1)).await;
        assert!(matches!(ended, Some(Ended { task: "short", ending: Ending::Done })));
        assert!(supervisor.end_of("short", Duration::from_mins(1)).await.is_none(), "it has ended before");
    }

    #[tokio::test]
    async fn a_task_that_is_aborted_makes_room_for_another_of_its_name() {
        let mut supervisor = Supervisor::new();
        supervisor.start("operator", forever());
        supervisor.abort("operator", Duration::from_mins(1)).await;
        assert!(!supervisor.is_running("operator"));
        supervisor.start("operator", async { Err(anyhow::anyhow!("the second")) });
        assert_eq!(supervisor.next_end().await.to_string(), "the second");
    }

    #[tokio::test]
    async fn the_heart_beats_only_while_the_supervisor_watches() {
        let mut supervisor = Supervisor::new();
        supervisor.start("steady", forever());
        let pulse = supervisor.pulse();
        let started = Instant::now();
        assert!(pulse.is_beating_at(started));
        assert!(!pulse.is_beating_at(started + DEAD_AFTER + Duration::from_secs(1)));
        assert!(timeout(3 * BEAT, supervisor.next_end()).await.is_err());
        assert!(pulse.is_beating_at(started + DEAD_AFTER + Duration::from_secs(1)), "it has beaten since");
    }
}
