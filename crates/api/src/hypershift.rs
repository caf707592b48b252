//! The parts of HyperShift's NodePool that are read or patched.
//!
//! HyperShift rewrites `spec.replicas` of its MachineDeployments at every reconcile, from its own NodePool. So that NodePool is where
//! such a MachineDeployment is scaled. It shares nothing but its name with Karpenter's.

use kube::core::{NamespaceResourceScope, ObjectMeta, Resource};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};
use std::borrow::Cow;

use crate::names::HYPERSHIFT_GROUP;

const VERSION: &str = "v1beta1";
const KIND: &str = "NodePool";

/// A HyperShift NodePool: machines of one kind for one hosted cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct NodePool {
    /// Name, namespace, annotations, deletion.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(default)]
    pub spec: NodePoolSpec,
}

/// How many machines there are to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePoolSpec {
    /// Wanted machines; HyperShift takes none for 0, and passes it over where `autoScaling` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Bounds within which the Cluster Autoscaler moves the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_scaling: Option<AutoScaling>,
}

/// Bounds of the Cluster Autoscaler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AutoScaling {
    /// Fewest machines.
    pub min: i32,
    /// Most machines.
    pub max: i32,
}

impl NodePool {
    /// `group/version`, as it stands in manifests.
    pub const API_VERSION: &'static str = "hypershift.openshift.io/v1beta1";
    /// Versions that are read.
    pub const VERSIONS: &'static [&'static str] = &[VERSION];

    /// The number that HyperShift writes onto the MachineDeployment; none while its autoscaling is on, for then it leaves that alone.
    pub fn wanted(&self) -> Option<i32> {
        self.spec.auto_scaling.is_none().then(|| self.spec.replicas.unwrap_or_default())
    }
}

impl Serialize for NodePool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct(KIND, 4)?;
        object.serialize_field("apiVersion", Self::API_VERSION)?;
        object.serialize_field("kind", KIND)?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("spec", &self.spec)?;
        object.end()
    }
}

impl Resource for NodePool {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        HYPERSHIFT_GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "nodepools".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_that_are_not_needed_are_passed_over_and_the_number_is_read() {
        let object = json!({
            "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "NodePool",
            "metadata": { "name": "workers", "namespace": "clusters" },
            "spec": { "clusterName": "hosted", "replicas": 3, "platform": { "type": "AWS" }, "management": { "upgradeType": "Replace" } },
            "status": { "replicas": 2 },
        });
        let pool: NodePool = serde_json::from_value(object).unwrap();
        assert_eq!(pool.spec, NodePoolSpec { replicas: Some(3), auto_scaling: None });
        assert_eq!((pool.wanted(), NodePool::default().wanted()), (Some(3), Some(0)));
        assert_eq!(
            NodePool::url_path(&(), Some("clusters")),
            "/apis/hypershift.openshift.io/v1beta1/namespaces/clusters/nodepools"
        );
    }

    #[test]
    fn its_autoscaling_is_read() {
        let object =
            json!({ "metadata": { "name": "workers" }, "spec": { "autoScaling": { "min": 1, "max": 5 } } });
        let pool: NodePool = serde_json::from_value(object).unwrap();
        assert_eq!((pool.spec.auto_scaling, pool.wanted()), (Some(AutoScaling { min: 1, max: 5 }), None));
        assert_eq!(serde_json::to_value(&pool).unwrap()["apiVersion"], NodePool::API_VERSION);
    }
}
