mod machine;
mod machine_deployment;
mod template;

use kube::core::Resource;
use machine::{machine_v1beta1, machine_v1beta2};
use machine_deployment::{deployment_v1beta1, deployment_v1beta2};
use serde_json::{Value, json};

use super::*;
use crate::condition;
use crate::names::labels;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn what_was_read_is_read_again_after_it_was_written() {
    for object in [deployment_v1beta2(), deployment_v1beta1()] {
        let deployment: MachineDeployment = read(object);
        let written = serde_json::to_value(&deployment).unwrap();
        assert_eq!(written["apiVersion"], "cluster.x-k8s.io/v1beta2");
        assert_eq!(written["kind"], "MachineDeployment");
        assert_eq!(written["spec"]["rollout"]["strategy"]["type"], "OnDelete");
        assert_eq!(read::<MachineDeployment>(written), deployment);
    }
    for object in [machine_v1beta2(), machine_v1beta1()] {
        let machine: Machine = read(object);
        assert_eq!(read::<Machine>(serde_json::to_value(&machine).unwrap()), machine);
    }
    let cluster: Cluster = read(cluster_v1beta2());
    assert_eq!(read::<Cluster>(serde_json::to_value(&cluster).unwrap()), cluster);
}

#[test]
fn a_machine_set_is_read_in_both_versions() {
    let newer: MachineSet = read(json!({
        "metadata": { "name": "small-x", "namespace": "capi", "generation": 2 },
        "spec": { "clusterName": "demo", "replicas": 2, "deletion": { "order": "Newest" }, "selector": {}, "template": {} },
        "status": { "observedGeneration": 2, "replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "upToDateReplicas": 2 },
    }));
    let older: MachineSet = read(json!({
        "metadata": { "name": "small-x", "namespace": "capi", "generation": 2 },
        "spec": { "clusterName": "demo", "replicas": 2, "deletePolicy": "Newest", "selector": {}, "template": {} },
        "status": {
            "observedGeneration": 2, "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 0,
            "v1beta2": { "readyReplicas": 1, "availableReplicas": 1, "upToDateReplicas": 2 },
        },
    }));
    assert_eq!(newer.status.observed_generation, Some(2));
    assert_eq!(newer.spec.deletion, Some(ReplicaDeletion { order: Some("Newest".to_owned()) }));
    assert_eq!(older, newer);
}

fn cluster_v1beta2() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": { "name": "demo", "namespace": "capi" },
        "spec": {
            "paused": true,
            "controlPlaneRef": { "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "demo" },
            "infrastructureRef": {},
            "topology": {
                "classRef": { "name": "quick" }, "version": "v1.36.0",
                "workers": { "machineDeployments": [
                    { "class": "w", "name": "fixed", "replicas": 3 },
                    { "class": "w", "name": "open" },
                ] },
            },
        },
        "status": {
            "observedGeneration": 1, "phase": "Provisioned",
            "initialization": { "infrastructureProvisioned": true, "controlPlaneInitialized": true },
        },
    })
}

#[test]
fn a_cluster_is_read_in_both_versions() {
    let newer: Cluster = read(cluster_v1beta2());
    assert!(newer.spec.paused);
    assert_eq!(newer.spec.infrastructure_ref, None, "an empty reference is none");
    assert_eq!(newer.spec.topology_replicas("fixed"), Some(3));
    assert_eq!(newer.spec.topology_replicas("open"), None);
    assert_eq!(newer.spec.topology_replicas("missing"), None);

    let mut object = cluster_v1beta2();
    object["spec"]["topology"].as_object_mut().unwrap().remove("classRef");
    object["spec"]["topology"]["class"] = json!("quick");
    object["status"] = json!({
        "observedGeneration": 1, "phase": "Provisioned", "infrastructureReady": true, "controlPlaneReady": true,
        "failureDomains": { "a": { "controlPlane": true } },
    });
    assert_eq!(read::<Cluster>(object), newer);
}

#[test]
fn requests_go_to_the_version_that_is_served() {
    for (version, text) in [(CapiVersion::V1Beta1, "v1beta1"), (CapiVersion::V1Beta2, "v1beta2")] {
        assert_eq!(
            MachineDeployment::url_path(&version, Some("capi")),
            format!("/apis/cluster.x-k8s.io/{text}/namespaces/capi/machinedeployments")
        );
        assert_eq!(Machine::url_path(&version, None), format!("/apis/cluster.x-k8s.io/{text}/machines"));
        assert_eq!(MachineSet::plural(&version), "machinesets");
        assert_eq!(Cluster::plural(&version), "clusters");
        assert_eq!(CapiVersion::from_api_version(version.api_version()), Some(version));
    }
    assert_eq!(CapiVersion::from_api_version("cluster.x-k8s.io/v1alpha4"), None);
}
