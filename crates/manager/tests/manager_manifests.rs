//! The manifests in `config/` and `crds/` against the program and the files beside them.

use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn every_variable_that_the_deployment_sets_is_read_by_the_manager() {
    let deployment = include_str!("../../../config/manager/deployment.yaml");
    let names = deployment.lines().filter_map(|line| line.trim().strip_prefix("- name: "));
    let is_variable = |name: &&str| name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let set: BTreeSet<&str> = names.filter(is_variable).collect();
    assert!(set.contains("CLUSTER_NAMESPACE") && set.contains("CLUSTER_NAME"), "{set:?}");
    let help = Command::new(env!("CARGO_BIN_EXE_karpenter-capi-manager"))
        .arg("--help")
        .env_clear()
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for name in set {
        assert!(help.contains(&format!("[env: {name}=")), "the manager doesn't read {name}");
    }
}

#[test]
fn the_cluster_is_named_once_and_the_deployment_reads_it_from_there() {
    let deployment = include_str!("../../../config/manager/deployment.yaml");
    let cluster = include_str!("../../../config/default/cluster.env");
    let lines = cluster.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    for (key, _) in lines.filter_map(|line| line.split_once('=')) {
        assert!(deployment.contains(&format!("key: {key}")), "nobody reads {key} of cluster.env");
    }
}

#[test]
fn kustomize_builds_on_every_custom_resource() {
    let kustomization = include_str!("../../../crds/Kustomization");
    let listed: BTreeSet<String> =
        kustomization.lines().filter_map(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds");
    let present: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "Kustomization")
        .collect();
    assert_eq!(listed, present);
}

// Public reports aws/karpenter-provider-aws#7935 and kubernetes-sigs/karpenter#3179: the controller was removed before its finalizers
// had run, and tainted nodes stayed.
#[test]
fn case_117_uninstalling_takes_nodes_before_classes_and_the_operator_last() {
    let page = include_str!("../../../docs/uninstall.md");
    let (_, section) = page.split_once("## In order").expect("the section on the order");
    let steps = [
        "kubectl delete nodepools --all",
        "kubectl wait --for=delete nodeclaims --all",
        "kubectl delete clusterapinodeclasses --all",
        "kubectl delete -k config/manager",
        "karpenter-capi doctor --release-hooks",
        "kubectl delete -k config/crd",
    ];
    let places = steps.map(|step| section.find(step).unwrap_or_else(|| panic!("{step:?} is missing")));
    assert!(places.is_sorted(), "the order of {steps:?} is another: {places:?}");
}
