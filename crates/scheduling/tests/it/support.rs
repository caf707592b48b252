//! Builders: small worlds in few words.

use karpenter_capi_model::daemon::from_daemon_set;
use karpenter_capi_model::instance_type::{InstanceType, Offering};
use karpenter_capi_model::label;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::node::{self, Node, Sources};
use karpenter_capi_model::quantity::Rounding;
use karpenter_capi_model::reason::{ReasonCode, UnavailableReason};
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::{Resources, read_amount};
use karpenter_capi_model::taint::Taint;
use karpenter_capi_scheduling::input::{
    Input, MinValuesPolicy, Options, PreferencePolicy, ReservedOfferingMode, Volumes,
};
use karpenter_capi_scheduling::plan::Plan;
use karpenter_capi_scheduling::{audit, solve};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod pods;
mod pools;

pub(crate) use pods::{PodOf, pod};
pub(crate) use pools::{Pool, pool};

/// A label key that stands for any custom one.
pub(crate) const CAPACITY_TYPE: &str = label::CAPACITY_TYPE;
/// The zone's key.
pub(crate) const ZONE: &str = label::TOPOLOGY_ZONE;

/// `cpu=4 memory=16Gi`, in capacity's rounding.
pub(crate) fn resources(text: &str) -> Resources {
    text.split_whitespace().fold(Resources::ZERO, |all, pair| {
        let (name, amount) = pair.split_once('=').unwrap();
        all.with(name, read_amount(name, amount, Rounding::Down).unwrap())
    })
}

/// `key=value:Effect`.
pub(crate) fn taint(text: &str) -> Taint {
    let (head, effect) = text.rsplit_once(':').unwrap();
    let (key, value) = head.split_once('=').unwrap_or((head, ""));
    Taint::new(key, value, effect.parse().unwrap())
}

fn taint_json(text: &str) -> Value {
    let taint = taint(text);
    json!({"key": taint.key, "value": taint.value, "effect": taint.effect.as_str()})
}

/// A MachineDeployment of amd64 Linux machines, on demand, in no zone, 110 pods each, nothing reserved, without a price.
#[derive(Clone)]
pub(crate) struct Md(pub(crate) InstanceType);

pub(crate) fn md(name: &str, capacity: &str) -> Md {
    let labels = [
        (label::ARCH, "amd64"),
        (label::OS, "linux"),
        (label::INSTANCE_TYPE, name),
        (CAPACITY_TYPE, "on-demand"),
    ];
    let requirements: Requirements =
        labels.iter().map(|(key, value)| Requirement::one_of(key, &[value])).collect();
    let mut capacity = resources(capacity);
    if capacity.pods() == 0 {
        capacity.set("pods", 110);
    }
    Md(InstanceType {
        name: name.to_owned(),
        machine_deployment: Some(NamespacedName::new("default", name)),
        offerings: vec![Offering {
            requirements: [Requirement::one_of(CAPACITY_TYPE, &["on-demand"])].into_iter().collect(),
            price: None,
            unavailable: None,
            reservation_capacity: None,
            capacity_override: None,
            overhead_override: None,
        }],
        requirements,
        taints: Vec::new(),
        capacity,
        overhead: Resources::ZERO,
        headroom: None,
        priority: 0,
    })
}

impl Md {
    pub(crate) fn price(mut self, dollars: &str) -> Self {
        self.0.offerings[0].price = Some(dollars.parse().unwrap());
        self
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.0.requirements.replace(Requirement::one_of(key, &[value]));
        if key == CAPACITY_TYPE || key == ZONE {
            self.0.offerings[0].requirements.replace(Requirement::one_of(key, &[value]));
        }
        self
    }

    pub(crate) fn zone(self, zone: &str) -> Self {
        self.label(ZONE, zone)
    }

    pub(crate) fn taint(mut self, text: &str) -> Self {
        self.0.taints.push(taint(text));
        self
    }

    pub(crate) fn headroom(mut self, machines: i64) -> Self {
        self.0.headroom = Some(machines);
        self
    }

    pub(crate) fn priority(mut self, priority: i32) -> Self {
        self.0.priority = priority;
        self
    }

