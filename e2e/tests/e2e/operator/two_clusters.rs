//! Pods and nodes in one cluster, Cluster API in another: rights, scope, changing kubeconfigs, and a workload cluster that isn't the right one.

use super::audit::{Audit, Request};
use super::main_job::{sixty_pods, sixty_pods_run_on_the_cheapest, three_machine_deployments};
use super::process::{Operator, manifests, permit};
use super::stage::{CLUSTER, NAMESPACE, Stage, apply_crds, machine, node_class, pool};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use karpenter_capi_api::capi::{CapiVersion, Cluster, Machine, MachineDeployment, MachineSet};
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::hollow::{self, MachineDeploymentOptions};
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Who the operator is in the workload cluster, and in the management cluster before and after its kubeconfig changes.
const OPERATOR: &str = "operator";
const FIRST: &str = "operator-first";
const SECOND: &str = "operator-second";
/// Where the Lease stands that the shipped rights permit.
const LEASES: [&str; 2] = ["--leader-election-namespace", "karpenter-capi-system"];

#[tokio::test]
async fn with_the_shipped_rights_the_main_job_is_done_and_nothing_else_is_touched() -> Result<()> {
    let (own, capi) = (Audit::of(&[OPERATOR])?, Audit::of(&[FIRST, SECOND])?);
    let options = own.kept_by(Options::workload_only("two-workload"));
    ControlPlane::with(options, async |workload| {
        let options = capi.kept_by(Options::management_only("two-management"));
        ControlPlane::with(options, async |management| {
            let stage = Stage::across(workload, management).await?;
            three_machine_deployments(&stage).await?;
            objects::apply(&stage.client, &pool("general")).await?;
            neighbours(&stage.management).await?;
            let before = versions_of_neighbours(&stage.management).await?;
            permit_operator(&stage).await?;
            let mounted = Mounted::new(&management.state_dir().join("mounted"), &management.kubeconfig_for(FIRST, &[])?)?;
            let kubeconfig = workload.kubeconfig_for(OPERATOR, &[])?;
            let path = mounted.path.display().to_string();
            let arguments = ["--cluster-api-kubeconfig", &path, "--kubeconfig-poll-interval", "1s", LEASES[0], LEASES[1]];
            let mut operator = Operator::start(workload, "operator", &kubeconfig, &arguments)?;
            sixty_pods(&stage).await?;
            sixty_pods_run_on_the_cheapest(&stage).await?;
            two_claims_are_given_back(&stage).await?;
            a_changed_kubeconfig_is_taken_when_it_works(&stage, management, &mounted, &mut operator).await?;

            let after = versions_of_neighbours(&stage.management).await?;
            ensure!(before == after, "objects of others have changed: {before:?} became {after:?}");
            only_what_is_ours_was_asked_for(&capi.requests()?)?;
            nothing_was_refused(&own.requests()?)?;
            operator.is_alive().await?;
            let status = operator.terminate().await?;
            ensure!(status.success(), "{status}");
            Ok(())
        })
        .await
    })
    .await
}

/// The rights of `config/rbac`, each in its cluster.
async fn permit_operator(stage: &Stage<'_>) -> Result<()> {
    for namespace in manifests("manager/namespace.yaml")? {
        objects::apply(&stage.client, &namespace).await?;
    }
    permit(&stage.client, "rbac/workload/cluster_role.yaml", OPERATOR).await?;
    permit(&stage.client, "rbac/workload/lease_role.yaml", OPERATOR).await?;
    permit(&stage.management, "rbac/management/role.yaml", FIRST).await
}

/// Another Cluster in the same namespace, and one of our Cluster's name in another namespace, each with a MachineDeployment that would be
/// the cheapest of all and a Machine.
async fn neighbours(management: &Client) -> Result<()> {
    workload::namespace(management, "elsewhere").await?;
    for (namespace, cluster) in [(NAMESPACE, "c2"), ("elsewhere", CLUSTER)] {
        objects::apply_all(management, &hollow::cluster(namespace, cluster)).await?;
        let mut cheap = MachineDeploymentOptions::new(namespace, cluster, "neighbour", "4", "16Gi").priced("0.01").in_zone("a");
        cheap.replicas = 1;
        cheap.machine.never_joins = true;
        hollow::apply_machine_deployment(management, &cheap).await?;
    }
    wait::eventually("the neighbours' Machines are provisioned", Duration::from_mins(1), async || {
        let machines: Api<Machine> = Api::all_with(management.clone(), &CapiVersion::V1Beta2);
        let machines = machines.list(&ListParams::default()).await?.items;
        let provisioned = machines.iter().filter(|machine| machine.spec.provider_id.is_some()).count();
        ensure!(provisioned == 2, "{provisioned} of {} are", machines.len());
        Ok(())
    })
    .await?;
    // Cluster API writes a last time to what hasn't changed for a second or two.
    tokio::time::sleep(Duration::from_secs(3)).await;
    Ok(())
}

