//! `doctor` as a process, against something that answers as an API server does.

use crate::api_server::{ApiServer, list, status, write_kubeconfig};
use crate::common::Ran;
use serde_json::{Value, json};
use std::process::Command;

const HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/karpenter";
const NOTE: &str = "karpenter.cluster.x-k8s.io/pause-for";
const PAUSE: &str = "cluster.x-k8s.io/paused";
const CAPI: &str = "/apis/cluster.x-k8s.io/v1beta2";
const LEASES: &str = "/apis/coordination.k8s.io/v1/leases";

/// Runs `doctor` with nothing of this process's environment that could name a cluster.
fn doctor(args: &[&str]) -> Ran {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_karpenter-capi"))
        .arg("doctor")
        .args(args)
        .env_clear()
        .env("HOME", home.path())
        // Empty counts as not set.
        .env("CLUSTER_NAME", "")
        .output()
        .unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn json_of(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap()
}

fn definition(file: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds").join(file);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn cluster() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": { "name": "web", "namespace": "capi", "annotations": {
            "karpenter.cluster.x-k8s.io/workload-uid": "w1" } },
    })
}

fn lease(renewed: &str) -> Value {
    json!({
        "metadata": { "name": "karpenter-capi-web", "namespace": "kube-system", "uid": "l" },
        "spec": { "holderIdentity": "op", "leaseDurationSeconds": 2, "renewTime": renewed },
    })
}

fn machine(name: &str, version: &str, annotations: &[&str]) -> Value {
    let annotations: serde_json::Map<String, Value> =
        annotations.iter().map(|key| ((*key).to_owned(), json!(""))).collect();
    json!({ "metadata": {
        "name": name, "namespace": "capi", "resourceVersion": version, "annotations": annotations } })
}

/// A server with everything in order and nothing in it: one Cluster, a fresh Lease, no pools.
fn sound() -> ApiServer {
    let server = ApiServer::start();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for (name, file) in [
        ("nodepools.karpenter.sh", "karpenter.sh_nodepools.yaml"),
        ("nodeclaims.karpenter.sh", "karpenter.sh_nodeclaims.yaml"),
        (
            "clusterapinodeclasses.karpenter.cluster.x-k8s.io",
            "karpenter.cluster.x-k8s.io_clusterapinodeclasses.yaml",
        ),
    ] {
        server.holds(&format!("{definitions}/{name}"), definition(file));
    }
    let kinds = ["clusters", "machinedeployments", "machinesets", "machines"].map(|name| {
        json!({ "name": name, "singularName": "", "kind": name, "namespaced": true, "verbs": ["list"] })
    });
    let discovery = json!({ "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": "cluster.x-k8s.io/v1beta2", "resources": kinds });
    server
        .holds(CAPI, discovery)
        .holds(
            "/api/v1/namespaces/kube-system",
            json!({ "metadata": { "name": "kube-system", "uid": "w1" } }),
        )
        .holds(&format!("{CAPI}/namespaces/capi/clusters"), list(&[cluster()]))
        .holds(&format!("{CAPI}/namespaces/capi/clusters/web"), cluster())
        .holds(LEASES, list(&[lease("2999-01-01T00:00:00.000000Z")]));
    for path in [
        "/apis/karpenter.sh/v1/nodepools",
        "/apis/karpenter.sh/v1/nodeclaims",
        "/apis/karpenter.cluster.x-k8s.io/v1alpha1/clusterapinodeclasses",
        "/api/v1/nodes",
    ] {
        server.holds(path, list(&[]));
    }
    for kind in ["machinedeployments", "machinesets", "machines"] {
        server.holds(&format!("{CAPI}/namespaces/capi/{kind}"), list(&[]));
    }
    server
}

#[test]
fn help_tells_of_exit_codes_and_shows_how_to_begin() {
    let ran = doctor(&["--help"]);
    assert_eq!(ran.code, 0);
    for told in ["Exit status", "--management-context", "--release-hooks", "--settle", "Examples"] {
        assert!(ran.stdout.contains(told), "{told}: {}", ran.stdout);
    }
}

