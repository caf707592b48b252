//! The operator as a process: its ports, what they tell, and with which rights it runs.

use super::stage::{CLUSTER, NAMESPACE, binary, repository};
use anyhow::{Context, Result, bail, ensure};
use karpenter_capi_e2e::objects;
use karpenter_capi_e2e::plane::{ControlPlane, Program};
use kube::Client;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A running operator.
pub(super) struct Operator {
    pub(super) program: Program,
    health: u16,
    metrics: u16,
}

impl Operator {
    /// Starts it under that name, with its log among those of the plane.
    pub(super) fn start(
        plane: &ControlPlane,
        name: &str,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> Result<Self> {
        let (health, metrics) = free_ports()?;
        let mut command = Command::new(binary("KARPENTER_CAPI_MANAGER_BIN", "karpenter-capi-manager"));
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args([
                "--cluster-namespace",
                NAMESPACE,
                "--cluster-name",
                CLUSTER,
                "--bind-address",
                "127.0.0.1",
            ])
            .args(["--health-probe-port", &health.to_string(), "--metrics-port", &metrics.to_string()])
            .args(arguments);
        Ok(Self { program: plane.start_program(name, command)?, health, metrics })
    }

    /// It runs, and its liveness probe says so: a kubelet would not start it again.
    pub(super) async fn is_alive(&mut self) -> Result<()> {
        if let Some(status) = self.program.ended()? {
            bail!("the operator has ended ({status}); {}", self.program.log_tail(10));
        }
        let (status, body) = get(self.health, "/healthz").await?;
        ensure!(status == 200, "/healthz: {status} {body}");
        Ok(())
    }

    /// Its readiness probe says yes.
    pub(super) async fn is_ready(&self) -> Result<()> {
        let (status, body) = get(self.health, "/readyz").await?;
        ensure!(status == 200, "/readyz: {status} {body}");
        Ok(())
    }

    /// The value, a whole number, of one series, written as in a scrape: `name{label="value"}`.
    pub(super) async fn metric(&self, series: &str) -> Result<u64> {
        let (_, body) = get(self.metrics, "/metrics").await?;
        let line = body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = line.with_context(|| format!("{series} isn't among the metrics"))?;
        value.parse().with_context(|| format!("{series} is {value}"))
    }

    pub(super) fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.program.log()).unwrap_or_default()).into_owned()
    }

    pub(super) async fn terminate(self) -> Result<ExitStatus> {
        self.program.terminate(Duration::from_secs(45)).await
    }
}

fn free_ports() -> Result<(u16, u16)> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (first, second) = (listen()?, listen()?);
    Ok((first.local_addr()?.port(), second.local_addr()?.port()))
}

/// Status and body.
async fn get(port: u16, path: &str) -> Result<(u16, String)> {
    let answer = tokio::time::timeout(Duration::from_secs(5), async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    });
    let answer = answer.await.with_context(|| format!("{path} doesn't answer"))??;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}

/// Applies a manifest of `config/` with users in the place of the service account, under a name of their own.
pub(super) async fn permit(client: &Client, manifest: &str, user: &str) -> Result<()> {
    for mut object in manifests(manifest)? {
        if object["kind"].as_str().is_some_and(|kind| kind.ends_with("Binding")) {
            object["subjects"] =
                json!([{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user }]);
            let name = format!("{}-{user}", object["metadata"]["name"].as_str().unwrap_or_default());
            object["metadata"]["name"] = name.into();
        }
        objects::apply(client, &object).await?;
    }
    Ok(())
}

/// The objects of a manifest of `config/`.
pub(super) fn manifests(file: &str) -> Result<Vec<Value>> {
    let path = repository().join("config").join(file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let documents = text.split("\n---\n");
    documents
        .map(|document| serde_saphyr::from_str(document).with_context(|| format!("in {}", path.display())))
        .collect()
}
