use super::*;
use crate::files::{Source, load};
use crate::index::Index;
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_scheduling::input::{
    MinValuesPolicy, PreferencePolicy, ReservedOfferingMode, VolumeClaim,
};
use std::fmt::Write;

fn options(origin: Origin) -> InputOptions {
    InputOptions {
        now: "2026-01-05T12:00:00Z".parse().unwrap(),
        origin,
        scope: Scope::default(),
        scheduling: Options {
            preference_policy: PreferencePolicy::Respect,
            min_values_policy: MinValuesPolicy::Strict,
            reserved_offering_mode: ReservedOfferingMode::Strict,
            max_instance_types: 600,
        },
        facts: BTreeMap::new(),
        nominations: BTreeMap::new(),
        marked: BTreeSet::new(),
    }
}

fn made_with(text: &str, options: &InputOptions) -> ProvisioningInput {
    let loaded = load([Source { name: "test.yaml", text }]).unwrap_or_else(|error| panic!("{error}"));
    let index: Index = loaded.objects.into_iter().collect();
    provisioning_input(&index.snapshot(), options)
}

fn made(text: &str) -> ProvisioningInput {
    made_with(text, &options(Origin::Files))
}

/// Node class `c`, NodePool `p` and MachineDeployments of 4 processors and 16Gi.
fn world(deployments: &[&str]) -> String {
    let mut text = "
{apiVersion: karpenter.cluster.x-k8s.io/v1alpha1, kind: ClusterAPINodeClass, metadata: {name: c}, spec: {}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  limits: {cpu: '10'}
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}
"
    .to_owned();
    for name in deployments {
        write!(
            text,
            "---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: {name}
  labels: {{node.cluster.x-k8s.io/karpenter-member: ''}}
  annotations:
    capacity.cluster-autoscaler.kubernetes.io/cpu: '4'
    capacity.cluster-autoscaler.kubernetes.io/memory: 16Gi
    capacity.cluster-autoscaler.kubernetes.io/labels: topology.kubernetes.io/zone=z1
    karpenter.cluster.x-k8s.io/price: '0.2'
spec: {{clusterName: k, replicas: 0}}
"
        )
        .unwrap();
    }
    text
}

fn claim(name: &str, metadata: &str, rest: &str) -> String {
    format!(
        "---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: {name}
  labels: {{karpenter.sh/nodepool: p}}
{metadata}
spec:
  requirements: []
  nodeClassRef: {{group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}}
  resources: {{requests: {{cpu: '1'}}}}
{rest}
"
    )
}

fn assigned(deployment: &str) -> String {
    format!("  annotations: {{karpenter.cluster.x-k8s.io/machine-deployment: default/{deployment}}}")
}

fn pod(name: &str, rest: &str) -> String {
    format!("---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, {rest}}}\n")
}

fn wanting(made: &ProvisioningInput) -> Vec<String> {
    made.input.pods.iter().map(|pod| pod.name.name.clone()).collect()
}

fn told(made: &ProvisioningInput) -> String {
    let lines = made.warnings.iter().map(|warning| format!("{}: {}", warning.object, warning.message));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_pool_gets_the_machine_deployments_that_its_node_class_takes() {
    let text = world(&["m1", "m2"]).replacen("node.cluster.x-k8s.io/karpenter-member: ''", "other: x", 1);
    let made = made(&text);
    let names: Vec<_> = made.input.instance_types["p"].iter().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["default/m2"]);
    assert_eq!(made.catalog.len(), 1);
    assert_eq!(made.input.node_pools.len(), 1);
    assert_eq!(made.input.node_pools[0].not_ready, None);
    assert!(made.input.well_known_labels.contains("topology.kubernetes.io/zone"));
}

#[test]
fn other_clusters_are_out_of_scope() {
    let text = world(&["m1", "m2"]).replacen("clusterName: k", "clusterName: other", 1);
    let mut scoped = options(Origin::Files);
    scoped.scope.cluster_name = Some("k".to_owned());
    let made = made_with(&text, &scoped);
    assert_eq!(made.catalog.keys().map(ToString::to_string).collect::<Vec<_>>(), ["default/m2"]);
}

#[test]
fn a_pool_of_another_karpenter_is_left_alone() {
    let text = world(&["m1"]).replace(
        "{group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass",
        "{group: karpenter.k8s.aws, kind: EC2NodeClass",
    );
    let made = made(&text);
    assert!(made.input.node_pools.is_empty());
    assert!(
        told(&made).contains("NodePool/p: its nodeClassRef is a EC2NodeClass of group karpenter.k8s.aws"),
        "{}",
        told(&made)
    );
}

