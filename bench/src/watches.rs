//! The bench's own watches: what anybody can see in the API server, and when.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use karpenter_capi_e2e::wait;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::counter::Counter;

/// A state that objects come to, in the order in which a scale-up goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mark {
    /// Pods that kube-scheduler found no place for.
    Unschedulable,
    /// NodeClaims.
    Claims,
    /// Replicas of all MachineDeployments.
    Replicas,
    /// Machines.
    Machines,
    /// Machines with a provider ID.
    Provisioned,
    /// Nodes.
    Nodes,
    /// Nodes that were Ready.
    Ready,
    /// NodeClaims that were Registered.
    Registered,
    /// NodeClaims that were Initialized.
    Initialized,
    /// Pods that run.
    Running,
}

impl Mark {
    /// What is counted, for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Unschedulable => "pods unschedulable",
            Self::Claims => "NodeClaims created",
            Self::Replicas => "replicas written",
            Self::Machines => "Machines created",
            Self::Provisioned => "Machines with provider ID",
            Self::Nodes => "Nodes created",
            Self::Ready => "Nodes Ready",
            Self::Registered => "NodeClaims Registered",
            Self::Initialized => "NodeClaims Initialized",
            Self::Running => "pods Running",
        }
    }
}

/// All marks, in order.
pub(crate) const MARKS: [Mark; 10] = [
    Mark::Unschedulable,
    Mark::Claims,
    Mark::Replicas,
    Mark::Machines,
    Mark::Provisioned,
    Mark::Nodes,
    Mark::Ready,
    Mark::Registered,
    Mark::Initialized,
    Mark::Running,
];

type Counters = Arc<Mutex<BTreeMap<Mark, Counter>>>;
/// How much an object contributes to a mark.
type Amount = fn(&DynamicObject) -> u32;

/// Running watches; they end with this handle.
pub(crate) struct Watches {
    counters: Counters,
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Begins to watch all kinds.
    pub(crate) fn start(client: &Client) -> Self {
        let counters = Counters::default();
        let mut tasks = JoinSet::new();
        for (group, version, kind, amounts) in KINDS {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api = Api::all_with(client.clone(), &resource);
            tasks.spawn(watch(api, kind, amounts, Arc::clone(&counters)));
        }
        Self { counters, _tasks: tasks }
    }

    /// How far a mark has come.
    pub(crate) fn total(&self, mark: Mark) -> u32 {
        lock(&self.counters).entry(mark).or_default().total()
    }

    /// How far all have come.
    pub(crate) fn totals(&self) -> BTreeMap<Mark, u32> {
        MARKS.into_iter().map(|mark| (mark, self.total(mark))).collect()
    }

    /// When a mark had come so far, if it has.
    pub(crate) fn reached(&self, mark: Mark, total: u32) -> Option<Instant> {
        lock(&self.counters).entry(mark).or_default().reached(total)
    }

    /// Waits until a mark has come so far, and returns when that was.
    pub(crate) async fn until(&self, mark: Mark, total: u32, within: Duration) -> Result<Instant> {
        let what = format!("{}: {total}", mark.title());
        wait::eventually(&what, within, async || {
            self.reached(mark, total).with_context(|| format!("{} so far", self.total(mark)))
        })
        .await
    }
}

fn lock(counters: &Counters) -> MutexGuard<'_, BTreeMap<Mark, Counter>> {
    counters.lock().unwrap_or_else(PoisonError::into_inner)
}

type Watched = (&'static str, &'static str, &'static str, &'static [(Mark, Amount)]);

