//! Public bug reports about nodes that are there or starting, from files to answer.

use crate::common::{answer, chosen, deployment, pod, reasons, world};

/// A claim of pool `p` on a Node of the same name that has joined; `started` is its last condition.
fn joined(
    name: &str,
    of: &str,
    startup_taints: &str,
    started: &str,
    taints: &str,
    allocatable: &str,
) -> String {
    let conditions: String = ["Launched", "Registered", "Initialized"]
        .into_iter()
        .scan(true, |going, condition| {
            let here = *going;
            *going &= condition != started;
            here.then_some(condition)
        })
        .map(|condition| {
            format!("{{type: {condition}, status: 'True', lastTransitionTime: '2026-01-05T11:00:00Z'}},")
        })
        .collect::<Vec<_>>()
        .concat();
    format!(
        "---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {{name: {name}, labels: {{karpenter.sh/nodepool: p}}, annotations: {{karpenter.cluster.x-k8s.io/machine-deployment: default/{of}}}}}
spec: {{startupTaints: [{startup_taints}], requirements: [], nodeClassRef: {{group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}}}}
status: {{nodeName: {name}, providerID: 'x://{name}', conditions: [{conditions}]}}
---
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{kubernetes.io/arch: amd64, kubernetes.io/os: linux, karpenter.sh/nodepool: p}}}}
spec: {{providerID: 'x://{name}', taints: [{taints}]}}
status: {{capacity: {{{allocatable}}}, allocatable: {{{allocatable}}}}}
"
    )
}

const NOT_READY: &str = "{key: node.kubernetes.io/not-ready, effect: NoSchedule}, {key: node.cloudprovider.kubernetes.io/uninitialized, value: 'true', effect: NoSchedule}";
const FOUR: &str = "cpu: '4', memory: 16Gi, pods: '110'";

fn four() -> String {
    world("", &[deployment("m", &[("cpu", "4"), ("memory", "16Gi"), ("price", "0.2")])])
}

#[test]
fn case_22_a_declared_startup_taint_costs_no_second_node() {
    let agent = "{key: net/agent-not-ready, effect: NoExecute}";
    let starting = |taints: &str| {
        four()
            + &joined("nc1", "m", agent, "Registered", &format!("{NOT_READY}, {taints}"), FOUR)
            + &pod("x", "", "cpu: 1")
    };
    let (code, found) = answer(&starting(agent), &[]);
    assert_eq!((code, chosen(&found).len()), (0, 0));
    assert_eq!(found["placements"][0]["pods"][0], "default/x");
    let (code, found) = answer(&starting("{key: sec/scan, effect: NoSchedule}"), &[]);
    assert_eq!((code, chosen(&found)), (0, vec!["m"]), "an undeclared taint is a documented cost");
    assert!(
        found["warnings"][0]["message"].as_str().unwrap().contains("sec/scan:NoSchedule"),
        "{}",
        found["warnings"]
    );
}

#[test]
fn case_23_cluster_apis_own_taint_needs_no_declaration_until_the_node_is_initialized() {
    let taint = "{key: node.cluster.x-k8s.io/uninitialized, effect: NoSchedule}";
    let at = |started: &str| four() + &joined("nc1", "m", "", started, taint, FOUR) + &pod("x", "", "cpu: 1");
    let (_, starting) = answer(&at("Registered"), &[]);
    assert_eq!(chosen(&starting).len(), 0);
    let (_, initialized) = answer(&at("Initialized"), &[]);
    assert_eq!(chosen(&initialized), ["m"], "then it counts like every other");
}

#[test]
fn case_41_gpus_are_expected_until_the_node_is_initialized() {
    let gpu = deployment(
        "g",
        &[("cpu", "16"), ("memory", "64Gi"), ("gpu-type", "nvidia.com/gpu"), ("gpu-count", "2")],
    );
    let without = "cpu: '16', memory: 64Gi, pods: '110'";
    let pods: String = (0..3)
        .map(|index| pod(&format!("x{index}"), "", "cpu: 1, nvidia.com/gpu: 1"))
        .collect::<Vec<_>>()
        .concat();
    let at = |started: &str| {
        world("", std::slice::from_ref(&gpu))
            + &joined("n1", "g", "", started, "", without)
            + &joined("n2", "g", "", started, "", without)
            + &pods
    };
    let (code, starting) = answer(&at("Registered"), &[]);
    assert_eq!((code, chosen(&starting).len()), (0, 0));
    let (_, initialized) = answer(&at("Initialized"), &[]);
    assert_eq!(chosen(&initialized).len(), 2, "a node that is up without GPUs has none");
}

#[test]
fn case_25_an_absent_well_known_label_on_a_real_node_is_absent() {
    let zoned = world("", &[deployment("m", &[("cpu", "4"), ("memory", "16Gi"), ("zone", "z1")])]);
    let node = "---\n{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {capacity: {cpu: '8', memory: 32Gi, pods: '110'}, allocatable: {cpu: '8', memory: 32Gi, pods: '110'}}}\n";
    let zone = |operator: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchExpressions: [{{key: topology.kubernetes.io/zone, {operator}}}]}}]}}}}}},"
        )
    };
    let text = zoned
        + node
        + &pod("a", &zone("operator: In, values: [z1]"), "cpu: 1")
        + &pod("b", &zone("operator: NotIn, values: [z1]"), "cpu: 1")
        + &pod("c", &zone("operator: DoesNotExist"), "cpu: 1");
    let (code, found) = answer(&text, &[]);
    assert_eq!((code, chosen(&found)), (0, vec!["m"]));
    assert_eq!(found["nodeClaims"][0]["pods"], serde_json::json!(["default/a"]));
    assert_eq!(found["placements"][0], serde_json::json!({"node": "n0", "pods": ["default/b", "default/c"]}));
}

