//! The eight Go binaries of a control plane and the manifests that belong to them, built once and cached.
//!
//! The cache folder is named by a hash of the Go module, the packages and the build flags, so that another version never meets
//! stale files. Starting a plane from a filled cache needs neither Go nor its module cache.

mod build;
mod manifests;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

pub(crate) use build::last_lines;

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
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::CapiCore => "capi-core",
            Self::Clusterctl => "clusterctl",
            Self::Kwok => "kwok",
        }
    }

    /// The Go package it is built from.
    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Scheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::CapiCore => "sigs.k8s.io/cluster-api/core",
            Self::Clusterctl => "sigs.k8s.io/cluster-api/cmd/clusterctl",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
        }
    }

    /// The names that `go build` may give the file. A package whose path ends in a major version is named after the element
    /// before it, except by older toolchains.
    fn built_names(self) -> &'static [&'static str] {
        match self {
            Self::Etcd => &["server", "v3"],
            Self::CapiCore => &["core"],
            _ => &[],
        }
    }
}

/// A filled cache folder.
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
        tokio::task::spawn_blocking(Self::ensure_blocking).await.context("building the control plane")?
    }

    fn ensure_blocking() -> Result<Self> {
        let root = cache_root()?;
        let binaries = Self { folder: root.join(fingerprint()) };
        if binaries.complete() {
            return Ok(binaries);
        }
        fs::create_dir_all(&binaries.folder)
            .with_context(|| format!("creating the cache folder {}", binaries.folder.display()))?;
        let _lock = lock(&binaries.folder.join("lock"))?;
        if !binaries.programs_exist() {
            build::build(&binaries.folder)?;
        }
        if !binaries.manifests_exist() {
            manifests::render(&binaries)?;
        }
        Ok(binaries)
    }

    fn complete(&self) -> bool {
        self.programs_exist() && self.manifests_exist()
    }

    fn programs_exist(&self) -> bool {
        Binary::ALL.iter().all(|binary| self.path(*binary).is_file())
    }

    fn manifests_exist(&self) -> bool {
        self.folder.join(manifests::FOLDER).is_dir()
    }

    /// Where a program lies.
    pub fn path(&self, binary: Binary) -> PathBuf {
        self.folder.join(build::FOLDER).join(binary.file_name())
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

fn cache_root() -> Result<PathBuf> {
    let base = match (env::var_os("KARPENTER_CAPI_CACHE"), env::var_os("XDG_CACHE_HOME")) {
        (Some(own), _) if !own.is_empty() => PathBuf::from(own),
        (_, Some(xdg)) if !xdg.is_empty() => PathBuf::from(xdg).join("karpenter-capi"),
        _ => env::home_dir()
            .context(
                "no home folder is known: set KARPENTER_CAPI_CACHE to a folder for the built control plane",
            )?
            .join(".cache/karpenter-capi"),
    };
    // Components are started in other working folders, so a relative path from the environment must not stay relative.
    let base = std::path::absolute(&base)
        .with_context(|| format!("resolving the cache folder {}", base.display()))?;
    Ok(base.join("control-plane"))
}

fn fingerprint() -> String {
    let mut hasher = Sha256::new();
    let parts = [build::GO_MOD, build::GO_SUM, env::consts::OS, env::consts::ARCH];
    for part in parts
        .into_iter()
        .chain(Binary::ALL.map(Binary::package))
        .chain(build::arguments().iter().map(String::as_str))
    {
        hasher.update(part);
        hasher.update([0]);
    }
    // Eight bytes tell folders apart and keep paths short.
    let digest = hasher.finalize();
    let head = digest.first_chunk::<8>().copied().unwrap_or_default();
    format!("{:016x}", u64::from_be_bytes(head))
}

/// Locks `path` until the returned file is dropped, also by the end of the process.
fn lock(path: &Path) -> Result<fs::File> {
    let file = fs::File::create(path).with_context(|| format!("creating {}", path.display()))?;
    if file.try_lock().is_err() {
        eprintln!("waiting for another process that builds the control plane ({} is locked)", path.display());
        file.lock().with_context(|| format!("locking {}", path.display()))?;
    }
    Ok(file)
}
