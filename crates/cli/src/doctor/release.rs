//! `karpenter-capi doctor --release-hooks`: lets go of Machines and MachineDeployments.
//!
//! Only metadata is read and written, and only in the management cluster. The workload cluster is asked for one thing: whether an
//! operator is at work. Beside one, a released Machine that is going would be replaced and its hook be put back on others.

mod guard;
mod plan;

use super::connect::{Clusters, Connection};
use super::picture::{Unread, Wanted};
use crate::Refused;
use crate::output::counted;
use karpenter_capi_access::Trouble;
use karpenter_capi_api::capi::{CapiVersion, Cluster, Machine, MachineDeployment};
use karpenter_capi_api::names::{annotations, labels, managers};
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{DynamicResourceScope, PartialObjectMeta, Resource};
use kube::{Api, Error};
use plan::{Kind, Release};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Write;

/// An object that changes between reading and writing is decided upon again, so often.
const ATTEMPTS: u32 = 5;

/// How it is to be done.
pub(crate) struct Request {
    pub(crate) force: bool,
    pub(crate) dry_run: bool,
}

/// The answer. The names of fields and outcomes are an interface.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Released {
    /// `namespace/name`.
    pub(crate) cluster: String,
    pub(crate) dry_run: bool,
    /// Nothing of ours is left that holds anything, or would be left.
    pub(crate) complete: bool,
    pub(crate) objects: Vec<Done>,
}

/// One object that something was taken off.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Done {
    kind: Kind,
    /// `namespace/name`.
    name: String,
    /// Keys of annotations.
    annotations: Vec<&'static str>,
    /// It has a deletionTimestamp: a Machine goes as soon as its hook is off.
    deleting: bool,
    outcome: Outcome,
    /// Why it failed; null where it didn't.
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    /// It is off.
    Released,
    /// It would be taken off.
    WouldRelease,
    /// Somebody else was faster, or the object is gone.
    NothingLeft,
    /// It is still there.
    Failed,
}

pub(crate) async fn release(clusters: &Clusters, request: &Request) -> anyhow::Result<Released> {
    let management = clusters.management().await?;
    let (version, wanted, cluster) = find(clusters, &management).await?;
    let name = wanted.name.as_deref().unwrap_or_default();
    if !request.force && !request.dry_run {
        let recorded = cluster.annotations.as_ref().and_then(|all| all.get(annotations::WORKLOAD_UID));
        guard::nobody_is_at_work(clusters, name, recorded.map(String::as_str)).await?;
    }
    let machines = Api::<Machine>::namespaced_with(management.client.clone(), &wanted.namespace, &version);
    let deployments =
        Api::<MachineDeployment>::namespaced_with(management.client.clone(), &wanted.namespace, &version);
    let params = ListParams::default().labels(&format!("{}={name}", labels::CLUSTER_NAME));
    let mut objects =
        release_all(&management, &deployments, &params, Kind::MachineDeployment, request).await?;
    objects.extend(release_all(&management, &machines, &params, Kind::Machine, request).await?);
    Ok(Released {
        cluster: format!("{}/{name}", wanted.namespace),
        dry_run: request.dry_run,
        complete: objects.iter().all(|done| done.outcome != Outcome::Failed),
        objects,
    })
}

/// The Cluster. Without it nothing says whose Machines are meant.
async fn find(
    clusters: &Clusters,
    management: &Connection,
) -> anyhow::Result<(CapiVersion, Wanted, kube::core::ObjectMeta)> {
    let served = management.cluster_api().await.map_err(refused)?;
    let Some(served) = served else {
        return Err(Refused(
            "Cluster API isn't served by the management cluster; check --management-kubeconfig".to_owned(),
        )
        .into());
    };
    let (wanted, unread) = clusters.wanted(management, Some(served.version)).await?;
    if let Some(unread) = unread {
        return Err(refused(unread).into());
    }
    let namespace = &wanted.namespace;
    let remedy = "check --cluster-namespace, --cluster-name and --management-kubeconfig";
    let Some(name) = &wanted.name else {
        return Err(Refused(format!("there is no Cluster in namespace {namespace}; {remedy}")).into());
    };
    let api: Api<Cluster> = Api::namespaced_with(management.client.clone(), namespace, &served.version);
    match management.ask(api.get_metadata_opt(name)).await.map_err(refused)? {
        Some(cluster) => Ok((served.version, wanted.clone(), cluster.metadata)),
        None => Err(Refused(format!("there is no Cluster {namespace}/{name}; {remedy}")).into()),
    }
}

