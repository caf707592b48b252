//! Kubeconfigs that are missing or wrong: named, and never repeated.

use crate::harness::{Folder, SECRET, assert_says, flag, manager, run};
use serde_json::{Value, json};

#[test]
fn a_kubeconfig_that_is_missing_is_named_with_its_flag() {
    let (code, said) = run(&mut manager(&["--kubeconfig=/nowhere/kubeconfig"]));
    assert_eq!(code, Some(1));
    assert_says(&said, &["/nowhere/kubeconfig", "workload cluster", "--kubeconfig (KUBECONFIG)"]);
    let folder = Folder::new();
    let workload = folder.kubeconfig("http://127.0.0.1:1", |_| {});
    let (code, said) = run(&mut manager(&[&flag(&workload), "--cluster-api-kubeconfig=/nowhere/management"]));
    assert_eq!(code, Some(1));
    assert_says(&said, &["/nowhere/management", "management cluster", "--cluster-api-kubeconfig"]);
}

#[test]
fn garbage_instead_of_a_kubeconfig_is_named_but_not_repeated() {
    let folder = Folder::new();
    for text in [
        format!("users:\n- name: me\n  user:\n    token: {SECRET}\n   bad: [indentation\n"),
        format!("clusters: {SECRET}\n"),
        format!("{SECRET}: {SECRET}\n- {SECRET}"),
    ] {
        let path = folder.file("broken", &text);
        let (code, said) = run(&mut manager(&[&flag(&path)]));
        assert_eq!(code, Some(1), "{said}");
        assert_says(&said, &["broken", "not a valid kubeconfig"]);
        assert!(!said.contains(SECRET), "{said}");
    }
}

type Change = fn(&mut Value);

#[test]
fn a_field_that_is_wrong_is_named() {
    let folder = Folder::new();
    let cases: [(Change, &[&str]); 6] = [
        (
            |config| config["current-context"] = json!("other"),
            &["current-context", "\"other\"", "contexts[]"],
        ),
        (|config| config["current-context"] = Value::Null, &["current-context is not set"]),
        (|config| config["contexts"][0]["context"]["cluster"] = json!("there"), &["\"there\"", "clusters[]"]),
        (
            |config| config["clusters"][0]["cluster"]["server"] = Value::Null,
            &["clusters[].cluster.server", "missing"],
        ),
        (
            |config| config["clusters"][0]["cluster"]["certificate-authority"] = json!("/nowhere/ca.crt"),
            &["clusters[].cluster.certificate-authority", "/nowhere/ca.crt"],
        ),
        (
            |config| config["clusters"][0]["cluster"]["certificate-authority-data"] = json!("%%%"),
            &["clusters[].cluster.certificate-authority-data", "base64"],
        ),
    ];
    for (change, parts) in cases {
        let path = folder.kubeconfig("https://127.0.0.1:1", change);
        let (code, said) = run(&mut manager(&[&flag(&path)]));
        assert_eq!(code, Some(1), "{said}");
        assert_says(&said, &[&path.display().to_string()]);
        assert_says(&said, parts);
        assert!(!said.contains(SECRET), "{said}");
    }
}

#[test]
fn a_credential_plugin_that_fails_is_named_but_its_output_is_not_shown() {
    let folder = Folder::new();
    let path = folder.kubeconfig("http://127.0.0.1:1", |config| {
        config["users"][0]["user"] = json!({ "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/sh",
            "args": ["-c", format!("echo {SECRET}; exit 3")],
            "interactiveMode": "Never",
        }});
    });
    let (code, said) = run(&mut manager(&[&flag(&path)]));
    assert_eq!(code, Some(1));
    assert_says(&said, &["users[].user.exec"]);
    assert!(!said.contains(SECRET), "{said}");
}
