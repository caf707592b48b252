//! Public bug reports about topology, host ports and volumes, from files to answer.

use crate::common::{answer, deployment, pod, reasons, world};
use serde_json::Value;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

/// What the answer to a cluster must be.
struct Case {
    name: &'static str,
    cluster: String,
    /// `NodePool/MachineDeployment pods` of each new claim, sorted.
    claims: Vec<String>,
    /// How many pods stay without a place, and the beginning of each of their reasons.
    pending: (usize, &'static str),
}

impl Case {
    fn new(name: &'static str, cluster: String, claims: &[&str]) -> Self {
        let claims = claims.iter().copied().map(str::to_owned).collect();
        Self { name, cluster, claims, pending: (0, "") }
    }

    fn without_place(mut self, pods: usize, reason: &'static str) -> Self {
        self.pending = (pods, reason);
        self
    }

    fn check(&self) {
        let name = self.name;
        let (code, found) = answer(&self.cluster, &[]);
        let mut claims: Vec<String> = found["nodeClaims"].as_array().unwrap().iter().map(told).collect();
        claims.sort_unstable();
        let (count, reason) = self.pending;
        let without_place = found["pending"].as_array().unwrap().len();
        assert_eq!((claims, without_place), (self.claims.clone(), count), "case {name}: {found:#}");
        assert!(reasons(&found).lines().all(|line| line.starts_with(reason)), "{name}: {}", reasons(&found));
        assert_eq!((code, &found["audit"]), (i32::from(count > 0), &Value::Array(Vec::new())), "case {name}");
        let (_, again) = answer(&self.cluster, &["--passes", "2"]);
        assert_eq!(again["nodeClaims"], found["nodeClaims"], "case {name}: a second pass makes nothing more");
    }
}

/// A claim in short. Its keys of Karpenter's own are those that NodeClaims may have.
fn told(claim: &Value) -> String {
    let own = claim["labels"].as_object().unwrap().keys().filter(|key| key.starts_with("karpenter.sh/"));
    for key in own {
        assert!(["karpenter.sh/nodepool", "karpenter.sh/capacity-type"].contains(&key.as_str()), "{key}");
    }
    let text = |field: &str| claim[field].as_str().unwrap().trim_start_matches("default/").to_owned();
    let pods = claim["pods"].as_array().unwrap().len();
    format!("{}/{} {pods}", text("nodePool"), text("machineDeployment"))
}

/// Class `c`, pool `p` and these MachineDeployments, to which a case adds documents.
fn base(deployments: &[String]) -> String {
    world("", deployments)
}

fn machine(name: &str, cpu: &str, more: &[(&str, &str)]) -> String {
    deployment(name, &[&[("cpu", cpu), ("memory", "16Gi"), ("price", "0.2")], more].concat())
}

/// `m1`, `m2`, `m3` in `z1`, `z2`, `z3`.
fn in_zones(cpu: &str) -> Vec<String> {
    (1..=3).map(|n| machine(&format!("m{n}"), cpu, &[("zone", &format!("z{n}"))])).collect()
}

/// A NodePool that differs from `p`; each field is the inside of braces or brackets.
#[derive(Default)]
struct Pool {
    name: &'static str,
    labels: &'static str,
    taints: &'static str,
    requirements: &'static str,
}

/// Class `c`, and these pools in the place of `p`.
fn pools(of: &[Pool], deployments: &[String]) -> String {
    let whole = base(deployments);
    let (class, rest) = whole.split_once("---\n").unwrap();
    let (pool, machines) = rest.split_once("---\n").unwrap();
    let pools = of.iter().map(|Pool { name, labels, taints, requirements }| {
        pool.replace("{name: p}", &format!("{{name: {name}}}"))
            .replace("  template:\n", &format!("  template:\n    metadata: {{labels: {{{labels}}}}}\n"))
            .replace("requirements: []", &format!("taints: [{taints}]\n      requirements: [{requirements}]"))
    });
    format!("{class}---\n{}---\n{machines}", pools.collect::<Vec<_>>().join("---\n"))
}

/// Pending pods `app-0`, `app-1`, … with the label `app`; `spec` as for [`pod`].
fn pods(count: usize, app: &str, requests: &str, spec: &str) -> String {
    let one = |index| pod(&format!("{app}-{index}"), spec, requests);
    (0..count)
        .map(one)
        .collect::<String>()
        .replace("namespace: default}", &format!("namespace: default, labels: {{app: {app}}}}}"))
}

/// A Node with these labels, full with a pod of the app.
fn full(name: &str, app: &str, labels: &str) -> String {
    let room = "{cpu: '1', memory: 1Gi, pods: '110'}";
    format!(
        "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{{labels}}}}}, status: {{capacity: {room}, allocatable: {room}}}}}\n"
    ) + &pods(1, app, "cpu: 1", &format!("nodeName: {name},"))
        .replace(&format!("{app}-0"), &format!("on-{name}"))
}

/// A constraint that must hold, of pods with the label `app`.
fn spread(key: &str, skew: u8, app: &str, more: &str) -> String {
    spread_of(key, skew, &format!("labelSelector: {{matchLabels: {{app: {app}}}}}, {more}"))
}

fn spread_of(key: &str, skew: u8, fields: &str) -> String {
    format!(
        "topologySpreadConstraints: [{{topologyKey: {key}, maxSkew: {skew}, whenUnsatisfiable: DoNotSchedule, {fields}}}],"
    )
}

fn host_port(manifest: &str, port: u16) -> String {
    let ports = format!("containers: [{{ports: [{{containerPort: 80, hostPort: {port}}}], ");
    manifest.replace("containers: [{", &ports)
}

fn mounts(claim: &str) -> String {
    format!("volumes: [{{name: v, persistentVolumeClaim: {{claimName: {claim}}}}}],")
}

#[test]
fn case_1_zones_that_an_empty_tainted_pool_could_provide_are_domains() {
    let taints = "{key: ci, value: 'true', effect: NoSchedule}";
    let ci = pools(&[Pool { name: "ci", taints, ..Pool::default() }], &in_zones("4"));
    let run = |count, min_domains| {
        let spec = "nodeSelector: {karpenter.sh/nodepool: ci}, tolerations: [{key: ci, value: 'true'}],";
        let spread = spread(ZONE, 1, "run", &format!("minDomains: {min_domains}"));
        ci.clone() + &pods(count, "run", "cpu: 3, memory: 4Gi", &(spread + spec))
    };
    let each = ["ci/m1 1", "ci/m2 1", "ci/m3 1"];
    Case::new("1", run(3, 3), &each).check();
    Case::new("1, one domain too few", run(4, 4), &each).without_place(1, "Topology: ").check();
}

#[test]
fn case_3_and_4_an_absent_label_is_no_domain_and_an_empty_one_is() {
    let mut machines = in_zones("4");
    machines.push(deployment("m9", &[("cpu", "4"), ("memory", "16Gi"), ("price", "0.01")]));
    let nodes = (1..=3).map(|n| full(&format!("n{n}"), "web", &format!("{ZONE}: z{n}")));
    let web = base(&machines)
        + &nodes.collect::<String>()
        + &pods(5, "web", "cpu: 3, memory: 1Gi", &spread(ZONE, 1, "web", ""));
    Case::new("3", web, &["p/m1 1", "p/m1 1", "p/m2 1", "p/m2 1", "p/m3 1"]).check();
    let role = "node-role.kubernetes.io/worker";
    let labelled = [machine("m1", "4", &[("labels", &format!("{role}="))])];
    let spread = pods(2, "a", "cpu: 1", &spread(role, 1, "a", ""));
    Case::new("4", base(&labelled) + &spread, &["p/m1 2"]).check();
    let bare = base(&[machine("m1", "4", &[])]) + &spread;
    Case::new("4, without the label", bare, &[]).without_place(2, "Topology: ").check();
}

#[test]
fn case_5_values_of_another_pool_are_no_domains() {
    let a = Pool {
        name: "a",
        labels: "workload: app",
        taints: "{key: workload, value: app, effect: NoSchedule}",
        requirements: "{key: capacity-spread, operator: In, values: ['1']}",
    };
    let requirements = "{key: capacity-spread, operator: In, values: ['2', '3']}";
    let b = Pool { name: "b", requirements, ..Pool::default() };
    let spec = "nodeSelector: {workload: app}, tolerations: [{key: workload, value: app}],".to_owned();
    let cluster = pools(&[a, b], &[machine("m1", "4", &[])])
        + &full("n", "x", "workload: app, capacity-spread: '1', karpenter.sh/nodepool: a")
        + &pods(2, "x", "cpu: 3", &(spec + &spread("capacity-spread", 1, "x", "")));
    Case::new("5", cluster, &["a/m1 1", "a/m1 1"]).check();
}

#[test]
fn case_7_the_order_of_terms_changes_nothing() {
    let term = |key: &str, value: &str| {
        format!("{{matchExpressions: [{{key: {key}, operator: In, values: [{value}]}}]}}")
    };
    let (one, other) = (term("role2", "worker"), term("role", "stable"));
    for terms in [format!("{one}, {other}"), format!("{other}, {one}")] {
        let spec = format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{terms}]}}}}}},"
        );
        let cluster = pools(
            &[Pool { name: "p", labels: "role: stable", ..Pool::default() }],
            &[machine("m1", "8", &[])],
        ) + &pods(4, "n", "cpu: 500m, memory: 512Mi", &(spec + &spread(HOST, 4, "n", "")));
        Case::new("7", cluster, &["p/m1 4"]).check();
    }
}

