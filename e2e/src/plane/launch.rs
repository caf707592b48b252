//! Starting a control plane.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, Config};
use tracing::debug;

use super::{
    ControlPlane, Options, capi,
    certificates::{self, Authority, Identity},
    component::{Component, Probe, Processes, Recipe},
    config_from, install_crypto, kubeconfig,
    ports::{self, Ports},
    state::{KEEP, State},
    watchdog::Watchdog,
};
use crate::{binaries::Binaries, wait};

/// How long a component may take until it is ready, on a machine that does much else.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often a start is tried when ports are taken in between.
const TRIES: u32 = 3;

pub(super) async fn start(options: Options) -> Result<ControlPlane> {
    install_crypto();
    let binaries = Binaries::ensure().await?;
    let mut tries = 1;
    loop {
        match launch(&binaries, &options).await {
            Err(error) if tries < TRIES && ports::taken(&format!("{error:#}")) => tries += 1,
            result => return result.with_context(|| format!("starting the control plane {}", options.name)),
        }
    }
}

/// What the commands of all components are made from.
struct Blueprint<'a> {
    binaries: &'a Binaries,
    state: &'a State,
    ports: Ports,
    arguments: &'a BTreeMap<Component, Vec<String>>,
    authority: &'a Authority,
}

impl Blueprint<'_> {
    fn recipe(&self, component: Component, mut arguments: Vec<String>, probe: Probe) -> Recipe {
        arguments.extend(self.arguments.get(&component).into_iter().flatten().cloned());
        Recipe {
            program: self.binaries.path(component.binary()),
            arguments,
            working_folder: self.state.path().to_owned(),
            log: self.state.logs().join(format!("{}.log", component.name())),
            probe,
        }
    }

    fn kubeconfig(&self, name: &str) -> String {
        self.state.path().join(format!("{name}.kubeconfig")).display().to_string()
    }
}

async fn launch(binaries: &Binaries, options: &Options) -> Result<ControlPlane> {
    let started = Instant::now();
    let state = State::create(&options.name)?;
    let authority = Authority::new()?;
    let ports = Ports::choose()?;
    let server = format!("https://127.0.0.1:{}", ports.api_server);
    write_files(&state, &authority, &server)?;
    let kubeconfig = state.path().join("admin.kubeconfig");
    let config = config_from(&kubeconfig).await?;
    let processes = Processes::new(Watchdog::start(state.path(), KEEP)?);
    let plane =
        ControlPlane { processes, state, authority, binaries: binaries.clone(), server, kubeconfig, config };
    let blueprint = Blueprint {
        binaries,
        state: &plane.state,
        ports,
        arguments: &options.arguments,
        authority: &plane.authority,
    };
    if let Err(error) = start_components(&plane, &blueprint, options).await {
        if !ports::taken(&format!("{error:#}")) {
            plane.keep_files();
        }
        return Err(error);
    }
    debug!(plane = options.name, milliseconds = started.elapsed().as_millis(), "control plane is ready");
    Ok(plane)
}