fn refused(unread: Unread) -> Refused {
    Refused(unread.sentence())
}

/// Releases every object of a kind. One that fails doesn't stop the others.
async fn release_all<K>(
    management: &Connection,
    api: &Api<K>,
    params: &ListParams,
    kind: Kind,
    request: &Request,
) -> anyhow::Result<Vec<Done>>
where
    K: Resource<Scope = DynamicResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let listed = management.ask(api.list_metadata(params)).await.map_err(refused)?;
    let mut all = Vec::new();
    for object in listed.items {
        let Some(planned) = plan::plan(kind, &object.metadata) else {
            continue;
        };
        let mut done = Done {
            kind,
            name: planned.full_name.clone(),
            annotations: planned.annotations.clone(),
            deleting: planned.deleting,
            outcome: Outcome::WouldRelease,
            error: None,
        };
        if !request.dry_run {
            match release_one(management, api, planned).await {
                Ok(outcome) => done.outcome = outcome,
                Err(unread) => {
                    done.outcome = Outcome::Failed;
                    done.error = Some(unread.sentence());
                }
            }
        }
        all.push(done);
    }
    Ok(all)
}

async fn release_one<K>(
    management: &Connection,
    api: &Api<K>,
    mut planned: Release,
) -> Result<Outcome, Unread>
where
    K: Resource<Scope = DynamicResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let by = PatchParams { field_manager: Some(managers::DOCTOR.to_owned()), ..PatchParams::default() };
    for _ in 0..ATTEMPTS {
        let patch = Patch::Merge(planned.patch());
        let written = async {
            match api.patch_metadata(&planned.name, &by, &patch).await {
                Ok(_) => Ok(Written::Done),
                Err(Error::Api(status)) if status.code == 404 => Ok(Written::Gone),
                Err(Error::Api(status)) if status.code == 409 => Ok(Written::Conflict),
                Err(error) => Err(error),
            }
        };
        match management.ask(written).await? {
            Written::Done => return Ok(Outcome::Released),
            Written::Gone => return Ok(Outcome::NothingLeft),
            Written::Conflict => {}
        }
        let now: Option<PartialObjectMeta<K>> = management.ask(api.get_metadata_opt(&planned.name)).await?;
        match now.and_then(|object| plan::plan(planned.kind, &object.metadata)) {
            Some(again) => planned = again,
            None => return Ok(Outcome::NothingLeft),
        }
    }
    let message = format!("it was changed by others each of {ATTEMPTS} times; try again");
    Err(management.failed(&Trouble::Other(message)))
}

enum Written {
    Done,
    Gone,
    Conflict,
}

/// The answer for people.
pub(crate) fn table(released: &Released) -> String {
    let mut text = String::new();
    for done in &released.objects {
        let outcome = match done.outcome {
            Outcome::Released => "released",
            Outcome::WouldRelease => "would release",
            Outcome::NothingLeft => "nothing left",
            Outcome::Failed => "FAILED",
        };
        let deleting = match (done.kind, done.deleting) {
            (Kind::Machine, true) => " (it is being deleted, and goes now)",
            (Kind::Machine | Kind::MachineDeployment, _) => "",
        };
        let kind = done.kind.as_str();
        // Writing to a String can't fail.
        _ = writeln!(text, "{outcome:<13}  {kind} {}: {}{deleting}", done.name, done.annotations.join(", "));
        if let Some(error) = &done.error {
            _ = writeln!(text, "               {error}");
        }
    }
    let of = |outcome| released.objects.iter().filter(|done| done.outcome == outcome).count();
    let (failed, would) = (of(Outcome::Failed), of(Outcome::WouldRelease));
    let cluster = &released.cluster;
    let summary = match (released.objects.len(), failed, would) {
        (0, _, _) => format!("Nothing of karpenter-capi holds anything of Cluster {cluster}.\n"),
        (_, 0, 0) => format!("Nothing of karpenter-capi holds anything of Cluster {cluster} any more.\n"),
        (_, 0, would) => format!("{} of Cluster {cluster} would be released.\n", counted(would, "object")),
        (_, failed, _) => {
            format!("{} of Cluster {cluster} could not be released: try again.\n", counted(failed, "object"))
        }
    };
    text + &summary
}