#[test]
fn a_missing_node_class_makes_the_pool_unready() {
    let text = world(&["m1"]).replace("ClusterAPINodeClass, name: c}", "ClusterAPINodeClass, name: gone}");
    let made = made(&text);
    let reason = made.input.node_pools[0].not_ready.clone().unwrap();
    assert!(reason.starts_with("ClusterAPINodeClass gone isn't there"), "{reason}");
}

#[test]
fn a_budget_that_cannot_be_read_makes_the_pool_unready() {
    let text = world(&["m1"]).replace(
        "  limits: {cpu: '10'}",
        "  disruption: {budgets: [{nodes: '0', schedule: '0 0 * * sat-sun', duration: 24h}]}",
    );
    let reason = made(&text).input.node_pools[0].not_ready.clone().unwrap();
    assert!(reason.contains("0 0 * * sat-sun"), "{reason}");
}

#[test]
fn a_node_class_that_takes_nothing_is_told_with_a_hint() {
    let text = world(&["m1"]).replace("node.cluster.x-k8s.io/karpenter-member: ''", "other: x");
    let made = made(&text);
    assert!(told(&made).contains("NodePool/p: its node class c takes no MachineDeployment; 1 of 1 MachineDeployments lack the label node.cluster.x-k8s.io/karpenter-member"), "{}", told(&made));
}

#[test]
fn a_pool_whose_requirements_nothing_meets_is_told() {
    let text = world(&["m1"]).replace(
        "requirements: []",
        "requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [z9]}]",
    );
    let made = made(&text);
    assert!(
        told(&made).contains(
            "NodePool/p: no MachineDeployment meets its requirements; for m1: topology.kubernetes.io/zone"
        ),
        "{}",
        told(&made)
    );
}

#[test]
fn in_a_cluster_a_pool_is_ready_when_its_conditions_say_so() {
    let made = made_with(&world(&["m1"]), &options(Origin::Cluster));
    assert!(made.input.node_pools[0].not_ready.as_ref().unwrap().contains("hasn't been checked yet"));
}

#[test]
fn pending_pods_need_a_mark_in_a_cluster_and_none_in_a_file() {
    let text = world(&["m1"])
        + &pod("plain", "spec: {containers: []}")
        + &pod(
            "marked",
            "spec: {containers: []}, status: {conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable}]}",
        )
        + &pod("bound", "spec: {nodeName: n, containers: []}")
        + &pod("done", "spec: {nodeName: n, containers: []}, status: {phase: Succeeded}")
        + &pod("gated", "spec: {schedulingGates: [{name: g}], containers: []}");
    let of_files = made(&text);
    assert_eq!(wanting(&of_files), ["marked", "plain"]);
    assert!(told(&of_files).contains("Pod/default/gated: it has scheduling gates"), "{}", told(&of_files));
    assert_eq!(wanting(&made_with(&text, &options(Origin::Cluster))), ["marked"]);
    let bound: Vec<_> = of_files.input.bound_pods["n"].iter().map(|pod| pod.name.name.as_str()).collect();
    assert_eq!(bound, ["bound"]);
}

#[test]
fn case_14_a_claim_counts_at_its_types_capacity_before_it_is_launched() {
    let made = made(&(world(&["big"]) + &claim("nc1", &assigned("big"), "")));
    let pool = &made.input.node_pools[0];
    assert_eq!(
        (pool.usage.cpu(), pool.node_count),
        (4000, 1),
        "4 processors of the type, not 1 that is asked for"
    );
    let node = &made.input.nodes[0];
    assert_eq!((node.name.as_str(), node.has_node, node.initialized), ("nc1", false, false));
    assert_eq!((node.allocatable.cpu(), node.allocatable.pods()), (4000, 110));
    assert_eq!(node.labels["topology.kubernetes.io/zone"], "z1");
    assert_eq!(node.price.unwrap().to_string(), "0.2");
}

#[test]
fn a_claim_from_before_assignments_is_known_by_its_labels() {
    let labelled = claim("old", "", "").replace(
        "{karpenter.sh/nodepool: p}",
        "{karpenter.sh/nodepool: p, node.kubernetes.io/instance-type: m2}",
    );
    let made = made(&(world(&["m1", "m2"]) + &labelled));
    assert_eq!(made.input.nodes[0].machine_deployment.as_ref().unwrap().name, "m2");
    assert_eq!(made.input.nodes[0].capacity.cpu(), 4000);
}