async fn versions_of_neighbours(management: &Client) -> Result<BTreeMap<String, String>> {
    let mut versions = BTreeMap::new();
    let mut all = Vec::new();
    let deployments: Api<MachineDeployment> = Api::all_with(management.clone(), &CapiVersion::V1Beta2);
    all.extend(deployments.list(&ListParams::default()).await?.items.into_iter().map(|object| object.metadata));
    let sets: Api<MachineSet> = Api::all_with(management.clone(), &CapiVersion::V1Beta2);
    all.extend(sets.list(&ListParams::default()).await?.items.into_iter().map(|object| object.metadata));
    let machines: Api<Machine> = Api::all_with(management.clone(), &CapiVersion::V1Beta2);
    all.extend(machines.list(&ListParams::default()).await?.items.into_iter().map(|object| object.metadata));
    for metadata in all {
        let name = metadata.name.unwrap_or_default();
        if name.starts_with("neighbour") {
            let key = format!("{}/{name}/{}", metadata.namespace.unwrap_or_default(), metadata.uid.unwrap_or_default());
            versions.insert(key, metadata.resource_version.unwrap_or_default());
        }
    }
    ensure!(versions.len() == 6, "{versions:?}");
    Ok(versions)
}

/// Exactly the two Machines of two claims that are deleted go, and their pods run again.
async fn two_claims_are_given_back(stage: &Stage<'_>) -> Result<()> {
    let claims = stage.claims().await?;
    let of_small = claims.iter().filter(|claim| annotation(claim, annotations::MACHINE_DEPLOYMENT) == "default/small");
    let going: Vec<&NodeClaim> = of_small.take(2).collect();
    let theirs: BTreeSet<String> = going.iter().map(|claim| annotation(claim, annotations::MACHINE)).collect();
    let before = machine_names(stage).await?;
    ensure!(theirs.len() == 2 && theirs.is_subset(&before), "{theirs:?} of {before:?}");
    let api: Api<NodeClaim> = Api::all(stage.client.clone());
    for claim in going {
        api.delete(claim.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default()).await?;
    }
    wait::eventually("the two Machines are gone", Duration::from_mins(1), async || {
        let now = machine_names(stage).await?;
        ensure!(theirs.is_disjoint(&now), "{theirs:?} in {now:?}");
        Ok(())
    })
    .await?;
    stage.running("web", 36, Duration::from_mins(1)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    let after = machine_names(stage).await?;
    let lost: Vec<_> = before.difference(&after).filter(|name| !theirs.contains(*name)).collect();
    ensure!(lost.is_empty(), "Machines that nobody gave up are gone: {lost:?}");
    ensure!(stage.replicas("small").await? == 9, "{} replicas", stage.replicas("small").await?);
    Ok(())
}

/// A kubeconfig as Kubernetes mounts a Secret: a link to a link that is exchanged in one step.
struct Mounted {
    folder: PathBuf,
    path: PathBuf,
}

impl Mounted {
    fn new(folder: &Path, kubeconfig: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mounted = Self { folder: folder.to_owned(), path: folder.join("kubeconfig") };
        mounted.exchange("1", &std::fs::read_to_string(kubeconfig)?)?;
        symlink("..data/kubeconfig", &mounted.path)?;
        Ok(mounted)
    }

    fn exchange(&self, version: &str, text: &str) -> Result<()> {
        std::fs::create_dir(self.folder.join(version))?;
        std::fs::write(self.folder.join(version).join("kubeconfig"), text)?;
        symlink(version, self.folder.join("..data_tmp"))?;
        std::fs::rename(self.folder.join("..data_tmp"), self.folder.join("..data"))?;
        Ok(())
    }
}

async fn a_changed_kubeconfig_is_taken_when_it_works(
    stage: &Stage<'_>,
    management: &ControlPlane,
    mounted: &Mounted,
    operator: &mut Operator,
) -> Result<()> {
    const UNUSABLE: &str = "karpenter_capi_kubeconfig_unusable{cluster=\"management\"}";
    const CHANGED: &str = "karpenter_capi_operator_starts_total{reason=\"kubeconfig_changed\"}";
    let second = std::fs::read_to_string(management.kubeconfig_for(SECOND, &[])?)?;
    // Not YAML at all, then a user who has no rights yet.
    for (version, text, told) in [("2", "{ no kubeconfig", "is not a valid kubeconfig"), ("3", second.as_str(), "403 Forbidden")] {
        mounted.exchange(version, text)?;
        wait::eventually("the new file is told to be unusable", Duration::from_secs(30), async || {
            ensure!(operator.metric(UNUSABLE).await? == 1, "{UNUSABLE} is 0");
            ensure!(operator.said().contains(told), "{told:?} isn't in the log");
            Ok(())
        })
        .await?;
    }
    // One more machine of four processors for each four pods: the old access still works.
    scale(stage, "web", 40).await?;
    stage.running("web", 40, Duration::from_mins(1)).await?;
    ensure!(operator.metric(CHANGED).await? == 0, "a file that can't be used was taken");

    permit(&stage.management, "rbac/management/role.yaml", SECOND).await?;
    wait::eventually("the new file is taken, since it works now", Duration::from_secs(30), async || {
        ensure!(operator.metric(CHANGED).await? == 1, "{CHANGED} isn't 1");
        ensure!(operator.metric(UNUSABLE).await? == 0, "{UNUSABLE} isn't 0");
        operator.is_ready().await
    })
    .await?;
    stage.management_forbids(FIRST).await?;
    scale(stage, "web", 44).await?;
    stage.running("web", 44, Duration::from_mins(1)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    ensure!(stage.replicas("small").await? == 11, "{} replicas", stage.replicas("small").await?);
    operator.is_alive().await
}

impl Stage<'_> {
    /// Takes the operator's rights in the management cluster away from a user.
    async fn management_forbids(&self, user: &str) -> Result<()> {
        use k8s_openapi::api::rbac::v1::RoleBinding;
        let bindings: Api<RoleBinding> = Api::namespaced(self.management.clone(), NAMESPACE);
        bindings.delete(&format!("karpenter-capi-management-{user}"), &DeleteParams::default()).await?;
        Ok(())
    }
}

/// Every request of ours to the management cluster: nothing refused but what the test provoked, nothing outside of the namespace, and of
/// Cluster API's objects only those of our Cluster.
fn only_what_is_ours_was_asked_for(requests: &[Request]) -> Result<()> {
    let of_first = requests.iter().filter(|request| request.user == FIRST).count();
    ensure!(of_first > 50, "{of_first} requests of {FIRST}: the audit log can't be whole");
    let writes_of_second = requests.iter().filter(|request| request.user == SECOND && request.writes()).count();
    ensure!(writes_of_second > 0, "nothing was written with the new kubeconfig");
    for request in requests {
        ensure!(request.code != 403 || request.user == SECOND, "refused: {request:?}");
        if request.resource.is_empty() {
            // Discovery.
            continue;
        }
        ensure!(request.namespace == NAMESPACE, "outside of the namespace: {request:?}");
        if request.group != "cluster.x-k8s.io" {
            continue;
        }
        let scoped = match (request.resource.as_str(), request.name.as_str()) {
            // They select Machines of any Cluster by labels of their own.
            ("machinedrainrules", _) => !request.writes(),
            ("clusters", name) => name == CLUSTER || request.uri.contains(&format!("metadata.name={CLUSTER}")),
            (_, "") => {
                let of_cluster = format!("cluster-name={CLUSTER}");
                let of_deployment = ["small", "dear", "large"].map(|name| format!("deployment-name={name}"));
                request.uri.contains(&of_cluster) || of_deployment.iter().any(|label| request.uri.contains(label))
            }
            (_, name) => ["small", "dear", "large"].iter().any(|ours| name.starts_with(ours)),
        };
        ensure!(scoped, "not of our Cluster: {request:?}");
    }
    Ok(())
}

fn nothing_was_refused(requests: &[Request]) -> Result<()> {
    ensure!(requests.len() > 50, "{} requests: the audit log can't be whole", requests.len());
    for request in requests {
        ensure!(request.code != 403 && request.code != 401, "refused: {request:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_foreign_or_emptied_workload_cluster_costs_no_machines() -> Result<()> {
    ControlPlane::with(Options::workload_only("right-workload"), async |workload| {
        let inner = ControlPlane::with(Options::management_only("foreign-management"), async |management| {
            let wrong = ControlPlane::with(Options::workload_only("wrong-workload"), async |wrong| {
                the_right_cluster_the_emptied_one_and_the_wrong_one(workload, management, wrong).await
            });
            Box::pin(wrong).await
        });
        Box::pin(inner).await
    })
    .await
}

async fn the_right_cluster_the_emptied_one_and_the_wrong_one(
    workload: &ControlPlane,
    management: &ControlPlane,
    wrong: &ControlPlane,
) -> Result<()> {
    let stage = Stage::across(workload, management).await?;
    stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10").in_zone("a")).await?;
    objects::apply(&stage.client, &pool("general")).await?;
    let path = management.kubeconfig().display().to_string();
    let arguments = ["--cluster-api-kubeconfig", path.as_str()];
    let operator = Operator::start(workload, "operator", workload.kubeconfig(), &arguments)?;
    let web = workload::deployment(NAMESPACE, "web", 3, &[("cpu", "3"), ("memory", "1Gi")]);
    workload::apply(&stage.client, &web).await?;
    stage.running("web", 3, Duration::from_mins(1)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await?;
    let recorded = recorded(&stage).await?;
    ensure!(recorded == cluster_uid(&stage.client).await?, "{recorded:?} is recorded");
    operator.terminate().await?;
    let before = Picture::taken(&stage).await?;
    ensure!(before.machines.len() == 3 && before.replicas == 3, "{before:?}");

    strip_all_claims(&stage).await?;
    without_any_claim_nothing_is_given_back(&stage, &arguments, &before).await?;
    in_a_foreign_cluster_nothing_is_done(&stage, wrong, &arguments, &before).await
}

/// What a wrong workload cluster must not change.
#[derive(Debug, PartialEq, Eq)]
struct Picture {
    /// Names, and whether each is going.
    machines: BTreeMap<String, bool>,
    replicas: i32,
    ledger: Option<String>,
}

impl Picture {
    async fn taken(stage: &Stage<'_>) -> Result<Self> {
        let api: Api<MachineDeployment> = Api::namespaced_with(stage.management.clone(), NAMESPACE, &CapiVersion::V1Beta2);
        let deployment = api.get("small").await?;
        let machines = stage.machines().await?.into_iter().map(|machine| {
            (machine.metadata.name.unwrap_or_default(), machine.metadata.deletion_timestamp.is_some())
        });
        Ok(Self {
            machines: machines.collect(),
            replicas: deployment.spec.replicas.unwrap_or_default(),
            ledger: deployment.metadata.annotations.unwrap_or_default().remove(annotations::CLAIMS),
        })
    }

    async fn stays(&self, stage: &Stage<'_>, during: Duration) -> Result<()> {
        wait::holds("Machines, replicas and ledger stay", during, async || {
            let now = Self::taken(stage).await?;
            ensure!(now == *self, "{self:?} became {now:?}");
            Ok(())
        })
        .await
    }
}

/// As a restored backup of the workload cluster would show it: Machines with claims, and none of the claims.
async fn strip_all_claims(stage: &Stage<'_>) -> Result<()> {
    let api: Api<NodeClaim> = Api::all(stage.client.clone());
    for claim in stage.claims().await? {
        let name = claim.metadata.name.unwrap_or_default();
        api.delete(&name, &DeleteParams::default()).await?;
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        api.patch(&name, &PatchParams::default(), &patch).await?;
    }
    ensure!(stage.claims().await?.is_empty(), "claims are left");
    Ok(())
}

async fn without_any_claim_nothing_is_given_back(stage: &Stage<'_>, arguments: &[&str], before: &Picture) -> Result<()> {
    let operator = Operator::start(stage.plane, "operator-without-claims", stage.plane.kubeconfig(), arguments)?;
    wait::eventually("the operator says that it holds back", Duration::from_secs(30), async || {
        let told = operator.said().contains("nothing is given back while no claim is visible");
        ensure!(told, "it doesn't");
        Ok(())
    })
    .await?;
    before.stays(stage, Duration::from_secs(10)).await?;
    let foreign = operator.metric("karpenter_capi_workload_cluster_foreign").await?;
    ensure!(foreign == 0, "the right cluster is called foreign");
    operator.terminate().await?;
    Ok(())
}

async fn in_a_foreign_cluster_nothing_is_done(
    stage: &Stage<'_>,
    wrong: &ControlPlane,
    arguments: &[&str],
    before: &Picture,
) -> Result<()> {
    let client = wrong.client()?;
    apply_crds(&client).await?;
    objects::apply(&client, &node_class("default")).await?;
    objects::apply(&client, &pool("general")).await?;
    // Pods that wait are a temptation to scale up.
    let web = workload::deployment(NAMESPACE, "web", 2, &[("cpu", "3"), ("memory", "1Gi")]);
    workload::apply(&client, &web).await?;
    let right = recorded(stage).await?;
    let operator = Operator::start(wrong, "operator", wrong.kubeconfig(), arguments)?;
    wait::eventually("the cluster is told to be foreign", Duration::from_secs(30), async || {
        let foreign = operator.metric("karpenter_capi_workload_cluster_foreign").await?;
        ensure!(foreign == 1, "the metric is {foreign}");
        let events: Api<Event> = Api::namespaced(stage.management.clone(), NAMESPACE);
        let events = events.list(&ListParams::default()).await?.items;
        let told = events.iter().find(|event| event.reason.as_deref() == Some("ForeignWorkloadCluster"));
        let about = told.context("no Event")?.regarding.clone().unwrap_or_default();
        ensure!(about.kind.as_deref() == Some("Cluster") && about.name.as_deref() == Some(CLUSTER), "about {about:?}");
        Ok(())
    })
    .await?;
    before.stays(stage, Duration::from_mins(1)).await?;
    ensure!(recorded(stage).await? == right, "another cluster was recorded unasked");

    let cluster: Api<Cluster> = Api::namespaced_with(stage.management.clone(), NAMESPACE, &CapiVersion::V1Beta2);
    let accept = Patch::Merge(json!({ "metadata": { "annotations": { annotations::WORKLOAD_UID: annotations::WORKLOAD_UID_ACCEPT } } }));
    cluster.patch(CLUSTER, &PatchParams::default(), &accept).await?;
    let uid = cluster_uid(&client).await?;
    wait::eventually("the accepted cluster is recorded and work goes on", Duration::from_mins(1), async || {
        let recorded = recorded(stage).await?;
        ensure!(recorded == uid, "{recorded} is recorded");
        let replicas = stage.replicas("small").await?;
        ensure!(replicas == 5, "{replicas} replicas");
        let foreign = operator.metric("karpenter_capi_workload_cluster_foreign").await?;
        ensure!(foreign == 0, "it is still called foreign");
        Ok(())
    })
    .await?;
    // The three Machines whose claims are in the other cluster wait for their ten minutes.
    let now = Picture::taken(stage).await?;
    let staying = before.machines.keys().all(|name| now.machines.get(name) == Some(&false));
    ensure!(staying, "{before:?} became {now:?}");
    operator.terminate().await?;
    Ok(())
}

async fn recorded(stage: &Stage<'_>) -> Result<String> {
    let api: Api<Cluster> = Api::namespaced_with(stage.management.clone(), NAMESPACE, &CapiVersion::V1Beta2);
    let annotations = api.get(CLUSTER).await?.metadata.annotations.unwrap_or_default();
    Ok(annotations.get(annotations::WORKLOAD_UID).cloned().unwrap_or_default())
}

async fn cluster_uid(client: &Client) -> Result<String> {
    let api: Api<Namespace> = Api::all(client.clone());
    api.get("kube-system").await?.metadata.uid.context("a namespace without UID")
}

async fn machine_names(stage: &Stage<'_>) -> Result<BTreeSet<String>> {
    let machines = stage.machines().await?;
    Ok(machines.iter().map(|machine| format!("{NAMESPACE}/{}", machine.metadata.name.as_deref().unwrap_or_default())).filter(|name| !name.contains("neighbour")).collect())
}

fn annotation(claim: &NodeClaim, key: &str) -> String {
    claim.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default()
}

/// Gives a Deployment another number of pods.
pub(super) async fn scale(stage: &Stage<'_>, deployment: &str, replicas: i32) -> Result<()> {
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    api.patch(deployment, &PatchParams::default(), &patch).await?;
    Ok(())
}