    pub(crate) fn unavailable(mut self, code: ReasonCode, message: &str) -> Self {
        self.0.offerings[0].unavailable = Some(UnavailableReason::new(code, message));
        self
    }

    pub(crate) fn without_label(mut self, key: &str) -> Self {
        self.0.requirements.retain_keys(|own| own != key);
        self.0.offerings[0].requirements.retain_keys(|own| own != key);
        self
    }
}

/// A Node that nobody manages, initialized, ready, 110 pods.
pub(crate) fn node(name: &str, capacity: &str) -> Node {
    let mut capacity = resources(capacity);
    if capacity.pods() == 0 {
        capacity.set("pods", 110);
    }
    Node {
        name: name.to_owned(),
        node_claim: None,
        has_node: true,
        node_pool: None,
        machine_deployment: None,
        provider_id: None,
        labels: [(label::HOSTNAME.to_owned(), name.to_owned())].into(),
        taints: Vec::new(),
        allocatable: capacity.clone(),
        capacity,
        initialized: true,
        marked_for_deletion: false,
        ready: true,
        price: None,
        created: None,
    }
}

/// A claim of pool `p` on a MachineDeployment with its Node, by way of the API objects.
pub(crate) fn joining(md: &Md, conditions: &[&str], startup_taints: &[&str], node: Option<Value>) -> Node {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|name| json!({"type": name, "status": "True", "lastTransitionTime": "2026-01-05T00:00:00Z"}))
        .collect();
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "nc1", "labels": {"karpenter.sh/nodepool": "p"},
            "annotations": {"karpenter.cluster.x-k8s.io/machine-deployment": format!("default/{}", md.0.name)}},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass",
            "name": "default"}, "startupTaints": startup_taints.iter().map(|text| taint_json(text)).collect::<Vec<_>>()},
        "status": {"conditions": conditions}
    });
    let claim = serde_json::from_value(claim).unwrap();
    let node = node.map(|node| serde_json::from_value(node).unwrap());
    let sources = Sources { node: node.as_ref(), claim: Some(&claim), promise: Some(&md.0), marked: false };
    let (view, problems) = node::from_api(sources);
    assert_eq!(problems, Vec::<String>::new());
    view
}

/// The Node object of [`joining`].
pub(crate) fn node_object(name: &str, amounts: &Value, taints: &[&str]) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "p", "kubernetes.io/hostname": name}},
        "spec": {"taints": taints.iter().map(|text| taint_json(text)).collect::<Vec<_>>()},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "False"}]}
    })
}

/// The world that is solved.
pub(crate) struct World(pub(crate) Input);

pub(crate) fn world() -> World {
    World(Input {
        now: "2026-01-05T12:00:00Z".parse().unwrap(),
        options: Options {
            preference_policy: PreferencePolicy::Respect,
            min_values_policy: MinValuesPolicy::Strict,
            reserved_offering_mode: ReservedOfferingMode::Strict,
            max_instance_types: 600,
        },
        pods: Vec::new(),
        bound_pods: BTreeMap::new(),
        daemon_pods: Vec::new(),
        nodes: Vec::new(),
        node_pools: Vec::new(),
        instance_types: BTreeMap::new(),
        namespaces: BTreeMap::new(),
        volumes: Volumes::default(),
        well_known_labels: BTreeSet::new(),
        nominations: BTreeMap::new(),
        reservation_id_label: String::new(),
    })
}

impl World {
    /// A NodePool whose node class selects all of these.
    pub(crate) fn pool(mut self, pool: Pool, types: &[Md]) -> Self {
        let pool = pool.build();
        self.0
            .instance_types
            .insert(pool.name.clone(), types.iter().map(|md| Arc::new(md.0.clone())).collect());
        self.0.node_pools.push(pool);
        self
    }

    #[expect(clippy::needless_pass_by_value, reason = "cases read better without a borrow for each pod")]
    pub(crate) fn pod(mut self, pod: PodOf) -> Self {
        self.0.pods.push(Arc::new(pod.build()));
        self
    }

