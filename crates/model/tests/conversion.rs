//! API objects to the model's: defaults filled in, everything wrong found once, nothing ever failing as a whole.

#![expect(clippy::unwrap_used, reason = "a test that meets what it did not expect must end")]

use karpenter_capi_model::daemon::from_daemon_set;
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::node::{self, Node, Sources};
use karpenter_capi_model::pod::{self, Pod};
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::{CPU, MEMORY, Resources};
use serde_json::{Value, json};

fn pod(spec: &Value) -> Pod {
    pod::from_api(
        &serde_json::from_value(json!({"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": spec}))
            .unwrap(),
    )
}

fn container(resources: &Value) -> Value {
    json!({"name": "c", "resources": resources})
}

fn taints(node: &Node) -> Vec<String> {
    node.taints.iter().map(ToString::to_string).collect()
}

#[test]
fn a_missing_request_is_the_limit_for_containers_and_init_containers() {
    let limited = container(&json!({"limits": {"cpu": "500m", "memory": "100Mi"}}));
    let with_request = container(&json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "0"}}));
    assert_eq!(
        pod(&json!({"containers": [limited]})).requests,
        Resources::ZERO.with(CPU, 500).with(MEMORY, 100 << 20).with("pods", 1)
    );
    assert_eq!(pod(&json!({"containers": [with_request]})).requests, Resources::one_pod());
    assert_eq!(pod(&json!({"containers": [], "initContainers": [limited]})).requests.cpu(), 500);
}

#[test]
fn runtime_class_overhead_is_part_of_the_requests() {
    let web = container(&json!({"requests": {"cpu": "1800m", "memory": "1Gi"}}));
    let requests =
        pod(&json!({"containers": [web], "overhead": {"cpu": "250m", "memory": "120Mi"}})).requests;
    assert_eq!((requests.cpu(), requests.memory()), (2050, (1024 + 120) << 20));
}

#[test]
fn pod_level_limits_without_requests_default_as_the_api_server_does() {
    let asks = container(&json!({"requests": {"cpu": "300m"}}));
    let requests =
        pod(&json!({"containers": [asks], "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}})).requests;
    assert_eq!((requests.cpu(), requests.memory()), (300, 1 << 30));
}

/// Processor time of a bound pod whose container `c` and sidecar `s` ask for 1 each; its init container `i` asks for less.
fn resized(status: &Value) -> i64 {
    let mut sidecar = container(&json!({"requests": {"cpu": "1"}}));
    sidecar["name"] = json!("s");
    sidecar["restartPolicy"] = json!("Always");
    let mut init = container(&json!({"requests": {"cpu": "100m"}}));
    init["name"] = json!("i");
    let bound = json!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "initContainers": [sidecar, init],
            "containers": [container(&json!({"requests": {"cpu": "1"}}))]},
        "status": status
    });
    pod::from_api(&serde_json::from_value(bound).unwrap()).requests.cpu()
}

fn state(name: &str, rest: &Value) -> Value {
    let mut state = json!({"name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0});
    for (key, value) in rest.as_object().unwrap() {
        state[key] = value.clone();
    }
    state
}

#[test]
fn a_resized_container_or_sidecar_counts_with_the_largest_amount() {
    let runs = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    assert_eq!(resized(&json!({})), 2000);
    assert_eq!(resized(&json!({"containerStatuses": [state("c", &runs("1500m"))]})), 2500);
    assert_eq!(resized(&json!({"containerStatuses": [state("c", &runs("500m"))]})), 2000);
    assert_eq!(resized(&json!({"initContainerStatuses": [state("s", &runs("4"))]})), 5000);
    let allocated = json!({"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "1500m"}}});
    assert_eq!(resized(&json!({"containerStatuses": [state("c", &allocated)]})), 3000);
}

#[test]
fn what_kube_scheduler_passes_over_in_the_status_does_not_count() {
    // An init container that ends, and a status that doesn't say what the container runs with.
    let runs = json!({"resources": {"requests": {"cpu": "9"}}});
    assert_eq!(resized(&json!({"initContainerStatuses": [state("i", &runs)]})), 2000);
    let allocated = json!({"allocatedResources": {"cpu": "9"}});
    assert_eq!(resized(&json!({"containerStatuses": [state("c", &allocated)]})), 2000);
}

#[test]
fn a_size_that_the_node_never_has_does_not_count() {
    let with = |reason: &str| {
        json!({"containerStatuses": [state("c", &json!({"resources": {"requests": {"cpu": "200m"}}}))],
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}]})
    };
    assert_eq!(resized(&with("Infeasible")), 1200);
    assert_eq!(resized(&with("Deferred")), 2000);
}

#[test]
fn a_pod_that_was_resized_as_a_whole_counts_with_the_largest_amount() {
    let bound = |status: &Value| {
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {"nodeName": "n", "resources": {"requests": {"cpu": "2"}}, "containers": [container(&json!({}))]},
            "status": status
        });
        pod::from_api(&serde_json::from_value(pod).unwrap()).requests
    };
    assert_eq!(bound(&json!({})).cpu(), 2000);
    let resized =
        json!({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "3", "memory": "1Gi"}});
    assert_eq!((bound(&resized).cpu(), bound(&resized).memory()), (3000, 0));
}

