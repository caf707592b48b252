//! Pods and nodes in one cluster, Cluster API in another: rights, scope, changing kubeconfigs, and a workload cluster that isn't the right one.

mod foreign;

use super::audit::{Audit, Request};
use super::main_job::{
    claims_are_given_back, sixty_pods, sixty_pods_run_on_the_cheapest, three_machine_deployments,
};
use super::process::{Operator, manifests, permit};
use super::stage::{CLUSTER, NAMESPACE, Stage, pool};
use anyhow::{Result, ensure};
use karpenter_capi_api::capi::{CapiVersion, Machine, MachineDeployment, MachineSet};
use karpenter_capi_e2e::hollow::{self, MachineDeploymentOptions};
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use std::collections::BTreeMap;
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
            let mounted = Mounted::new(
                &management.state_dir().join("mounted"),
                &management.kubeconfig_for(FIRST, &[])?,
            )?;
            let kubeconfig = workload.kubeconfig_for(OPERATOR, &[])?;
            let path = mounted.path.display().to_string();
            let arguments =
                ["--cluster-api-kubeconfig", &path, "--kubeconfig-poll-interval", "1s", LEASES[0], LEASES[1]];
            let mut operator = Operator::start(workload, "operator", &kubeconfig, &arguments)?;
            sixty_pods(&stage).await?;
            sixty_pods_run_on_the_cheapest(&stage).await?;
            claims_are_given_back(&stage, 2).await?;
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
        let mut cheap = MachineDeploymentOptions::new(namespace, cluster, "neighbour", "4", "16Gi")
            .priced("0.01")
            .in_zone("a");
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
    all.extend(
        deployments.list(&ListParams::default()).await?.items.into_iter().map(|object| object.metadata),
    );
    let sets: Api<MachineSet> = Api::all_with(management.clone(), &CapiVersion::V1Beta2);
    all.extend(sets.list(&ListParams::default()).await?.items.into_iter().map(|object| object.metadata));
    let machines: Api<Machine> = Api::all_with(management.clone(), &CapiVersion::V1Beta2);
    all.extend(machines.list(&ListParams::default()).await?.items.into_iter().map(|object| object.metadata));
    for metadata in all {
        let name = metadata.name.unwrap_or_default();
        if name.starts_with("neighbour") {
            let key = format!(
                "{}/{name}/{}",
                metadata.namespace.unwrap_or_default(),
                metadata.uid.unwrap_or_default()
            );
            versions.insert(key, metadata.resource_version.unwrap_or_default());
        }
    }
    ensure!(versions.len() == 6, "{versions:?}");
    Ok(versions)
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
    for (version, text, told) in
        [("2", "{ no kubeconfig", "is not a valid kubeconfig"), ("3", second.as_str(), "403 Forbidden")]
    {
        mounted.exchange(version, text)?;
        wait::eventually("the new file is told to be unusable", Duration::from_secs(30), async || {
            ensure!(operator.metric(UNUSABLE).await? == 1, "{UNUSABLE} is 0");
            ensure!(operator.said().contains(told), "{told:?} isn't in the log");
            Ok(())
        })
        .await?;
    }
    // One more machine of four processors for each four pods: the old access still works.
    stage.scale("web", 40).await?;
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
    stage.scale("web", 44).await?;
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
    let writes_of_second =
        requests.iter().filter(|request| request.user == SECOND && request.writes()).count();
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
            ("clusters", name) => {
                name == CLUSTER || request.uri.contains(&format!("metadata.name={CLUSTER}"))
            }
            (_, "") => {
                let of_cluster = format!("cluster-name={CLUSTER}");
                let of_deployment = ["small", "dear", "large"].map(|name| format!("deployment-name={name}"));
                request.uri.contains(&of_cluster)
                    || of_deployment.iter().any(|label| request.uri.contains(label))
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
