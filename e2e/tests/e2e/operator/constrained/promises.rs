//! Where pods were promised a place, and where they are.

use super::super::stage::{NAMESPACE, Stage};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Event, Pod};
use karpenter_capi_api::names::annotations;
use karpenter_capi_e2e::workload::APP;
use kube::api::ListParams;
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::fmt;

/// A claim, and what became of it.
pub(super) struct Claim {
    pub(super) node: String,
    deployment: String,
    zone: String,
}

/// A pod with the claim that it was nominated to first; empty where no event tells.
pub(super) struct Promise {
    pub(super) pod: Pod,
    claim: String,
}

impl Promise {
    pub(super) fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }

    fn app(&self) -> &str {
        let labels = self.pod.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(APP)).map_or("", String::as_str)
    }

    /// Where the pod is.
    fn node(&self) -> &str {
        self.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
    }
}

/// All of them.
pub(super) struct Promises {
    pub(super) claims: BTreeMap<String, Claim>,
    pub(super) pods: Vec<Promise>,
}

impl Promises {
    pub(super) async fn read(stage: &Stage<'_>) -> Result<Self> {
        let mut claims = BTreeMap::new();
        for claim in stage.claims().await? {
            let node = claim.status.and_then(|status| status.node_name).unwrap_or_default();
            let of = |map: Option<BTreeMap<String, String>>, key: &str| {
                map.and_then(|mut map| map.remove(key)).unwrap_or_default()
            };
            let deployment = of(claim.metadata.annotations, annotations::MACHINE_DEPLOYMENT);
            let zone = of(claim.metadata.labels, "topology.kubernetes.io/zone");
            claims.insert(claim.metadata.name.unwrap_or_default(), Claim { node, deployment, zone });
        }
        let mut nominated = nominations(&stage.client).await?;
        let mut all = Vec::new();
        for pod in pods(&stage.client).await? {
            let claim = nominated.remove(pod.metadata.name.as_deref().unwrap_or_default());
            all.push(Promise { pod, claim: claim.unwrap_or_default() });
        }
        Ok(Self { claims, pods: all })
    }

    /// The Node that was promised.
    pub(super) fn promised(&self, promise: &Promise) -> Result<&str> {
        let claim = self.claims.get(&promise.claim);
        let claim =
            claim.with_context(|| format!("{} was nominated to no claim that is there", promise.name()))?;
        Ok(&claim.node)
    }

    /// In an order in which every app is spread as evenly over zones as it is in the end, whoever comes next.
    pub(super) fn in_turns(&self) -> Vec<&Promise> {
        let mut before: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut turns: Vec<(usize, &str, &Promise)> = Vec::new();
        for promise in &self.pods {
            let zone = self.claims.get(&promise.claim).map_or("", |claim| claim.zone.as_str());
            let turn = before.entry((promise.app(), zone)).or_default();
            turns.push((*turn, promise.app(), promise));
            *turn += 1;
        }
        turns.sort_by_key(|(turn, app, _)| (*turn, *app));
        turns.into_iter().map(|(_, _, promise)| promise).collect()
    }

    /// Every claim's Node has a pod of ours.
    pub(super) fn none_is_empty(&self) -> Result<()> {
        for (name, claim) in &self.claims {
            ensure!(self.pods.iter().any(|promise| promise.node() == claim.node), "{name} is empty:\n{self}");
        }
        Ok(())
    }
}

impl fmt::Display for Promises {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.pods.iter().filter(|one| self.promised(one).is_ok_and(|node| node == one.node()));
        let known = self.pods.iter().filter(|promise| !promise.claim.is_empty()).count();
        let (kept, all) = (kept.count(), self.pods.len());
        writeln!(f, "{kept} of {all} pods are where they were promised a place ({known} known):")?;
        for (name, claim) in &self.claims {
            let promised = counted(self.pods.iter().filter(|promise| promise.claim == *name));
            let there = counted(self.pods.iter().filter(|promise| promise.node() == claim.node));
            writeln!(f, "  {name} {}: promised {promised}; there {there}", claim.deployment)?;
        }
        Ok(())
    }
}

/// Apps with the number of their pods.
fn counted<'a>(pods: impl Iterator<Item = &'a Promise>) -> String {
    let mut apps: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods {
        *apps.entry(pod.app()).or_default() += 1;
    }
    apps.iter().map(|(app, count)| format!("{count} {app}")).collect::<Vec<_>>().join(" + ")
}

pub(super) async fn pods(client: &Client) -> Result<Vec<Pod>> {
    Ok(Api::namespaced(client.clone(), NAMESPACE).list(&ListParams::default()).await?.items)
}

/// How many pods kube-scheduler has found no place for.
pub(super) async fn unschedulable(client: &Client) -> Result<usize> {
    let pods = pods(client).await?;
    let conditions =
        pods.iter().map(|pod| pod.status.iter().flat_map(|status| status.conditions.iter().flatten()));
    let refused = conditions.filter(|all| {
        all.clone().any(|one| one.type_ == "PodScheduled" && one.reason.as_deref() == Some("Unschedulable"))
    });
    Ok(refused.count())
}

async fn events(client: &Client) -> Result<Vec<Event>> {
    let api: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let mut events = api.list(&ListParams::default()).await?.items;
    events.retain(|event| event.involved_object.kind.as_deref() == Some("Pod"));
    events.sort_by(|a, b| a.metadata.creation_timestamp.cmp(&b.metadata.creation_timestamp));
    Ok(events)
}

/// The claim that each pod was nominated to first.
async fn nominations(client: &Client) -> Result<BTreeMap<String, String>> {
    let mut first = BTreeMap::new();
    for event in events(client).await? {
        let message = event.message.as_deref().unwrap_or_default();
        let claim = message.strip_prefix("Pod should schedule on: nodeclaim/");
        if let (Some(pod), Some(claim)) = (event.involved_object.name, claim) {
            first.entry(pod).or_insert_with(|| claim.to_owned());
        }
    }
    Ok(first)
}

/// What kube-scheduler has said of each pod, a line for each of its events, with the claim of the pod.
pub(super) async fn told_by_scheduler(client: &Client) -> Result<String> {
    let nominated = nominations(client).await?;
    let mut lines = Vec::new();
    let theirs = |event: &&Event| event.reporting_component.as_deref() == Some("default-scheduler");
    for event in events(client).await?.iter().filter(theirs) {
        let pod = event.involved_object.name.as_deref().unwrap_or_default();
        let claim = nominated.get(pod).map_or("no claim", String::as_str);
        lines.push(format!("{pod} ({claim}): {}", event.message.as_deref().unwrap_or_default()));
    }
    Ok(lines.join("\n"))
}
