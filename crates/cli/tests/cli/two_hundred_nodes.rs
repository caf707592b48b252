//! `examples/two-hundred-nodes`: made here, so that everybody can see how, and kept in the repository, so that nobody has to.
//!
//! `UPDATE_EXAMPLES=1 cargo test -p karpenter-capi --test cli` writes it again.

use crate::common::{example, simulate_json};
use serde_json::Value;
use std::fmt::Write;
use std::fs;

const NODES: usize = 200;

/// A MachineDeployment: processors, GiB of memory, thousandths of a dollar an hour.
struct Kind {
    name: &'static str,
    pool: &'static str,
    cpu: i64,
    memory: i64,
    price: i64,
    zone: &'static str,
    spot: bool,
}

const fn kind(
    name: &'static str,
    pool: &'static str,
    cpu: i64,
    memory: i64,
    price: i64,
    zone: &'static str,
) -> Kind {
    Kind { name, pool, cpu, memory, price, zone, spot: false }
}

const KINDS: [Kind; 12] = [
    kind("general-4-a", "general", 4, 16, 192, "z-a"),
    kind("general-4-b", "general", 4, 16, 192, "z-b"),
    kind("general-4-c", "general", 4, 16, 196, "z-c"),
    kind("general-8-a", "general", 8, 32, 384, "z-a"),
    kind("general-8-b", "general", 8, 32, 384, "z-b"),
    kind("general-8-c", "general", 8, 32, 392, "z-c"),
    kind("general-16-a", "general", 16, 64, 768, "z-a"),
    kind("memory-8-a", "memory", 8, 64, 504, "z-a"),
    kind("memory-8-b", "memory", 8, 64, 504, "z-b"),
    Kind { spot: true, ..kind("spot-8-a", "spot", 8, 32, 131, "z-a") },
    Kind { spot: true, ..kind("spot-8-b", "spot", 8, 32, 127, "z-b") },
    Kind { spot: true, ..kind("spot-16-c", "spot", 16, 64, 248, "z-c") },
];

/// Kept for the kubelet on every machine: thousandths of a processor, MiB of memory.
const RESERVED: (i64, i64) = (150, 1024);
/// DaemonSets: name, thousandths of a processor, MiB of memory.
const DAEMONS: [(&str, i64, i64); 3] =
    [("node-exporter", 50, 64), ("log-agent", 100, 192), ("network", 100, 128)];
/// What runs, and what is pending: name, thousandths of a processor, MiB of memory.
const APPS: [(&str, i64, i64); 6] = [
    ("web", 500, 1024),
    ("api", 1000, 2048),
    ("search", 2000, 6144),
    ("queue", 1500, 2048),
    ("ledger", 3000, 4096),
    ("worker", 2500, 3072),
];

/// A small generator of numbers that are the same for ever (Lehmer, 2^31 − 1).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0 * 48_271 % 2_147_483_647;
        usize::try_from(self.0).unwrap() % end
    }
}

fn generate() -> String {
    let mut text = String::from(
        "# Written by crates/cli/tests/cli/two_hundred_nodes.rs. One document a line, so that it stays small.\n\
         {apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: big, namespace: default}, spec: {}}\n\
         ---\n{apiVersion: karpenter.cluster.x-k8s.io/v1alpha1, kind: ClusterAPINodeClass, metadata: {name: workers}, spec: {}}\n",
    );
    pools(&mut text);
    let nodes: Vec<&Kind> = (0..NODES).map(|index| &KINDS[index % KINDS.len()]).collect();
    for kind in &KINDS {
        let own = nodes.iter().enumerate().filter(|(_, of)| of.name == kind.name).map(|(index, _)| index);
        machine_deployment(&mut text, kind, &own.collect::<Vec<_>>());
    }
    for (name, cpu, memory) in DAEMONS {
        write!(text, "---\n{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: {name}, namespace: kube-system}}, spec: {{selector: {{matchLabels: {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{tolerations: [{{operator: Exists}}], containers: [{{name: {name}, resources: {{requests: {{cpu: {cpu}m, memory: {memory}Mi}}}}}}]}}}}}}}}\n").unwrap();
    }
    let mut numbers = Numbers(20_260_105);
    for (index, kind) in nodes.iter().enumerate() {
        node(&mut text, index, kind, &mut numbers);
    }
    pending(&mut text);
    text
}