#[test]
fn a_node_of_another_karpenter_is_room_but_tells_nothing_of_our_machines() {
    let node = "---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {karpenter.sh/nodepool: other, node.kubernetes.io/instance-type: m1}}
spec: {providerID: 'kwok://1'}
status: {capacity: {cpu: '4', memory: 16Gi, pods: '110'}, allocatable: {cpu: '1', memory: 1Gi, pods: '110'}}
";
    let status = "status: {providerID: 'kwok://1'}\n";
    let ours = "group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass";
    let theirs = claim("nc", "", status).replace(ours, "group: karpenter.kwok.sh, kind: KWOKNodeClass");
    let made = made(&(world(&["m1"]) + &theirs + node));
    let [found] = made.input.nodes.as_slice() else { panic!("{:?}", made.input.nodes) };
    assert_eq!((found.name.as_str(), &found.node_claim, &found.node_pool), ("n1", &None, &None));
    assert_eq!(found.allocatable.cpu(), 1000);
    assert_eq!((&found.machine_deployment, &found.price), (&None, &None));
}

#[test]
fn claims_on_their_way_take_room_below_the_maximum_size() {
    let limited = world(&["m1"]).replace(
        "    karpenter.cluster.x-k8s.io/price",
        "    cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: '2'\n    karpenter.cluster.x-k8s.io/price",
    );
    let one = made(&(limited.clone() + &claim("a", &assigned("m1"), "")));
    let name = NamespacedName::new("default", "m1");
    assert_eq!(one.books[&name], Books { to_enter: 1, to_leave: 0 });
    assert_eq!(one.catalog[&name].instance_type.headroom, Some(1));
    let two = made(&(limited.clone() + &claim("a", &assigned("m1"), "") + &claim("b", &assigned("m1"), "")));
    assert_eq!(two.catalog[&name].reason().unwrap().code, ReasonCode::MaxSize);
    let counted = limited.replace(
        "    karpenter.cluster.x-k8s.io/price",
        "    karpenter.cluster.x-k8s.io/claims: 0123456789abc\n    karpenter.cluster.x-k8s.io/price",
    );
    let counted = counted.replace("replicas: 0", "replicas: 1");
    let entered = claim("a", &(assigned("m1") + "\n  uid: 0123456789abcdef"), "");
    let made = made(&(counted + &entered));
    assert_eq!(made.books[&name], Books::default(), "it is in the ledger");
    assert_eq!(made.catalog[&name].instance_type.headroom, Some(1));
}

const JOINED: &str = "status:
  nodeName: n1
  providerID: x://1
  conditions:
  - {type: Launched, status: 'True', lastTransitionTime: '2026-01-05T11:00:00Z'}
  - {type: Registered, status: 'True', lastTransitionTime: '2026-01-05T11:00:00Z'}
";

#[test]
fn a_node_and_its_claim_are_one() {
    let node = "---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {karpenter.sh/nodepool: p, a: b}}
spec:
  providerID: x://1
  taints:
  - {key: node.cluster.x-k8s.io/uninitialized, effect: NoSchedule}
  - {key: sec/scan, effect: NoSchedule}
status: {capacity: {cpu: '4', memory: 15Gi, pods: '110'}, allocatable: {cpu: 3900m, memory: 14Gi, pods: '110'}}
";
    let made = made(&(world(&["m1"]) + &claim("nc", &assigned("m1"), JOINED) + node));
    let [found] = made.input.nodes.as_slice() else { panic!("{:?}", made.input.nodes) };
    assert_eq!(
        (found.name.as_str(), found.node_claim.as_deref(), found.initialized),
        ("n1", Some("nc"), false)
    );
    assert_eq!(found.allocatable.cpu(), 3900);
    let taints: Vec<_> = found.taints.iter().map(ToString::to_string).collect();
    assert_eq!(taints, ["sec/scan:NoSchedule"], "Cluster API's own taint goes away by itself");
    assert!(
        told(&made)
            .contains("NodeClaim/nc: taint sec/scan:NoSchedule of the starting Node n1 isn't declared"),
        "{}",
        told(&made)
    );
    assert_eq!(made.input.node_pools[0].node_count, 1);
}

