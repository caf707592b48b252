//! Work queues: one entry for each object however often it is asked for, retries with a back-off of its own for each.

use crate::context::Context;
use crate::error::{Class, Error, chain};
use futures::StreamExt;
use kube::runtime::scheduler::{ScheduleRequest, scheduler};
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// The sending side: asks for an object to be looked at. The channel has no bound since the scheduler behind it merges equal keys
/// at once; a bounded one could block a watch.
#[derive(Clone, Debug)]
pub(crate) struct Queue<K>(mpsc::UnboundedSender<Scheduled<K>>);

/// The receiving side, handed to [`work`].
pub(crate) type Requests<K> = mpsc::UnboundedReceiver<Scheduled<K>>;

/// A key with the time before which it isn't looked at.
#[derive(Debug)]
pub(crate) struct Scheduled<K> {
    key: K,
    at: Instant,
}

impl<K> Queue<K> {
    pub(crate) fn new() -> (Self, Requests<K>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Look at it now.
    pub(crate) fn add(&self, key: K) {
        self.add_after(key, Duration::ZERO);
    }

    /// Look at it after a while; an earlier request for the same key wins.
    pub(crate) fn add_after(&self, key: K, wait: Duration) {
        // The other side only goes away when the process ends.
        _ = self.0.send(Scheduled { key, at: Instant::now() + wait });
    }
}

/// What a reconcile says when it went well: look again after a while, or wait for a change.
pub(crate) type Outcome = Result<Option<Duration>, Error>;

/// Runs `reconcile` for each key that is asked for, at most `concurrency` at a time and never two for one key, until `stop`; then waits
/// for those that run.
pub(crate) async fn work<K, F, Fut>(
    name: &'static str,
    context: Arc<Context>,
    (queue, requests): (Queue<K>, Requests<K>),
    concurrency: usize,
    reconcile: F,
    stop: CancellationToken,
) where
    K: Clone + Eq + Hash + Display + Send + Sync + Unpin + 'static,
    F: Fn(Arc<Context>, K) -> Fut,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    let requests =
        tokio_stream_of(requests).map(|request| ScheduleRequest { message: request.key, run_at: request.at });
    let mut scheduler = pin!(scheduler(requests));
    let mut running: HashSet<K> = HashSet::new();
    let mut tasks: JoinSet<(K, Outcome, Duration)> = JoinSet::new();
    let mut failures: HashMap<K, u32> = HashMap::new();
    loop {
        let room = running.len() < concurrency;
        let next = async {
            if room {
                scheduler.as_mut().hold_unless(|key| !running.contains(key)).next().await
            } else {
                scheduler.as_mut().hold().next().await.and(None)
            }
        };
        tokio::select! {
            () = stop.cancelled() => break,
            Some(key) = next => {
                running.insert(key.clone());
                let span = tracing::info_span!("reconcile", controller = name, object = %key);
                let reconciling = reconcile(Arc::clone(&context), key.clone());
                tasks.spawn(async move {
                    let started = Instant::now();
                    let outcome = reconciling.await;
                    (key, outcome, started.elapsed())
                }.instrument(span));
            }
            Some(done) = tasks.join_next() => {
                // A panic of a reconcile is a bug; the supervisor above ends the process, which starts afresh from the objects.
                let Ok((key, outcome, took)) = done else { return };
                running.remove(&key);
                finish(name, &context, &queue, &mut failures, key, outcome, took);
            }
        }
    }
    while tasks.join_next().await.is_some() {}
}

fn finish<K: Clone + Eq + Hash + Display>(
    name: &'static str,
    context: &Context,
    queue: &Queue<K>,
    failures: &mut HashMap<K, u32>,
    key: K,
    outcome: Outcome,
    took: Duration,
) {
    match outcome {
        Ok(again) => {
            failures.remove(&key);
            context.metrics.reconcile_failing(name, failures.len());
            context.metrics.reconciled(name, if again.is_some() { "requeue_after" } else { "success" }, took);
            if let Some(wait) = again {
                queue.add_after(key, wait);
            }
        }
        Err(error) => {
            let count = failures.entry(key.clone()).or_default();
            *count += 1;
            let wait = error.backoff(*count);
            let count = *count;
            // Conflicts are ordinary; what fails again and again shows all the time, though the tries become rarer.
            context.metrics.reconcile_failing(name, failures.len());
            let class: &'static str = error.class().into();
            context.metrics.reconciled(name, "error", took);
            if error.class() == Class::Conflict {
                tracing::debug!(controller = name, object = %key, error = %chain(&error), "changed meanwhile, looking again");
            } else {
                tracing::error!(controller = name, object = %key, class, failures = count, error = %chain(&error), "reconcile failed");
            }
            queue.add_after(key, wait);
        }
    }
}

fn tokio_stream_of<T>(mut receiver: mpsc::UnboundedReceiver<T>) -> impl futures::Stream<Item = T> {
    futures::stream::poll_fn(move |context| receiver.poll_recv(context))
}
