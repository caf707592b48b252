//! Where a MachineDeployment's number and ledger stand: on itself, or on the HyperShift NodePool that rewrites its number.

use crate::input::Origin;
use crate::snapshot::Snapshot;
use karpenter_capi_api::capi::MachineDeployment;
use karpenter_capi_api::hypershift;
use karpenter_capi_api::names::annotations;
use karpenter_capi_catalog::Facts;
use karpenter_capi_lifecycle::ledger::Ledger;
use karpenter_capi_model::name::NamespacedName;
use std::sync::Arc;

/// The HyperShift NodePool that owns the MachineDeployment's replicas, as the annotation names it.
pub fn node_pool_name(deployment: &MachineDeployment) -> Option<Result<NamespacedName, String>> {
    let value = deployment.metadata.annotations.as_ref()?.get(annotations::HYPERSHIFT_NODE_POOL)?;
    Some(value.parse().map_err(|_| {
        format!(
            "annotation {} is {value:?}, which names no HyperShift NodePool; HyperShift writes namespace/name",
            annotations::HYPERSHIFT_NODE_POOL
        )
    }))
}

/// Why the number can't be written on its HyperShift NodePool, which isn't seen.
pub fn out_of_reach(name: &NamespacedName) -> String {
    format!(
        "HyperShift NodePool {name} owns its replicas and isn't seen; start the operator with --hypershift-namespace={} and permit it to get, list, watch and patch nodepools.{} there",
        name.namespace,
        karpenter_capi_api::names::HYPERSHIFT_GROUP
    )
}

/// The ledger of a MachineDeployment, wherever it stands.
pub(crate) fn ledger(snapshot: &Snapshot, deployment: &MachineDeployment) -> Ledger {
    Ledger::of(node_pool(snapshot, deployment).map_or(&deployment.metadata, |pool| &pool.metadata))
}

/// Adds what HyperShift has to say to what is known of a MachineDeployment. A file may well leave out its NodePool.
pub fn learn(snapshot: &Snapshot, deployment: &MachineDeployment, origin: Origin, facts: &mut Facts) {
    let Some(name) = node_pool_name(deployment) else {
        return;
    };
    match (name, node_pool(snapshot, deployment)) {
        (Err(message), _) => facts.hypershift_out_of_reach = Some(message),
        (Ok(name), None) if origin == Origin::Cluster => {
            facts.hypershift_out_of_reach = Some(out_of_reach(&name));
        }
        (Ok(name), Some(pool)) if pool.metadata.deletion_timestamp.is_some() => {
            facts.hypershift_out_of_reach = Some(format!("HyperShift NodePool {name} is being deleted"));
        }
        (Ok(name), Some(pool)) => facts.hypershift_autoscaling = autoscaling(&name, pool),
        (Ok(_), None) => {}
    }
}

fn autoscaling(name: &NamespacedName, pool: &hypershift::NodePool) -> Option<String> {
    let bounds = pool.spec.auto_scaling?;
    Some(format!(
        "HyperShift NodePool {name} has spec.autoScaling (min {}, max {}), so the Cluster Autoscaler scales it; set spec.replicas in its place to let Karpenter scale",
        bounds.min, bounds.max
    ))
}

fn node_pool<'a>(
    snapshot: &'a Snapshot,
    deployment: &MachineDeployment,
) -> Option<&'a Arc<hypershift::NodePool>> {
    snapshot.hypershift_node_pools.get(&node_pool_name(deployment)?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;
    use crate::object::Object;
    use serde_json::{Value, json};

    fn deployment(annotations: &Value) -> MachineDeployment {
        let object = json!({ "metadata": { "name": "m", "namespace": "clusters-hosted", "annotations": annotations } });
        serde_json::from_value(object).unwrap()
    }

    fn hosted() -> MachineDeployment {
        deployment(&json!({ "hypershift.openshift.io/nodePool": "clusters/workers" }))
    }

    fn picture(pool: Option<&Value>) -> Arc<Snapshot> {
        let object = pool.map(|spec| {
            let object = json!({ "metadata": {
                "name": "workers", "namespace": "clusters",
                "annotations": { "karpenter.cluster.x-k8s.io/claims": "11111111-aaaa" },
            }, "spec": spec });
            Object::from(serde_json::from_value::<hypershift::NodePool>(object).unwrap())
        });
        object.into_iter().collect::<Index>().snapshot()
    }

    fn facts(deployment: &MachineDeployment, pool: Option<&Value>, origin: Origin) -> Facts {
        let mut facts = Facts::default();
        learn(&picture(pool), deployment, origin, &mut facts);
        facts
    }

    #[test]
    fn the_ledger_of_a_hosted_machine_deployment_stands_on_the_node_pool() {
        let snapshot = picture(Some(&json!({ "replicas": 1 })));
        assert_eq!(ledger(&snapshot, &hosted()).to_string(), "11111111-aaaa");
        assert!(ledger(&snapshot, &deployment(&json!({}))).is_empty(), "and of any other on itself");
    }

    #[test]
    fn one_that_scales_by_replicas_is_left_to_us() {
        assert_eq!(facts(&hosted(), Some(&json!({ "replicas": 1 })), Origin::Cluster), Facts::default());
        assert_eq!(facts(&deployment(&json!({})), None, Origin::Cluster), Facts::default());
    }

    #[test]
    fn its_autoscaling_is_told_with_the_bounds_and_the_remedy() {
        let found =
            facts(&hosted(), Some(&json!({ "autoScaling": { "min": 1, "max": 5 } })), Origin::Cluster);
        let told = found.hypershift_autoscaling.unwrap();
        assert!(
            told.contains("clusters/workers")
                && told.contains("min 1, max 5")
                && told.contains("spec.replicas"),
            "{told}"
        );
    }

    #[test]
    fn a_node_pool_that_is_not_seen_is_told_with_the_flag_but_not_missed_in_files() {
        let told = facts(&hosted(), None, Origin::Cluster).hypershift_out_of_reach.unwrap();
        assert!(told.contains("--hypershift-namespace=clusters"), "{told}");
        assert_eq!(facts(&hosted(), None, Origin::Files), Facts::default());
    }

    #[test]
    fn a_value_that_names_nothing_is_told() {
        let wrong = deployment(&json!({ "hypershift.openshift.io/nodePool": "workers" }));
        let told = facts(&wrong, None, Origin::Files).hypershift_out_of_reach.unwrap();
        assert!(told.contains("\"workers\"") && told.contains("namespace/name"), "{told}");
    }
}
