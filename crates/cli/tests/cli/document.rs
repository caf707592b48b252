use crate::common::{answer, deployment, pod, simulate, world};
use serde_json::Value;
use std::fmt::Write;

/// Two sizes; three pods, of which two share a new node and one is too large for both.
fn three_pods() -> String {
    world(
        "",
        &[
            deployment("m1", &[("cpu", "4"), ("memory", "16Gi"), ("price", "0.2"), ("zone", "z1")]),
            deployment(
                "m2",
                &[
                    ("cpu", "8"),
                    ("memory", "32Gi"),
                    ("price", "0.3"),
                    ("zone", "z2"),
                    ("capacity-type", "spot"),
                ],
            ),
        ],
    ) + &pod("web-1", "", "cpu: 2, memory: 3Gi")
        + &pod("web-2", "", "cpu: 1, memory: 1Gi")
        + &pod("web-3", "", "cpu: 9")
}

/// Reasoned, not copied: 2 and 1 processors fit the cheaper of the two machines, 3 and 1 GiB are 4Gi, two pods.
const EXPECTED: &str = r#"{
  "apiVersion": "karpenter.cluster.x-k8s.io/v1alpha1",
  "kind": "Simulation",
  "nodeClaims": [
    {
      "name": "p-1",
      "pass": 1,
      "nodePool": "p",
      "machineDeployment": "default/m1",
      "instanceType": "m1",
      "zone": "z1",
      "capacityType": "on-demand",
      "price": 0.2,
      "alternatives": [
        {
          "machineDeployment": "default/m2",
          "instanceType": "m2",
          "zone": "z2",
          "capacityType": "spot",
          "price": 0.3
        }
      ],
      "requests": {
        "cpu": "3",
        "memory": "4Gi",
        "pods": "2"
      },
      "labels": {
        "karpenter.cluster.x-k8s.io/clusterapinodeclass": "c",
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/nodepool": "p",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m1",
        "topology.kubernetes.io/zone": "z1"
      },
      "pods": [
        "default/web-1",
        "default/web-2"
      ]
    }
  ],
  "placements": [],
  "pending": [
    {
      "pod": "default/web-3",
      "reasons": [
        {
          "nodePool": "p",
          "machineDeployment": "default/m1",
          "code": "InsufficientResources",
          "message": "cpu: needs 9, m1 has 4",
          "remedy": "request at most 4 cpu"
        },
        {
          "nodePool": "p",
          "machineDeployment": "default/m2",
          "code": "InsufficientResources",
          "message": "cpu: needs 9, m2 has 8",
          "remedy": "request at most 8 cpu"
        }
      ]
    }
  ],
  "machineDeployments": [
    {
      "name": "default/m1",
      "replicas": 0,
      "desiredReplicas": 1,
      "available": true,
      "reason": ""
    },
    {
      "name": "default/m2",
      "replicas": 0,
      "desiredReplicas": 0,
      "available": true,
      "reason": ""
    }
  ],
  "disruptions": [],
  "blocked": [],
  "warnings": [],
  "cost": {
    "before": 0.0,
    "after": 0.2,
    "unpriced": 0
  }
}
"#;