#[test]
fn a_node_is_joined_by_its_machine_before_the_claims_status_is_written() {
    let bound = "  annotations: {karpenter.cluster.x-k8s.io/machine-deployment: default/m1, cluster.x-k8s.io/machine: default/mm}";
    let machine = "---\n{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: mm}, spec: {clusterName: k, providerID: 'x://1'}}\n";
    let made = made(&(world(&["m1"]) + &claim("nc", bound, "") + machine + NODE));
    let found: Vec<_> = made
        .input
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.node_claim.as_deref(), node.initialized))
        .collect();
    assert_eq!(found, [("n1", Some("nc"), false)]);
    assert_eq!(made.input.nodes[0].taints, [], "what a starting node reports of itself doesn't count yet");
}

#[test]
fn a_node_that_goes_no_longer_counts_for_the_limits() {
    let made = made(&(world(&["m1"]) + &claim("nc", &deleting(), JOINED) + NODE));
    assert_eq!((made.input.node_pools[0].usage.cpu(), made.input.node_pools[0].node_count), (0, 0));
}

#[test]
fn case_110_a_registered_claim_without_its_node_is_no_capacity() {
    let made = made(&(world(&["m1"]) + &claim("ghost", &assigned("m1"), JOINED)));
    assert!(made.input.nodes.is_empty());
    assert_eq!(made.input.node_pools[0].node_count, 1, "it still counts for the limits");
    assert!(
        told(&made).contains("NodeClaim/ghost: it is registered, but its Node is gone"),
        "{}",
        told(&made)
    );
}

#[test]
fn nodes_without_a_claim_count_for_the_pool_that_they_name() {
    let node = "---\n{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {karpenter.sh/nodepool: p, node.kubernetes.io/instance-type: m1}}, status: {capacity: {cpu: '4'}, allocatable: {cpu: '4'}}}\n";
    let other = "---\n{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: '8'}, capacity: {cpu: '8'}}}\n";
    let made = made(&(world(&["m1"]) + node + other));
    let pool = &made.input.node_pools[0];
    assert_eq!((pool.usage.cpu(), pool.node_count), (4000, 1));
    let views: Vec<_> = made
        .input
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.node_pool.as_deref(), node.price.is_some()))
        .collect();
    assert_eq!(views, [("n1", Some("p"), true), ("n2", None, false)]);
}

#[test]
fn a_pool_above_its_limit_is_told() {
    let three = ["a", "b", "c"].map(|name| claim(name, &assigned("m1"), "")).concat();
    assert!(told(&made(&(world(&["m1"]) + &three))).contains("NodePool/p: it is above its limit: cpu"));
}

fn deleting() -> String {
    assigned("m1") + "\n  deletionTimestamp: '2026-01-05T11:59:00Z'"
}

const NODE: &str = "---\n{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {providerID: 'x://1'}, status: {allocatable: {cpu: '4'}}}\n";

#[test]
fn pods_of_a_node_that_goes_want_another_place() {
    let text = world(&["m1"])
        + &claim("nc", &deleting(), JOINED)
        + NODE
        + &pod("web", "spec: {nodeName: n1, containers: []}")
        + &pod("done", "spec: {nodeName: n1, containers: []}, status: {phase: Failed}")
        + "---\n{apiVersion: v1, kind: Pod, metadata: {name: stays, annotations: {karpenter.sh/do-not-disrupt: 'true'}}, spec: {nodeName: n1, containers: []}}\n"
        + "---\n{apiVersion: v1, kind: Pod, metadata: {name: daemon, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u, controller: true}]}, spec: {nodeName: n1, containers: []}}\n";
    let made = made(&text);
    assert!(made.input.nodes[0].marked_for_deletion);
    assert_eq!(wanting(&made), ["web"]);
    assert_eq!(made.books[&NamespacedName::new("default", "m1")], Books { to_enter: 0, to_leave: 1 });
}

