//! Watches feed the index; what changes is asked to be looked at.

use crate::context::Context;
use crate::error::{is_passing, of_watch};
use futures::StreamExt;
use karpenter_capi_cluster::object::{Kind, Object};
use karpenter_capi_model::name::NamespacedName;
use kube::Api;
use kube::core::Resource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

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
    let events = watcher(api, config).modify(|object| object.meta_mut().managed_fields = None).default_backoff();
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
