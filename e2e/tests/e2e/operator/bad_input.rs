//! Missing CRDs, and a kubeconfig that leads nowhere: a clear message that says what to do.

use super::stage::{apply_crds, binary};
use anyhow::{Result, ensure};
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use std::process::Command;
use tokio::process::Command as AsyncCommand;

async fn refused(kubeconfig: &std::path::Path) -> Result<String> {
    let mut command = Command::new(binary("KARPENTER_CAPI_MANAGER_BIN", "karpenter-capi-manager"));
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["--cluster-namespace", "default", "--cluster-name", "c1", "--startup-timeout", "2s"])
        .args(["--bind-address", "127.0.0.1", "--metrics-port", "0", "--health-probe-port", "0"]);
    let output = AsyncCommand::from(command).kill_on_drop(true).output().await?;
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.code() == Some(1), "exit status {:?}: {text}", output.status);
    Ok(text)
}

#[tokio::test]
async fn missing_crds_are_named_with_what_to_apply() -> Result<()> {
    ControlPlane::with(Options::bare("missing-crds"), async |plane| {
        let text = refused(plane.kubeconfig()).await?;
        for needle in
            ["nodepools.karpenter.sh", "clusterapinodeclasses.karpenter.cluster.x-k8s.io", "kubectl apply"]
        {
            ensure!(text.contains(needle), "{needle:?} is not in:\n{text}");
        }
        apply_crds(&plane.client()?).await?;
        let text = refused(plane.kubeconfig()).await?;
        for needle in ["cluster.x-k8s.io", "clusterctl init"] {
            ensure!(text.contains(needle), "{needle:?} is not in:\n{text}");
        }
        Ok(())
    })
    .await
}
