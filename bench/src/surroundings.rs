//! The machine and the versions that figures belong to.

use std::fs;

use anyhow::{Context, Result};

use crate::report::Machine;

/// What the control plane is built from.
const GO_MOD: &str = include_str!("../../e2e/control-plane/go.mod");
/// The modules of it that people know by name.
const MODULES: [(&str, &str); 4] = [
    ("Kubernetes", "k8s.io/kubernetes"),
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("Cluster API", "sigs.k8s.io/cluster-api"),
    ("kwok", "sigs.k8s.io/kwok"),
];

/// The machine that this runs on.
pub(crate) fn machine() -> Result<Machine> {
    let processors = fs::read_to_string("/proc/cpuinfo").context("reading /proc/cpuinfo")?;
    let memory = fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    Ok(Machine {
        cores: std::thread::available_parallelism()?.get(),
        processor: field(&processors, "model name").unwrap_or("of unknown model").to_owned(),
        memory_kib: field(&memory, "MemTotal")
            .and_then(|value| value.strip_suffix(" kB")?.parse().ok())
            .context("/proc/meminfo has no MemTotal in kB")?,
    })
}

/// The versions of the control plane's parts.
pub(crate) fn versions() -> Vec<(String, String)> {
    let version = |module: &str| version_of(GO_MOD, module).unwrap_or("of unknown version").to_owned();
    MODULES.iter().map(|(name, module)| ((*name).to_owned(), version(module))).collect()
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim()))
}

fn version_of<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module)).then(|| words.next())?.filter(|version| version.starts_with('v'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_of_the_control_plane_has_its_version() {
        for (name, version) in versions() {
            assert!(version.starts_with('v'), "{name} is {version}");
        }
    }

    #[test]
    fn a_tool_or_a_longer_name_is_no_requirement() {
        let go_mod =
            "tool (\n\tk8s.io/x\n)\nrequire (\n\tk8s.io/xy v1.0.0\n\tk8s.io/x v1.2.3 // indirect\n)\n";
        assert_eq!(version_of(go_mod, "k8s.io/x"), Some("v1.2.3"));
        assert_eq!(version_of(go_mod, "k8s.io/z"), None);
    }
}
