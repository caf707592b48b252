//! Files from disk, and whose objects are in them.

use anyhow::{Context, bail};
use karpenter_capi_cluster::files::{self, LoadError, Loaded, Source};
use karpenter_capi_cluster::input::Scope;
use karpenter_capi_cluster::object::Object;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Endings of manifests in a folder.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// A file's name and contents.
pub(super) struct Text {
    name: String,
    text: String,
}

/// Reads every path: a file, the manifests of a folder by name, or standard input.
pub(super) fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<Text>> {
    let mut texts = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("-: standard input can't be read as UTF-8 text")?;
            texts.push(Text { name: "-".to_owned(), text });
        } else if path.is_dir() {
            let files = manifests_in(path)?;
            if files.is_empty() {
                bail!("{}: there is no .yaml, .yml or .json file in this folder", path.display());
            }
            for file in files {
                texts.push(read_file(&file)?);
            }
        } else {
            texts.push(read_file(path)?);
        }
    }
    Ok(texts)
}

fn manifests_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let unreadable = || format!("{}: the folder can't be read", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if path.is_file() && ENDINGS.contains(&ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(path: &Path) -> anyhow::Result<Text> {
    let text =
        fs::read_to_string(path).with_context(|| format!("{}: the file can't be read", path.display()))?;
    Ok(Text { name: path.display().to_string(), text })
}

/// Loads what was read.
pub(super) fn load(texts: &[Text]) -> Result<Loaded, LoadError> {
    files::load(texts.iter().map(|text| Source { name: &text.name, text: &text.text }))
}

/// Refuses objects of several Clusters, between which only a person can choose.
pub(super) fn check_scope(objects: &[Object], scope: &Scope) -> anyhow::Result<()> {
    let all = clusters(objects);
    let chosen: Vec<_> = all
        .iter()
        .filter(|(namespace, name)| {
            scope.cluster_name.as_ref().is_none_or(|own| own == name)
                && scope.namespace.as_ref().is_none_or(|own| own == namespace)
        })
        .collect();
    let show = |clusters: &mut dyn Iterator<Item = &(&str, &str)>| {
        clusters.map(|(namespace, name)| format!("{namespace}/{name}")).collect::<Vec<_>>().join(", ")
    };
    match chosen.len() {
        0 if all.is_empty() => Ok(()),
        0 => bail!(
            "the files hold nothing of the Cluster that --cluster-name and --cluster-namespace name; there is {}",
            show(&mut all.iter())
        ),
        1 => Ok(()),
        count => bail!(
            "the files hold objects of {count} Clusters: {}; choose one with --cluster-name{}",
            show(&mut chosen.iter().copied()),
            if scope.cluster_name.is_some() { " and --cluster-namespace" } else { "" }
        ),
    }
}

/// Namespace and name of every Cluster that an object of Cluster API belongs to.
fn clusters(objects: &[Object]) -> BTreeSet<(&str, &str)> {
    let mut found = BTreeSet::new();
    for object in objects {
        let name = match object {
            Object::Cluster(cluster) => cluster.metadata.name.as_deref().unwrap_or_default(),
            Object::MachineDeployment(deployment) => &deployment.spec.cluster_name,
            Object::MachineSet(set) => &set.spec.cluster_name,
            Object::Machine(machine) => &machine.spec.cluster_name,
            _ => continue,
        };
        if !name.is_empty() {
            found.insert((object.meta().namespace.as_deref().unwrap_or_default(), name));
        }
    }
    found
}
