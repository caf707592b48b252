use crate::case::{Case, Judged};
use crate::document;
use crate::listed::{Entry, List};
use crate::verdict::Verdict;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_scheduling::input::{
    Input, MinValuesPolicy, PreferencePolicy, ReservedOfferingMode, VolumeClaim,
};
use karpenter_capi_scheduling::plan::{PendingPod, PendingReason, Plan};
use karpenter_capi_scheduling::solve;
use serde_json::{Value, json};

fn instance_type(name: &str, cpu: &str, price: f64) -> Value {
    json!({
        "name": name,
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        ],
        "capacity": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
        "overhead": {"kubeReserved": {"cpu": "100m"}, "evictionThreshold": {"cpu": "50m"}},
        "offerings": [{
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
            "price": price,
        }],
    })
}

/// A pool of two types, and a pod that asks for one processor.
fn world() -> Value {
    json!({
        "description": "a small world",
        "nodePools": [{
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
            "spec": {"template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"}}}},
        }],
        "instanceTypes": {"*": [instance_type("large", "4", 0.4), instance_type("small", "2", 0.2)]},
        "pods": [{"metadata": {"name": "a"}, "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}],
    })
}

fn answer(types: &[&str], price: f64) -> Value {
    json!({"nodeClaims": [{
        "nodePool": "p", "pods": ["default/a"], "instanceTypes": types, "cheapestPrice": price,
        "requirements": ["karpenter.sh/nodepool In [p]", "karpenter.test.sh/testnodeclass In [default]"],
        "requests": {"cpu": "1", "pods": "1"},
    }]})
}

fn judged(answer: Value, list: &mut List) -> Judged {
    Case { name: "0001".to_owned(), document: world(), answer }.judge(list)
}

/// Leaves every pod where it is.
fn idle(input: &Input) -> Plan {
    let reason = PendingReason {
        node_pool: None,
        machine_deployment: None,
        instance_type: None,
        code: karpenter_capi_model::reason::ReasonCode::NotEvaluated,
        message: "nobody looked".to_owned(),
        remedy: None,
    };
    let pending = |name: &NamespacedName| PendingPod { pod: name.clone(), reasons: vec![reason.clone()] };
    Plan { pending: input.pods.iter().map(|pod| pending(&pod.name)).collect(), ..Plan::default() }
}

#[test]
fn the_same_answer_is_equal_and_a_cheaper_or_fuller_one_is_better() {
    let mut list = List::default();
    assert_eq!(judged(answer(&["small", "large"], 0.2), &mut list).verdict, Verdict::Equal);
    let cheaper = judged(answer(&["large"], 0.4), &mut list).verdict;
    assert_eq!(cheaper, Verdict::Better("0.200000 dollars an hour instead of 0.400000".to_owned()));
    let fuller = judged(json!({"nodeClaims": [], "podErrors": ["default/a"]}), &mut list).verdict;
    assert_eq!(fuller, Verdict::Better("1 pods instead of 0".to_owned()));
    let other = judged(answer(&["small"], 0.2), &mut list).verdict;
    assert_eq!(other, Verdict::Better("as many pods at the same price".to_owned()));
}

#[test]
fn a_dearer_an_emptier_and_a_broken_plan_and_a_panic_are_worse() {
    let mut list = List::default();
    let dearer = judged(answer(&["small"], 0.1), &mut list);
    assert_eq!(dearer.verdict.words(), "0.200000 dollars an hour, 0.100000 were recorded");
    assert!(dearer.explanation.contains("recorded p: small at 0.100000 for default/a"));
    let case = Case { name: "0001".to_owned(), document: world(), answer: answer(&["small", "large"], 0.2) };
    let emptier = case.judge_by(&mut list, &idle);
    assert_eq!(emptier.verdict.words(), "0 pods have a place, 1 were recorded");
    assert!(
        emptier.explanation.contains("default/a: NotEvaluated: nobody looked"),
        "{}",
        emptier.explanation
    );
    let broken = case.judge_by(&mut list, &|input| {
        let mut plan = solve(input);
        plan.node_claims[0].pods.clear();
        plan
    });
    assert!(broken.verdict.words().contains("stands 0 times"), "{:?}", broken.verdict);
    let panic = case.judge_by(&mut list, &|_| panic!("on purpose"));
    assert_eq!(panic.verdict, Verdict::Worse(vec!["panicked: on purpose".to_owned()]));
}