fn pools(text: &mut String) {
    for (name, rest, requirement, taint) in [
        ("general", "weight: 10, limits: {cpu: '1200'}, ", "general", ""),
        (
            "memory",
            "limits: {memory: 4Ti}, ",
            "memory",
            "{key: big.example/memory, value: 'true', effect: NoSchedule}",
        ),
        (
            "spot",
            "weight: 50, limits: {cpu: '800'}, ",
            "spot",
            "{key: big.example/spot, value: 'true', effect: NoSchedule}",
        ),
    ] {
        write!(text, "---\n{{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {{name: {name}}}, spec: {{{rest}template: {{spec: {{taints: [{taint}], requirements: [{{key: big.example/family, operator: In, values: [{requirement}]}}], nodeClassRef: {{group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: workers}}}}}}}}}}\n").unwrap();
    }
}

/// The first 13 characters are the claim's entry in the ledger.
fn uid(index: usize) -> String {
    format!("{index:08x}-0000-4000-8000-{index:012x}")
}

fn machine_deployment(text: &mut String, kind: &Kind, nodes: &[usize]) {
    const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io";
    const OWN: &str = "karpenter.cluster.x-k8s.io";
    let Kind { name, pool, cpu, memory, price, zone, spot } = kind;
    let capacity_type = if *spot { "spot" } else { "on-demand" };
    let ledger: Vec<String> = nodes.iter().map(|index| uid(*index)[..13].to_owned()).collect();
    let (reserved_cpu, reserved_memory) = RESERVED;
    write!(text, "---\n{{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {{name: {name}, namespace: default, labels: {{node.cluster.x-k8s.io/karpenter-member: ''}}, annotations: {{{CAPACITY}/cpu: '{cpu}', {CAPACITY}/memory: {memory}Gi, {CAPACITY}/labels: big.example/family={pool}, {OWN}/price: '{}.{:03}', {OWN}/zone: {zone}, {OWN}/capacity-type: {capacity_type}, {OWN}/kube-reserved: 'cpu={reserved_cpu}m,memory={reserved_memory}Mi', {OWN}/claims: '{}'}}}}, spec: {{clusterName: big, replicas: {}}}}}\n", price / 1000, price % 1000, ledger.join(","), nodes.len()).unwrap();
}

/// Claim, Node, DaemonSet pods and ordinary pods of one node. About nine tenths of its processors are in use.
fn node(text: &mut String, index: usize, kind: &Kind, numbers: &mut Numbers) {
    let Kind { name: deployment, pool, cpu, memory, zone, spot, .. } = kind;
    let capacity_type = if *spot { "spot" } else { "on-demand" };
    let (name, uid) = (format!("{deployment}-{index:03}"), uid(index));
    let labels = format!(
        "karpenter.sh/nodepool: {pool}, karpenter.sh/capacity-type: {capacity_type}, node.kubernetes.io/instance-type: {deployment}, topology.kubernetes.io/zone: {zone}, big.example/family: {pool}"
    );
    let taints = match *pool {
        "general" => "[]".to_owned(),
        other => format!("[{{key: big.example/{other}, value: 'true', effect: NoSchedule}}]"),
    };
    let conditions = ["Launched", "Registered", "Initialized", "Ready"]
        .map(|condition| {
            format!("{{type: {condition}, status: 'True', lastTransitionTime: '2026-01-05T08:00:00Z'}}")
        })
        .join(", ");
    write!(text, "---\n{{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {{name: {pool}-{index:03}, uid: {uid}, labels: {{{labels}}}, annotations: {{karpenter.cluster.x-k8s.io/machine-deployment: default/{deployment}, cluster.x-k8s.io/machine: default/{name}}}}}, spec: {{taints: {taints}, requirements: [], nodeClassRef: {{group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: workers}}}}, status: {{nodeName: {name}, providerID: 'example://{name}', conditions: [{conditions}]}}}}\n").unwrap();
    let (usable_cpu, usable_memory) = (cpu * 1000 - RESERVED.0, memory * 1024 - RESERVED.1);
    write!(text, "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}, kubernetes.io/arch: amd64, kubernetes.io/os: linux, {labels}}}}}, spec: {{providerID: 'example://{name}', taints: {taints}}}, status: {{capacity: {{cpu: '{cpu}', memory: {memory}Gi, pods: '110'}}, allocatable: {{cpu: {usable_cpu}m, memory: {usable_memory}Mi, pods: '110'}}, conditions: [{{type: Ready, status: 'True'}}]}}}}\n").unwrap();
    for (daemon, cpu, memory) in DAEMONS {
        write!(text, "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {daemon}-{index:03}, namespace: kube-system, labels: {{app: {daemon}}}, ownerReferences: [{{apiVersion: apps/v1, kind: DaemonSet, name: {daemon}, uid: {daemon}, controller: true}}]}}, spec: {{nodeName: {name}, containers: [{{name: c, resources: {{requests: {{cpu: {cpu}m, memory: {memory}Mi}}}}}}]}}, status: {{phase: Running}}}}\n").unwrap();
    }
    let mut free = usable_cpu * 9 / 10 - DAEMONS.iter().map(|(_, cpu, _)| cpu).sum::<i64>();
    let mut count = 0;
    while count < 9 && free > 0 {
        let (app, cpu, memory) = APPS[numbers.below(APPS.len())];
        if cpu > free {
            free -= 500;
            continue;
        }
        free -= cpu;
        pod(
            text,
            &format!("{app}-{index:03}-{count}"),
            app,
            cpu,
            memory,
            &format!("nodeName: {name}, "),
            "Running",
        );
        count += 1;
    }
}

