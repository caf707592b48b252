//! The manager as a process: flags and variables, what it says about what is wrong, exit codes, HTTP, signals.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Long enough for a busy machine; nothing here takes more than a few seconds.
const PATIENCE: Duration = Duration::from_mins(1);
const SECRET: &str = "very-secret-token";

/// The program with a clean environment, no ports, and a Cluster that nobody looks for.
fn manager(arguments: &[&str]) -> Command {
    let mut command = bare(arguments);
    command.args(["--cluster-namespace=default", "--cluster-name=c1"]);
    command
}

fn bare(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter-capi-manager"));
    command
        .env_clear()
        .env("BIND_ADDRESS", "127.0.0.1")
        .env("METRICS_PORT", "0")
        .env("HEALTH_PROBE_PORT", "0")
        .env("STARTUP_TIMEOUT", "1s")
        .args(arguments);
    command
}

/// A process that ends with the test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn terminate(&self) {
        let done = Command::new("kill").arg(self.0.id().to_string()).status().unwrap();
        assert!(done.success());
    }

    /// Exit code and everything that it said.
    fn end(mut self) -> (Option<i32>, String) {
        let started = Instant::now();
        let code = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status.code();
            }
            assert!(started.elapsed() < PATIENCE, "the process doesn't end");
            thread::sleep(Duration::from_millis(20));
        };
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (code, said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already where the test got so far.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(command: &mut Command) -> (Option<i32>, String) {
    Running::start(command).end()
}

fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} isn't in:\n{said}");
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Status code and body, or nothing while nobody listens.
fn http(port: u16, path: &str) -> Option<(u16, String)> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

fn http_when_up(port: u16, path: &str) -> (u16, String) {
    let started = Instant::now();
    loop {
        if let Some(answer) = http(port, path) {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "nobody listens on {port}");
        thread::sleep(Duration::from_millis(20));
    }
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn kubeconfig(&self, server: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
        let mut config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "here", "cluster": { "server": server } }],
            "users": [{ "name": "me", "user": { "token": SECRET } }],
            "contexts": [{ "name": "this", "context": { "cluster": "here", "user": "me" } }],
            "current-context": "this",
        });
        change(&mut config);
        self.file("kubeconfig", &config.to_string())
    }
}

fn flag(path: &Path) -> String {
    format!("--kubeconfig={}", path.display())
}

/// Plays an API server: `answer` gives status code and body for a path. Its thread ends with the test process.
fn api_server(answer: impl Fn(&str) -> (u16, Value) + Send + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let mut lines = Vec::new();
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
                lines.push(std::mem::take(&mut line));
            }
            let Some(path) = lines.first().and_then(|line| line.split(' ').nth(1)) else {
                continue;
            };
            let (status, body) = answer(path);
            let body = body.to_string();
            let mut stream = reader.into_inner();
            // A client that has gone away doesn't matter.
            let _ = write!(
                stream,
                "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    format!("http://{address}")
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("it is {reason}"), "metadata": {},
    });
    (code, status)
}

fn kinds(api_version: &str, plurals: &[&str]) -> (u16, Value) {
    let resources: Vec<_> = plurals
        .iter()
        .map(|plural| json!({ "name": plural, "singularName": "", "namespaced": true, "kind": "Any", "verbs": ["get"] }))
        .collect();
    let list = json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources });
    (200, list)
}

const OURS: &str = "/apis/karpenter.sh/v1";
const OUR_CLASSES: &str = "/apis/karpenter.cluster.x-k8s.io/v1alpha1";
const CAPI: &str = "/apis/cluster.x-k8s.io/v1beta1";

#[test]
fn without_a_cluster_it_is_a_usage_error() {
    let (code, said) = run(&mut bare(&[]));
    assert_eq!(code, Some(2));
    assert_says(&said, &["--cluster-namespace", "--cluster-name"]);
}

#[test]
fn wrong_usage_ends_with_2_and_names_the_flag() {
    for (arguments, part) in [
        ("--colour=red", "--colour"),
        ("--metrics-port=http", "--metrics-port"),
        ("--disable-leader-election=yes", "--disable-leader-election"),
        ("--batch-idle-duration=1", "--batch-idle-duration"),
        ("--preference-policy=Maybe", "--preference-policy"),
        ("--log-format=xml", "--log-format"),
    ] {
        let (code, said) = run(&mut manager(&[arguments]));
        assert_eq!(code, Some(2), "{arguments}: {said}");
        assert_says(&said, &[part]);
    }
}

#[test]
fn a_context_that_the_kubeconfig_lacks_is_named_with_its_flag() {
    let folder = Folder::new();
    let kubeconfig = folder.kubeconfig("http://127.0.0.1:1", |_| {});
    for (context, part) in [
        ("--context=there", "--context (KUBE_CONTEXT)"),
        ("--cluster-api-context=there", "--cluster-api-context (CLUSTER_API_CONTEXT)"),
    ] {
        let (code, said) = run(&mut manager(&[&flag(&kubeconfig), context]));
        assert_eq!(code, Some(1), "{said}");
        assert_says(&said, &["there", part]);
    }
    let (code, said) = run(&mut manager(&["--context=there"]));
    assert_eq!(code, Some(2), "{said}");
    assert_says(&said, &["--kubeconfig"]);
}

