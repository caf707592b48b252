use super::*;
use karpenter_capi_scheduling::input::VolumeClaim;

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