#[test]
fn case_12_host_ports_are_taken_on_one_node_only() {
    let daemons = "---\n{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {selector: {}, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}}}}\n";
    let with = |port: u16| {
        base(&[machine("m", "4", &[])])
            + &host_port(daemons, 9100)
            + &host_port(&pods(3, "p", "cpu: 1", ""), port)
    };
    Case::new("12", with(9000), &["p/m 1", "p/m 1", "p/m 1"]).check();
    let taken = "HostPorts: host port 9100/TCP is taken by a DaemonSet";
    Case::new("12, a DaemonSet's port", with(9100), &[]).without_place(3, taken).check();
}

#[test]
fn case_13_a_limit_of_nodes_holds_within_one_pass() {
    let apart = format!(
        "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: {HOST}, labelSelector: {{matchLabels: {{app: w}}}}}}]}}}},"
    );
    let cluster = world("  limits: {nodes: 3}\n", &[machine("m", "4", &[])])
        + &full("n1", "w", "karpenter.sh/nodepool: p")
        + &full("n2", "w", "karpenter.sh/nodepool: p")
        + &pods(3, "w", "cpu: 1", &apart);
    Case::new("13", cluster, &["p/m 1"]).without_place(2, "Limits: limit nodes=3 reached").check();
}

#[test]
fn case_27_pods_spread_over_zones_share_nodes_and_pods_spread_over_hosts_do_not() {
    let with = |key: &str| base(&in_zones("8")) + &pods(12, "s", "cpu: 1", &spread(key, 1, "s", ""));
    Case::new("27", with(ZONE), &["p/m1 4", "p/m2 4", "p/m3 4"]).check();
    Case::new("27, by host", with(HOST), &["p/m1 1"; 12]).check();
}

