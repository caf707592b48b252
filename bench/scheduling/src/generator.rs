//! Clusters of any size, the same for the same size: many Deployments and their wishes, NodePools of teams, half-full nodes.

mod pods;

use pods::Deployment;
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const REGION: &str = "region-1";

/// How large a cluster is.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Size {
    /// Pods that want a place.
    pub(crate) pods: usize,
    /// Existing nodes.
    pub(crate) nodes: usize,
    /// NodePools; every second one is for a team of its own, behind a taint.
    pub(crate) pools: usize,
}

/// Numbers that look like chance and are the same every time (splitmix64).
pub(crate) struct Numbers(u64);

impl Numbers {
    /// Below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(end.max(1)).unwrap_or(1)).unwrap_or_default()
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T], otherwise: T) -> T {
        choices.get(self.below(choices.len())).copied().unwrap_or(otherwise)
    }
}

/// A solve document of this size.
pub(crate) fn document(size: Size) -> Value {
    let mut numbers = Numbers(0x00c0_ffee);
    let pods = pods::of_deployments(size, &mut numbers);
    let nodes: Vec<Value> = (0..size.nodes).map(node).collect();
    let bound: Vec<Value> = (0..size.nodes).map(|index| bound_pod(index, &mut numbers)).collect();
    json!({
        "nodePools": (0..size.pools).map(pool).collect::<Vec<_>>(),
        "instanceTypes": {"*": instance_types()},
        "pods": pods,
        "nodes": nodes,
        "boundPods": bound,
        "daemonSetPods": [{"metadata": {"name": "agent", "namespace": "kube-system"}, "spec": {
            "containers": [container(100, 128)], "tolerations": [{"operator": "Exists"}]}}],
    })
}

pub(crate) fn container(cpu: usize, memory: usize) -> Value {
    json!({"name": "c", "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}}})
}

/// The team that a NodePool is for; None for those that are for everybody.
pub(crate) fn team(pool: usize) -> Option<String> {
    (pool % 2 == 1).then(|| format!("team-{pool}"))
}

fn pool(index: usize) -> Value {
    let mut template = json!({"requirements": [
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In",
             "values": if index.is_multiple_of(3) { vec!["on-demand"] } else { vec!["spot", "on-demand"] }},
        ], "nodeClassRef": {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"}});
    let mut labels = json!({});
    if let Some(team) = team(index) {
        labels = json!({"example.com/team": team});
        template["taints"] = json!([{"key": "example.com/team", "value": team, "effect": "NoSchedule"}]);
    }
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": format!("pool-{index:04}")},
        "spec": {"weight": 1 + index * 7 % 100, "template": {"metadata": {"labels": labels}, "spec": template},
            // Set by the API server, and needed by upstream.
            "disruption": {"consolidateAfter": "0s"}},
    })
}

/// Three families of six sizes on two architectures, each in three zones and two capacity types.
fn instance_types() -> Vec<Value> {
    let mut types = Vec::new();
    for (family, memory, dollars) in [("c", 2, 0.040), ("m", 4, 0.048), ("r", 8, 0.063)] {
        for cpu in [2_u32, 4, 8, 16, 32, 64] {
            for (arch, discount) in [("amd64", 1.0), ("arm64", 0.8)] {
                types.push(instance_type(
                    &format!("{family}{cpu}-{arch}"),
                    arch,
                    (cpu, memory * cpu),
                    dollars * discount,
                ));
            }
        }
    }
    types
}

fn instance_type(name: &str, arch: &str, (cpu, memory): (u32, u32), dollars: f64) -> Value {
    let one_of = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let mut offerings = Vec::new();
    for (zone, dearer) in ZONES.into_iter().zip([1.0, 1.01, 1.02]) {
        for (capacity_type, share) in [("on-demand", 1.0), ("spot", 0.4)] {
            offerings.push(json!({
                "requirements": [one_of("topology.kubernetes.io/zone", &[zone]),
                    one_of("karpenter.sh/capacity-type", &[capacity_type])],
                "price": f64::from(cpu) * dollars * dearer * share,
            }));
        }
    }
    json!({
        "name": name,
        "requirements": [
            one_of("node.kubernetes.io/instance-type", &[name]), one_of("kubernetes.io/arch", &[arch]),
            one_of("kubernetes.io/os", &["linux"]), one_of("topology.kubernetes.io/zone", &ZONES),
            one_of("topology.kubernetes.io/region", &[REGION]),
            one_of("karpenter.sh/capacity-type", &["on-demand", "spot"]),
        ],
        "offerings": offerings,
        "capacity": {"cpu": cpu.to_string(), "memory": format!("{memory}Gi"), "pods": "110"},
        "overhead": {"kubeReserved": {"cpu": "100m", "memory": "255Mi"}},
    })
}

fn node_name(index: usize) -> String {
    format!("node-{index:05}")
}

/// Eight processors, in turn in each zone.
fn node(index: usize) -> Value {
    let name = node_name(index);
    let zone = ZONES.get(index % ZONES.len()).copied().unwrap_or_default();
    let amounts = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "m8-amd64", "topology.kubernetes.io/zone": zone,
            "topology.kubernetes.io/region": REGION, "karpenter.sh/capacity-type": "on-demand"}},
        "spec": {"providerID": format!("example://{name}")},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// What a node carries already: it leaves room for a few small pods.
fn bound_pod(index: usize, numbers: &mut Numbers) -> Value {
    let mut pod = Deployment::plain(numbers.below(50)).pod(&format!("bound-{index:05}"));
    pod["spec"]["containers"] = json!([container(5_000 + 500 * numbers.below(6), 12_000)]);
    pod["spec"]["nodeName"] = json!(node_name(index));
    pod["status"] = json!({"phase": "Running"});
    pod
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_capi_conformance::document::input;
    use karpenter_capi_scheduling::{audit, solve};

    #[test]
    fn a_cluster_is_the_same_every_time_and_can_be_solved() {
        let size = Size { pods: 200, nodes: 20, pools: 4 };
        let made = document(size);
        assert_eq!(made, document(size));
        let input = input(&made).unwrap();
        assert_eq!((input.pods.len(), input.nodes.len(), input.node_pools.len()), (200, 20, 4));
        assert!(input.pods.iter().all(|pod| pod.invalid.is_empty()));
        assert!(input.node_pools.iter().all(|pool| pool.not_ready.is_none()));
        let plan = solve(&input);
        assert_eq!(audit(&input, &plan), []);
        assert_eq!(plan.pending, []);
    }
}
