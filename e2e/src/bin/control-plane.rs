//! `control-plane build` fills the cache; `control-plane up` starts a control plane with a hollow cloud for people.

use std::{env, io::Write, process::ExitCode};

use anyhow::{Context, Result};
use karpenter_capi_e2e::{
    binaries::{Binaries, Binary, KwokKarpenter},
    hollow,
    plane::{ControlPlane, Options},
};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: control-plane build | up

  build   builds etcd, the Kubernetes components, kwok, Cluster API and upstream's Karpenter for kwok from Go modules into the cache
          and prints where they are
  up      starts a control plane with Cluster API and the hollow infrastructure provider, prints its KUBECONFIG, ends at Ctrl-C

  KARPENTER_CAPI_CACHE      folder of the cache, by default ~/.cache/karpenter-capi
  KARPENTER_CAPI_E2E_KEEP   1 keeps logs and other files of a control plane at its end";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["build"] => build().await,
        ["up"] => up().await,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn build() -> Result<()> {
    let binaries = Binaries::ensure().await?;
    let karpenter = KwokKarpenter::ensure().await?;
    let mut output = std::io::stdout().lock();
    for binary in Binary::ALL {
        writeln!(output, "{}", binaries.path(binary).display())?;
    }
    writeln!(output, "{}", karpenter.program().display())?;
    Ok(())
}

async fn up() -> Result<()> {
    let mut interrupted = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let mut terminated = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    tokio::select! {
        result = run() => result,
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
    }
}

/// Runs until it is dropped.
async fn run() -> Result<()> {
    let plane = ControlPlane::start(Options::complete("up")).await?;
    let client = plane.client()?;
    hollow::install(&client).await?;
    let _provider = hollow::Provider::start(&client, &client, hollow::ProviderOptions::of_plane(&plane)?);
    writeln!(std::io::stdout(), "export KUBECONFIG={}", plane.kubeconfig().display())?;
    eprintln!(
        "kubectl: {}; logs: {}; Ctrl-C ends it all",
        plane.binaries().path(Binary::Kubectl).display(),
        plane.logs_dir().display()
    );
    std::future::pending().await
}
