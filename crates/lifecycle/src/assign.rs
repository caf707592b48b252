//! The MachineDeployment of a claim that was made by hand: the provisioner assigns its own claims when it creates them.

use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_model::instance_type::{InstanceType, Offering};
use karpenter_capi_model::price::Price;
use karpenter_capi_model::quantity::Rounding;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::{Resources, Shortfall};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where a claim may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The cheapest instance type that serves; equal prices by priority, then name.
    pub instance_type: Arc<InstanceType>,
    /// The offering of it.
    pub offering: Offering,
}

/// Assigns a claim by its requirements, labels and requests; the error says for each instance type why it doesn't serve.
pub fn assign(
    claim: &NodeClaim,
    instance_types: &[Arc<InstanceType>],
    well_known_labels: &BTreeSet<String>,
) -> Result<Assignment, String> {
    let wanted = wanted(claim)?;
    let requests = Resources::from_quantities(&claim.spec.resources.requests, Rounding::Up)
        .map_err(|error| error.to_string())?;
    let mut serving: Vec<(&Arc<InstanceType>, &Offering)> = Vec::new();
    let mut refused = Vec::new();
    for instance_type in instance_types {
        match offering(instance_type, &wanted, &requests, well_known_labels) {
            Ok(offering) => serving.push((instance_type, offering)),
            Err(why) => refused.push(format!("{}: {why}", instance_type.name)),
        }
    }
    serving.sort_by_key(|(of, offering)| {
        (offering.price.is_none(), offering.price, Reverse(of.priority), &of.name)
    });
    match serving.first() {
        Some((instance_type, offering)) => {
            Ok(Assignment { instance_type: Arc::clone(instance_type), offering: (*offering).clone() })
        }
        None if refused.is_empty() => Err("its node class selects no MachineDeployment".to_owned()),
        None => Err(refused.join("; ")),
    }
}

fn wanted(claim: &NodeClaim) -> Result<Requirements, String> {
    Requirements::from_api(&claim.spec.requirements)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn offering<'a>(
    instance_type: &'a InstanceType,
    wanted: &Requirements,
    requests: &Resources,
    well_known_labels: &BTreeSet<String>,
) -> Result<&'a Offering, String> {
    instance_type.requirements.compatible(wanted, well_known_labels).map_err(|error| error.to_string())?;
    let allocatable = instance_type.capacity.allocatable(&instance_type.overhead);
    if let Some(short) = requests.shortfall(&allocatable) {
        return Err(Shortfall::message(&short, "it"));
    }
    let cheapest = instance_type
        .offerings
        .iter()
        .filter(|offering| offering.unavailable.is_none() && offering.requirements.intersects(wanted).is_ok())
        .min_by_key(|offering| (offering.price.is_none(), offering.price.unwrap_or(Price(0))));
    cheapest.ok_or_else(|| {
        let reason = instance_type.offerings.iter().find_map(|offering| offering.unavailable.as_ref());
        reason
            .map_or_else(|| "no offering meets its requirements".to_owned(), |reason| reason.message.clone())
    })
}

#[cfg(test)]
mod tests;
