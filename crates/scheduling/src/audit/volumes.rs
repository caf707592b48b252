//! Volumes: what a pod mounts can be reached from where it is, and can be attached there.

use super::Auditor;
use crate::input::VolumeClaim;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::node::Node;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::requirement::Requirement;
use std::collections::{BTreeMap, BTreeSet};

impl Auditor<'_> {
    /// Every claim of a placed pod is known and usable.
    pub(super) fn volumes_can_be_read(&mut self, pod: &Pod) {
        for name in &pod.volume_claims {
            match self.input.volumes.claims.get(name) {
                Some(VolumeClaim::Usable { .. }) => {}
                Some(VolumeClaim::Unusable(why)) => {
                    self.blame_pod(pod, format!("has a place though a volume can't be mounted: {why}"));
                }
                None => {
                    self.blame_pod(
                        pod,
                        format!("has a place though nothing is known of PersistentVolumeClaim {name}"),
                    );
                }
            }
        }
    }

    /// The claims that can only be mounted in some places, of which none is here.
    pub(super) fn out_of_reach(&self, pod: &Pod, holds: impl Fn(&Requirement) -> bool) -> Vec<String> {
        let far = pod.volume_claims.iter().filter(|name| {
            let Some(VolumeClaim::Usable { alternatives, .. }) = self.input.volumes.claims.get(*name) else {
                return false;
            };
            !alternatives.is_empty() && !alternatives.iter().any(|place| place.iter().all(&holds))
        });
        far.map(ToString::to_string).collect()
    }

    /// The node may attach what its pods mount. A claim counts once, however many pods mount it; a node over its limit already
    /// may take pods that mount nothing new.
    pub(super) fn may_attach(&mut self, node: &Node, placed: &[&Pod]) {
        let Some(limits) = self.input.volumes.attach_limits.get(&node.name) else {
            return;
        };
        let attached: BTreeSet<&NamespacedName> =
            self.bound_to(node).flat_map(|pod| &pod.volume_claims).collect();
        let new: BTreeSet<&NamespacedName> = placed
            .iter()
            .flat_map(|pod| &pod.volume_claims)
            .filter(|claim| !attached.contains(claim))
            .collect();
        let (attached, new) = (self.by_driver(&attached), self.by_driver(&new));
        let mut violations = Vec::new();
        for (driver, new) in new {
            let Some(limit) = limits.get(driver) else {
                continue;
            };
            let before = attached.get(driver).copied().unwrap_or(0);
            if before + new > *limit {
                violations.push(format!(
                    "{driver}: {before} volumes attached and {new} placed are more than {limit}"
                ));
            }
        }
        for message in violations {
            self.blame(format!("Node/{}", node.name), message);
        }
    }

    fn by_driver(&self, claims: &BTreeSet<&NamespacedName>) -> BTreeMap<&str, i64> {
        let mut counted: BTreeMap<&str, i64> = BTreeMap::new();
        for claim in claims {
            if let Some(VolumeClaim::Usable { driver: Some(driver), .. }) =
                self.input.volumes.claims.get(*claim)
            {
                *counted.entry(driver).or_default() += 1;
            }
        }
        counted
    }
}
