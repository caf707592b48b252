//! What waits for a place: every kind of constraint that kube-scheduler knows of where pods are.

use super::super::stage::NAMESPACE;
use anyhow::Result;
use karpenter_capi_e2e::{objects, workload};
use kube::Client;
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

/// A Deployment.
pub(super) struct App {
    pub(super) name: &'static str,
    pub(super) replicas: usize,
    /// Of a pod, in thousandths of a processor.
    cpu: u32,
    /// Fields of the pods' spec.
    spec: Value,
    host_port: Option<u16>,
}

impl App {
    const fn new(name: &'static str, replicas: usize, cpu: u32, spec: Value) -> Self {
        Self { name, replicas, cpu, spec, host_port: None }
    }

    fn object(&self) -> Result<Value> {
        let replicas = i32::try_from(self.replicas)?;
        let cpu = format!("{}m", self.cpu);
        let requests = [("cpu", cpu.as_str()), ("memory", "256Mi")];
        let mut object =
            serde_json::to_value(workload::deployment(NAMESPACE, self.name, replicas, &requests))?;
        let pod = &mut object["spec"]["template"]["spec"];
        for (field, value) in self.spec.as_object().into_iter().flatten() {
            pod[field] = value.clone();
        }
        if let Some(port) = self.host_port {
            pod["containers"][0]["ports"] = json!([{ "containerPort": 80, "hostPort": port }]);
        }
        Ok(object)
    }
}

/// Deployments and what they need.
pub(super) struct Workload {
    pub(super) apps: Vec<App>,
    volumes: Vec<Value>,
}

impl Workload {
    /// Pods so small that all of them but the big ones would fit on any one machine: wherever kube-scheduler puts one, there is room for
    /// the others. What decides is topology alone.
    pub(super) fn roomy() -> Self {
        Self::of_size(1)
    }

    /// Eight times as large, so that room is scarce too; without those that want one certain host.
    pub(super) fn tight() -> Self {
        let mut all = Self::of_size(8);
        // Whether room is left beside one pod for those that must be there depends on the order in which equally large pods come.
        all.apps.retain(|app| app.name != "near-disk");
        all
    }

    fn of_size(times: u32) -> Self {
        let in_b = json!({ "matchExpressions": [{ "key": ZONE, "operator": "In", "values": ["b"] }] });
        let prefers_b = json!({ "affinity": { "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 100, "preference": in_b }],
        } } });
        let mut ports = App::new("ports", 3, 100 * times, json!({}));
        ports.host_port = Some(9000);
        let disks = [("disk-a", "a"), ("disk-b", "b"), ("disk-c", "c")];
        let mut apps = vec![
            App::new("big", 2, 6000, json!({})),
            App::new("spread", 9, 200 * times, spread("DoNotSchedule", ZONE, "spread")),
            App::new("hosts", 4, 100 * times, spread("DoNotSchedule", HOST, "hosts")),
            App::new("evenly", 3, 100 * times, spread("ScheduleAnyway", ZONE, "evenly")),
            App::new("apart", 5, 100 * times, affinity("podAntiAffinity", true, HOST, "apart")),
            App::new("rare", 3, 100 * times, affinity("podAntiAffinity", true, ZONE, "rare")),
            App::new("aside", 3, 100 * times, affinity("podAntiAffinity", false, HOST, "aside")),
            App::new("together", 4, 150 * times, affinity("podAffinity", true, ZONE, "together")),
            App::new("near-disk", 2, 150 * times, affinity("podAffinity", true, HOST, "disk-b")),
            App::new("prefers", 4, 150 * times, prefers_b),
            ports,
        ];
        apps.extend(disks.map(|(name, _)| App::new(name, 1, 300 * times, mounts(name))));
        Self { apps, volumes: disks.into_iter().flat_map(|(name, zone)| volume(name, zone)).collect() }
    }

    pub(super) fn pods(&self) -> usize {
        self.apps.iter().map(|app| app.replicas).sum()
    }

    /// Volumes first, each before its claim, as a claim that finds no volume looks for it again only after a while; then all pods at once.
    pub(super) async fn apply(&self, client: &Client) -> Result<()> {
        for object in &self.volumes {
            objects::apply(client, object).await?;
        }
        let apps: Vec<Value> = self.apps.iter().map(App::object).collect::<Result<_>>()?;
        objects::apply_all(client, &apps).await
    }
}

fn selector(app: &str) -> Value {
    json!({ "matchLabels": { workload::APP: app } })
}

fn spread(unsatisfiable: &str, key: &str, app: &str) -> Value {
    json!({ "topologySpreadConstraints": [{
        "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": unsatisfiable, "labelSelector": selector(app),
    }] })
}

/// Nearness to, or distance from, pods of that app.
fn affinity(kind: &str, required: bool, key: &str, app: &str) -> Value {
    let term = json!({ "topologyKey": key, "labelSelector": selector(app) });
    let terms = if required {
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] })
    } else {
        json!({ "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 100, "podAffinityTerm": term }] })
    };
    json!({ "affinity": { kind: terms } })
}

fn mounts(claim: &str) -> Value {
    json!({ "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }] })
}

/// A volume that is in one zone only, and its claim. They name each other, so that nobody has to provision anything.
fn volume(name: &str, zone: &str) -> [Value; 2] {
    let of_zone = json!({ "matchExpressions": [{ "key": ZONE, "operator": "In", "values": [zone] }] });
    let size = json!({ "storage": "1Gi" });
    [
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
            "spec": {
                "capacity": size, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                "claimRef": { "namespace": NAMESPACE, "name": name },
                "nfs": { "server": "storage.invalid", "path": "/" },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [of_zone] } },
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name,
                "resources": { "requests": size },
            },
        }),
    ]
}
