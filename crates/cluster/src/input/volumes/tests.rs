use super::*;
use crate::files::{Source, load};
use crate::index::Index;

/// Facts about the volumes of a pod that wants a place and mounts `wanted`, and one on node `n` that mounts `held`.
fn facts(objects: &str) -> Volumes {
    let text = format!(
        "{objects}
---
{{apiVersion: v1, kind: Pod, metadata: {{name: waits, namespace: default}}, spec: {{
  containers: [{{name: c, image: i}}], volumes: [{{name: v, persistentVolumeClaim: {{claimName: wanted}}}}]}}}}
---
{{apiVersion: v1, kind: Pod, metadata: {{name: runs, namespace: default}}, spec: {{nodeName: n,
  containers: [{{name: c, image: i}}], volumes: [{{name: v, persistentVolumeClaim: {{claimName: held}}}}]}}}}
"
    );
    let loaded = load([Source { name: "test.yaml", text: &text }]).unwrap_or_else(|error| panic!("{error}"));
    let snapshot = loaded.objects.into_iter().collect::<Index>().snapshot();
    let (holding, wanting): (Vec<_>, Vec<_>) =
        snapshot.pods.values().cloned().partition(|record| record.model.node_name.is_some());
    let holding: Vec<Arc<Pod>> = holding.iter().map(|record| Arc::clone(&record.model)).collect();
    volumes(&snapshot, &wanting, &holding)
}

fn claim<'v>(facts: &'v Volumes, name: &str) -> &'v VolumeClaim {
    &facts.claims[&NamespacedName::new("default", name)]
}

/// Alternatives as text, and the driver.
fn usable(facts: &Volumes, name: &str) -> (Vec<String>, Option<String>) {
    match claim(facts, name) {
        VolumeClaim::Usable { alternatives, driver } => {
            (alternatives.iter().map(ToString::to_string).collect(), driver.clone())
        }
        VolumeClaim::Unusable(why) => panic!("{name}: {why}"),
    }
}

const BOUND: &str = "
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: wanted, namespace: default}, spec: {volumeName: pv, storageClassName: sc}}
---
";

fn bound_to(volume: &str) -> Volumes {
    facts(&format!(
        "{BOUND}{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: pv}}, spec: {{{volume}}}}}
---
{{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: sc}}, provisioner: kubernetes.io/cinder}}
"
    ))
}

#[test]
fn each_term_of_a_bound_volume_is_an_alternative() {
    let facts = bound_to(
        "csi: {driver: d, volumeHandle: h}, nodeAffinity: {required: {nodeSelectorTerms: [
         {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}, {},
         {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [b, c]}]}]}}",
    );
    let terms = ["topology.kubernetes.io/zone In [a]", "topology.kubernetes.io/zone In [b c]"];
    assert_eq!(usable(&facts, "wanted"), (terms.map(str::to_owned).to_vec(), Some("d".to_owned())));
}

#[test]
fn the_host_of_a_local_volume_is_no_constraint_on_new_nodes() {
    let facts = bound_to(
        "local: {path: /x}, nodeAffinity: {required: {nodeSelectorTerms: [
         {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n]}]},
         {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n]}, {key: k, operator: Exists}]}]}}",
    );
    assert_eq!(usable(&facts, "wanted").0, ["", "k Exists"]);
}

#[test]
fn in_tree_volumes_and_classes_count_for_the_driver_that_attaches_them() {
    let of_volume = |volume| usable(&bound_to(volume), "wanted").1;
    assert_eq!(of_volume("awsElasticBlockStore: {volumeID: v}").as_deref(), Some("ebs.csi.aws.com"));
    assert_eq!(of_volume("gcePersistentDisk: {pdName: v}").as_deref(), Some("pd.csi.storage.gke.io"));
    // What the volume doesn't say, its class does.
    assert_eq!(of_volume("nfs: {path: /x, server: s}").as_deref(), Some("cinder.csi.openstack.org"));
}

#[test]
fn an_unbound_claim_goes_where_its_class_allows() {
    let facts = facts(
        "
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: wanted, namespace: default}, spec: {storageClassName: sc}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: sc}, provisioner: kubernetes.io/aws-ebs,
 volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [
   {matchLabelExpressions: [{key: failure-domain.beta.kubernetes.io/zone, values: [a]}]},
   {matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [b]}, {key: k, values: [v]}]}]}
",
    );
    let terms = ["topology.kubernetes.io/zone In [a]", "k In [v], topology.kubernetes.io/zone In [b]"];
    let driver = Some("ebs.csi.aws.com".to_owned());
    assert_eq!(usable(&facts, "wanted"), (terms.map(str::to_owned).to_vec(), driver));
}

#[test]
fn a_mounted_claim_takes_an_attachment_even_while_it_is_being_deleted() {
    let facts = facts(
        "
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: held, namespace: default,
  deletionTimestamp: '2026-01-01T00:00:00Z'}, spec: {volumeName: pv}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv}, spec: {csi: {driver: d, volumeHandle: h}}}
---
{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n}, spec: {drivers: [
  {name: d, nodeID: n, allocatable: {count: 3}}, {name: unlimited, nodeID: n}]}}
",
    );
    assert_eq!(usable(&facts, "held"), (Vec::new(), Some("d".to_owned())));
    assert!(matches!(claim(&facts, "wanted"), VolumeClaim::Unusable(why) if why.contains("not found")));
    assert_eq!(facts.attach_limits["n"], BTreeMap::from([("d".to_owned(), 3)]));
}