#[test]
fn the_list_excuses_what_is_worse_and_nothing_else() {
    let entry = Entry {
        document: "0001".to_owned(),
        description: "a small world".to_owned(),
        field: "nodeClaims".to_owned(),
        defect: "the price is made up".to_owned(),
        why: "nothing costs 0.1".to_owned(),
    };
    let mut list = List::new(vec![entry.clone()]);
    let verdict = judged(answer(&["small"], 0.1), &mut list).verdict;
    assert_eq!(verdict.word(), "listed");
    assert_eq!(list.needless().count(), 0);
    let mut list = List::new(vec![entry.clone()]);
    assert_eq!(judged(answer(&["small", "large"], 0.2), &mut list).verdict, Verdict::Equal);
    assert_eq!(list.needless().collect::<Vec<_>>(), [&entry]);
    let mut elsewhere = List::new(vec![Entry { description: "another".to_owned(), ..entry }]);
    assert_eq!(judged(answer(&["small"], 0.1), &mut elsewhere).verdict.word(), "worse");
    assert_eq!(elsewhere.needless().count(), 0);
}

#[test]
fn the_kept_list_names_field_defect_and_reason() {
    assert!(List::kept().is_ok());
}

#[test]
fn options_nodes_volumes_and_namespaces_reach_the_input() {
    let mut document = world();
    document["options"] = json!({"preferencePolicy": "Ignore", "minValuesPolicy": "BestEffort",
        "reservedOfferingMode": "Fallback", "maxInstanceTypes": 7, "numConcurrentReconciles": 5});
    document["wellKnownLabels"] = json!(["example.com/cpu"]);
    document["reservationIDLabel"] = json!("example.com/reservation");
    document["pods"][0]["spec"]["volumes"] =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]);
    document["objects"] = json!([
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"env": "prod"}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "v", "namespace": "default"},
         "spec": {"storageClassName": "sc"}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "sc"}, "provisioner": "d",
         "volumeBindingMode": "WaitForFirstConsumer"},
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"},
         "spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 2}}]}},
    ]);
    let labels = json!({"karpenter.sh/nodepool": "p"});
    document["nodes"] = json!([{"metadata": {"name": "n", "labels": labels}, "spec": {"providerID": "x"},
        "status": {"capacity": {"cpu": "4"}}}]);
    document["nodeClaims"] = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "c", "labels": labels}, "status": {"providerID": "x"},
        "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "default"}}}]);
    document["boundPods"] = json!([{"metadata": {"name": "b"}, "spec": {"nodeName": "n", "containers": []}}]);
    let input = document::input(&document).unwrap();
    assert_eq!(input.options.preference_policy, PreferencePolicy::Ignore);
    assert_eq!(input.options.min_values_policy, MinValuesPolicy::BestEffort);
    assert_eq!(input.options.reserved_offering_mode, ReservedOfferingMode::Fallback);
    assert_eq!(input.options.max_instance_types, 7);
    assert_eq!(input.reservation_id_label, "example.com/reservation");
    assert_eq!(
        input.well_known_labels.iter().collect::<Vec<_>>(),
        ["example.com/cpu", "example.com/reservation"]
    );
    assert_eq!(input.namespaces["default"]["env"], "prod");
    let claim = &input.volumes.claims[&NamespacedName::new("default", "v")];
    assert_eq!(*claim, VolumeClaim::Usable { alternatives: vec![], driver: Some("d".to_owned()) });
    assert_eq!(input.volumes.attach_limits["n"]["d"], 2);
    assert_eq!(input.nodes.len(), 1);
    assert_eq!(input.nodes[0].node_claim.as_deref(), Some("c"));
    assert_eq!((input.node_pools[0].node_count, input.node_pools[0].usage.cpu()), (1, 4000));
    assert_eq!(input.bound_pods["n"].len(), 1);
    assert_eq!(input.instance_types["p"][0].name, "large");
    assert_eq!(input.instance_types["p"][0].allocatable().cpu(), 3850);
}

#[test]
fn what_can_not_be_read_is_told_with_its_path() {
    let wrong = |change: &dyn Fn(&mut Value)| {
        let mut document = world();
        change(&mut document);
        document::input(&document).unwrap_err().to_string()
    };
    let unknown = wrong(&|document| document["podz"] = json!([]));
    assert_eq!(unknown, "podz: isn't a field of a solve document");
    let option = wrong(&|document| document["options"] = json!({"enforceConsolidateAfter": true}));
    assert_eq!(option, "options.enforceConsolidateAfter: isn't evaluated by this version");
    let price = wrong(&|document| document["instanceTypes"]["*"][1]["offerings"][0]["price"] = json!(-1));
    assert!(price.starts_with("instanceTypes.*[1].offerings[].price"), "{price}");
    let pod = wrong(&|document| document["pods"][0] = json!(3));
    assert!(pod.starts_with("pods[0]: "), "{pod}");
}
