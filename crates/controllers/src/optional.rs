//! Kinds that a cluster may have or not: each is watched where it is served.

use crate::context::Context;
use crate::error::chain;
use crate::watch::feed;
use karpenter_capi_cluster::object::{Kind, Object};
use kube::core::Resource;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The kind is looked for again after this long where it wasn't served: its provider may be installed or upgraded.
const NOT_SERVED: Duration = Duration::from_mins(1);
/// And after this long where the API server didn't answer.
const NO_ANSWER: Duration = Duration::from_secs(5);

/// Where a kind would be served.
pub(crate) struct Place {
    /// The cluster that is asked.
    pub(crate) client: Client,
    /// `group/version`.
    pub(crate) api_version: &'static str,
    /// Name of the resource.
    pub(crate) plural: &'static str,
    /// The picture's name for it.
    pub(crate) kind: Kind,
}

/// Watches until `stop`. Nothing is decided before it is known whether there are objects of the kind.
pub(crate) async fn watch<K>(context: Arc<Context>, place: Place, api: Api<K>, stop: CancellationToken)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    Object: From<K>,
{
    let Place { client, api_version, plural, kind } = place;
    loop {
        let wait = match client.list_api_group_resources(api_version).await {
            Ok(served) if served.resources.iter().any(|resource| resource.name == plural) => {
                let into = |object: K| Some(Object::from(object));
                return feed(context, kind, api, Config::default(), into, stop).await;
            }
            Ok(_) => not_served(&context, kind),
            Err(error) if crate::error::is_not_found(&error) => not_served(&context, kind),
            Err(error) => {
                context.metrics.watch_failed(&kind.to_string());
                tracing::warn!(error = %chain(&error), "could not learn whether {plural} are served, trying again");
                NO_ANSWER
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

fn not_served(context: &Context, kind: Kind) -> Duration {
    context.index.retain(kind, &BTreeSet::new());
    NOT_SERVED
}