#[test]
fn case_28_a_pod_whose_claim_is_missing_stays_alone_and_a_bound_claim_needs_no_class() {
    let volume = format!("---
{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: st, namespace: default}}, spec: {{volumeName: pv1, storageClassName: manual}}, status: {{phase: Bound}}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: pv1}}
spec:
  storageClassName: manual
  claimRef: {{name: st, namespace: default}}
  nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: {ZONE}, operator: In, values: [z3]}}]}}]}}}}
");
    let cluster = base(&in_zones("4"))
        + &volume
        + &pods(1, "a", "cpu: 1", &mounts("gone"))
        + &pods(2, "b", "cpu: 1", "")
        + &pods(1, "d", "cpu: 1", &mounts("st"));
    let missing = "VolumeMissing: PersistentVolumeClaim default/gone not found";
    Case::new("28", cluster, &["p/m3 3"]).without_place(1, missing).check();
}

#[test]
fn case_119_no_restricted_key_gets_into_a_claim() {
    let near = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: karpenter.sh/nodepool, labelSelector: {matchLabels: {app: old}}}]}},";
    let cluster = base(&[machine("m", "8", &[])])
        + &full("n", "old", "karpenter.sh/nodepool: p")
        + &pods(1, "a", "cpu: 1", "nodeSelector: {karpenter.sh/registered: 'true'},")
        + &pods(1, "b", "cpu: 1", near)
        + &pods(1, "c", "cpu: 1", "");
    let set_by_us = "Requirements: karpenter.sh/registered";
    Case::new("119", cluster, &["p/m 2"]).without_place(1, set_by_us).check();
}

#[test]
fn case_124_a_missing_selector_matches_nothing_and_an_empty_one_everything() {
    let alone = ["p/m 1"; 3];
    for (selector, claims) in [
        ("", &["p/m 3"][..]),
        ("labelSelector: {}", &alone),
        ("labelSelector: {matchLabels: {app: '{{ bad }}'}}", &["p/m 3"]),
    ] {
        let cluster =
            base(&[machine("m", "8", &[])]) + &pods(3, "z", "cpu: 500m", &spread_of(HOST, 1, selector));
        Case::new("124", cluster, claims).check();
    }
}
