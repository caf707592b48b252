//! Upstream's Karpenter with its kwok cloud provider, whose instances are Nodes and nothing behind them: another Karpenter to work
//! beside.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use karpenter_capi_go_programs::{GoProgram, Module, Rendering, Stamp, sources};

const MODULE: &str = "sigs.k8s.io/karpenter";
/// The folder inside the cache folder; the number changes with what this module makes of the sources.
const MANIFESTS: &str = "manifests-1";
const CRDS: &str = "crds.json";

static KWOK_KARPENTER: Module = Module {
    name: "upstream's Karpenter for kwok",
    folder: "kwok-karpenter",
    takes: "about four CPU minutes",
    go_mod: include_str!("../../kwok-karpenter/go.mod"),
    go_sum: include_str!("../../kwok-karpenter/go.sum"),
    sources: &[],
    programs: &[PROGRAM],
    stamps: &[Stamp {
        module: MODULE,
        flags: |version| format!("-X {MODULE}/pkg/operator.Version={version}"),
    }],
};

const PROGRAM: GoProgram =
    GoProgram { package: "sigs.k8s.io/karpenter/kwok", file_name: "karpenter-kwok", built_names: &["kwok"] };

/// A filled cache folder of upstream's Karpenter.
#[derive(Clone, Debug)]
pub struct KwokKarpenter {
    folder: PathBuf,
}

impl KwokKarpenter {
    /// The cached program and manifests; what is missing is built first, as in [`Binaries::ensure`](super::Binaries::ensure).
    pub async fn ensure() -> Result<Self> {
        let filled = tokio::task::spawn_blocking(|| KWOK_KARPENTER.fill(MANIFESTS, render));
        Ok(Self { folder: filled.await.context("building upstream's Karpenter")?? })
    }

    /// The program.
    pub fn program(&self) -> PathBuf {
        Module::path(&self.folder, PROGRAM.file_name)
    }

    /// The CRDs of its version: those of Karpenter itself, and the node class of kwok.
    pub fn crds(&self) -> Result<Vec<Value>> {
        let path = self.folder.join(MANIFESTS).join(CRDS);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))
    }
}

fn render(rendering: &Rendering<'_>) -> Result<()> {
    let sources = sources(rendering.module, MODULE)?;
    let mut crds = Vec::new();
    for folder in ["pkg/apis/crds", "kwok/apis/crds"] {
        crds.extend(crds_in(&sources.join(folder))?);
    }
    fs::write(rendering.output.join(CRDS), serde_json::to_vec(&crds)?).context("writing the CRDs")
}

fn crds_in(folder: &Path) -> Result<Vec<Value>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    let mut crds = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "yaml")) {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        crds.push(serde_saphyr::from_str(&text).with_context(|| format!("parsing {}", file.display()))?);
    }
    ensure!(!crds.is_empty(), "no CRDs in {}", folder.display());
    Ok(crds)
}