#[test]
fn case_29_older_label_keys_are_the_present_ones() {
    let text = world(
        "",
        &[
            deployment("x", &[("cpu", "4"), ("memory", "16Gi"), ("price", "0.2")]),
            deployment(
                "y",
                &[
                    ("cpu", "4"),
                    ("memory", "16Gi"),
                    ("price", "0.01"),
                    ("labels", "kubernetes.io/arch=arm64"),
                ],
            ),
        ],
    ) + &pod(
        "a",
        "nodeSelector: {beta.kubernetes.io/os: linux, beta.kubernetes.io/arch: amd64},",
        "cpu: 1",
    );
    assert_eq!(chosen(&answer(&text, &[]).1), ["x"]);
}

#[test]
fn case_19_a_requirement_widens_and_does_not_repel() {
    let pool = "---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  weight: 10
  template: {spec: {requirements: [{key: accel, operator: Exists}], nodeClassRef: {group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}}}
";
    let text = four()
        + pool
        + &pod("p1", "", "cpu: 1")
        + &pod("p2", "nodeSelector: {accel: a1},", "cpu: 1")
        + &pod("p3", "nodeSelector: {team: blue},", "cpu: 1");
    let (code, found) = answer(&text, &[]);
    assert_eq!(code, 1);
    let of_p2 = found["nodeClaims"]
        .as_array()
        .unwrap()
        .iter()
        .find(|claim| claim["pods"].to_string().contains("p2"))
        .unwrap();
    assert_eq!((&of_p2["nodePool"], &of_p2["labels"]["accel"]), (&"gpu".into(), &"a1".into()));
    assert_eq!(found["pending"].as_array().unwrap().len(), 1);
    assert!(reasons(&found).contains("team In [blue] is wanted"), "{}", reasons(&found));
}

#[test]
fn case_8_daemons_that_tolerate_everything_count_on_tainted_pools() {
    let daemon = |name: &str, tolerations: &str| {
        format!(
            "---\n{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: {name}}}, spec: {{selector: {{}}, template: {{spec: {{tolerations: [{tolerations}], containers: [{{name: c, resources: {{requests: {{cpu: 400m, memory: 512Mi}}}}}}]}}}}}}}}\n"
        )
    };
    let text = world(
        "",
        &[
            deployment("s", &[("cpu", "2"), ("memory", "8Gi"), ("price", "0.1")]),
            deployment("m", &[("cpu", "4"), ("memory", "16Gi"), ("price", "0.2")]),
        ],
    )
    .replace(
        "      requirements: []",
        "      taints: [{key: dedicated, value: x, effect: NoSchedule}]\n      requirements: []",
    ) + &daemon("d1", "{operator: Exists}")
        + &daemon("d2", "{operator: Exists}")
        + &daemon("d3", "")
        + &pod("x", "tolerations: [{key: dedicated, operator: Equal, value: x}],", "cpu: 1500m, memory: 1Gi");
    let (code, found) = answer(&text, &[]);
    assert_eq!((code, chosen(&found)), (0, vec!["m"]));
    assert_eq!(found["nodeClaims"][0]["requests"]["cpu"], "2300m");
}

// Public report kubernetes-sigs/karpenter#2185: nodes for pods that nothing makes anew. As upstream, a pod without owner counts while it
// runs, since somebody may make it anew; it never costs a second node.
#[test]
fn case_118_a_pod_without_owner_on_a_node_that_goes_costs_at_most_one_node() {
    let going = joined("n", "m", "", "Initialized", "", FOUR)
        .replace("metadata: {name: n, labels: {karpenter.sh/nodepool: p}, annotations", "metadata: {name: n, deletionTimestamp: '2026-01-05T11:59:00Z', finalizers: [karpenter.sh/termination], labels: {karpenter.sh/nodepool: p}, annotations");
    assert!(going.contains("deletionTimestamp"));
    let sizes = [("s", "2", "0.1"), ("m", "4", "0.2")]
        .map(|(name, cpu, price)| deployment(name, &[("cpu", cpu), ("memory", "16Gi"), ("price", price)]));
    let running = |name: &str, metadata: &str, cpu: &str| {
        pod(name, "nodeName: n,", &format!("cpu: {cpu}"))
            .replace("namespace: default}", &format!("namespace: default{metadata}}}"))
    };
    let owned =
        ", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: d, uid: u, controller: true}]";
    let both = world("", &sizes) + &going + &running("b", "", "3") + &running("d", owned, "1");
    let (code, found) = answer(&both, &["--passes", "3"]);
    assert_eq!((code, chosen(&found)), (0, vec!["m"]), "four processors for both");
    // Once it is told to go, it is nobody's business any more.
    let evicted = running("b", ", deletionTimestamp: '2026-01-05T12:00:00Z'", "3");
    let (_, found) =
        answer(&(world("", &sizes) + &going + &evicted + &running("d", owned, "1")), &["--passes", "3"]);
    assert_eq!(chosen(&found), ["s"]);
    let (_, found) = answer(&(world("", &sizes) + &going + &evicted), &["--passes", "3"]);
    assert_eq!(chosen(&found), [""; 0], "nodes for pods that don't come back");
}