#[test]
fn the_answer_has_the_fields_that_people_script_on() {
    let ran = simulate(&three_pods(), &["-o", "json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    assert_eq!(ran.stdout, EXPECTED);
}

#[test]
fn yaml_says_the_same_as_json() {
    let yaml = simulate(&three_pods(), &["-o", "yaml"]).stdout;
    let read: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(read, serde_json::from_str::<Value>(EXPECTED).unwrap());
}

#[test]
fn the_order_of_documents_changes_no_byte() {
    let documents: Vec<String> = three_pods().split("---\n").map(str::to_owned).collect();
    for shift in 1..documents.len() {
        let mut shuffled = documents.clone();
        shuffled.rotate_left(shift);
        if shift % 2 == 0 {
            shuffled.reverse();
        }
        for format in ["json", "yaml", "table"] {
            let expected = simulate(&three_pods(), &["-o", format]).stdout;
            assert_eq!(
                simulate(&shuffled.join("\n---\n"), &["-o", format]).stdout,
                expected,
                "{shift} {format}"
            );
        }
    }
}

#[test]
fn further_passes_find_the_claims_of_earlier_ones_and_add_nothing() {
    let (_, once) = answer(&three_pods(), &[]);
    let (_, thrice) = answer(&three_pods(), &["--passes", "3"]);
    assert_eq!(once, thrice);
}

#[test]
fn names_of_claims_that_are_there_are_passed_over_and_pods_are_nominated_to_them() {
    let in_flight = "---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: p-1
  labels: {karpenter.sh/nodepool: p}
  annotations: {karpenter.cluster.x-k8s.io/machine-deployment: default/m1}
spec: {requirements: [], nodeClassRef: {group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}}
";
    let text = three_pods() + in_flight + &pod("web-4", "", "cpu: 3500m");
    let (_, found) = answer(&text, &[]);
    assert_eq!(found["placements"][0]["nodeClaim"], "p-1");
    assert!(found["placements"][0].get("node").is_none());
    assert_eq!(found["nodeClaims"].as_array().unwrap().len(), 1);
    assert_eq!(found["nodeClaims"][0]["name"], "p-2");
    assert_eq!(
        found["machineDeployments"][0]["desiredReplicas"], 2,
        "one on its way that isn't counted yet, one new"
    );
    assert_eq!((found["cost"]["before"].as_f64(), found["cost"]["after"].as_f64()), (Some(0.2), Some(0.4)));
}

#[test]
fn an_unknown_price_and_zone_are_shown_as_such() {
    let text = world("", &[deployment("m1", &[("cpu", "4"), ("memory", "16Gi")])]) + &pod("a", "", "cpu: 1");
    let (code, found) = answer(&text, &[]);
    assert_eq!(
        (code, &found["nodeClaims"][0]["price"], &found["nodeClaims"][0]["zone"]),
        (0, &Value::Null, &Value::from(""))
    );
    assert_eq!((&found["cost"]["after"], &found["cost"]["unpriced"]), (&Value::from(0.0), &Value::from(1)));
}

#[test]
fn a_reason_that_nobody_can_do_anything_about_has_no_remedy() {
    let gone = "volumes: [{name: v, persistentVolumeClaim: {claimName: gone}}],";
    let text =
        world("", &[deployment("m1", &[("cpu", "4"), ("memory", "16Gi")])]) + &pod("a", gone, "cpu: 1");
    let reason = &answer(&text, &[]).1["pending"][0]["reasons"][0];
    assert_eq!((reason["code"].as_str(), reason.get("remedy")), (Some("VolumeMissing"), None));
    assert!(!simulate(&text, &[]).stdout.contains("remedy"));
}

#[test]
fn the_table_is_plain_in_a_pipe_and_says_the_essentials() {
    let ran = simulate(&three_pods(), &[]);
    assert!(!ran.stdout.contains('\u{1b}'), "no colours in a pipe");
    for told in [
        "NodeClaims to create",
        "default/m1",
        "0 -> 1",
        "    InsufficientResources (2): cpu: needs 9, m1 has 4; 1 like it [p: default/m1, p: default/m2]\n      remedy: request at most 4 cpu, request at most 8 cpu\n",
        "2 pods on 1 new node",
        "$0.2/hour after",
    ] {
        assert!(ran.stdout.contains(told), "{told}\n{}", ran.stdout);
    }
    assert!(ran.stdout.lines().all(|line| line == line.trim_end()), "{}", ran.stdout);
}

#[test]
fn case_135_equal_reasons_are_counted_and_the_text_does_not_grow_with_the_pools() {
    let table = |pools: usize| {
        let mut text = three_pods();
        for index in 0..pools {
            write!(text, "---\n{{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {{name: x{index:02}}}, spec: {{template: {{spec: {{taints: [{{key: t, effect: NoSchedule}}], requirements: [], nodeClassRef: {{group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}}}}}}}}}}\n").unwrap();
        }
        let shown = simulate(&text, &[]).stdout;
        let (_, rest) = shown.split_once("Pods without a place").unwrap();
        rest.split_once("MachineDeployments").unwrap().0.to_owned()
    };
    let (few, many) = (table(5), table(20));
    assert!(many.len() < few.len() + 40, "{few}\n{many}");
    assert!(many.contains("Taints (20)"), "{many}");
}
