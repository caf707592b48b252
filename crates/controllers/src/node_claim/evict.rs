//! Evictions, each pod with a back-off of its own: a budget that refuses isn't asked again every second for hours.

use crate::context::Context;
use crate::error::{Attempt, Error, is_not_found};
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use karpenter_capi_api::condition;
use karpenter_capi_api::names::conditions;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_lifecycle::drain::{Drain, PodRef, eviction_back_off};
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Preconditions};
use parking_lot::Mutex;
use std::collections::HashMap;

/// How many pods of a node are asked to go at once.
const AT_ONCE: usize = 10;
/// A request that went well is made again after this long if the pod still isn't going.
const ASKED: SignedDuration = SignedDuration::from_secs(10);
/// Beyond this many the old ones are forgotten.
const REMEMBERED: usize = 10_000;

/// What a pod is asked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum By {
    Eviction,
    Deletion,
}

/// When each pod, by UID, may be asked again, and how often it was refused.
#[derive(Debug, Default)]
pub(crate) struct Evictions(Mutex<HashMap<(By, String), (u32, Timestamp)>>);

impl Evictions {
    fn is_due(&self, by: By, pod: &PodRef, now: Timestamp) -> bool {
        self.0.lock().get(&(by, pod.uid.clone())).is_none_or(|(_, at)| now >= *at)
    }

    fn asked(&self, by: By, pod: &PodRef, now: Timestamp) {
        self.next(by, pod, 0, ASKED, now);
    }

    fn refused(&self, pod: &PodRef, now: Timestamp) {
        let refusals = self
            .0
            .lock()
            .get(&(By::Eviction, pod.uid.clone()))
            .map_or(0, |(refusals, _)| *refusals)
            .saturating_add(1);
        self.next(By::Eviction, pod, refusals, eviction_back_off(refusals), now);
    }

    fn next(&self, by: By, pod: &PodRef, refusals: u32, wait: SignedDuration, now: Timestamp) {
        let mut all = self.0.lock();
        if all.len() > REMEMBERED {
            all.retain(|_, (_, at)| now < *at);
        }
        let at = now.saturating_add(wait).unwrap_or(Timestamp::MAX);
        all.insert((by, pod.uid.clone()), (refusals, at));
    }

    /// How long until the first of the pods may be asked again.
    fn next_due<'a>(
        &self,
        pods: impl IntoIterator<Item = &'a PodRef>,
        now: Timestamp,
    ) -> Option<SignedDuration> {
        let all = self.0.lock();
        let times = pods.into_iter().filter_map(|pod| all.get(&(By::Eviction, pod.uid.clone())));
        times.map(|(_, at)| at.duration_since(now)).filter(SignedDuration::is_positive).min()
    }
}

