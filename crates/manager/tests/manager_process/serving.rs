//! Ports, probes, signals and logs.

use crate::harness::{
    Folder, Running, api_server, assert_says, failure, flag, free_port, http, http_when_up, manager, run,
};
use serde_json::Value;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Output;

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
