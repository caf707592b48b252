use super::*;
use k8s_openapi::api::core::v1::Pod;

fn read(text: &str) -> Result<Loaded, Vec<String>> {
    load([Source { name: "a.yaml", text }])
        .map_err(|error| error.errors.iter().map(ToString::to_string).collect())
}

fn names(loaded: &Loaded) -> Vec<String> {
    loaded.objects.iter().map(|object| format!("{} {}", object.kind(), object.key())).collect()
}

fn pods(loaded: &Loaded) -> Vec<Pod> {
    let pods = loaded.objects.iter().filter_map(|object| match object {
        Object::Pod(record) => Some(record.object.clone()),
        _ => None,
    });
    pods.collect()
}

const POOL: &str = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}
";

#[test]
fn yaml_json_and_lists_are_read_alike() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Node, metadata: {name: n}}\n";
    let json = "{\"apiVersion\": \"v1\", \"kind\": \"PodList\", \"items\": [{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"b\", \"namespace\": \"x\"}}]}";
    let loaded = load([Source { name: "l", text: list }, Source { name: "j", text: json }]).unwrap();
    assert_eq!(names(&loaded), ["Pod default/a", "Pod x/b", "Node /n"]);
}

#[test]
fn items_of_a_typed_list_may_leave_out_their_kind() {
    let loaded = read("{apiVersion: v1, kind: PodList, items: [{metadata: {name: a}}]}").unwrap();
    assert_eq!(names(&loaded), ["Pod default/a"]);
    let empty = read("{apiVersion: v1, kind: List, items: []}").unwrap();
    assert!(empty.objects.is_empty() && empty.others.is_empty());
    let errors = read("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Pod, metadata: {name: b, labels: [x]}}\n").unwrap_err();
    assert!(errors[0].starts_with("a.yaml: document 1, line 5: Pod b: metadata.labels"), "{errors:?}");
}

#[test]
fn the_order_of_documents_has_no_effect() {
    let one = "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: b}}\n";
    let two = "{apiVersion: v1, kind: Pod, metadata: {name: b}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a}}\n";
    assert_eq!(names(&read(one).unwrap()), names(&read(two).unwrap()));
}

#[test]
fn other_kinds_are_counted_and_left_alone() {
    let loaded = read("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}").unwrap();
    assert_eq!(loaded.objects.len(), 0);
    assert_eq!(loaded.others.get("ConfigMap (v1)"), Some(&2));
}

#[test]
fn a_fault_names_file_document_line_and_field() {
    let text = format!(
        "# a comment\n---\n{{apiVersion: v1, kind: Node, metadata: {{name: n}}}}\n---\n{POOL}  weight: heavy\n"
    );
    let errors = read(&text).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].starts_with("a.yaml: document 2, line 13: NodePool p: spec.weight: invalid type"),
        "{errors:?}"
    );
}

#[test]
fn what_the_api_server_would_refuse_is_refused_with_its_line() {
    let text = POOL.replace("requirements: []", "requirements:\n      - {key: karpenter.sh/nodepool, operator: In, values: [x]}\n      - {key: a, operator: Like, values: [x]}");
    let errors = read(&text).unwrap_err();
    assert_eq!(errors.len(), 2, "{errors:#?}");
    assert!(
        errors
            .iter()
            .any(|error| error.contains("line 8") && error.contains("spec.template.spec.requirements[0]")),
        "{errors:#?}"
    );
    assert!(errors.iter().any(|error| error.contains("line 9") && error.contains("Like")), "{errors:#?}");
}

#[test]
fn what_only_a_controller_refuses_is_loaded() {
    let text = format!(
        "{POOL}  disruption: {{budgets: [{{nodes: '0', schedule: '0 0 * * sat-sun', duration: 24h}}]}}\n"
    );
    assert_eq!(names(&read(&text).unwrap()), ["NodePool /p"]);
    let four_fields = text.replace("0 0 * * sat-sun", "0 9 * *");
    assert!(read(&four_fields).is_err(), "the definition's pattern wants five fields");
}

#[test]
fn case_121_a_pool_name_of_64_characters_is_refused() {
    let named = |length: usize| read(&POOL.replace("name: p}", &format!("name: {}}}", "p".repeat(length))));
    assert!(named(63).is_ok());
    let errors = named(64).unwrap_err();
    assert!(errors[0].contains("63"), "{errors:?}");
}

#[test]
fn case_127_defaults_are_filled_in() {
    let loaded = read(POOL).unwrap();
    let Object::NodePool(pool) = &loaded.objects[0] else { panic!("{:?}", loaded.objects) };
    let disruption = &pool.spec.disruption;
    assert_eq!(disruption.consolidate_after.as_ref().unwrap().0, "0s");
    assert_eq!(disruption.consolidation_policy.as_ref().unwrap().as_str(), "WhenEmptyOrUnderutilized");
    assert_eq!(disruption.budgets.as_ref().unwrap()[0].nodes, "10%");
    assert_eq!(pool.spec.template.spec.expire_after.as_ref().unwrap().0, "720h");
}

