//! Public bug reports, from files to answer.

use crate::common::{answer, chosen, deployment, pod, reasons, world};

fn of_size(name: &str, cpu: &str, memory: &str, more: &[(&str, &str)]) -> String {
    deployment(name, &[&[("cpu", cpu), ("memory", memory)], more].concat())
}

fn four(name: &str, more: &[(&str, &str)]) -> String {
    of_size(name, "4", "16Gi", more)
}

#[test]
fn case_33_missing_capacity_is_named_for_each() {
    let text = world(
        "",
        &[
            deployment(
                "a",
                &[("machine.openshift.io/vCPU", "4"), ("machine.openshift.io/memoryMb", "16384")],
            ),
            deployment("b", &[("cpu", "4")]),
        ],
    ) + &pod("x", "", "cpu: 1, memory: 1Gi");
    let (code, found) = answer(&text, &[]);
    assert_eq!((code, chosen(&found).len()), (1, 0));
    let told = reasons(&found);
    assert!(told.contains("NoCapacityDeclared: a: no cpu and memory capacity"), "{told}");
    assert!(told.contains("NoCapacityDeclared: b: no memory capacity"), "{told}");
    assert_eq!(found["machineDeployments"][0]["reason"], "NoCapacityDeclared");
    assert_eq!(found["machineDeployments"][0]["available"], false);
}

#[test]
fn case_34_ephemeral_storage_has_to_be_declared() {
    let with = |more: &[(&str, &str)]| {
        world("", &[four("a", more)]) + &pod("x", "", "cpu: 1, memory: 1Gi, ephemeral-storage: 2Gi")
    };
    let (code, found) = answer(&with(&[]), &[]);
    assert_eq!(code, 1);
    assert!(reasons(&found).contains("ephemeral-storage"), "{}", reasons(&found));
    let (code, found) = answer(&with(&[("ephemeral-disk", "100Gi")]), &[]);
    assert_eq!((code, chosen(&found)), (0, vec!["a"]));
}

#[test]
fn case_35_the_annotation_overrides_the_templates_taints() {
    let text = world("", &[four("a", &[("taints", "gpu=yes:NoSchedule")])]).replace(
        "clusterName: k, replicas: 0}",
        "clusterName: k, replicas: 0, template: {spec: {clusterName: k, taints: [{key: gpu, value: 'true', effect: NoSchedule}, {key: zone, value: edge, effect: NoSchedule}]}}}",
    );
    let tolerating = |gpu: &str| {
        format!(
            "tolerations: [{{key: gpu, value: '{gpu}', effect: NoSchedule}}, {{key: zone, value: edge, effect: NoSchedule}}],"
        )
    };
    let text = text
        + &pod("a", "", "cpu: 1")
        + &pod("b", &tolerating("yes"), "cpu: 1")
        + &pod("c", &tolerating("true"), "cpu: 1");
    let (_, found) = answer(&text, &[]);
    assert_eq!(found["nodeClaims"][0]["pods"], serde_json::json!(["default/b"]));
    assert_eq!(found["nodeClaims"].as_array().unwrap().len(), 1);
    assert_eq!(found["pending"].as_array().unwrap().len(), 2);
}

#[test]
fn case_37_only_what_reaches_the_node_can_be_selected() {
    let labelled = |labels: &str| {
        world("", &[four("a", &[("labels", labels)])]).replace(
            "clusterName: k, replicas: 0}",
            "clusterName: k, replicas: 0, template: {metadata: {labels: {example.com/tier: gold, node.cluster.x-k8s.io/rack: r1, x.node-restriction.kubernetes.io/sec: hi, node-role.kubernetes.io/worker: ''}}}}",
        ) + &pod("tier", "nodeSelector: {example.com/tier: gold},", "cpu: 100m")
            + &pod("rack", "nodeSelector: {node.cluster.x-k8s.io/rack: r1},", "cpu: 100m")
            + &pod("sec", "nodeSelector: {x.node-restriction.kubernetes.io/sec: hi},", "cpu: 100m")
            + &pod("worker", "nodeSelector: {node-role.kubernetes.io/worker: ''},", "cpu: 100m")
    };
    let (code, found) = answer(&labelled("a=b"), &[]);
    assert_eq!(code, 1);
    assert_eq!(found["pending"].as_array().unwrap().len(), 1);
    assert_eq!(found["pending"][0]["pod"], "default/tier");
    assert_eq!(found["nodeClaims"].as_array().unwrap().len(), 1);
    assert_eq!(answer(&labelled("example.com/tier=gold"), &[]).0, 0);
}