#[test]
fn sidecars_add_up_and_other_init_containers_need_them_besides() {
    let named = |name: &str, cpu: &str, sidecar: bool| {
        let mut one = container(&json!({"requests": {"cpu": cpu}}));
        one["name"] = json!(name);
        if sidecar {
            one["restartPolicy"] = json!("Always");
        }
        one
    };
    let cpu = |init: Value| {
        pod(&json!({"initContainers": init, "containers": [container(&json!({"requests": {"cpu": "1"}}))]}))
            .requests
            .cpu()
    };
    assert_eq!(cpu(json!([named("s", "500m", true)])), 1500);
    assert_eq!(cpu(json!([named("i", "3", false)])), 3000);
    assert_eq!(cpu(json!([named("s", "500m", true), named("i", "3", false)])), 3500);
    assert_eq!(cpu(json!([named("i", "3", false), named("s", "500m", true)])), 3000);
}

#[test]
fn everything_that_is_wrong_with_a_pod_is_collected_and_the_rest_is_read() {
    let broken = pod(&json!({
        "containers": [container(&json!({"requests": {"cpu": "1", "memory": "16GB"}}))],
        "tolerations": [{"key": "a", "operator": "Like"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["a"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}}},
        "topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "Maybe",
            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}]
    }));
    let text = broken.invalid.join("\n");
    for words in [
        "spec.containers[c].resources.requests: memory: \"16GB\"",
        "\"Like\"",
        "gen Gt [\"a\"]",
        "matchFields",
        "maxSkew 0",
        "\"Maybe\"",
        "label selector: a Gt",
    ] {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
    assert_eq!(broken.requests.cpu(), 1000);
}

