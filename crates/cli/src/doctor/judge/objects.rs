//! Objects one by one: of the right form, Ready, not paused.

use super::{capi, cluster, cluster_object};
use crate::doctor::picture::{Broken, Listed, Picture, Read};
use crate::doctor::report::{Code, Finding};
use karpenter_capi_api::capi::MachineDeployment;
use karpenter_capi_api::condition::{self, Condition, TRUE};
use karpenter_capi_api::names::{annotations, conditions};
use karpenter_capi_api::v1::NodePool;
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;

pub(super) fn objects(picture: &Picture, found: &mut Vec<Finding>) {
    broken(picture, found);
    if let Ok(classes) = &picture.workload.node_classes {
        classes.objects.iter().for_each(|class| node_class(class, found));
    }
    if let Ok(pools) = &picture.workload.node_pools {
        let ours = pools.objects.iter().filter(|pool| pool.spec.template.spec.node_class_ref.is_ours());
        found.extend(ours.filter_map(node_pool));
    }
    paused(picture, found);
}

fn broken(picture: &Picture, found: &mut Vec<Finding>) {
    fn of<T>(read: &Read<Listed<T>>) -> &[Broken] {
        read.as_ref().map_or(&[], |listed| &listed.broken)
    }
    let workload = &picture.workload;
    let mut all: Vec<&[Broken]> =
        vec![of(&workload.node_pools), of(&workload.node_classes), of(&workload.claims), of(&workload.nodes)];
    if let Some(capi) = capi(picture) {
        all.extend([of(&capi.machine_deployments), of(&capi.machine_sets), of(&capi.machines)]);
    }
    found.extend(all.concat().into_iter().map(|Broken { object, problem }| {
        Finding::problem(
            Code::BrokenObject,
            object,
            problem,
            "correct the field; until then the object counts for nothing, here and for the operator",
        )
    }));
}

fn node_class(class: &ClusterAPINodeClass, found: &mut Vec<Finding>) {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let object = format!("ClusterAPINodeClass {name}");
    let status = class.status.as_ref();
    let all = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    if let Some(message) = not_ready(all, &[conditions::MACHINE_DEPLOYMENTS_READY]) {
        let remedy = "see its status.machineDeployments and status.warnings";
        found.push(Finding::problem(Code::NodeClassNotReady, object.as_str(), message, remedy));
    }
    let warnings = status.into_iter().flat_map(|status| &status.warnings);
    found.extend(warnings.map(|warning| {
        let seen = format!("seen by {object}");
        Finding::note(Code::Warning, warning.object.as_str(), warning.message.as_str(), seen)
    }));
}

fn node_pool(pool: &NodePool) -> Option<Finding> {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let all = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let parts = [conditions::VALIDATION_SUCCEEDED, conditions::NODE_CLASS_READY];
    not_ready(all, &parts).map(|message| {
        Finding::problem(
            Code::NodePoolNotReady,
            format!("NodePool {name}"),
            message,
            "nothing is made for it until it is Ready",
        )
    })
}

/// Why an object isn't Ready, in the words of its conditions; None: it is.
fn not_ready(all: &[Condition], parts: &[&str]) -> Option<String> {
    let Some(ready) = condition::find(all, conditions::READY) else {
        return Some("it has no condition Ready: no operator has looked at it yet".to_owned());
    };
    if ready.status == TRUE {
        return None;
    }
    let parts = parts.iter().filter_map(|part| condition::find(all, part));
    let told: Vec<String> =
        std::iter::once(ready).chain(parts.filter(|part| part.status != TRUE)).map(in_words).collect();
    Some(told.join("; "))
}

fn in_words(condition: &Condition) -> String {
    let Condition { type_, status, reason, message, .. } = condition;
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    let message = if message.is_empty() { String::new() } else { format!(": {message}") };
    format!("{type_} is {status}{reason}{message}")
}

/// Who pauses doesn't scale; a pause of ours is a matter of the books.
fn paused(picture: &Picture, found: &mut Vec<Finding>) {
    let remedy = "nothing of it is scaled, bound or given back until the pause is lifted";
    let pause = |paused: bool, annotated: bool| match (paused, annotated) {
        (true, _) => Some("spec.paused is true".to_owned()),
        (false, true) => Some(format!("it has the annotation {}", annotations::CAPI_PAUSED)),
        (false, false) => None,
    };
    if let Some(cluster) = cluster(picture)
        && let Some(message) =
            pause(cluster.spec.paused, super::annotation(cluster, annotations::CAPI_PAUSED).is_some())
    {
        found.push(Finding::note(Code::Paused, cluster_object(picture), message, remedy));
    }
    let deployments = capi(picture).and_then(|capi| capi.machine_deployments.as_ref().ok());
    for deployment in deployments.into_iter().flat_map(|listed| &listed.objects) {
        let has = |key| has(deployment, key);
        if has(annotations::CLAIMS)
            && !has(annotations::PAUSE_FOR)
            && let Some(message) = pause(deployment.spec.paused, has(annotations::CAPI_PAUSED))
        {
            found.push(Finding::note(Code::Paused, object(deployment), message, remedy));
        }
    }
}

pub(super) fn has(deployment: &MachineDeployment, key: &str) -> bool {
    deployment.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key))
}

/// `MachineDeployment namespace/name`, as the books call it.
pub(super) fn object(deployment: &MachineDeployment) -> String {
    let metadata = &deployment.metadata;
    format!(
        "MachineDeployment {}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}
