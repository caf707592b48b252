//! Clusters that can't be reached, or lack something.

use crate::harness::{
    Folder, SECRET, api_server, assert_says, failure, flag, free_port, kinds, manager, run,
};
use serde_json::json;

const OURS: &str = "/apis/karpenter.sh/v1";
const OUR_CLASSES: &str = "/apis/karpenter.cluster.x-k8s.io/v1alpha1";
const CAPI: &str = "/apis/cluster.x-k8s.io/v1beta1";

#[test]
fn an_api_server_that_cannot_be_reached_is_given_up_after_the_startup_timeout() {
    let folder = Folder::new();
    let server = format!("https://127.0.0.1:{}", free_port());
    let path = folder.kubeconfig(&server, |config| {
        config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = json!(true);
    });
    let (code, said) = run(&mut manager(&[&flag(&path)]));
    assert_eq!(code, Some(1));
    assert_says(
        &said,
        &[
            &server,
            &path.display().to_string(),
            "can't be reached",
            "refused",
            "clusters[].cluster.server",
            "--startup-timeout",
        ],
    );
    assert!(!said.contains(SECRET), "{said}");
}

#[test]
fn what_does_not_speak_tls_is_told_as_such() {
    let folder = Folder::new();
    let server = api_server(|_| failure(404, "NotFound")).replace("http://", "https://");
    let path = folder.kubeconfig(&server, |config| {
        config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = json!(true);
    });
    let (code, said) = run(&mut manager(&[&flag(&path)]));
    assert_eq!(code, Some(1));
    assert_says(&said, &["TLS", "certificate-authority", &path.display().to_string()]);
}

#[test]
fn credentials_that_are_not_accepted_are_told_and_not_shown() {
    let folder = Folder::new();
    let path = folder.kubeconfig(&api_server(|_| failure(401, "Unauthorized")), |_| {});
    let (code, said) = run(&mut manager(&[&flag(&path)]));
    assert_eq!(code, Some(1));
    assert_says(&said, &["401", "users[].user", &path.display().to_string()]);
    assert!(!said.contains(SECRET), "{said}");
}

#[test]
fn missing_custom_resources_are_named_with_the_way_to_install_them() {
    let folder = Folder::new();
    let server = api_server(|path| match path {
        OURS => kinds("karpenter.sh/v1", &["nodepools"]),
        _ => failure(404, "NotFound"),
    });
    let path = folder.kubeconfig(&server, |_| {});
    let (code, said) = run(&mut manager(&[&flag(&path)]));
    assert_eq!(code, Some(1));
    assert_says(
        &said,
        &[
            "workload cluster",
            "nodeclaims.karpenter.sh",
            "clusterapinodeclasses.karpenter.cluster.x-k8s.io",
            "kubectl apply -f crds/",
            "management cluster",
            "clusterctl init",
            "--cluster-api-kubeconfig",
        ],
    );
    assert!(!said.contains("nodepools.karpenter.sh"), "it is there: {said}");
}

#[test]
fn a_cluster_that_is_not_there_is_named() {
    let folder = Folder::new();
    let server = api_server(|path| match path {
        OURS => kinds("karpenter.sh/v1", &["nodepools", "nodeclaims"]),
        OUR_CLASSES => kinds("karpenter.cluster.x-k8s.io/v1alpha1", &["clusterapinodeclasses"]),
        CAPI => {
            kinds("cluster.x-k8s.io/v1beta1", &["clusters", "machinedeployments", "machinesets", "machines"])
        }
        _ => failure(404, "NotFound"),
    });
    let path = folder.kubeconfig(&server, |_| {});
    let (code, said) = run(&mut manager(&[&flag(&path)]));
    assert_eq!(code, Some(1));
    assert_says(&said, &["no Cluster default/c1", "--cluster-namespace and --cluster-name"]);
    assert!(!said.contains("clusterctl init"), "v1beta1 is enough: {said}");
}

#[test]
fn a_right_that_is_missing_is_named() {
    let folder = Folder::new();
    let server = api_server(|path| match path {
        OURS => kinds("karpenter.sh/v1", &["nodepools", "nodeclaims"]),
        OUR_CLASSES => kinds("karpenter.cluster.x-k8s.io/v1alpha1", &["clusterapinodeclasses"]),
        CAPI => {
            kinds("cluster.x-k8s.io/v1beta1", &["clusters", "machinedeployments", "machinesets", "machines"])
        }
        path if path.contains("/namespaces/default/clusters/c1") => failure(403, "Forbidden"),
        _ => failure(404, "NotFound"),
    });
    let path = folder.kubeconfig(&server, |_| {});
    let (code, said) = run(&mut manager(&[&flag(&path)]));
    assert_eq!(code, Some(1));
    assert_says(&said, &["403", "it is Forbidden", "config/rbac"]);
}