    /// `name-0` and so on, all alike.
    pub(crate) fn pods(mut self, count: usize, pod: &PodOf) -> Self {
        for index in 0..count {
            let mut one = pod.clone();
            one.0["metadata"]["name"] =
                json!(format!("{}-{index}", pod.0["metadata"]["name"].as_str().unwrap()));
            self = self.pod(one);
        }
        self
    }

    pub(crate) fn bound(mut self, node: &str, pod: PodOf) -> Self {
        let pod = pod.spec("nodeName", json!(node));
        self.0.bound_pods.entry(node.to_owned()).or_default().push(Arc::new(pod.build()));
        self
    }

    /// An earlier pass made that claim for the pod.
    pub(crate) fn nominated(mut self, pod: &str, claim: &str) -> Self {
        self.0.nominations.insert(format!("default/{pod}"), claim.to_owned());
        self
    }

    pub(crate) fn node(mut self, node: Node) -> Self {
        self.0.nodes.push(node);
        self
    }

    /// A DaemonSet whose template is this pod's spec, with the `LimitRange`s of its namespace.
    pub(crate) fn daemon_set(mut self, pod: &PodOf, limit_ranges: &[Value]) -> Self {
        let set = json!({
            "metadata": {"name": pod.0["metadata"]["name"], "namespace": pod.0["metadata"]["namespace"]},
            "spec": {"selector": {}, "template": {"metadata": {}, "spec": pod.0["spec"]}}
        });
        let ranges: Vec<_> =
            limit_ranges.iter().map(|range| serde_json::from_value(range.clone()).unwrap()).collect();
        let daemon =
            from_daemon_set(&serde_json::from_value(set).unwrap(), None, &ranges.iter().collect::<Vec<_>>());
        self.0.daemon_pods.push(Arc::new(daemon));
        self
    }

    pub(crate) fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.0.options);
        self
    }

    /// Solves, and has the plan looked over.
    pub(crate) fn solve(&self) -> Answer {
        Answer(solved(&self.0))
    }
}

/// The plan for an input, looked over: every test that solves does it here.
#[track_caller]
pub(crate) fn solved(input: &Input) -> Plan {
    let plan = solve(input);
    assert_eq!(audit(input, &plan), [], "{plan:#?}");
    plan
}

/// A plan with questions.
pub(crate) struct Answer(pub(crate) Plan);

impl Answer {
    /// `pool/type: pods`, in the order in which the claims were opened.
    pub(crate) fn claims(&self) -> Vec<String> {
        let words = |claim: &karpenter_capi_scheduling::plan::PlannedNodeClaim| {
            let pods: Vec<&str> = claim.pods.iter().map(|pod| pod.name.as_str()).collect();
            format!("{}/{}: {}", claim.node_pool, claim.chosen().unwrap().instance_type.name, pods.join(" "))
        };
        self.0.node_claims.iter().map(words).collect()
    }

    /// The types to launch, in the order in which the claims were opened.
    pub(crate) fn types(&self) -> Vec<&str> {
        self.0.node_claims.iter().map(|claim| claim.chosen().unwrap().instance_type.name.as_str()).collect()
    }

    /// `node: pods`.
    pub(crate) fn placements(&self) -> Vec<String> {
        let words = |placement: &karpenter_capi_scheduling::plan::Placement| {
            let pods: Vec<&str> = placement.pods.iter().map(|pod| pod.name.as_str()).collect();
            format!("{}: {}", placement.node, pods.join(" "))
        };
        self.0.placements.iter().map(words).collect()
    }

    /// Names of pods without a place.
    pub(crate) fn pending(&self) -> Vec<&str> {
        self.0.pending.iter().map(|pending| pending.pod.name.as_str()).collect()
    }

    /// `Code: message` for a pod without a place.
    pub(crate) fn reasons(&self, pod: &str) -> Vec<String> {
        let pending = self.0.pending.iter().find(|pending| pending.pod.name == pod);
        let pending = pending.unwrap_or_else(|| panic!("{pod} isn't pending: {:?}", self.claims()));
        pending.reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.message)).collect()
    }

    /// `object: message`.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.0.warnings.iter().map(|warning| format!("{}: {}", warning.object, warning.message)).collect()
    }
}