#[test]
fn a_required_affinity_without_expressions_matches_nothing_and_says_so() {
    let empty = json!({"containers": [], "affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}});
    assert!(pod(&empty).invalid[0].contains("no node matches"));
}

#[test]
fn a_wish_for_a_node_by_its_name_is_no_obstacle() {
    let wish = json!({"containers": [], "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}}]}}});
    let pod = pod(&wish);
    assert_eq!((pod.preferred_node_affinity.len(), pod.invalid.len()), (0, 0));
}

#[test]
fn pods_that_end_or_come_back_by_themselves_want_no_place() {
    let owned = |kind: &str, api: &str| json!([{"apiVersion": api, "kind": kind, "name": "o", "uid": "u", "controller": true}]);
    let read = |metadata: Value, status: Value| {
        let mut metadata = metadata;
        metadata["name"] = json!("p");
        pod::from_api(
            &serde_json::from_value(
                json!({"metadata": metadata, "spec": {"containers": []}, "status": status}),
            )
            .unwrap(),
        )
    };
    let going = json!({"deletionTimestamp": "2026-01-05T00:00:00Z"});
    let mut going_of_set = going.clone();
    going_of_set["ownerReferences"] = owned("StatefulSet", "apps/v1");
    let unmarked = json!({});
    let marked =
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
    for (metadata, status, provisionable, reschedulable) in [
        (json!({}), marked.clone(), true, true),
        (json!({}), unmarked.clone(), false, true),
        (json!({"ownerReferences": owned("DaemonSet", "apps/v1")}), marked.clone(), false, false),
        (json!({"ownerReferences": owned("Node", "v1")}), marked.clone(), false, false),
        (json!({}), json!({"phase": "Succeeded"}), false, false),
        (going, marked.clone(), false, false),
        (going_of_set, unmarked, false, true),
    ] {
        let pod = read(metadata, status);
        assert_eq!(
            (pod.is_provisionable(true), pod.is_reschedulable()),
            (provisionable, reschedulable),
            "{pod:?}"
        );
    }
}

#[test]
fn selectors_carry_match_label_keys_of_the_pod() {
    let spread = json!({"containers": [], "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}, "matchLabelKeys": ["app", "absent"]}]});
    let pod = pod(&spread);
    let selector = pod.topology_spread[0].selector.as_ref().unwrap();
    assert!(selector.matches(&pod.labels));
    assert!(!selector.matches(&std::collections::BTreeMap::new()));
}

#[test]
fn sidecar_and_host_network_ports_are_host_ports_and_init_ports_are_not() {
    let ports = |port: i32| json!({"name": "c", "ports": [{"containerPort": 80, "hostPort": port}]});
    let mut sidecar = ports(9001);
    sidecar["restartPolicy"] = json!("Always");
    let with_ports = pod(&json!({"containers": [ports(9000)], "initContainers": [sidecar, ports(9002)]}));
    assert_eq!(with_ports.host_ports.iter().map(|port| port.port).collect::<Vec<_>>(), [9000, 9001]);
    let on_host = json!({"hostNetwork": true, "containers": [{"name": "c", "ports": [{"containerPort": 53, "protocol": "UDP"}]}]});
    assert_eq!(pod(&on_host).host_ports[0].port, 53);
}

#[test]
fn ephemeral_volumes_are_known_by_their_generated_claims() {
    let volumes = json!({"containers": [], "volumes": [
        {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "c", "emptyDir": {}}]});
    let claims: Vec<String> = pod(&volumes).volume_claims.iter().map(ToString::to_string).collect();
    assert_eq!(claims, ["default/data", "default/p-b"]);
}

fn daemon_set() -> k8s_openapi::api::apps::v1::DaemonSet {
    serde_json::from_value(json!({
        "metadata": {"name": "log", "namespace": "ops", "uid": "u"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c"}]}}}
    }))
    .unwrap()
}

#[test]
fn a_daemon_pod_gets_the_limit_range_defaults_of_its_namespace() {
    let range = serde_json::from_value(json!({"spec": {"limits": [
        {"type": "Pod", "max": {"cpu": "9"}},
        {"type": "Container", "defaultRequest": {"cpu": "1"}, "default": {"cpu": "2", "memory": "256Mi"}}]}}))
    .unwrap();
    let daemon = from_daemon_set(&daemon_set(), None, &[&range]);
    assert_eq!(
        (daemon.requests.cpu(), daemon.requests.memory(), daemon.requests.pods()),
        (1000, 256 << 20, 1)
    );
    assert!(daemon.is_daemon());
    // As a file has it: the API server would have completed the range by itself.
    let range = serde_json::from_value(json!({"spec": {"limits": [
        {"type": "Container", "max": {"cpu": "3"}, "min": {"cpu": "1", "memory": "64Mi"}}]}}))
    .unwrap();
    let daemon_of_file = from_daemon_set(&daemon_set(), None, &[&range]);
    assert_eq!((daemon_of_file.requests.cpu(), daemon_of_file.requests.memory()), (3000, 64 << 20));
    assert_eq!(from_daemon_set(&daemon_set(), None, &[]).requests, Resources::one_pod());
}

#[test]
fn a_live_daemon_pod_gives_the_requests_and_not_the_place() {
    let live = serde_json::from_value(json!({
        "metadata": {"name": "log-1", "namespace": "ops"},
        "spec": {"nodeName": "n1", "containers": [container(&json!({"requests": {"cpu": "700m"}}))],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}}}
    }))
    .unwrap();
    let daemon = from_daemon_set(&daemon_set(), Some(&live), &[]);
    assert_eq!(daemon.requests.cpu(), 700);
    assert_eq!((daemon.required_node_affinity.len(), daemon.invalid.len()), (0, 0));
}

fn claim(conditions: &[&str]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|name| json!({"type": name, "status": "True", "lastTransitionTime": "2026-01-05T00:00:00Z"}))
        .collect();
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "nc1", "labels": {"karpenter.sh/nodepool": "p"},
            "annotations": {"karpenter.cluster.x-k8s.io/machine-deployment": "default/m"}},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "d"},
            "taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "net/agent-not-ready", "effect": "NoExecute"}]},
        "status": {"conditions": conditions, "providerID": "x://1"}
    })
}

fn joined() -> Value {
    json!({
        "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1", "karpenter.sh/nodepool": "p", "zone": "z1"}},
        "spec": {"providerID": "x://1", "taints": [
            {"key": "net/agent-not-ready", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"},
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "16", "memory": "60Gi", "pods": "110"},
            "allocatable": {"cpu": "15", "memory": "58Gi", "nvidia.com/gpu": "0", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "False"}]}
    })
}

fn promise() -> InstanceType {
    InstanceType {
        name: "m".to_owned(),
        machine_deployment: Some(NamespacedName::new("default", "m")),
        requirements: [Requirement::one_of("zone", &["z1"]), Requirement::one_of("size", &["a", "b"])]
            .into_iter()
            .collect::<Requirements>(),
        taints: vec![karpenter_capi_model::taint::Taint::new(
            "edge",
            "",
            karpenter_capi_model::taint::TaintEffect::NoSchedule,
        )],
        capacity: Resources::ZERO.with(CPU, 16_000).with(MEMORY, 64 << 30).with("nvidia.com/gpu", 2),
        overhead: Resources::ZERO.with(CPU, 1000),
        offerings: Vec::new(),
        headroom: None,
        priority: 0,
    }
}

