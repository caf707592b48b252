//! Volumes: where they let a pod go, and how many a node can have.

use crate::input::{Input, VolumeClaim};
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::requirements::Requirements;
use std::collections::{BTreeMap, BTreeSet};

/// Every way in which all volumes of the pod can be reached: one alternative of each, those together that don't contradict each other
/// (all, where each combination does). Empty: anywhere.
pub(super) fn alternatives(input: &Input, pod: &Pod) -> Vec<Requirements> {
    let mut combined: Vec<Requirements> = Vec::new();
    for name in &pod.volume_claims {
        let Some(VolumeClaim::Usable { alternatives, .. }) = input.volumes.claims.get(name) else { continue };
        if alternatives.is_empty() {
            continue;
        }
        combined = if combined.is_empty() {
            alternatives.clone()
        } else {
            let pairs = combined.iter().flat_map(|one| alternatives.iter().map(move |other| one.and(other)));
            let pairs: Vec<Requirements> = pairs.collect();
            let fine: Vec<Requirements> =
                pairs.iter().filter(|both| both.contradiction().is_none()).cloned().collect();
            if fine.is_empty() { pairs } else { fine }
        };
    }
    combined
}

/// Volumes of one node, for the drivers that limit them.
pub(super) struct Attached<'a> {
    limits: &'a BTreeMap<String, i64>,
    by_driver: BTreeMap<&'a str, BTreeSet<&'a NamespacedName>>,
}

impl<'a> Attached<'a> {
    /// None where the node has no limits.
    pub(super) fn new(input: &'a Input, node: &str) -> Option<Self> {
        let limits = input.volumes.attach_limits.get(node)?;
        let mut attached = Self { limits, by_driver: BTreeMap::new() };
        for pod in input.bound_pods.get(node).into_iter().flatten() {
            attached.add(input, pod);
        }
        Some(attached)
    }

    /// Whether the pod's volumes can be attached as well. A volume that two pods mount is attached once.
    pub(super) fn has_room(&self, input: &Input, pod: &Pod) -> bool {
        let mut more: BTreeMap<&str, BTreeSet<&NamespacedName>> = BTreeMap::new();
        for (driver, name) in attachable(input, pod) {
            more.entry(driver).or_default().insert(name);
        }
        more.iter().all(|(driver, names)| {
            let Some(limit) = self.limits.get(*driver) else { return true };
            let own = self.by_driver.get(driver);
            let new = names.iter().filter(|name| own.is_none_or(|own| !own.contains(*name))).count();
            let all = own.map_or(0, BTreeSet::len) + new;
            i64::try_from(all).is_ok_and(|all| all <= *limit)
        })
    }

    pub(super) fn add(&mut self, input: &'a Input, pod: &'a Pod) {
        for (driver, name) in attachable(input, pod) {
            self.by_driver.entry(driver).or_default().insert(name);
        }
    }
}

fn attachable<'a>(input: &'a Input, pod: &'a Pod) -> impl Iterator<Item = (&'a str, &'a NamespacedName)> {
    pod.volume_claims.iter().filter_map(|name| match input.volumes.claims.get(name) {
        Some(VolumeClaim::Usable { driver: Some(driver), .. }) => Some((driver.as_str(), name)),
        _ => None,
    })
}
