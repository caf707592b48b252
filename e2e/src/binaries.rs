//! The Go programs that the suite needs and the manifests that belong to them, built once and cached.
//!
//! There are two Go modules, so that the versions of a control plane and of upstream's Karpenter needn't agree. The cache folder of
//! each is named by a hash of the module, its packages and the build flags, so that another version never meets stale files.
//! Starting from a filled cache needs neither Go nor its module cache.

mod kwok_karpenter;
mod manifests;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use kwok_karpenter::KwokKarpenter;

use karpenter_capi_go_programs::{GoProgram, Module, Stamp};

/// Etcd, Kubernetes, Cluster API and kwok.
static CONTROL_PLANE: Module = Module {
    name: "the control plane",
    folder: "control-plane",
    takes: "about ten CPU minutes",
    go_mod: include_str!("../control-plane/go.mod"),
    go_sum: include_str!("../control-plane/go.sum"),
    sources: &[],
    programs: &[
        Binary::Etcd.program(),
        Binary::ApiServer.program(),
        Binary::ControllerManager.program(),
        Binary::Scheduler.program(),
        Binary::Kubectl.program(),
        Binary::CapiCore.program(),
        Binary::Clusterctl.program(),
        Binary::Kwok.program(),
    ],
    // Components refuse or misreport version skew when they don't know their own version.
    stamps: &[
        Stamp {
            module: "k8s.io/kubernetes",
            flags: |version| stamp("k8s.io/component-base/version", version),
        },
        Stamp {
            module: "sigs.k8s.io/cluster-api",
            flags: |version| stamp("sigs.k8s.io/cluster-api/version", version),
        },
    ],
};

fn stamp(package: &str, version: &str) -> String {
    let minor = version.split('.').nth(1).unwrap_or("0");
    format!(
        "-X {package}.gitVersion={version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor} \
         -X {package}.gitTreeState=clean -X {package}.gitCommit=unknown -X {package}.buildDate=1970-01-01T00:00:00Z"
    )
}

/// One of the programs of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Binary {
    /// The store behind the API server.
    Etcd,
    /// `kube-apiserver`.
    ApiServer,
    /// `kube-controller-manager`.
    ControllerManager,
    /// `kube-scheduler`.
    Scheduler,
    /// `kubectl`.
    Kubectl,
    /// Cluster API's core manager.
    CapiCore,
    /// Cluster API's command line.
    Clusterctl,
    /// Keeps hollow Nodes and their pods alive.
    Kwok,
}

impl Binary {
    /// Every binary, in the order in which they are listed to people.
    pub const ALL: [Self; 8] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kubectl,
        Self::CapiCore,
        Self::Clusterctl,
        Self::Kwok,
    ];

    /// File name in the cache.
    pub fn file_name(self) -> &'static str {
        self.program().file_name
    }

    const fn program(self) -> GoProgram {
        let (package, file_name, built_names): (_, _, &[&str]) = match self {
            Self::Etcd => ("go.etcd.io/etcd/server/v3", "etcd", &["server", "v3"]),
            Self::ApiServer => ("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver", &[]),
            Self::ControllerManager => {
                ("k8s.io/kubernetes/cmd/kube-controller-manager", "kube-controller-manager", &[])
            }
            Self::Scheduler => ("k8s.io/kubernetes/cmd/kube-scheduler", "kube-scheduler", &[]),
            Self::Kubectl => ("k8s.io/kubernetes/cmd/kubectl", "kubectl", &[]),
            Self::CapiCore => ("sigs.k8s.io/cluster-api/core", "capi-core", &["core"]),
            Self::Clusterctl => ("sigs.k8s.io/cluster-api/cmd/clusterctl", "clusterctl", &[]),
            Self::Kwok => ("sigs.k8s.io/kwok/cmd/kwok", "kwok", &[]),
        };
        GoProgram { package, file_name, built_names }
    }
}

/// A filled cache folder of a control plane.
#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// The cached binaries and manifests; what is missing is built first, which takes about ten CPU minutes for the binaries.
    ///
    /// Of several processes that call this at once, one builds and the others wait. The error says what to install when
    /// Go is missing or too old, and shows the end of Go's output when a build fails.
    pub async fn ensure() -> Result<Self> {
        let filled = tokio::task::spawn_blocking(|| CONTROL_PLANE.fill(manifests::FOLDER, manifests::render));
        Ok(Self { folder: filled.await.context("building the control plane")?? })
    }

    /// Where a program lies.
    pub fn path(&self, binary: Binary) -> PathBuf {
        Module::path(&self.folder, binary.file_name())
    }

    /// The cache folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Cluster API's CRDs and webhook configurations as one JSON list, in which the webhooks point at
    /// [`WEBHOOK_BASE`] and trust [`WEBHOOK_CA`]; whoever applies them replaces both.
    pub(crate) fn capi_manifests(&self) -> PathBuf {
        self.folder.join(manifests::FOLDER).join(manifests::CAPI)
    }

    /// kwok's stages that make Nodes and pods ready at once.
    pub(crate) fn kwok_stages(&self) -> PathBuf {
        self.folder.join(manifests::FOLDER).join(manifests::KWOK)
    }
}

/// Stands in cached manifests for the address of Cluster API's webhook server, without a slash at the end.
pub(crate) const WEBHOOK_BASE: &str = "https://webhook.invalid";
/// Stands in cached manifests for the base64 of the authority that signed the webhook server's certificate.
pub(crate) const WEBHOOK_CA: &str = "V0VCSE9PSy1DQQ==";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_module_file() {
        let kubernetes = CONTROL_PLANE.version("k8s.io/kubernetes");
        assert!(kubernetes.starts_with("v1."), "{kubernetes}");
        assert!(CONTROL_PLANE.version("sigs.k8s.io/cluster-api").starts_with("v1."));
    }
}