fn view(node: Option<&Value>, claim: Option<&Value>) -> Node {
    let node = node.map(|node| serde_json::from_value(node.clone()).unwrap());
    let claim = claim.map(|claim| serde_json::from_value(claim.clone()).unwrap());
    let promise = promise();
    let sources = Sources {
        node: node.as_ref(),
        claim: claim.as_ref(),
        promise: claim.is_some().then_some(&promise),
        marked: false,
    };
    let (view, problems) = node::from_api(sources);
    assert_eq!(problems, Vec::<String>::new());
    view
}

#[test]
fn a_claim_in_flight_is_what_its_machine_deployment_promises() {
    let view = view(None, Some(&claim(&["Launched"])));
    assert_eq!((view.name.as_str(), view.has_node, view.initialized), ("nc1", false, false));
    assert_eq!(view.labels.get("zone").map(String::as_str), Some("z1"));
    assert_eq!(view.labels.get("size"), None, "not certain");
    assert_eq!(view.node_pool.as_deref(), Some("p"));
    assert_eq!(taints(&view), ["dedicated=x:NoSchedule", "edge:NoSchedule"]);
    assert_eq!(
        view.allocatable,
        Resources::ZERO.with(CPU, 15_000).with(MEMORY, 64 << 30).with("nvidia.com/gpu", 2)
    );
    assert_eq!(view.machine_deployment, Some(NamespacedName::new("default", "m")));
}

#[test]
fn a_registered_node_keeps_the_promised_gpus_until_it_is_initialized() {
    let registered = view(Some(&joined()), Some(&claim(&["Launched", "Registered"])));
    assert_eq!(taints(&registered), Vec::<String>::new(), "ephemeral and startup taints don't count yet");
    assert_eq!((registered.allocatable.cpu(), registered.allocatable.memory()), (15_000, 58 << 30));
    assert_eq!(registered.allocatable.get("nvidia.com/gpu"), 2);
    assert!(!registered.ready);
    let initialized = view(Some(&joined()), Some(&claim(&["Launched", "Registered", "Initialized"])));
    assert_eq!(initialized.allocatable.get("nvidia.com/gpu"), 0);
    assert_eq!(
        taints(&initialized),
        [
            "net/agent-not-ready:NoExecute",
            "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
            "node.cluster.x-k8s.io/uninitialized:NoSchedule",
            "node.kubernetes.io/not-ready:NoSchedule"
        ],
        "once Initialized the same taints are real"
    );
}

#[test]
fn the_operator_s_labels_on_the_node_count_like_the_claim_s_conditions() {
    let mut node = joined();
    node["metadata"]["labels"]["karpenter.sh/initialized"] = json!("true");
    assert!(view(Some(&node), Some(&claim(&[]))).initialized);
}

#[test]
fn a_node_without_a_claim_is_initialized_and_all_its_taints_count() {
    let view = view(Some(&joined()), None);
    assert!(view.initialized && !view.is_managed());
    assert_eq!((view.taints.len(), view.node_pool), (4, None));
}

#[test]
fn a_cordoned_node_repels_pods_even_before_its_taint_is_there() {
    let mut node = joined();
    node["spec"] = json!({"unschedulable": true});
    assert_eq!(taints(&view(Some(&node), None)), ["node.kubernetes.io/unschedulable:NoSchedule"]);
}

#[test]
fn going_claims_and_nodes_are_marked() {
    let mut going = claim(&["Launched"]);
    going["metadata"]["deletionTimestamp"] = json!("2026-01-05T00:00:00Z");
    assert!(view(None, Some(&going)).marked_for_deletion);
    assert!(view(Some(&joined()), Some(&claim(&["InstanceTerminating"]))).marked_for_deletion);
    assert!(!view(Some(&joined()), Some(&claim(&[]))).marked_for_deletion);
}

#[test]
fn an_amount_of_a_node_that_can_not_be_read_is_named_and_counts_as_absent() {
    let mut node = joined();
    node["status"]["allocatable"]["memory"] = json!("58 Gi");
    let node = serde_json::from_value(node).unwrap();
    let (view, problems) = node::from_api(Sources { node: Some(&node), ..Sources::default() });
    assert_eq!(view.allocatable.memory(), 0);
    assert!(problems[0].starts_with("Node/n1: allocatable: memory: \"58 Gi\""), "{problems:?}");
}
