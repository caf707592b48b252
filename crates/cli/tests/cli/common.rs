//! Running the binary as a user does.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The time of every test.
pub(crate) const NOW: &str = "2026-01-05T12:00:00Z";

/// What a process has left behind.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `karpenter-capi` with these arguments and standard input.
pub(crate) fn run(args: &[&str], stdin: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_karpenter-capi"))
        .args(args)
        .env_remove("NO_COLOR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A process that refuses its arguments doesn't read its input.
    _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs `simulate` on a manifest given on standard input.
pub(crate) fn simulate(manifest: &str, more: &[&str]) -> Ran {
    run(&[&["simulate", "-f", "-", "--now", NOW], more].concat(), manifest)
}

/// Runs `simulate -o json` on paths; exit code and answer.
pub(crate) fn simulate_json(paths: &[&str], more: &[&str]) -> (i32, Value) {
    let mut args = vec!["simulate", "--now", NOW, "-o", "json"];
    for path in paths {
        args.extend(["-f", path]);
    }
    args.extend(more);
    let ran = run(&args, "");
    assert_eq!(ran.stderr, "");
    (ran.code, serde_json::from_str(&ran.stdout).unwrap())
}

/// A folder of `examples/`.
pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// Node class `c`, a NodePool `p` with these lines in its spec (indented by two), and these MachineDeployments.
pub(crate) fn world(pool: &str, deployments: &[String]) -> String {
    let head = format!(
        "{{apiVersion: karpenter.cluster.x-k8s.io/v1alpha1, kind: ClusterAPINodeClass, metadata: {{name: c}}, spec: {{}}}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: p}}
spec:
{pool}  template:
    spec:
      requirements: []
      nodeClassRef: {{group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}}
"
    );
    [head].iter().chain(deployments).cloned().collect::<Vec<_>>().join("---\n")
}

/// A MachineDeployment without replicas. `annotations` are pairs of key and value; short keys are completed.
pub(crate) fn deployment(name: &str, annotations: &[(&str, &str)]) -> String {
    let annotations: Vec<String> = annotations
        .iter()
        .map(|(key, value)| {
            let prefix = match *key {
                "cpu" | "memory" | "maxPods" | "labels" | "taints" | "gpu-type" | "gpu-count"
                | "ephemeral-disk" => "capacity.cluster-autoscaler.kubernetes.io/",
                _ if key.contains('/') => "",
                _ => "karpenter.cluster.x-k8s.io/",
            };
            format!("    {prefix}{key}: '{value}'")
        })
        .collect();
    let annotations = annotations.join("\n");
    format!(
        "apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: {name}
  namespace: default
  labels: {{node.cluster.x-k8s.io/karpenter-member: ''}}
  annotations:
{annotations}
spec: {{clusterName: k, replicas: 0}}
"
    )
}

/// A pending pod; `spec` are further fields, each with a comma behind it.
pub(crate) fn pod(name: &str, spec: &str, requests: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default}}, spec: {{{spec} containers: [{{name: c, resources: {{requests: {{{requests}}}}}}}]}}}}\n"
    )
}

/// Runs `simulate -o json --audit` on a manifest given on standard input.
pub(crate) fn answer(manifest: &str, more: &[&str]) -> (i32, Value) {
    let ran = simulate(manifest, &[&["-o", "json", "--audit"], more].concat());
    assert_eq!(ran.stderr, "", "{}", ran.stdout);
    (ran.code, serde_json::from_str(&ran.stdout).unwrap())
}

/// MachineDeployments of the claims, by name.
pub(crate) fn chosen(answer: &Value) -> Vec<&str> {
    let claims = answer["nodeClaims"].as_array().unwrap().iter();
    let mut names: Vec<&str> = claims
        .map(|claim| claim["machineDeployment"].as_str().unwrap().strip_prefix("default/").unwrap())
        .collect();
    names.sort_unstable();
    names
}

/// Codes and messages of the pods without a place, a line each.
pub(crate) fn reasons(answer: &Value) -> String {
    let pods = answer["pending"].as_array().unwrap().iter();
    let all = pods.flat_map(|pod| pod["reasons"].as_array().unwrap());
    let lines = all.map(|reason| {
        format!("{}: {}", reason["code"].as_str().unwrap(), reason["message"].as_str().unwrap())
    });
    lines.collect::<Vec<_>>().join("\n")
}