/// Group, version and kind of what is watched, and what its objects contribute to.
const KINDS: [Watched; 5] = [
    ("", "v1", "Pod", &[(Mark::Unschedulable, unschedulable), (Mark::Running, running)]),
    ("", "v1", "Node", &[(Mark::Nodes, one), (Mark::Ready, ready)]),
    (
        "karpenter.sh",
        "v1",
        "NodeClaim",
        &[(Mark::Claims, one), (Mark::Registered, registered), (Mark::Initialized, initialized)],
    ),
    ("cluster.x-k8s.io", "v1beta2", "MachineDeployment", &[(Mark::Replicas, replicas)]),
    ("cluster.x-k8s.io", "v1beta2", "Machine", &[(Mark::Machines, one), (Mark::Provisioned, provisioned)]),
];

async fn watch(
    api: Api<DynamicObject>,
    kind: &'static str,
    amounts: &'static [(Mark, Amount)],
    counters: Counters,
) {
    let mut events = pin!(watcher(api, Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let at = Instant::now();
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let uid = object.metadata.uid.as_deref().unwrap_or_default();
                let mut counters = lock(&counters);
                for (mark, amount) in amounts {
                    counters.entry(*mark).or_default().see(uid, amount(&object), at);
                }
            }
            Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {}
            Err(error) => tell(kind, &error),
        }
    }
}

fn tell(kind: &str, error: &watcher::Error) {
    eprintln!("the bench's watch of {kind} begins anew, times near this moment are late: {error}");
}

fn text<'a>(object: &'a DynamicObject, pointer: &str) -> Option<&'a str> {
    object.data.pointer(pointer).and_then(Value::as_str)
}

fn conditions(object: &DynamicObject) -> &[Value] {
    object.data.pointer("/status/conditions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn condition(object: &DynamicObject, kind: &str) -> u32 {
    u32::from(conditions(object).iter().any(|found| found["type"] == kind && found["status"] == "True"))
}

fn one(_: &DynamicObject) -> u32 {
    1
}

fn ready(node: &DynamicObject) -> u32 {
    condition(node, "Ready")
}

fn registered(claim: &DynamicObject) -> u32 {
    condition(claim, "Registered")
}

fn initialized(claim: &DynamicObject) -> u32 {
    condition(claim, "Initialized")
}

fn provisioned(machine: &DynamicObject) -> u32 {
    u32::from(text(machine, "/spec/providerID").is_some())
}

fn unschedulable(pod: &DynamicObject) -> u32 {
    let found = conditions(pod).iter().any(|condition| {
        condition["type"] == "PodScheduled"
            && condition["status"] == "False"
            && condition["reason"] == "Unschedulable"
    });
    u32::from(found)
}

fn running(pod: &DynamicObject) -> u32 {
    u32::from(text(pod, "/status/phase") == Some("Running"))
}

fn replicas(deployment: &DynamicObject) -> u32 {
    let replicas = deployment.data.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or_default();
    u32::try_from(replicas).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_pod_counts_as_unschedulable_only_when_the_scheduler_has_said_so() {
        let pod = |status: &str, reason: &str| {
            let condition = json!({ "type": "PodScheduled", "status": status, "reason": reason });
            object(json!({ "metadata": {}, "status": { "conditions": [condition] } }))
        };
        assert_eq!(unschedulable(&pod("False", "Unschedulable")), 1);
        assert_eq!(unschedulable(&pod("False", "SchedulingGated")), 0);
        assert_eq!(unschedulable(&pod("True", "")), 0);
        assert_eq!(unschedulable(&object(json!({ "metadata": {} }))), 0);
    }

    #[test]
    fn a_condition_counts_when_it_is_true() {
        let claim = object(json!({ "metadata": {}, "status": { "conditions": [
            { "type": "Registered", "status": "True" }, { "type": "Initialized", "status": "Unknown" },
        ] } }));
        assert_eq!((condition(&claim, "Registered"), condition(&claim, "Initialized")), (1, 0));
    }

    #[test]
    fn replicas_are_those_of_the_spec() {
        let deployment = json!({ "metadata": {}, "spec": { "replicas": 7 }, "status": { "replicas": 3 } });
        assert_eq!(replicas(&object(deployment)), 7);
    }
}
