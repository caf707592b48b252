//! Watches feed the index; what changes is asked to be looked at.

use crate::context::Context;
use crate::error::{is_passing, of_watch};
use futures::StreamExt;
use karpenter_capi_cluster::object::{Kind, Object};
use karpenter_capi_model::name::NamespacedName;
use kube::Api;
use kube::core::Resource;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A watch that fails is tried again after this long, then after twice as long, and so on.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// An API server that comes back is to be noticed within seconds.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The next wait of a watch.
struct Patience(Duration);

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let doubled = (self.0 * 2).min(LONGEST_WAIT);
        Some(std::mem::replace(&mut self.0, doubled))
    }
}

impl Backoff for Patience {
    fn reset(&mut self) {
        self.0 = FIRST_WAIT;
    }
}

/// What a watch shows.
pub(crate) enum Change {
    /// An object is new, changed or gone.
    Object(Object),
    /// The watch has begun anew and may have missed deletions.
    Anew(Kind),
}

/// Watches one kind until `stop`. An object that can't be read ends neither the watch nor the process: the list is tried again.
pub(crate) async fn feed<K>(
    context: Arc<Context>,
    kind: Kind,
    api: Api<K>,
    config: watcher::Config,
    into: impl Fn(K) -> Option<Object> + Send + 'static,
    stop: CancellationToken,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = watcher(api, config)
        .modify(|object| object.meta_mut().managed_fields = None)
        .backoff(Patience(FIRST_WAIT));
    let mut events = pin!(events);
    let mut listed: BTreeSet<NamespacedName> = BTreeSet::new();
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            None => return,
            Some(Err(error)) => {
                let told = of_watch(&error);
                if is_passing(&error) {
                    tracing::info!(%kind, error = told, "watch begins anew");
                } else {
                    context.metrics.watch_failed(&kind.to_string());
                    tracing::warn!(%kind, error = told, "watch failed, trying again");
                }
            }
            Some(Ok(event)) => {
                if matches!(event, Event::InitDone | Event::Apply(_) | Event::Delete(_)) {
                    context.metrics.watch_recovered(&kind.to_string());
                }
                take(&context, kind, &into, event, &mut listed);
            }
        }
    }
}

fn take<K>(
    context: &Context,
    kind: Kind,
    into: &impl Fn(K) -> Option<Object>,
    event: Event<K>,
    listed: &mut BTreeSet<NamespacedName>,
) {
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(object) => {
            if let Some(object) = into(object) {
                listed.insert(object.key());
                context.index.apply(object.clone());
                context.changed(Change::Object(object));
            }
        }
        Event::InitDone => {
            context.index.retain(kind, listed);
            context.changed(Change::Anew(kind));
        }
        Event::Apply(object) => {
            if let Some(object) = into(object) {
                context.index.apply(object.clone());
                context.changed(Change::Object(object));
            }
        }
        Event::Delete(object) => {
            if let Some(object) = into(object) {
                context.index.remove(&object);
                context.changed(Change::Object(object));
            }
        }
    }
}