fn write_files(state: &State, authority: &Authority, server: &str) -> Result<()> {
    let write =
        |file: &str, text: &str| fs::write(state.pki(file), text).with_context(|| format!("writing {file}"));
    let write_pair = |name: &str, identity: &Identity| {
        write(&format!("{name}.crt"), &identity.certificate)?;
        write(&format!("{name}.key"), &identity.key)
    };
    write("ca.crt", authority.certificate())?;
    write("ca.key", authority.key())?;
    let (private, public) = certificates::service_account_keys()?;
    write("sa.key", &private)?;
    write("sa.pub", &public)?;
    let api_server_names = [
        "127.0.0.1",
        "10.96.0.1",
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    write_pair("apiserver", &authority.server("kube-apiserver", &api_server_names)?)?;
    write_pair("serving", &authority.server("127.0.0.1", &["127.0.0.1", "localhost"])?)?;
    write_pair("front-proxy", &authority.client("front-proxy", &[])?)?;
    let users: [(&str, &str, &[&str]); 3] = [
        ("admin", "admin", &["system:masters"]),
        ("kcm", "system:kube-controller-manager", &[]),
        ("scheduler", "system:kube-scheduler", &[]),
    ];
    for (file, user, groups) in users {
        let path = state.path().join(format!("{file}.kubeconfig"));
        kubeconfig::write(&path, server, authority, &authority.client(user, groups)?)?;
    }
    Ok(())
}

async fn start_components(plane: &ControlPlane, blueprint: &Blueprint<'_>, options: &Options) -> Result<()> {
    let processes = &plane.processes;
    processes.add(Component::Etcd, etcd(blueprint)?)?;
    processes.add(Component::ApiServer, api_server(blueprint, plane.config.clone()))?;
    processes.ready(Component::ApiServer, PATIENCE).await?;

    processes.add(Component::ControllerManager, controller_manager(blueprint)?)?;
    processes.add(Component::Scheduler, scheduler(blueprint)?)?;
    let client = plane.client()?;
    let with_kwok = async {
        if options.kwok {
            processes.add(Component::Kwok, kwok(blueprint, options.node_lease)?)?;
            processes.ready(Component::Kwok, PATIENCE).await?;
        }
        anyhow::Ok(())
    };
    let with_cluster_api = async {
        if options.cluster_api {
            capi::install(
                &client,
                blueprint.binaries,
                blueprint.ports.capi_webhook,
                blueprint.authority.certificate(),
                options.served,
            )
            .await?;
            processes.add(Component::CapiCore, capi_core(blueprint)?)?;
            processes.ready(Component::CapiCore, PATIENCE).await?;
        }
        anyhow::Ok(())
    };
    tokio::try_join!(
        processes.ready(Component::ControllerManager, PATIENCE),
        processes.ready(Component::Scheduler, PATIENCE),
        default_service_account(&client),
        with_kwok,
        with_cluster_api,
    )?;
    Ok(())
}

/// Pods can't be created before the controller manager has made this account.
async fn default_service_account(client: &Client) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    wait::eventually("the default service account exists", PATIENCE, async || {
        accounts.get("default").await.map(drop).map_err(Into::into)
    })
    .await
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_whitespace().map(str::to_owned)
}