#[test]
fn case_38_units_of_memory() {
    for (memory, pod_memory, fits) in [
        ("16G", "15Gi", false),
        ("16G", "14Gi", true),
        ("16Gi", "15Gi", true),
        ("16384", "1Mi", false),
        ("17179869184000m", "15Gi", true),
        ("16e9", "14Gi", true),
        ("16GB", "1Mi", false),
        ("-16Gi", "1Mi", false),
    ] {
        let text = world("", &[of_size("a", "4", memory, &[]), four("other", &[("available", "false")])])
            + &pod("x", "", &format!("cpu: 1, memory: {pod_memory}"));
        let (code, found) = answer(&text, &[]);
        assert_eq!(code == 0, fits, "{memory} {pod_memory}: {}", reasons(&found));
    }
}

#[test]
fn case_39_missing_max_pods_is_110() {
    let daemon = |name: &str| {
        format!(
            "---\n{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: {name}}}, spec: {{selector: {{}}, template: {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 100m}}}}}}]}}}}}}}}\n"
        )
    };
    let pods: String =
        (0..200).map(|index| pod(&format!("x{index:03}"), "", "cpu: 100m, memory: 64Mi")).collect();
    let text = |more: &[(&str, &str)]| {
        world("", &[of_size("a", "64", "256Gi", more)]) + &daemon("d1") + &daemon("d2") + &pods
    };
    let (code, found) = answer(&text(&[]), &[]);
    let counts: Vec<usize> = found["nodeClaims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| claim["pods"].as_array().unwrap().len())
        .collect();
    assert_eq!((code, counts), (0, vec![108, 92]));
    assert_eq!(found["nodeClaims"][0]["requests"]["pods"], "110", "the DaemonSets' pods are counted in");
    assert_eq!(chosen(&answer(&text(&[("maxPods", "250")]), &[]).1), ["a"]);
    assert!(reasons(&answer(&text(&[("maxPods", "12.5")]), &[]).1).starts_with("Invalid"));
}

#[test]
fn case_40_gpus_at_zero() {
    let pods: String =
        (0..3).map(|index| pod(&format!("x{index}"), "", "cpu: 1, nvidia.com/gpu: 1")).collect();
    let text = |more: &[(&str, &str)]| world("", &[of_size("g", "16", "64Gi", more)]) + &pods;
    let (code, found) = answer(&text(&[("gpu-type", "nvidia.com/gpu"), ("gpu-count", "2")]), &[]);
    assert_eq!((code, chosen(&found)), (0, vec!["g", "g"]));
    let (code, found) = answer(&text(&[("gpu-count", "2")]), &[]);
    assert_eq!(code, 1);
    assert!(reasons(&found).contains("nvidia.com/gpu: needs 1, g has 0"), "{}", reasons(&found));
    assert_eq!(found["warnings"][0]["object"], "MachineDeployment/default/g");
}

#[test]
fn case_46_the_price_decides_and_an_unknown_one_comes_last() {
    let text = world(
        "",
        &[
            of_size("alpha", "8", "32Gi", &[("price", "0.40")]),
            of_size("beta", "8", "32Gi", &[("price", "0.30")]),
            of_size("gamma", "4", "16Gi", &[("price", "$0.3")]),
        ],
    );
    assert_eq!(chosen(&answer(&(text.clone() + &pod("x", "", "cpu: 6, memory: 4Gi")), &[]).1), ["beta"]);
    let (code, found) = answer(&(text + &pod("x", "", "cpu: 2, memory: 4Gi")), &[]);
    assert_eq!((code, chosen(&found)), (0, vec!["beta"]));
    let others: Vec<_> = found["nodeClaims"][0]["alternatives"]
        .as_array()
        .unwrap()
        .iter()
        .map(|offer| offer["machineDeployment"].as_str().unwrap())
        .collect();
    assert_eq!(others, ["default/alpha", "default/gamma"]);
    assert!(
        found["warnings"][0]["message"]
            .as_str()
            .unwrap()
            .contains("karpenter.cluster.x-k8s.io/price: \"$0.3\"")
    );
}

#[test]
fn case_52_and_53_a_paused_machine_deployment_is_passed_over() {
    let pods = pod("x", "", "cpu: 3");
    let both = |a: String| world("", &[a, four("b", &[("price", "0.3")])]) + &pods;
    let paused = both(four("a", &[("price", "0.1"), ("cluster.x-k8s.io/paused", "")]));
    let by_field =
        both(four("a", &[("price", "0.1")]).replace("clusterName: k,", "clusterName: k, paused: true,"));
    for text in [paused, by_field] {
        let (code, found) = answer(&text, &[]);
        assert_eq!((code, chosen(&found)), (0, vec!["b"]));
        assert_eq!(found["machineDeployments"][0]["reason"], "Paused");
    }
    let cluster = "---\n{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: k}, spec: {paused: true}}\n";
    let (code, found) = answer(&(both(four("a", &[("price", "0.1")])) + cluster), &[]);
    assert_eq!(code, 1);
    assert!(reasons(&found).contains("Paused: spec.paused is true on Cluster k"), "{}", reasons(&found));
}

#[test]
fn case_60_replicas_of_a_topology_are_left_to_it() {
    let owned = four("a", &[("price", "0.1")]).replace(
        "{node.cluster.x-k8s.io/karpenter-member: ''}",
        "{node.cluster.x-k8s.io/karpenter-member: '', topology.cluster.x-k8s.io/owned: ''}",
    );
    let cluster = "---\n{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: k}, spec: {topology: {workers: {machineDeployments: [{name: a, replicas: 1}]}}}}\n";
    let (code, found) = answer(
        &(world("", &[owned, four("b", &[("price", "0.3")])]) + cluster + &pod("x", "", "cpu: 3")),
        &[],
    );
    assert_eq!((code, chosen(&found)), (0, vec!["b"]));
    assert_eq!(found["machineDeployments"][0]["reason"], "ReplicasManaged");
}

#[test]
fn case_14_claims_that_never_register_count_for_the_limit() {
    let claim = "---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: nc1, labels: {karpenter.sh/nodepool: p}, annotations: {karpenter.cluster.x-k8s.io/machine-deployment: default/big}}
spec: {requirements: [], resources: {requests: {cpu: '1'}}, nodeClassRef: {group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}}
";
    let text = world("  limits: {cpu: '10'}\n", &[of_size("big", "8", "32Gi", &[])])
        + claim
        + &pod("w-1", "", "cpu: 7500m")
        + &pod("w-0", "", "cpu: 7600m");
    let (code, found) = answer(&text, &[]);
    assert_eq!((code, chosen(&found).len()), (1, 0));
    assert_eq!(found["placements"][0]["pods"], serde_json::json!(["default/w-0"]));
    assert!(
        reasons(&found).contains("Limits: cpu: adding 8 would exceed 10 (in use 8)"),
        "{}",
        reasons(&found)
    );
}

#[test]
fn case_125_a_limit_that_the_only_size_does_not_divide() {
    let pods: String = (0..65).map(|index| pod(&format!("x{index:02}"), "", "cpu: 31")).collect();
    let (code, found) =
        answer(&(world("  limits: {cpu: '2063'}\n", &[of_size("x", "32", "128Gi", &[])]) + &pods), &[]);
    assert_eq!((code, chosen(&found).len()), (1, 64));
    assert!(reasons(&found).contains("adding 32 would exceed 2063 (in use 2048)"), "{}", reasons(&found));
}

#[test]
fn case_44_a_node_that_is_smaller_than_declared_is_not_made_again() {
    let claim = "---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: nc1, labels: {karpenter.sh/nodepool: p}, annotations: {karpenter.cluster.x-k8s.io/machine-deployment: default/t}}
spec: {requirements: [], nodeClassRef: {group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}}
status:
  nodeName: n1
  providerID: x://n1
  conditions:
  - {type: Launched, status: 'True', lastTransitionTime: '2026-01-05T11:00:00Z'}
  - {type: Registered, status: 'True', lastTransitionTime: '2026-01-05T11:00:00Z'}
  - {type: Initialized, status: 'True', lastTransitionTime: '2026-01-05T11:00:00Z'}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {node.kubernetes.io/instance-type: t}}
spec: {providerID: 'x://n1'}
status: {capacity: {cpu: '4', memory: 15Gi, pods: '110'}, allocatable: {cpu: 3900m, memory: 14848Mi, pods: '110'}}
";
    let (code, found) =
        answer(&(world("", &[four("t", &[])]) + claim + &pod("x", "", "cpu: 1, memory: 15Gi")), &[]);
    assert_eq!((code, chosen(&found).len()), (1, 0), "{found:#}");
    assert!(reasons(&found).contains("14848Mi"), "{}", reasons(&found));
}
