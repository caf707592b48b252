//! What is wrong, from a picture of both clusters: pure, and one broken thing never hides another.

mod books;
mod objects;

use super::definitions;
use super::leader::{self, State};
use super::picture::{Definition, Listed, Management, Picture, Read, Unread};
use super::report::{Code, Counts, Finding};
use karpenter_capi_api::capi::Cluster;
use karpenter_capi_api::crd::is_optional;
use karpenter_capi_api::names::{CAPI_GROUP, annotations};
use karpenter_capi_lifecycle::workload::{Recognition, recognize};
use std::collections::BTreeSet;

/// Everything that is found in a picture, the more fundamental first; `earlier` is one of some time before.
pub(crate) fn judge(picture: &Picture, earlier: Option<&Picture>) -> Vec<Finding> {
    let mut found = Vec::new();
    unreadable(picture, &mut found);
    picture.workload.definitions.iter().for_each(|definition| found.extend(definition_finding(definition)));
    management(picture, &mut found);
    found.extend(identity(picture));
    found.extend(leaders(picture, earlier));
    objects::objects(picture, &mut found);
    books::books(picture, &mut found);
    found.sort();
    found.dedup();
    found
}

/// What of the last reading counts: what waiting doesn't change, what both readings were needed to find, and what was so before.
pub(crate) fn stays(before: &[Finding], now: Vec<Finding>) -> Vec<Finding> {
    let counts = |finding: &Finding| {
        let code = finding.code;
        code.is_lasting() || code.is_of_both_readings() || before.contains(finding)
    };
    now.into_iter().filter(counts).collect()
}

/// Who leads, if exactly that is known.
pub(crate) fn leading(picture: &Picture, earlier: Option<&Picture>) -> Option<String> {
    let mut holders = held(picture, earlier).into_iter().map(|(holder, _)| holder);
    holders.next().filter(|_| holders.next().is_none())
}

/// How much was looked at.
pub(crate) fn counts(picture: &Picture) -> Counts {
    fn of<T>(read: &Read<Listed<T>>) -> usize {
        read.as_ref().map_or(0, |listed| listed.objects.len() + listed.broken.len())
    }
    let workload = &picture.workload;
    let capi = capi(picture);
    Counts {
        node_pools: of(&workload.node_pools),
        node_claims: of(&workload.claims),
        nodes: of(&workload.nodes),
        machine_deployments: capi.map_or(0, |capi| of(&capi.machine_deployments)),
        machines: capi.map_or(0, |capi| of(&capi.machines)),
    }
}

fn capi(picture: &Picture) -> Option<&Management> {
    picture.management.as_ref().ok()?.as_ref()
}

fn cluster(picture: &Picture) -> Option<&Cluster> {
    capi(picture)?.cluster.as_ref().ok()?.as_ref()
}

fn annotation<'a>(cluster: &'a Cluster, key: &str) -> Option<&'a str> {
    cluster.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// `Cluster namespace/name`.
fn cluster_object(picture: &Picture) -> String {
    let wanted = &picture.wanted;
    format!("Cluster {}/{}", wanted.namespace, wanted.name.as_deref().unwrap_or_default())
}

fn unreadable(picture: &Picture, found: &mut Vec<Finding>) {
    fn error<T>(read: &Read<T>) -> Option<&Unread> {
        read.as_ref().err()
    }
    let workload = &picture.workload;
    let mut all: Vec<Option<&Unread>> =
        workload.definitions.iter().map(|definition| error(&definition.installed)).collect();
    // Where the definitions are known they say more about a kind that isn't served.
    let known = all.iter().all(Option::is_none);
    all.extend([
        error(&workload.uid),
        error(&workload.leases),
        error(&workload.node_pools),
        error(&workload.node_classes),
        error(&workload.claims),
        error(&workload.nodes),
        error(&picture.management),
    ]);
    if let Some(capi) = capi(picture) {
        all.extend([
            error(&capi.cluster),
            error(&capi.machine_deployments),
            error(&capi.machine_sets),
            error(&capi.machines),
        ]);
    }
    let told: BTreeSet<&str> = all
        .into_iter()
        .flatten()
        .filter_map(|unread| match unread {
            Unread::Failed(sentence) => Some(sentence.as_str()),
            Unread::NotServed(sentence) => (!known).then_some(sentence.as_str()),
        })
        .collect();
    found.extend(told.into_iter().map(|sentence| Finding::problem(Code::Unreadable, "", sentence, "")));
}

fn definition_finding(definition: &Definition) -> Option<Finding> {
    let name = definition.shipped.metadata.name.as_deref().unwrap_or_default();
    let object = format!("CustomResourceDefinition {name}");
    match definition.installed.as_ref().ok()? {
        None if is_optional(&definition.shipped) => None,
        None => Some(Finding::problem(
            Code::DefinitionMissing,
            object,
            "it isn't installed",
            "install the custom resources with `kubectl apply --server-side -k config/crd`",
        )),
        Some(installed) => definitions::lacks(&definition.shipped, installed).map(|lacks| {
            Finding::problem(
                Code::DefinitionOutdated,
                object,
                format!("{lacks}: it is of an older version, or not karpenter-capi's"),
                "install those of this version with `kubectl apply --server-side -k config/crd`",
            )
        }),
    }
}