fn etcd(blueprint: &Blueprint<'_>) -> Result<Recipe> {
    let Ports { etcd, etcd_peer, .. } = blueprint.ports;
    let (client, peer) = (format!("http://127.0.0.1:{etcd}"), format!("http://127.0.0.1:{etcd_peer}"));
    let mut arguments: Vec<String> = words("--name=e --unsafe-no-fsync --log-level=warn").collect();
    arguments.extend([
        format!("--data-dir={}", blueprint.state.path().join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=e={peer}"),
    ]);
    Ok(blueprint.recipe(Component::Etcd, arguments, Probe::of_port(etcd, "/health", None)?))
}

fn api_server(blueprint: &Blueprint<'_>, config: Config) -> Recipe {
    let pki = |file: &str| blueprint.state.pki(file);
    let mut arguments: Vec<String> = words(
        "--bind-address=127.0.0.1 --advertise-address=127.0.0.1 --endpoint-reconciler-type=none \
         --service-account-issuer=https://kubernetes.default.svc --authorization-mode=Node,RBAC \
         --service-cluster-ip-range=10.96.0.0/16 --allow-privileged=true --requestheader-allowed-names=front-proxy \
         --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
         --requestheader-extra-headers-prefix=X-Remote-Extra-",
    )
    .collect();
    arguments.extend([
        format!("--etcd-servers=http://127.0.0.1:{}", blueprint.ports.etcd),
        format!("--secure-port={}", blueprint.ports.api_server),
        format!("--client-ca-file={}", pki("ca.crt")),
        // Without an authority for request headers the controller manager and the scheduler log errors without end.
        format!("--requestheader-client-ca-file={}", pki("ca.crt")),
        format!("--tls-cert-file={}", pki("apiserver.crt")),
        format!("--tls-private-key-file={}", pki("apiserver.key")),
        format!("--service-account-key-file={}", pki("sa.pub")),
        format!("--service-account-signing-key-file={}", pki("sa.key")),
        format!("--proxy-client-cert-file={}", pki("front-proxy.crt")),
        format!("--proxy-client-key-file={}", pki("front-proxy.key")),
    ]);
    blueprint.recipe(Component::ApiServer, arguments, Probe { config, path: "/readyz" })
}

/// The arguments that the controller manager and the scheduler share.
fn kube_component(blueprint: &Blueprint<'_>, user: &str, port: u16) -> Vec<String> {
    let kubeconfig = blueprint.kubeconfig(user);
    // With the default limits on requests the controllers take five seconds more to start.
    let mut arguments: Vec<String> =
        words("--leader-elect=false --bind-address=127.0.0.1 --kube-api-qps=500 --kube-api-burst=1000")
            .collect();
    arguments.extend([
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", blueprint.state.pki("serving.crt")),
        format!("--tls-private-key-file={}", blueprint.state.pki("serving.key")),
    ]);
    arguments
}

fn controller_manager(blueprint: &Blueprint<'_>) -> Result<Recipe> {
    let port = blueprint.ports.controller_manager;
    let mut arguments = kube_component(blueprint, "kcm", port);
    arguments.extend([
        "--use-service-account-credentials=true".to_owned(),
        format!("--service-account-private-key-file={}", blueprint.state.pki("sa.key")),
        format!("--root-ca-file={}", blueprint.state.pki("ca.crt")),
        format!("--cluster-signing-cert-file={}", blueprint.state.pki("ca.crt")),
        format!("--cluster-signing-key-file={}", blueprint.state.pki("ca.key")),
        // The default is a folder of the machine, outside of ours, and would be created.
        format!("--flex-volume-plugin-dir={}", blueprint.state.path().join("flex").display()),
    ]);
    let probe = Probe::of_port(port, "/healthz", Some(blueprint.authority.der()))?;
    Ok(blueprint.recipe(Component::ControllerManager, arguments, probe))
}

fn scheduler(blueprint: &Blueprint<'_>) -> Result<Recipe> {
    let port = blueprint.ports.scheduler;
    let arguments = kube_component(blueprint, "scheduler", port);
    let probe = Probe::of_port(port, "/healthz", Some(blueprint.authority.der()))?;
    Ok(blueprint.recipe(Component::Scheduler, arguments, probe))
}

fn kwok(blueprint: &Blueprint<'_>, node_lease: Duration) -> Result<Recipe> {
    let port = blueprint.ports.kwok;
    let mut arguments: Vec<String> =
        words("--manage-all-nodes=true --cidr=10.244.0.0/16 --node-ip=127.0.0.1").collect();
    arguments.extend([
        format!("--kubeconfig={}", blueprint.kubeconfig("admin")),
        format!("--node-lease-duration-seconds={}", node_lease.as_secs().max(1)),
        format!("--config={}", blueprint.binaries.kwok_stages().display()),
        format!("--server-address=127.0.0.1:{port}"),
    ]);
    Ok(blueprint.recipe(Component::Kwok, arguments, Probe::of_port(port, "/healthz", None)?))
}

/// The webhook server has no option for its address and listens on all interfaces.
fn capi_core(blueprint: &Blueprint<'_>) -> Result<Recipe> {
    let Ports { capi_webhook, capi_health, capi_diagnostics, .. } = blueprint.ports;
    let arguments = vec![
        format!("--kubeconfig={}", blueprint.kubeconfig("admin")),
        format!("--webhook-port={capi_webhook}"),
        format!("--webhook-cert-dir={}", blueprint.state.path().join("pki").display()),
        "--webhook-cert-name=serving.crt".to_owned(),
        "--webhook-key-name=serving.key".to_owned(),
        format!("--health-addr=127.0.0.1:{capi_health}"),
        format!("--diagnostics-address=127.0.0.1:{capi_diagnostics}"),
        "--insecure-diagnostics=true".to_owned(),
    ];
    Ok(blueprint.recipe(Component::CapiCore, arguments, Probe::of_port(capi_health, "/readyz", None)?))
}
