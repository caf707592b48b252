//! Which zone is left to a pod: a figure for people, by which no decision is made.

use crate::audit;
use crate::input::{Input, VolumeClaim};
use crate::plan::Plan;
use karpenter_capi_model::label::TOPOLOGY_ZONE;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use std::collections::{BTreeMap, BTreeSet};

/// Several zones, or any.
const FLEXIBLE: &str = "flexible";
/// No zone.
const NONE: &str = "none";

/// How many of the pods that want a place are left with each zone by node selector and required node affinity, their volumes,
/// and required topology spread over zones as pods are spread now: by the zone's name, `flexible` where there are several or any,
/// `none` where there is none.
pub fn effective_zones(input: &Input) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    let nothing = Plan::default();
    let mut by_spread = audit::OpenDomains::new(input, &nothing, TOPOLOGY_ZONE);
    for pod in &input.pods {
        let mut zones = Zones::any();
        zones.meet(&of_nodes(pod));
        for volume in pod.volume_claims.iter().filter_map(|name| input.volumes.claims.get(name)) {
            zones.meet(&of_volume(volume));
        }
        for open in by_spread.of(pod) {
            zones.meet(&[Requirement::one_of(TOPOLOGY_ZONE, &open.iter().collect::<Vec<_>>())]);
        }
        *counted.entry(zones.name()).or_insert(0) += 1;
    }
    counted
}

/// Alternatives of what the zone may be; none is any.
struct Zones(Vec<Requirement>);

impl Zones {
    fn any() -> Self {
        Self(vec![Requirement::exists(TOPOLOGY_ZONE)])
    }

    /// Leaves what meets one of these as well.
    fn meet(&mut self, alternatives: &[Requirement]) {
        self.0 = self
            .0
            .iter()
            .flat_map(|own| alternatives.iter().map(move |other| own.intersection(other)))
            .filter(|both| !both.is_empty())
            .collect();
        self.0.sort();
        self.0.dedup();
    }

    fn name(&self) -> String {
        let values: BTreeSet<&str> =
            self.0.iter().filter(|own| own.is_enumerated()).flat_map(Requirement::values).collect();
        match (values.first(), values.len()) {
            _ if self.0.iter().any(|own| !own.is_enumerated()) => FLEXIBLE.to_owned(),
            (Some(only), 1) => (*only).to_owned(),
            (Some(_), _) => FLEXIBLE.to_owned(),
            (None, _) => NONE.to_owned(),
        }
    }
}

fn of_nodes(pod: &Pod) -> Vec<Requirement> {
    let zone = |requirements: &Requirements| zone_of(&pod.node_selector.and(requirements));
    if pod.required_node_affinity.is_empty() {
        return vec![zone_of(&pod.node_selector)];
    }
    pod.required_node_affinity.iter().map(zone).collect()
}

fn of_volume(claim: &VolumeClaim) -> Vec<Requirement> {
    match claim {
        VolumeClaim::Usable { alternatives, .. } if !alternatives.is_empty() => {
            alternatives.iter().map(zone_of).collect()
        }
        _ => vec![Requirement::exists(TOPOLOGY_ZONE)],
    }
}

fn zone_of(requirements: &Requirements) -> Requirement {
    requirements.get(TOPOLOGY_ZONE).cloned().unwrap_or_else(|| Requirement::exists(TOPOLOGY_ZONE))
}
