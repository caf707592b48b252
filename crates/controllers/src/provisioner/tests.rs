use super::*;
use crate::context::Queues;
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::{Clients, Scope as Served, Settings};
use http::{Request, Response};
use karpenter_capi_api::capi::CapiVersion;
use karpenter_capi_cluster::files::{Source, load};
use karpenter_capi_cluster::scheduler_config::SchedulerConfig;
use karpenter_capi_scheduling::input::{MinValuesPolicy, PreferencePolicy};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::{Value, json};
use std::task::{Context as Task, Poll};
use tower::{BoxError, Service};

/// Takes everything that is posted, and gives it a name.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Vec<Value>>>);

impl Service<Request<Body>> for Server {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let posted = Arc::clone(&self.0);
        async move {
            let body = request.into_body().collect_bytes().await?;
            let mut object: Value = serde_json::from_slice(&body)?;
            let mut posted = posted.lock();
            if object["metadata"]["name"].is_null() {
                object["metadata"]["name"] = json!(format!("made-{}", posted.len()));
            }
            posted.push(object.clone());
            let response = Response::builder().status(201).header("content-type", "application/json");
            Ok(response.body(Body::from(object.to_string().into_bytes()))?)
        }
        .boxed()
    }
}

impl Server {
    fn posted(&self, kind: &str) -> Vec<Value> {
        self.0.lock().iter().filter(|object| object["kind"] == kind).cloned().collect()
    }
}

const WORLD: &str = "
{apiVersion: karpenter.cluster.x-k8s.io/v1alpha1, kind: ClusterAPINodeClass, metadata: {name: c}, spec: {}, status: {conditions: [
  {type: Ready, status: 'True', reason: Ready, message: '', lastTransitionTime: '2026-01-05T11:00:00Z'}]}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p, uid: u}
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}
status: {conditions: [{type: Ready, status: 'True', reason: Ready, message: '', lastTransitionTime: '2026-01-05T11:00:00Z'}]}
---
{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: k, namespace: default}, spec: {}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: m1
  namespace: default
  labels: {node.cluster.x-k8s.io/karpenter-member: '', cluster.x-k8s.io/cluster-name: k}
  annotations:
    capacity.cluster-autoscaler.kubernetes.io/cpu: '4'
    capacity.cluster-autoscaler.kubernetes.io/memory: 16Gi
    karpenter.cluster.x-k8s.io/price: '0.2'
spec: {clusterName: k, replicas: 0}
";

/// A pod that kube-scheduler has found no place for; each fills a machine.
fn pod(name: &str, cpu: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, uid: uid-{name}}}
spec: {{containers: [{{name: c, resources: {{requests: {{cpu: '{cpu}'}}}}}}]}}
status: {{phase: Pending, conditions: [{{type: PodScheduled, status: 'False', reason: Unschedulable}}]}}
"
    )
}

fn context(server: &Server, registry: &Registry, text: &str) -> Arc<Context> {
    let client = || Client::new(server.clone(), "default");
    let queues = Queues {
        capacity_buffers: Queue::new().0,
        node_overlays: Queue::new().0,
        static_pools: Queue::new().0,
        node_classes: Queue::new().0,
        node_pools: Queue::new().0,
        node_claims: Queue::new().0,
        nodes: Queue::new().0,
        machine_deployments: Queue::new().0,
        templates: Queue::new().0,
    };
    let scope = Served {
        namespace: "default".to_owned(),
        cluster: "k".to_owned(),
        hypershift_namespace: None,
        version: CapiVersion::V1Beta2,
    };
    let settings = Settings {
        feature_gates: crate::DEFAULT_FEATURE_GATES.parse().unwrap(),
        batch_idle: Duration::ZERO,
        batch_max: Duration::ZERO,
        preference_policy: PreferencePolicy::Respect,
        min_values_policy: MinValuesPolicy::Strict,
        scheduler_config: SchedulerConfig::default(),
        cpu_requests_millicores: 1000,
    };
    let clients = Clients { workload: client(), management: client() };
    let context = Context::new(clients, scope, settings, Metrics::new(registry).unwrap(), queues);
    let loaded = load([Source { name: "world.yaml", text }]).unwrap_or_else(|error| panic!("{error}"));
    loaded.objects.into_iter().for_each(|object| context.index.apply(object));
    Arc::new(context)
}

fn gauge(registry: &Registry, name: &str) -> Option<f64> {
    let family = registry.gather().into_iter().find(|family| family.name() == name)?;
    family.get_metric().first().map(|series| series.get_gauge().get_value())
}

/// Ends after so many questions.
fn asks(most: usize) -> impl Fn() -> bool + Send + 'static {
    let asked = AtomicUsize::new(0);
    move || asked.fetch_add(1, Ordering::SeqCst) < most
}

#[tokio::test]
async fn a_pass_that_runs_out_of_time_creates_what_was_decided_and_reports_nobody_else() {
    let text = WORLD.to_owned() + &pod("a", "3") + &pod("b", "3") + &pod("c", "3");
    let (mut some, mut created_before) = (false, 0);
    for most in 0..100 {
        let (server, registry) = (Server::default(), Registry::new());
        let context = context(&server, &registry, &text);
        let mut memory = Memory::default();
        let left = pass(&context, &HashMap::new(), &mut memory, asks(most)).await.unwrap();
        let created = server.posted("NodeClaim").len();
        assert!(created >= created_before, "more time never decides less");
        assert_eq!(memory.nominations.len(), created, "each claim is for a pod");
        let told: Vec<Value> = server
            .posted("Event")
            .into_iter()
            .filter(|event| event["reason"] == "FailedScheduling")
            .collect();
        assert_eq!(told, Vec::<Value>::new());
        assert_eq!(gauge(&registry, "karpenter_scheduler_unschedulable_pods_count"), Some(0.0));
        assert_eq!(memory.decided.len(), created, "nobody else was decided on");
        assert_eq!(left, if created == 3 { Left::Nobody } else { Left::NotLookedAt });
        some |= (1..3).contains(&created);
        created_before = created;
    }
    assert!(some, "some time is too little for all and enough for one");
    assert_eq!(created_before, 3);
}

#[tokio::test]
async fn a_pod_without_a_place_is_told_and_counted() {
    let text = WORLD.to_owned() + &pod("a", "3") + &pod("huge", "64");
    let (server, registry) = (Server::default(), Registry::new());
    let context = context(&server, &registry, &text);
    let left = pass(&context, &HashMap::new(), &mut Memory::default(), || true).await.unwrap();
    assert_eq!(left, Left::WithoutAPlace);
    assert_eq!(server.posted("NodeClaim").len(), 1);
    let told: Vec<String> = server
        .posted("Event")
        .iter()
        .filter(|event| event["reason"] == "FailedScheduling")
        .map(|event| event["regarding"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(told, ["huge"]);
    assert_eq!(gauge(&registry, "karpenter_scheduler_unschedulable_pods_count"), Some(1.0));
    assert_eq!(gauge(&registry, "karpenter_scheduler_pending_pods_by_effective_zone_count"), Some(2.0));
}
