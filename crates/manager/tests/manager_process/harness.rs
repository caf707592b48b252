//! The program with a clean environment, kubeconfigs, and something that plays an API server.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Long enough for a busy machine; nothing here takes more than a few seconds.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
pub(super) const SECRET: &str = "very-secret-token";

/// The program with a clean environment, no ports, and a Cluster that nobody looks for.
pub(super) fn manager(arguments: &[&str]) -> Command {
    let mut command = bare(arguments);
    command.args(["--cluster-namespace=default", "--cluster-name=c1"]);
    command
}

pub(super) fn bare(arguments: &[&str]) -> Command {
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
pub(super) struct Running(Child);

impl Running {
    pub(super) fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    pub(super) fn terminate(&self) {
        let done = Command::new("kill").arg(self.0.id().to_string()).status().unwrap();
        assert!(done.success());
    }

    /// Exit code and everything that it said.
    pub(super) fn end(mut self) -> (Option<i32>, String) {
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

pub(super) fn run(command: &mut Command) -> (Option<i32>, String) {
    Running::start(command).end()
}

pub(super) fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} isn't in:\n{said}");
    }
}

pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Status code and body, or nothing while nobody listens.
pub(super) fn http(port: u16, path: &str) -> Option<(u16, String)> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

pub(super) fn http_when_up(port: u16, path: &str) -> (u16, String) {
    let started = Instant::now();
    loop {
        if let Some(answer) = http(port, path) {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "nobody listens on {port}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(super) struct Folder(TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(super) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(super) fn kubeconfig(&self, server: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
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

pub(super) fn flag(path: &Path) -> String {
    format!("--kubeconfig={}", path.display())
}

/// Plays an API server: `answer` gives status code and body for a path. Its thread ends with the test process.
pub(super) fn api_server(answer: impl Fn(&str) -> (u16, Value) + Send + 'static) -> String {
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

pub(super) fn failure(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("it is {reason}"), "metadata": {},
    });
    (code, status)
}

pub(super) fn kinds(api_version: &str, plurals: &[&str]) -> (u16, Value) {
    let resources: Vec<_> = plurals
        .iter()
        .map(|plural| json!({ "name": plural, "singularName": "", "namespaced": true, "kind": "Any", "verbs": ["get"] }))
        .collect();
    let list = json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources });
    (200, list)
}
