//! Infrastructure templates: their kinds are only known from the MachineDeployments that name them, so each is watched when it is
//! first named.

use crate::context::Context;
use crate::error::Attempt;
use crate::queue::Outcome;
use crate::watch::feed;
use karpenter_capi_api::capi::InfrastructureTemplate;
use karpenter_capi_cluster::object::{Kind, Object};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::Config;
use kube::{Api, discovery};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A kind is looked for again after this long where it wasn't served: its provider may be installed later.
const NOT_SERVED: Duration = Duration::from_mins(1);

/// Group and kind of a template; Cluster API names no version, the served one is found by discovery.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TemplateKind {
    pub(crate) group: String,
    pub(crate) kind: String,
}

impl fmt::Display for TemplateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.group)
    }
}

/// The watches that run.
#[derive(Default)]
pub(crate) struct Watched {
    kinds: Mutex<BTreeSet<TemplateKind>>,
    tasks: TaskTracker,
}

impl Watched {
    /// Starts a watch of the kind unless one runs.
    pub(crate) async fn watch(
        &self,
        context: Arc<Context>,
        kind: TemplateKind,
        stop: CancellationToken,
    ) -> Outcome {
        if self.kinds.lock().contains(&kind) {
            return Ok(None);
        }
        let Some(resource) = served(&context, &kind).await? else {
            tracing::warn!(%kind, "infrastructure template kind is not served: its status.capacity can't be read, annotations count alone");
            return Ok(Some(NOT_SERVED));
        };
        if self.kinds.lock().insert(kind) {
            let api: Api<DynamicObject> =
                Api::namespaced_with(context.management.clone(), &context.scope.namespace, &resource);
            self.tasks.spawn(feed(
                context,
                Kind::InfrastructureTemplate,
                api,
                Config::default(),
                |object| parse(&object),
                stop,
            ));
        }
        Ok(None)
    }
}

async fn served(context: &Context, kind: &TemplateKind) -> Result<Option<ApiResource>, crate::Error> {
    let group = match discovery::group(&context.management, &kind.group).await {
        Ok(group) => group,
        Err(kube::Error::Discovery(_)) => return Ok(None),
        Err(error) if crate::error::is_not_found(&error) => return Ok(None),
        Err(error) => return Err(error).attempt(|| format!("discover the API group {}", kind.group)),
    };
    Ok(group.recommended_kind(&kind.kind).map(|(resource, _)| resource))
}

/// What isn't readable as a template is passed over; its MachineDeployment then declares no capacity, with that reason.
fn parse(object: &DynamicObject) -> Option<Object> {
    let value = serde_json::to_value(object).ok()?;
    InfrastructureTemplate::parse(&value).ok().map(Object::from)
}
