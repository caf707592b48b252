//! Deployments, whose pods are alike, and what each kind of them asks for.

use super::{Numbers, Size, ZONES, container, team};
use serde_json::{Value, json};

/// Pods of a Deployment.
const REPLICAS: usize = 25;

/// What the pods of a Deployment have in common.
pub(super) struct Deployment {
    number: usize,
    cpu: usize,
    memory: usize,
    wish: Wish,
    team: Option<String>,
}

/// What a Deployment asks for besides room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Nothing,
    /// Evenly over zones.
    ZoneSpread,
    /// Evenly over nodes, if that can be had.
    SoftHostSpread,
    /// No two on a node.
    Alone,
    /// All in the zone of the first.
    Together,
    /// In one of two zones.
    InZones,
    /// Spot, if that can be had.
    PreferSpot,
    /// On arm64.
    Arm,
}

/// Most ask for nothing, as in most clusters.
const WISHES: [Wish; 12] = [
    Wish::Nothing,
    Wish::Nothing,
    Wish::Nothing,
    Wish::Nothing,
    Wish::ZoneSpread,
    Wish::ZoneSpread,
    Wish::SoftHostSpread,
    Wish::Alone,
    Wish::Together,
    Wish::InZones,
    Wish::PreferSpot,
    Wish::Arm,
];

/// All pods that want a place.
pub(super) fn of_deployments(size: Size, numbers: &mut Numbers) -> Vec<Value> {
    let mut pods = Vec::with_capacity(size.pods);
    while pods.len() < size.pods {
        let deployment = Deployment::any(pods.len() / REPLICAS, size.pools, numbers);
        for _ in 0..REPLICAS.min(size.pods - pods.len()) {
            pods.push(deployment.pod(&format!("pod-{:06}", pods.len())));
        }
    }
    pods
}

impl Deployment {
    /// One that asks for nothing but room.
    pub(super) fn plain(number: usize) -> Self {
        Self { number, cpu: 100, memory: 128, wish: Wish::Nothing, team: None }
    }

    fn any(number: usize, pools: usize, numbers: &mut Numbers) -> Self {
        let of_team = numbers.below(3) == 0;
        Self {
            number,
            cpu: numbers.one_of(&[50, 100, 250, 500, 1_000, 2_000, 3_500], 100),
            memory: numbers.one_of(&[64, 128, 512, 1_024, 2_048, 6_144], 128),
            wish: numbers.one_of(&WISHES, Wish::Nothing),
            team: team(numbers.below(pools)).filter(|_| of_team),
        }
    }

    pub(super) fn pod(&self, name: &str) -> Value {
        let app = format!("app-{:05}", self.number);
        let mut spec = json!({"containers": [container(self.cpu, self.memory)]});
        self.wishes(&app, &mut spec);
        if let Some(team) = &self.team {
            spec["nodeSelector"] = json!({"example.com/team": team});
            spec["tolerations"] = json!([{"key": "example.com/team", "operator": "Equal", "value": team,
                "effect": "NoSchedule"}]);
        }
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"app": app, "tier": if self.number.is_multiple_of(3) { "web" } else { "batch" }},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app,
                    "controller": true}]},
            "spec": spec,
            "status": {},
        })
    }

    fn wishes(&self, app: &str, spec: &mut Value) {
        let own = json!({"matchLabels": {"app": app}});
        let spread = |key: &str, when: &str| json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": own}]);
        let with_pods = |key: &str| json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": own}]});
        let on_nodes = |key: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]});
        let needs = |term: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
        let (field, value) = match self.wish {
            Wish::Nothing => return,
            Wish::ZoneSpread => {
                ("topologySpreadConstraints", spread("topology.kubernetes.io/zone", "DoNotSchedule"))
            }
            Wish::SoftHostSpread => {
                ("topologySpreadConstraints", spread("kubernetes.io/hostname", "ScheduleAnyway"))
            }
            Wish::Alone => ("affinity", json!({"podAntiAffinity": with_pods("kubernetes.io/hostname")})),
            Wish::Together => ("affinity", json!({"podAffinity": with_pods("topology.kubernetes.io/zone")})),
            Wish::InZones => {
                let zones: Vec<&str> = ZONES.into_iter().skip(self.number % 2).take(2).collect();
                ("affinity", needs(on_nodes("topology.kubernetes.io/zone", &zones)))
            }
            Wish::PreferSpot => (
                "affinity",
                json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 10, "preference": on_nodes("karpenter.sh/capacity-type", &["spot"])}]}}),
            ),
            Wish::Arm => ("affinity", needs(on_nodes("kubernetes.io/arch", &["arm64"]))),
        };
        spec[field] = value;
    }
}