fn pod(text: &mut String, name: &str, app: &str, cpu: i64, memory: i64, spec: &str, phase: &str) {
    write!(text, "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: apps, labels: {{app: {app}}}, ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: {app}, uid: {app}, controller: true}}]}}, spec: {{{spec}containers: [{{name: c, resources: {{requests: {{cpu: {cpu}m, memory: {memory}Mi}}}}}}]}}, status: {{phase: {phase}}}}}\n").unwrap();
}

fn pending(text: &mut String) {
    let spot = "nodeSelector: {karpenter.sh/capacity-type: spot}, tolerations: [{key: big.example/spot, operator: Exists}], ";
    let memory = "nodeSelector: {big.example/family: memory}, tolerations: [{key: big.example/memory, operator: Exists}], ";
    for (app, count, cpu, mebibytes, spec) in [
        ("web", 300, 250, 512, ""),
        ("ledger", 160, 1500, 2048, ""),
        ("worker", 90, 2000, 2048, spot),
        ("cache", 60, 1000, 24_576, memory),
        ("nowhere", 1, 100, 128, "nodeSelector: {topology.kubernetes.io/zone: z-d}, "),
    ] {
        for index in 0..count {
            pod(text, &format!("{app}-new-{index:03}"), app, cpu, mebibytes, spec, "Pending");
        }
    }
}

#[test]
fn the_example_is_what_is_generated_here() {
    let path = example("two-hundred-nodes").join("cluster.yaml");
    let generated = generate();
    if std::env::var_os("UPDATE_EXAMPLES").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert!(kept == generated, "{} is stale: UPDATE_EXAMPLES=1 writes it again", path.display());
    assert!(kept.len() < 2_000_000, "{} bytes", kept.len());
}

#[test]
fn everything_but_one_pod_finds_a_place_in_two_hundred_nodes_and_more() {
    let (code, answer) = simulate_json(&[example("two-hundred-nodes").to_str().unwrap()], &["--audit"]);
    assert_eq!(code, 1);
    let pending: Vec<_> =
        answer["pending"].as_array().unwrap().iter().map(|pod| pod["pod"].as_str().unwrap()).collect();
    assert_eq!(pending, ["apps/nowhere-new-000"]);
    let placed = |list: &str| -> usize {
        answer[list].as_array().unwrap().iter().map(|item| item["pods"].as_array().unwrap().len()).sum()
    };
    assert_eq!(placed("nodeClaims") + placed("placements"), 610);
    assert!(placed("placements") > 200, "what fits into the free third of 200 nodes costs nothing");
    for claim in answer["nodeClaims"].as_array().unwrap() {
        assert!(claim["price"].is_number(), "{claim}");
        let pods = claim["pods"].as_array().unwrap();
        let of =
            |app: &str| pods.iter().any(|pod| pod.as_str().unwrap().starts_with(&format!("apps/{app}-")));
        assert_eq!(of("worker"), claim["nodePool"] == "spot", "{claim}");
        assert_eq!(of("cache"), claim["nodePool"] == "memory", "{claim}");
    }
    replicas_follow_the_claims(&answer);
    let (before, after) =
        (answer["cost"]["before"].as_f64().unwrap(), answer["cost"]["after"].as_f64().unwrap());
    let added: f64 =
        answer["nodeClaims"].as_array().unwrap().iter().map(|claim| claim["price"].as_f64().unwrap()).sum();
    assert!((after - before - added).abs() < 1e-6);
    assert_eq!(answer["cost"]["unpriced"], 0);
}

fn replicas_follow_the_claims(answer: &Value) {
    for deployment in answer["machineDeployments"].as_array().unwrap() {
        let claims = answer["nodeClaims"].as_array().unwrap();
        let own = claims.iter().filter(|claim| claim["machineDeployment"] == deployment["name"]).count();
        let wanted = deployment["replicas"].as_u64().unwrap() + u64::try_from(own).unwrap();
        assert_eq!(deployment["desiredReplicas"].as_u64(), Some(wanted), "{deployment}");
    }
}
