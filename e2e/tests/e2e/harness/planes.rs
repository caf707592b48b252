//! Starting, breaking and ending control planes.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use karpenter_capi_e2e::{
    hollow::{self, MachineDeploymentOptions, Provider, ProviderOptions},
    objects,
    plane::{Component, ControlPlane, Options},
    wait, workload,
};
use kube::{
    Api, Client, Config,
    api::{ListParams, ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};

const MINUTE: Duration = Duration::from_mins(1);

async fn client_of(kubeconfig: &Path) -> Result<Client> {
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &KubeConfigOptions::default())
            .await?;
    Ok(Client::try_from(config)?)
}

#[tokio::test]
async fn users_have_the_rights_of_their_groups_and_a_killed_api_server_comes_back_with_its_data() -> Result<()>
{
    ControlPlane::with(Options::bare("bare"), async |plane| {
        let viewer = client_of(&plane.kubeconfig_for("jo", &["viewers", "others"])?).await?;
        let secrets: Api<Secret> = Api::namespaced(viewer, "default");
        let denied = secrets.list(&ListParams::default()).await.unwrap_err().to_string();
        assert!(denied.contains("\"jo\""), "{denied}");
        plane
            .kubectl(&[
                "create",
                "clusterrolebinding",
                "others",
                "--clusterrole=cluster-admin",
                "--group=others",
            ])
            .await?;
        wait::eventually("the second group has its rights", MINUTE, async || {
            Ok(secrets.list(&ListParams::default()).await?)
        })
        .await?;

        let client = plane.client()?;
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        let metadata = ObjectMeta { name: Some("kept".to_owned()), ..ObjectMeta::default() };
        maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await?;
        plane.kill(Component::ApiServer)?;
        ensure!(maps.get("kept").await.is_err(), "a killed API server answers");
        plane.restart(Component::ApiServer).await?;
        wait::eventually("the object is still there", MINUTE, async || Ok(maps.get("kept").await?)).await?;

        plane.pause(Component::ApiServer)?;
        let answer = tokio::time::timeout(Duration::from_secs(2), maps.get("kept")).await;
        plane.resume(Component::ApiServer)?;
        ensure!(answer.is_err(), "a paused API server answers");
        wait::eventually("it answers again", MINUTE, async || Ok(maps.get("kept").await?)).await?;
        plane.all_alive()
    })
    .await
}

#[tokio::test]
async fn a_component_that_ends_early_is_reported_and_its_log_is_kept() -> Result<()> {
    let options = Options::bare("broken").with_argument(Component::Scheduler, "--no-such-flag");
    let error = format!("{:#}", ControlPlane::start(options).await.unwrap_err());
    assert!(error.contains("kube-scheduler ended early"), "{error}");
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");
    let log = error
        .lines()
        .find_map(|line| line.strip_prefix("end of ")?.strip_suffix(':'))
        .context("no log is named")?;
    let kept = fs::read_to_string(log)?;
    assert!(kept.contains("no-such-flag"), "{kept}");
    let state = Path::new(log).ancestors().nth(2).context("a log outside of a plane's folder")?;
    Ok(fs::remove_dir_all(state)?)
}

#[tokio::test]
async fn machines_of_a_management_cluster_become_nodes_of_another_cluster() -> Result<()> {
    ControlPlane::with(Options::management_only("management"), async |management| {
        ControlPlane::with(Options::workload_only("workload"), async |workload| {
            two_clusters(management, workload).await
        })
        .await
    })
    .await
}

async fn two_clusters(management: &ControlPlane, workload: &ControlPlane) -> Result<()> {
    let (client, other) = (management.client()?, workload.client()?);
    hollow::install(&client).await?;
    let _cloud = Provider::start(&client, &other, ProviderOptions::of_plane(workload)?);
    objects::apply_all(&client, &hollow::cluster("default", "c1")).await?;
    let mut options = MachineDeploymentOptions::new("default", "c1", "small", "2", "4Gi");
    options.replicas = 1;
    hollow::apply_machine_deployment(&client, &options).await?;
    nodes_of_the_workload_cluster(&other, 1).await?;
    ensure!(workload::nodes(&client).await?.is_empty(), "the management cluster has Nodes");

    options.replicas = 0;
    hollow::apply_machine_deployment(&client, &options).await?;
    nodes_of_the_workload_cluster(&other, 0).await
}

async fn nodes_of_the_workload_cluster(client: &Client, count: usize) -> Result<()> {
    wait::eventually(
        &format!("the workload cluster has {count} Nodes and they are Ready"),
        MINUTE,
        async || {
            let nodes = workload::nodes(client).await?;
            ensure!(nodes.len() == count && nodes.iter().all(workload::is_ready), "{} Nodes", nodes.len());
            Ok(())
        },
    )
    .await
}

/// Process ids whose command line mentions `text`, without those that have ended and wait to be reaped.
fn processes_mentioning(text: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let mentions = |path: &PathBuf| {
        fs::read(path.join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).replace('\0', " ").contains(text))
    };
    entries.filter(mentions).collect()
}

#[tokio::test]
async fn a_killed_process_leaves_neither_components_nor_files() -> Result<()> {
    let mut up =
        Command::new(env!("CARGO_BIN_EXE_control-plane")).arg("up").stdout(Stdio::piped()).spawn()?;
    let output = BufReader::new(up.stdout.take().context("no output")?);
    let line = tokio::task::spawn_blocking(move || output.lines().next()).await?.context("`up` ended")??;
    let kubeconfig = PathBuf::from(line.strip_prefix("export KUBECONFIG=").context("an unexpected line")?);
    let state = kubeconfig.parent().context("no parent")?.to_owned();
    let text = state.display().to_string();
    let running = processes_mentioning(&text).len();
    up.kill()?;
    up.wait()?;
    ensure!(running >= 5, "only {running} processes were found before the kill");
    wait::eventually("all processes and files are gone", MINUTE, async || {
        let left = processes_mentioning(&text);
        ensure!(left.is_empty() && !state.exists(), "left: {left:?}, files: {}", state.exists());
        Ok(())
    })
    .await
}