#[test]
fn a_variable_with_a_wrong_value_is_a_usage_error_too() {
    let (code, said) = run(manager(&[]).env("KUBE_CLIENT_QPS", "fast"));
    assert_eq!(code, Some(2));
    assert_says(&said, &["fast", "--kube-client-qps"]);
    let (code, said) = run(manager(&[]).env("RUST_LOG", "karpenter=loud"));
    assert_eq!(code, Some(2));
    assert_says(&said, &["RUST_LOG", "karpenter=loud"]);
}

#[test]
fn help_and_version_are_no_failure() {
    let (code, said) = run(&mut bare(&["--help"]));
    assert_eq!(code, Some(0));
    assert_says(&said, &["--metrics-port", "METRICS_PORT", "8080"]);
    let (code, said) = run(&mut bare(&["--version"]));
    assert_eq!(code, Some(0));
    assert_says(&said, &[env!("CARGO_PKG_VERSION")]);
}

#[test]
fn a_flag_is_stronger_than_its_variable_and_a_variable_than_the_default() {
    let folder = Folder::new();
    let kubeconfig = folder.kubeconfig(&format!("http://127.0.0.1:{}", free_port()), |_| {});
    let (by_flag, by_variable, unused) = (free_port(), free_port(), free_port());
    let metrics = format!("--metrics-port={by_flag}");
    let process = Running::start(
        manager(&[&flag(&kubeconfig), &metrics])
            .env("METRICS_PORT", unused.to_string())
            .env("HEALTH_PROBE_PORT", by_variable.to_string())
            .env("STARTUP_TIMEOUT", "10m"),
    );
    assert_eq!(http_when_up(by_flag, "/metrics").0, 200);
    assert_eq!(http_when_up(by_variable, "/healthz").0, 200);
    assert_eq!(http(unused, "/metrics"), None);
    drop(process);
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let (code, said) =
        run(manager(&[]).env("KUBECONFIG", "").env("LOG_LEVEL", "").env("KUBE_CLIENT_BURST", ""));
    assert_eq!(code, Some(1), "{said}");
    assert_says(&said, &["--kubeconfig (KUBECONFIG) is not set", "KUBERNETES_SERVICE_HOST"]);
}

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

#[test]
fn a_port_that_is_taken_is_told_on_one_line_before_anything_else() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    for name in ["METRICS_PORT", "HEALTH_PROBE_PORT"] {
        let (code, said) = run(manager(&["--kubeconfig=/nowhere"]).env(name, port.to_string()));
        assert_eq!(code, Some(1));
        let lines: Vec<_> = said.lines().filter(|line| line.contains("can't listen")).collect();
        assert_eq!(lines.len(), 1, "{said}");
        assert_says(lines[0], &[name, &format!("127.0.0.1:{port}"), "in use"]);
        assert!(!said.contains("/nowhere"), "{said}");
    }
}

#[test]
fn while_it_waits_for_the_clusters_it_is_alive_but_not_ready_and_a_signal_ends_it_well() {
    let folder = Folder::new();
    let path = folder.kubeconfig(&api_server(|_| failure(404, "NotFound")), |_| {});
    let port = free_port();
    let process = Running::start(
        manager(&[&flag(&path)]).env("HEALTH_PROBE_PORT", port.to_string()).env("STARTUP_TIMEOUT", "10m"),
    );
    assert_eq!(http_when_up(port, "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(http(port, "/readyz").map(|(status, _)| status), Some(503));
    process.terminate();
    let (code, said) = process.end();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn log_lines_are_json_where_that_is_asked_for() {
    let Output { stdout, status, .. } =
        manager(&["--kubeconfig=/nowhere", "--log-format=json"]).output().unwrap();
    assert_eq!(status.code(), Some(1));
    let text = String::from_utf8(stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["message"], "starting");
    assert_eq!(lines[0]["cluster"], "default/c1");
    let last = lines.last().unwrap();
    assert_eq!(last["level"], "ERROR");
    assert!(last["message"].as_str().unwrap().contains("/nowhere"), "{last}");
}

#[test]
fn logs_go_where_they_are_asked_to_and_no_line_is_less_important_than_asked_for() {
    let Output { stdout, stderr, .. } =
        manager(&["--kubeconfig=/nowhere", "--log-output-paths=stderr", "--log-level=error"])
            .output()
            .unwrap();
    assert!(stdout.is_empty());
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_says(&said, &["ERROR", "/nowhere"]);
}

#[test]
fn a_feature_gate_that_is_unknown_is_warned_of() {
    let (_, said) = run(&mut manager(&["--kubeconfig=/nowhere", "--feature-gates=Telepathy=true"]));
    assert_says(&said, &["WARN", "Telepathy"]);
}

#[test]
fn a_proxy_is_refused_with_the_way_to_do_without() {
    let folder = Folder::new();
    let path = folder.kubeconfig("https://127.0.0.1:1", |_| {});
    let (code, said) = run(manager(&[&flag(&path)]).env("HTTPS_PROXY", "http://127.0.0.1:3128"));
    assert_eq!(code, Some(1));
    assert_says(&said, &["proxy", "HTTPS_PROXY", "proxy-url"]);
}