#[test]
fn case_92_a_pod_that_can_never_leave_breeds_no_nodes() {
    let text = world(&["m1"])
        + &claim("nc", &deleting(), JOINED)
        + NODE
        + "---\n{apiVersion: v1, kind: Pod, metadata: {name: db, labels: {app: db}}, spec: {nodeName: n1, containers: []}}\n"
        + &pod("web", "spec: {nodeName: n1, containers: []}");
    let budget = |spec: &str| {
        format!("---\n{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: b}}, {spec}}}\n")
    };
    for closed in [
        "spec: {maxUnavailable: 0, selector: {matchLabels: {app: db}}}",
        "spec: {minAvailable: 100%, selector: {matchLabels: {app: db}}}",
        "spec: {minAvailable: 1, selector: {matchLabels: {app: db}}}, status: {expectedPods: 1, desiredHealthy: 1, currentHealthy: 1, disruptionsAllowed: 0}",
    ] {
        assert_eq!(wanting(&made(&(text.clone() + &budget(closed)))), ["web"], "{closed}");
    }
    let open = "spec: {minAvailable: 1, selector: {matchLabels: {app: db}}}, status: {expectedPods: 3, desiredHealthy: 1, currentHealthy: 1, disruptionsAllowed: 0}";
    assert_eq!(wanting(&made(&(text + &budget(open)))), ["db", "web"]);
}

#[test]
fn case_9_a_daemon_set_counts_with_the_defaults_of_its_namespace() {
    let set = "---\n{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: log, namespace: ops}, spec: {selector: {}, template: {spec: {containers: [{name: c}]}}}}\n";
    let range = "---\n{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: ops}, spec: {limits: [{type: Container, defaultRequest: {cpu: '1', memory: 256Mi}}]}}\n";
    let live = "---\n{apiVersion: v1, kind: Pod, metadata: {name: log-x, namespace: ops, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: log, uid: u, controller: true}]}, spec: {nodeName: n, containers: [{name: c, resources: {requests: {cpu: '2'}}}]}}\n";
    let cpu = |text: String| made(&text).input.daemon_pods[0].requests.cpu();
    assert_eq!(cpu(world(&["m1"]) + set), 0);
    assert_eq!(cpu(world(&["m1"]) + set + range), 1000);
    assert_eq!(cpu(world(&["m1"]) + set + live), 2000);
}

#[test]
fn case_28_each_volume_claim_is_judged_by_itself() {
    let mounting = |name: &str, claim: &str| {
        pod(
            name,
            &format!(
                "spec: {{containers: [], volumes: [{{name: v, persistentVolumeClaim: {{claimName: {claim}}}}}]}}"
            ),
        )
    };
    let text = world(&["m1"])
        + &mounting("a", "gone")
        + &mounting("d", "st")
        + &mounting("e", "late")
        + &mounting("f", "now")
        + "---\n{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: st}, spec: {volumeName: pv1, storageClassName: manual}}\n"
        + "---\n{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv1}, spec: {csi: {driver: d.io, volumeHandle: h}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z1]}]}]}}}}\n"
        + "---\n{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: late}, spec: {}}\n"
        + "---\n{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: wffc, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}, provisioner: d.io, volumeBindingMode: WaitForFirstConsumer}\n"
        + "---\n{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: now}, spec: {storageClassName: at-once}}\n"
        + "---\n{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: at-once}, provisioner: d.io}\n";
    let made = made(&text);
    let judged = |name: &str| made.input.volumes.claims[&NamespacedName::new("default", name)].clone();
    assert_eq!(
        judged("gone"),
        VolumeClaim::Unusable("PersistentVolumeClaim default/gone not found".to_owned())
    );
    let VolumeClaim::Usable { alternatives, driver } = judged("st") else {
        panic!("a bound claim needs no StorageClass")
    };
    assert_eq!(
        (alternatives[0].to_string(), driver),
        ("topology.kubernetes.io/zone In [z1]".to_owned(), Some("d.io".to_owned()))
    );
    assert_eq!(judged("late"), VolumeClaim::Usable { alternatives: vec![], driver: Some("d.io".to_owned()) });
    assert!(matches!(judged("now"), VolumeClaim::Unusable(why) if why.contains("binds at once")));
}

#[test]
fn namespaces_carry_their_name_as_a_label_also_without_an_object() {
    let text = world(&["m1"])
        + &pod("a", "spec: {containers: []}")
        + "---\n{apiVersion: v1, kind: Namespace, metadata: {name: x, labels: {team: t}}}\n";
    let made = made(&text);
    assert_eq!(made.input.namespaces["default"]["kubernetes.io/metadata.name"], "default");
    assert_eq!(made.input.namespaces["x"]["team"], "t");
}

#[test]
fn warnings_of_annotations_name_the_machine_deployment() {
    let made = made(&world(&["m1"]).replace("price: '0.2'", "price: abc"));
    assert!(
        told(&made).contains("MachineDeployment/default/m1: karpenter.cluster.x-k8s.io/price: \"abc\""),
        "{}",
        told(&made)
    );
}