fn management(picture: &Picture, found: &mut Vec<Finding>) {
    let Ok(management) = &picture.management else {
        return;
    };
    let Some(capi) = management else {
        found.push(Finding::problem(
            Code::ClusterApiMissing,
            "",
            format!("Cluster API ({CAPI_GROUP}/v1beta2 or v1beta1) isn't served by the management cluster"),
            "check --management-kubeconfig, or install Cluster API with `clusterctl init`",
        ));
        return;
    };
    if !capi.missing.is_empty() {
        found.push(Finding::problem(
            Code::ClusterApiMissing,
            "",
            format!("Cluster API is served, but its {} are missing", capi.missing.join(", ")),
            "repair it with `clusterctl upgrade apply`",
        ));
    }
    let remedy = "check --cluster-namespace, --cluster-name and --management-kubeconfig";
    match (&picture.wanted.name, &capi.cluster) {
        (None, Ok(_)) => {
            let message = format!("there is no Cluster in namespace {}", picture.wanted.namespace);
            found.push(Finding::problem(Code::ClusterNotFound, "", message, remedy));
        }
        (Some(_), Ok(None)) => {
            let object = cluster_object(picture);
            found.push(Finding::problem(Code::ClusterNotFound, object, "it doesn't exist", remedy));
        }
        (_, Ok(Some(_)) | Err(_)) => {}
    }
}

/// Whether it is the workload cluster that the Machines belong to.
fn identity(picture: &Picture) -> Option<Finding> {
    let cluster = cluster(picture)?;
    let actual = picture.workload.uid.as_ref().ok()?.as_deref()?;
    let machines = capi(picture)?.machines.as_ref().ok();
    let carry = machines.is_some_and(|machines| {
        machines.objects.iter().any(|machine| {
            machine.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::NODECLAIM))
        })
    });
    match recognize(annotation(cluster, annotations::WORKLOAD_UID), actual, carry) {
        Recognition::Known | Recognition::Record(_) => None,
        Recognition::Foreign(sentence) => {
            Some(Finding::problem(Code::ForeignWorkloadCluster, cluster_object(picture), sentence, ""))
        }
        Recognition::Unrecorded => Some(Finding::note(
            Code::WorkloadClusterUnrecorded,
            cluster_object(picture),
            format!(
                "it has no annotation {}, so that nothing is given back on suspicion",
                annotations::WORKLOAD_UID
            ),
            format!("if this is the right workload cluster, set it to {actual}"),
        )),
    }
}

/// Holder and Lease of everybody who leads.
fn held(picture: &Picture, earlier: Option<&Picture>) -> Vec<(String, String)> {
    let states = states(picture, earlier).into_iter();
    states
        .filter_map(|(lease, state)| match state {
            State::Held { holder } => Some((holder, lease)),
            State::GivenBack | State::Stale { .. } => None,
        })
        .collect()
}

fn states(picture: &Picture, earlier: Option<&Picture>) -> Vec<(String, State)> {
    let Ok(leases) = &picture.workload.leases else {
        return Vec::new();
    };
    let earlier = earlier.and_then(|earlier| Some((earlier.workload.leases.as_deref().ok()?, earlier.now)));
    leases.iter().map(|lease| (leader::name(lease), leader::state(lease, picture.now, earlier))).collect()
}

fn leaders(picture: &Picture, earlier: Option<&Picture>) -> Option<Finding> {
    picture.wanted.name.as_ref()?;
    picture.workload.leases.as_ref().ok()?;
    let held = held(picture, earlier);
    if held.len() > 1 {
        let all: Vec<String> = held.iter().map(|(holder, lease)| format!("{holder} by {lease}")).collect();
        return Some(Finding::problem(
            Code::SeveralLeaders,
            cluster_object(picture),
            format!("several operators lead at once: {}", all.join(", ")),
            "stop all but one, or give them the same --leader-election-namespace",
        ));
    }
    if !held.is_empty() {
        return None;
    }
    let states = states(picture, earlier);
    let abandoned = states.iter().any(|(_, state)| matches!(state, State::Stale { .. }));
    if !abandoned && earlier.is_some_and(|earlier| !self::held(earlier, None).is_empty()) {
        // It has just been given back: perhaps another takes it at this moment.
        return None;
    }
    let told: Vec<String> = states
        .into_iter()
        .filter_map(|(lease, state)| match state {
            State::Held { .. } => None,
            State::GivenBack => Some(format!("Lease {lease} was given back by its last holder")),
            State::Stale { holder, renewed } => {
                let since = renewed.map_or_else(String::new, |renewed| format!(" since {renewed}"));
                Some(format!("Lease {lease} is held by {holder}, who hasn't renewed it{since}"))
            }
        })
        .collect();
    let told = if told.is_empty() { "there is no Lease of its operator".to_owned() } else { told.join("; ") };
    Some(Finding::problem(
        Code::NoLeader,
        cluster_object(picture),
        format!("no operator leads: {told}"),
        "start the operator, or look at why it doesn't run; if its Lease has another name, set --leader-election-name",
    ))
}

#[cfg(test)]
mod tests;
