mod buffers;
mod nodes;
mod overlays;
mod pods;
mod pools;
mod spread;
mod static_pools;

use super::*;
use crate::files::{Source, load};
use crate::index::Index;
use karpenter_capi_model::feature_gates::Gate;
use karpenter_capi_scheduling::input::{MinValuesPolicy, PreferencePolicy, ReservedOfferingMode};
use std::fmt::Write;

fn options(origin: Origin) -> InputOptions {
    InputOptions {
        now: "2026-01-05T12:00:00Z".parse().unwrap(),
        origin,
        scope: Scope::default(),
        scheduling: Options {
            preference_policy: PreferencePolicy::Respect,
            min_values_policy: MinValuesPolicy::Strict,
            reserved_offering_mode: ReservedOfferingMode::Strict,
            max_instance_types: 600,
        },
        gates: FeatureGates::NONE,
        facts: BTreeMap::new(),
        nominations: BTreeMap::new(),
        marked: BTreeSet::new(),
        scheduler_config: SchedulerConfig::default(),
    }
}

fn made_with(text: &str, options: &InputOptions) -> ProvisioningInput {
    let loaded = load([Source { name: "test.yaml", text }]).unwrap_or_else(|error| panic!("{error}"));
    let index: Index = loaded.objects.into_iter().collect();
    provisioning_input(&index.snapshot(), options)
}

fn made(text: &str) -> ProvisioningInput {
    made_with(text, &options(Origin::Files))
}

/// Node class `c`, NodePool `p` and MachineDeployments of 4 processors and 16Gi.
fn world(deployments: &[&str]) -> String {
    let mut text = "
{apiVersion: karpenter.cluster.x-k8s.io/v1alpha1, kind: ClusterAPINodeClass, metadata: {name: c}, spec: {}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  limits: {cpu: '10'}
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}
"
    .to_owned();
    for name in deployments {
        write!(
            text,
            "---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: {name}
  labels: {{node.cluster.x-k8s.io/karpenter-member: ''}}
  annotations:
    capacity.cluster-autoscaler.kubernetes.io/cpu: '4'
    capacity.cluster-autoscaler.kubernetes.io/memory: 16Gi
    capacity.cluster-autoscaler.kubernetes.io/labels: topology.kubernetes.io/zone=z1
    karpenter.cluster.x-k8s.io/price: '0.2'
spec: {{clusterName: k, replicas: 0}}
"
        )
        .unwrap();
    }
    text
}

fn claim(name: &str, metadata: &str, rest: &str) -> String {
    format!(
        "---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: {name}
  labels: {{karpenter.sh/nodepool: p}}
{metadata}
spec:
  requirements: []
  nodeClassRef: {{group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: c}}
  resources: {{requests: {{cpu: '1'}}}}
{rest}
"
    )
}

fn assigned(deployment: &str) -> String {
    format!("  annotations: {{karpenter.cluster.x-k8s.io/machine-deployment: default/{deployment}}}")
}

fn pod(name: &str, rest: &str) -> String {
    format!("---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, {rest}}}\n")
}

fn wanting(made: &ProvisioningInput) -> Vec<String> {
    made.input.pods.iter().map(|pod| pod.name.name.clone()).collect()
}

fn told(made: &ProvisioningInput) -> String {
    let lines = made.warnings.iter().map(|warning| format!("{}: {}", warning.object, warning.message));
    lines.collect::<Vec<_>>().join("\n")
}

const JOINED: &str = "status:
  nodeName: n1
  providerID: x://1
  conditions:
  - {type: Launched, status: 'True', lastTransitionTime: '2026-01-05T11:00:00Z'}
  - {type: Registered, status: 'True', lastTransitionTime: '2026-01-05T11:00:00Z'}
";

fn deleting() -> String {
    assigned("m1") + "\n  deletionTimestamp: '2026-01-05T11:59:00Z'"
}

const NODE: &str = "---\n{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {providerID: 'x://1'}, status: {allocatable: {cpu: '4'}}}\n";
