//! Drain rules are watched where Cluster API has them, which it does since 1.9.

use crate::context::Context;
use crate::error::chain;
use crate::watch::feed;
use karpenter_capi_api::capi::MachineDrainRule;
use karpenter_capi_cluster::object::{Kind, Object};
use kube::runtime::watcher::Config;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PLURAL: &str = "machinedrainrules";
/// The kind is looked for again after this long where it wasn't served: Cluster API may be upgraded.
const NOT_SERVED: Duration = Duration::from_mins(1);
/// And after this long where the API server didn't answer.
const NO_ANSWER: Duration = Duration::from_secs(5);

/// Watches until `stop`. Nobody is drained before it is known whether there are rules.
pub(crate) async fn watch(context: Arc<Context>, stop: CancellationToken) {
    loop {
        let version = context.scope.version;
        let wait = match context.management.list_api_group_resources(version.api_version()).await {
            Ok(served) if served.resources.iter().any(|resource| resource.name == PLURAL) => {
                let api = context.capi::<MachineDrainRule>();
                let into = |rule: MachineDrainRule| Some(Object::from(rule));
                return feed(
                    Arc::clone(&context),
                    Kind::MachineDrainRule,
                    api,
                    Config::default(),
                    into,
                    stop,
                )
                .await;
            }
            Ok(_) => {
                context.index.retain(Kind::MachineDrainRule, &BTreeSet::new());
                NOT_SERVED
            }
            Err(error) => {
                context.metrics.watch_failed(&Kind::MachineDrainRule.to_string());
                tracing::warn!(error = %chain(&error), "could not learn whether there are MachineDrainRules, trying again");
                NO_ANSWER
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}