#[test]
fn what_is_in_order_is_told_in_one_reading_and_nothing_is_written() {
    let server = sound();
    let ran = doctor(&["--kubeconfig", &server.kubeconfig()]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    assert!(ran.stdout.starts_with("Cluster capi/web: 0 NodePools"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("Leading: op.") && ran.stdout.ends_with("Nothing is wrong.\n"),
        "{}",
        ran.stdout
    );
    let ran = doctor(&["--kubeconfig", &server.kubeconfig(), "-o", "json"]);
    assert_eq!(
        json_of(&ran),
        json!({
            "cluster": "capi/web", "healthy": true, "leader": "op", "readings": 1,
            "counts": { "nodePools": 0, "nodeClaims": 0, "nodes": 0, "machineDeployments": 0, "machines": 0 },
            "findings": [],
        })
    );
    assert!(server.writes().is_empty());
}

#[test]
fn a_problem_is_told_after_a_second_reading_and_a_broken_object_hides_none() {
    let server = sound();
    server.holds("/apis/karpenter.sh/v1/nodepools", list(&[json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "odd" }, "spec": { "weight": "heavy" },
    })]));
    server.holds(&format!("{CAPI}/namespaces/capi/machines"), list(&[machine("m", "1", &[HOOK])]));
    let ran = doctor(&["--kubeconfig", &server.kubeconfig(), "-o", "json", "--settle", "100ms"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("looking again in 100ms"), "{}", ran.stderr);
    let answer = json_of(&ran);
    assert_eq!(answer["readings"], 2);
    let found: Vec<(&str, &str)> = answer["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| (finding["code"].as_str().unwrap(), finding["object"].as_str().unwrap()))
        .collect();
    assert_eq!(found, [("BrokenObject", "NodePool odd"), ("Hook", "Machine capi/m")]);
}

#[test]
fn what_passes_between_the_readings_is_not_told() {
    let server = sound();
    let machines = format!("GET {CAPI}/namespaces/capi/machines");
    let once = vec![(200, list(&[machine("m", "1", &[HOOK])])), (200, list(&[]))];
    server.answer(&machines, once.clone());
    let ran = doctor(&["--kubeconfig", &server.kubeconfig(), "--settle", "100ms"]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    server.answer(&machines, once);
    let ran = doctor(&["--kubeconfig", &server.kubeconfig(), "--settle", "0s"]);
    assert_eq!(ran.code, 1, "one reading believes what it sees");
}

#[test]
fn without_a_kubeconfig_it_says_which_flag_is_missing() {
    let ran = doctor(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("--kubeconfig (KUBECONFIG) is not set"), "{}", ran.stderr);
    let ran = doctor(&["--kubeconfig", "/nowhere/kubeconfig"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("/nowhere/kubeconfig"), "{}", ran.stderr);
    let server = sound();
    let ran = doctor(&["--kubeconfig", &server.kubeconfig(), "--management-context", "other"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("--management-context") && ran.stderr.contains("other"), "{}", ran.stderr);
}

#[test]
fn contradicting_flags_are_usage_errors() {
    for args in [
        vec!["--dry-run"],
        vec!["--force"],
        vec!["--settle", "soon"],
        vec!["--settle", "-3s"],
        vec!["-o", "xml"],
        vec!["--context", "c"],
        vec!["--management-context", "c"],
    ] {
        let ran = doctor(&args);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_cluster_that_cant_be_reached_is_named_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    // The port of a listener that is gone.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let kubeconfig = write_kubeconfig(&folder.path().join("kubeconfig"), port);
    let ran = doctor(&["--kubeconfig", &kubeconfig, "-o", "json"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let answer = json_of(&ran);
    let finding = &answer["findings"][0];
    assert_eq!((&finding["code"], &answer["readings"]), (&json!("Unreadable"), &json!(1)));
    let message = finding["message"].as_str().unwrap();
    assert!(message.contains(&format!("http://127.0.0.1:{port}")), "{message}");
    assert!(message.contains("can't be reached"), "{message}");
    assert!(!ran.stdout.contains("a-secret-token") && !ran.stderr.contains("a-secret-token"));
    let ran = doctor(&["--kubeconfig", &kubeconfig, "--release-hooks", "--force"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.contains("can't be reached"), "{}", ran.stderr);
}

#[test]
fn a_cluster_that_isnt_there_is_named_and_several_need_a_choice() {
    let server = sound();
    let ran = doctor(&["--kubeconfig", &server.kubeconfig(), "--cluster-name", "other", "--settle", "0s"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("ClusterNotFound  Cluster capi/other: it doesn't exist"), "{}", ran.stdout);
    let ran = doctor(&[
        "--kubeconfig",
        &server.kubeconfig(),
        "--cluster-name",
        "other",
        "--release-hooks",
        "--force",
    ]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("there is no Cluster capi/other"), "{}", ran.stderr);

    let mut other = cluster();
    other["metadata"]["name"] = json!("other");
    server.holds(&format!("{CAPI}/namespaces/capi/clusters"), list(&[cluster(), other]));
    let ran = doctor(&["--kubeconfig", &server.kubeconfig()]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("2 Clusters: web, other; choose one with --cluster-name"), "{}", ran.stderr);
}

#[test]
fn a_request_that_is_refused_is_told_with_what_it_needs() {
    let server = sound();
    server.answer("GET /api/v1/nodes", vec![status(403, "Forbidden", "nodes is forbidden")]);
    let ran = doctor(&["--kubeconfig", &server.kubeconfig()]);
    assert_eq!(ran.code, 1);
    for told in ["nodes is forbidden", "docs/doctor.md", "replicas weren't checked, as Nodes can't be read"] {
        assert!(ran.stdout.contains(told), "{told}: {}", ran.stdout);
    }
}

/// Three Machines and two MachineDeployments, of which one each holds nothing of ours.
fn held(server: &ApiServer) {
    let machines = vec![machine("m1", "1", &[HOOK]), machine("m2", "2", &[]), machine("m3", "3", &[HOOK])];
    let deployments = vec![machine("ours", "4", &[PAUSE, NOTE]), machine("theirs", "5", &[PAUSE])];
    server.holds(&format!("{CAPI}/namespaces/capi/machines"), list(&machines));
    server.holds(&format!("{CAPI}/namespaces/capi/machinedeployments"), list(&deployments));
    for path in ["machines/m1", "machines/m3", "machinedeployments/ours"] {
        let patched = vec![(200, machine("x", "9", &[]))];
        server.answer(&format!("PATCH {CAPI}/namespaces/capi/{path}"), patched);
    }
    server.holds(LEASES, list(&[lease("2020-01-01T00:00:00.000000Z")]));
}

#[test]
fn releasing_takes_off_what_is_ours_and_nothing_else() {
    let server = sound();
    held(&server);
    let ran = doctor(&["--kubeconfig", &server.kubeconfig(), "--release-hooks"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains("watching whether Lease kube-system/karpenter-capi-web is renewed"),
        "{}",
        ran.stderr
    );
    let writes: Vec<(String, String, Value)> =
        server.writes().into_iter().map(|asked| (asked.path, asked.query, asked.body)).collect();
    let path = |name: &str| format!("{CAPI}/namespaces/capi/{name}");
    let by = "&fieldManager=karpenter-capi-doctor".to_owned();
    let off = |version: &str, keys: Value| json!({ "metadata": { "resourceVersion": version, "annotations": keys } });
    assert_eq!(
        writes,
        [
            (path("machinedeployments/ours"), by.clone(), off("4", json!({ NOTE: null, PAUSE: null }))),
            (path("machines/m1"), by.clone(), off("1", json!({ HOOK: null }))),
            (path("machines/m3"), by, off("3", json!({ HOOK: null }))),
        ]
    );
    let of_machines = server.asked().into_iter().find(|asked| asked.path.ends_with("/machines")).unwrap();
    assert!(of_machines.query.contains("cluster.x-k8s.io%2Fcluster-name%3Dweb"), "{}", of_machines.query);
}

#[test]
fn a_dry_run_lists_and_writes_nothing_and_needs_no_lease() {
    let server = sound();
    held(&server);
    let ran = doctor(&["--kubeconfig", &server.kubeconfig(), "--release-hooks", "--dry-run", "-o", "json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let answer = json_of(&ran);
    assert_eq!((&answer["cluster"], &answer["dryRun"]), (&json!("capi/web"), &json!(true)));
    assert_eq!(
        answer["objects"][0],
        json!({ "kind": "MachineDeployment", "name": "capi/ours", "annotations": [NOTE, PAUSE],
            "deleting": false, "outcome": "wouldRelease", "error": null })
    );
    assert_eq!(answer["objects"].as_array().unwrap().len(), 3);
    assert!(server.writes().is_empty());
}

#[test]
fn a_lease_that_is_renewed_refuses_and_force_doesnt_ask() {
    let server = sound();
    held(&server);
    let renewals = (0..9).map(|second| (200, list(&[lease(&format!("2020-01-01T00:00:0{second}.000000Z"))])));
    server.answer(&format!("GET {LEASES}"), renewals.collect());
    let ran = doctor(&["--kubeconfig", &server.kubeconfig(), "--release-hooks"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    for told in
        ["an operator is at work (op, by Lease kube-system/karpenter-capi-web)", "--replicas=0", "--force"]
    {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
    assert!(server.writes().is_empty());
    let ran = doctor(&["--kubeconfig", &server.kubeconfig(), "--release-hooks", "--force"]);
    assert_eq!((ran.code, server.writes().len()), (0, 3), "{}", ran.stderr);
}

#[test]
fn without_the_workload_cluster_it_needs_force() {
    let server = sound();
    held(&server);
    let management = ["--management-kubeconfig", &server.kubeconfig(), "--release-hooks"];
    let ran = doctor(&management);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    for told in ["whether an operator is at work can't be told", "--kubeconfig", "--force"] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
    assert!(server.writes().is_empty());
    let forced = doctor(&[&management[..], &["--force"]].concat());
    assert_eq!((forced.code, server.writes().len()), (0, 3), "{}", forced.stderr);
}

#[test]
fn a_lease_of_another_workload_cluster_says_nothing() {
    let server = sound();
    held(&server);
    let other = json!({ "metadata": { "name": "kube-system", "uid": "w2" } });
    server.holds("/api/v1/namespaces/kube-system", other);
    let ran = doctor(&["--kubeconfig", &server.kubeconfig(), "--release-hooks"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("UID w2") && ran.stderr.contains("UID w1"), "{}", ran.stderr);
    assert!(server.writes().is_empty());
}

#[test]
fn a_write_that_fails_stops_no_other_and_a_conflict_is_decided_anew() {
    let server = sound();
    held(&server);
    let conflict = status(409, "Conflict", "the object has been modified");
    server
        .answer(
            &format!("PATCH {CAPI}/namespaces/capi/machinedeployments/ours"),
            vec![status(403, "Forbidden", "machinedeployments is forbidden")],
        )
        .answer(
            &format!("PATCH {CAPI}/namespaces/capi/machines/m1"),
            vec![conflict.clone(), (200, machine("m1", "12", &[]))],
        )
        .holds(&format!("{CAPI}/namespaces/capi/machines/m1"), machine("m1", "11", &[HOOK]))
        .answer(&format!("PATCH {CAPI}/namespaces/capi/machines/m3"), vec![conflict])
        .holds(&format!("{CAPI}/namespaces/capi/machines/m3"), machine("m3", "13", &[]));
    let ran = doctor(&["--kubeconfig", &server.kubeconfig(), "--release-hooks", "--force", "-o", "json"]);
    assert_eq!(ran.code, 1);
    let answer = json_of(&ran);
    let outcomes: Vec<(&str, &str)> = answer["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|done| (done["name"].as_str().unwrap(), done["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(outcomes, [("capi/ours", "failed"), ("capi/m1", "released"), ("capi/m3", "nothingLeft")]);
    assert!(answer["objects"][0]["error"].as_str().unwrap().contains("machinedeployments is forbidden"));
    let versions: Vec<Value> =
        server.writes().iter().map(|asked| asked.body["metadata"]["resourceVersion"].clone()).collect();
    assert_eq!(versions, ["4", "1", "11", "3"]);
}