#[test]
fn case_128_budgets_are_checked_by_their_patterns() {
    let budget = |fields: &str| read(&format!("{POOL}  disruption: {{budgets: [{{{fields}}}]}}\n")).is_ok();
    for nodes in ["0", "7", "100%", "0%"] {
        assert!(budget(&format!("nodes: '{nodes}'")), "{nodes}");
    }
    for nodes in ["101%", "-1", "5.5%", ""] {
        assert!(!budget(&format!("nodes: '{nodes}'")), "{nodes}");
    }
    assert!(!budget("nodes: '1', schedule: '@daily'"), "a schedule needs a duration");
    assert!(budget("nodes: '1', schedule: '@daily', duration: 10h5m"));
    assert!(!budget("nodes: '1', schedule: '@daily', duration: 30s"));
    assert!(!budget("nodes: '1', reasons: [Expired]"));
}

#[test]
fn numbers_as_quantities_are_fine_but_not_as_labels() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: c\n    resources: {requests: {cpu: 2, memory: 1e3}}\n";
    let loaded = read(pod).unwrap();
    let requests =
        pods(&loaded)[0].spec.as_ref().unwrap().containers[0].resources.clone().unwrap().requests.unwrap();
    assert_eq!(requests["cpu"].0, "2");
    let errors = read("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    x: 1\n").unwrap_err();
    assert!(
        errors[0].contains("line 6: Pod a: metadata.labels.x") && errors[0].ends_with("put it in quotes"),
        "{errors:?}"
    );
}

#[test]
fn a_version_that_is_not_read_is_named_with_the_right_one() {
    let errors = read(&POOL.replace("karpenter.sh/v1", "karpenter.sh/v1beta1")).unwrap_err();
    assert!(errors[0].contains("karpenter.sh/v1 only, not as karpenter.sh/v1beta1"), "{errors:?}");
    for version in ["v1beta1", "v1beta2"] {
        let deployment = format!(
            "apiVersion: cluster.x-k8s.io/{version}\nkind: MachineDeployment\nmetadata: {{name: m}}\nspec: {{clusterName: c}}\n"
        );
        assert_eq!(names(&read(&deployment).unwrap()), ["MachineDeployment default/m"]);
    }
}

#[test]
fn documents_without_kind_name_or_sense_are_refused() {
    for (text, told) in [
        ("apiVersion: v1\nmetadata: {name: a}\n", "kind is missing"),
        ("kind: Pod\nmetadata: {name: a}\n", "apiVersion is missing"),
        ("apiVersion: v1\nkind: Pod\n", "metadata is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "metadata.name: the name is missing"),
        ("just text\n", "must be an object"),
        ("a: [1\n", "a.yaml: document 1, line"),
    ] {
        let errors = read(text).unwrap_err();
        assert!(errors[0].contains(told), "{text:?}: {errors:?}");
    }
}

#[test]
fn every_bad_document_is_told_at_once() {
    let errors =
        read("kind: Pod\n---\napiVersion: v1\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a}}\n")
            .unwrap_err();
    assert_eq!(errors.len(), 2);
    assert!(errors[1].starts_with("a.yaml: document 2, line"), "{errors:?}");
}

#[test]
fn the_same_object_twice_must_be_equal() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n";
    assert_eq!(read(&format!("{pod}---\n{pod}")).unwrap().objects.len(), 1);
    let errors =
        read(&format!("{pod}---\n{{apiVersion: v1, kind: Pod, metadata: {{name: a, labels: {{x: y}}}}}}\n"))
            .unwrap_err();
    assert!(errors[0].contains("first in a.yaml document 1"), "{errors:?}");
}

#[test]
fn templates_that_a_machine_deployment_names_are_used() {
    let text = "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DevMachineTemplate
metadata: {name: used}
status: {capacity: {cpu: 4}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DevMachineTemplate
metadata: {name: unused}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: m}
spec:
  clusterName: c
  template: {spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: used}}}
";
    let loaded = read(text).unwrap();
    assert_eq!(
        names(&loaded),
        [
            "MachineDeployment default/m",
            "InfrastructureTemplate default/DevMachineTemplate.infrastructure.cluster.x-k8s.io/used"
        ]
    );
    assert_eq!(loaded.others.values().sum::<usize>(), 1);
}

#[test]
fn pods_get_what_admission_adds() {
    let text = "
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {runtimeClassName: kata, priorityClassName: high, containers: [{name: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: other}, spec: {priorityClassName: system-node-critical, containers: [{name: c}]}}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, overhead: {podFixed: {cpu: 250m}}, scheduling: {nodeSelector: {kata: 'true'}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: l}, spec: {limits: [{type: Container, defaultRequest: {cpu: 100m}}]}}
";
    let loaded = read(text).unwrap();
    let specs: Vec<_> = pods(&loaded).into_iter().map(|pod| pod.spec.unwrap()).collect();
    assert_eq!(specs[0].overhead.as_ref().unwrap()["cpu"].0, "250m");
    assert_eq!(specs[0].node_selector.as_ref().unwrap()["kata"], "true");
    assert_eq!(specs[0].priority, Some(1000));
    assert_eq!(
        specs[0].containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap()["cpu"].0,
        "100m"
    );
    assert_eq!(specs[1].priority, Some(2_000_001_000));
    assert_eq!(specs[1].containers[0].resources.as_ref(), None, "the LimitRange is of another namespace");
}
