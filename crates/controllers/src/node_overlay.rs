//! NodeOverlays: whether each counts. What they say is applied where the input of a pass is made.

use crate::context::{Context, name};
use crate::error::Error;
use crate::provisioner::input_options;
use crate::queue::Outcome;
use jiff::Timestamp;
use karpenter_capi_api::names::conditions::reasons;
use karpenter_capi_api::names::managers;
use karpenter_capi_api::node_overlay::NodeOverlay;
use karpenter_capi_catalog::Verdict;
use karpenter_capi_cluster::input::overlaid;
use karpenter_capi_lifecycle::node_overlay::{Refusal, desired_status};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The one key of the queue.
pub(crate) const ALL: &str = "all";

/// Brings the status of every overlay up to date.
pub(crate) async fn reconcile(context: Arc<Context>, _: &'static str) -> Outcome {
    let snapshot = context.index.snapshot();
    if snapshot.node_overlays.is_empty() {
        return Ok(None);
    }
    let now = Timestamp::now();
    let options = input_options(&context, now, BTreeMap::new());
    let picture = Arc::clone(&snapshot);
    let judged = tokio::task::spawn_blocking(move || overlaid(&picture, &options).verdicts);
    let verdicts = judged.await.map_err(|_| Error::TaskEnded("overlays".to_owned()))?;
    let mut first_error = None;
    for overlay in snapshot.node_overlays.values() {
        if let Some(verdict) = verdicts.get(&name(overlay.as_ref())) {
            let written = write_status(&context, overlay, verdict, now).await;
            first_error = first_error.or(written.err());
        }
    }
    first_error.map_or(Ok(None), Err)
}

async fn write_status(
    context: &Context,
    overlay: &NodeOverlay,
    verdict: &Verdict,
    now: Timestamp,
) -> Result<(), Error> {
    let refusal = match verdict {
        Verdict::Valid => None,
        Verdict::Invalid(message) => Some(Refusal { reason: reasons::RUNTIME_VALIDATION, message }),
        Verdict::Conflict(message) => Some(Refusal { reason: reasons::CONFLICT, message }),
    };
    let Some(status) = desired_status(overlay, refusal, now) else {
        return Ok(());
    };
    let overlay_name = name(overlay);
    let metadata =
        json!({ "uid": overlay.metadata.uid, "resourceVersion": overlay.metadata.resource_version });
    let patch = json!({ "metadata": metadata, "status": status });
    let action = || format!("write the status of NodeOverlay {overlay_name}");
    let api = context.node_overlays();
    context.merge_status(&api, &overlay_name, managers::NODEOVERLAY, &patch, action).await.map(drop)
}