/// Asks the pods to go whose time has come. Returns why some can't for now, and when to look again at the earliest.
pub(super) async fn evict(
    context: &Context,
    claim: &NodeClaim,
    drain: &Drain,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Result<(Vec<String>, Option<SignedDuration>), Error> {
    let due = |pod: &&PodRef| context.evictions.is_due(By::Eviction, pod, now);
    let deletions = drain.delete.iter().filter(|(pod, _)| context.evictions.is_due(By::Deletion, pod, now));
    for (pod, grace) in deletions {
        delete(context, pod, *grace, deadline, now).await?;
        context.metrics.pod_drained(reason(claim));
    }
    let why = reason(claim);
    let mut refused = Vec::new();
    let mut failed = None;
    let asked: Vec<PodRef> = drain.evict.iter().filter(due).cloned().collect();
    let results: Vec<_> = stream::iter(asked)
        .map(|pod| async move {
            let result = evict_one(context, &pod, why).await;
            (pod, result)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    for (pod, result) in results {
        match result {
            Ok(None) => context.evictions.asked(By::Eviction, &pod, now),
            Ok(Some(words)) => {
                context.evictions.refused(&pod, now);
                refused.push(format!("{pod}: {words}"));
            }
            Err(error) => failed = Some(error),
        }
    }
    refused.sort();
    match failed {
        Some(error) => Err(error),
        None => Ok((refused, context.evictions.next_due(&drain.evict, now))),
    }
}

/// In upstream's words: why the claim was disrupted, else that it was deleted.
fn reason(claim: &NodeClaim) -> &str {
    let all = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let told =
        condition::find(all, conditions::DISRUPTION_REASON).filter(|told| told.status == condition::TRUE);
    told.map_or(
        "Forceful Termination",
        |told| {
            if told.message.is_empty() { &told.reason } else { &told.message }
        },
    )
}

/// Returns the API server's words where it refuses, each of which may pass: a budget (429), two budgets over one pod (500), a
/// namespace that ends (403).
async fn evict_one(context: &Context, pod: &PodRef, why: &str) -> Result<Option<String>, Error> {
    let pods: Api<Pod> = Api::namespaced(context.workload.clone(), &pod.namespace);
    let delete_options =
        Some(DeleteParams { preconditions: Some(unchanged(pod)), ..DeleteParams::default() });
    let params = EvictParams { delete_options, ..EvictParams::default() };
    match pods.evict(&pod.name, &params).await {
        Ok(_) => {
            context.metrics.eviction_requested(200);
            context.metrics.pod_drained(why);
            tracing::info!(%pod, "evicted pod");
            context.events.normal(&pod_reference(pod), "Evicted", format!("Evicted pod: {why}")).await;
            Ok(None)
        }
        Err(kube::Error::Api(status)) => {
            context.metrics.eviction_requested(status.code);
            match status.code {
                // Gone, or another pod of that name by now.
                404 | 409 => Ok(None),
                _ => {
                    let causes = status
                        .details
                        .iter()
                        .flat_map(|details| &details.causes)
                        .map(|cause| cause.message.clone());
                    let words: Vec<String> = std::iter::once(status.message.clone()).chain(causes).collect();
                    Ok(Some(words.join(" ")))
                }
            }
        }
        Err(error) => Err(error).attempt(|| format!("evict Pod {pod}")),
    }
}

async fn delete(
    context: &Context,
    pod: &PodRef,
    grace: i64,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(context.workload.clone(), &pod.namespace);
    let params = DeleteParams {
        grace_period_seconds: Some(u32::try_from(grace).unwrap_or(1)),
        preconditions: Some(unchanged(pod)),
        ..DeleteParams::default()
    };
    match pods.delete(&pod.name, &params).await {
        Err(error) if is_not_found(&error) => return Ok(()),
        result => result.attempt(|| format!("delete Pod {pod}")).map(drop)?,
    }
    context.evictions.asked(By::Deletion, pod, now);
    tracing::info!(%pod, grace, "deleted pod, as the node's deadline leaves it no more");
    let deadline = deadline.map(|deadline| deadline.to_string()).unwrap_or_default();
    let message = format!(
        "Deleting the pod to accommodate the terminationTime {deadline} of the node. The pod was granted {grace} seconds of grace-period. This bypasses the PDB of the pod and the do-not-disrupt annotation."
    );
    context.events.normal(&pod_reference(pod), "Disrupted", message).await;
    Ok(())
}

fn unchanged(pod: &PodRef) -> Preconditions {
    Preconditions { uid: Some(pod.uid.clone()), resource_version: None }
}

fn pod_reference(pod: &PodRef) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid: Some(pod.uid.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str) -> PodRef {
        PodRef { namespace: "default".to_owned(), name: uid.to_owned(), uid: uid.to_owned() }
    }

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn a_refused_pod_is_asked_less_and_less_often_and_no_other_pod_waits_for_it() {
        let evictions = Evictions::default();
        let is_due = |name: &str, time: i64| evictions.is_due(By::Eviction, &pod(name), at(time));
        assert!(is_due("a", 0));
        evictions.refused(&pod("a"), at(0));
        assert!(!is_due("a", 99) && is_due("a", 100) && is_due("b", 0));
        evictions.refused(&pod("a"), at(100));
        assert_eq!(
            evictions.next_due(&[pod("a"), pod("b")], at(100)),
            Some(SignedDuration::from_millis(200))
        );
        (0..20).for_each(|_| evictions.refused(&pod("a"), at(1000)));
        assert_eq!(evictions.next_due(&[pod("a")], at(1000)), Some(SignedDuration::from_secs(10)));
        assert!(evictions.is_due(By::Deletion, &pod("a"), at(1000)), "the deadline waits for no back-off");
    }
}
