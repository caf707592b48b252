//! Who is measured: the operator, or the Go peer in its place.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use karpenter_capi_e2e::operator_binary;
use karpenter_capi_e2e::plane::{ControlPlane, Program};

use crate::stage::{CLUSTER, GROUP, NAMESPACE};

/// Users, by which the audit log tells requests apart.
const WORKLOAD: &str = "karpenter-capi-workload";
const MANAGEMENT: &str = "karpenter-capi-management";
const PEER: &str = "karpenter-peer";

/// A program that makes Nodes for pods.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// karpenter-capi.
    Ours(PathBuf),
    /// karpenter-provider-cluster-api, the Go provider with Karpenter's core.
    Peer(PathBuf),
}

impl Subject {
    /// The operator: named by the variable, else the one that lies beside this program.
    pub(crate) fn ours() -> Result<Self> {
        Ok(Self::Ours(operator_binary("cargo xtask bench operator")?))
    }

    /// The peer's program.
    pub(crate) fn peer(path: PathBuf) -> Result<Self> {
        ensure!(path.is_file(), "--peer {}: there is no such file", path.display());
        Ok(Self::Peer(path))
    }

    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ours(_) => "karpenter-capi",
            Self::Peer(_) => "karpenter-provider-cluster-api",
        }
    }

    /// Everybody as whom it asks API servers.
    pub(crate) fn users(&self) -> &'static [&'static str] {
        match self {
            Self::Ours(_) => &[WORKLOAD, MANAGEMENT],
            Self::Peer(_) => &[PEER],
        }
    }

    /// Starts it. It has all rights, but goes through authorization and fair queueing as anybody does.
    ///
    /// The operator is given two kubeconfigs of one cluster, so that the audit log tells requests to the workload cluster and to the
    /// management cluster apart. The peer would limit itself to 5 requests a second with a second kubeconfig, so it has one.
    pub(crate) fn start(&self, plane: &ControlPlane) -> Result<Program> {
        let command = match self {
            Self::Ours(path) => {
                let mut command = Command::new(path);
                command
                    .arg("--kubeconfig")
                    .arg(plane.kubeconfig_for(WORKLOAD, &[GROUP])?)
                    .arg("--cluster-api-kubeconfig")
                    .arg(plane.kubeconfig_for(MANAGEMENT, &[GROUP])?)
                    .args(["--cluster-namespace", NAMESPACE, "--cluster-name", CLUSTER])
                    .args(["--bind-address", "127.0.0.1", "--metrics-port", "0", "--health-probe-port", "0"]);
                command
            }
            Self::Peer(path) => {
                let (health, metrics) = free_ports()?;
                let mut command = Command::new(path);
                command
                    .env("KUBECONFIG", plane.kubeconfig_for(PEER, &[GROUP])?)
                    .args(["--leader-election-namespace", "kube-system"])
                    .args(["--health-probe-port", &health.to_string()])
                    .args(["--metrics-port", &metrics.to_string()]);
                command
            }
        };
        plane.start_program(self.name(), command)
    }
}

/// In which cluster a user of a subject asks; none for anybody else.
pub(crate) fn cluster_of(user: &str) -> Option<&'static str> {
    match user {
        WORKLOAD => Some("workload"),
        MANAGEMENT => Some("management"),
        PEER => Some("both"),
        _ => None,
    }
}

fn free_ports() -> Result<(u16, u16)> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (first, second) = (listen()?, listen()?);
    Ok((first.local_addr()?.port(), second.local_addr()?.port()))
}
