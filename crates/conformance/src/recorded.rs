//! A recorded answer as a plan, so that it can be audited: what rule it breaks is why another answer may be right.

use crate::answer::{Answer, Claim};
use karpenter_capi_model::instance_type::{InstanceType, Offering};
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_scheduling::audit;
use karpenter_capi_scheduling::input::Input;
use karpenter_capi_scheduling::plan::{InstanceOption, Placement, Plan, PlannedNodeClaim};

/// What is wrong with the places that pods and claims have in the recorded answer. What it says of pods without a place isn't looked at.
pub fn faults(input: &Input, answer: &Answer) -> Vec<String> {
    let plan = Plan {
        node_claims: answer.node_claims.iter().map(|claim| planned(input, claim)).collect(),
        placements: answer
            .placements
            .iter()
            .map(|(node, pods)| Placement {
                node: node.clone(),
                in_flight: input.nodes.iter().any(|own| own.name == *node && !own.has_node),
                pods: names(pods),
            })
            .collect(),
        ..Plan::default()
    };
    let pending = answer.errors.keys().map(|pod| format!("Pod/{pod}"));
    let pending: Vec<String> = pending.collect();
    let all = audit(input, &plan).into_iter();
    all.filter(|violation| !pending.contains(&violation.subject))
        .map(|violation| format!("{} {}", violation.subject, violation.message))
        .collect()
}

fn planned(input: &Input, claim: &Claim) -> PlannedNodeClaim {
    let requirements: Requirements = claim.requirements.iter().filter_map(|text| requirement(text)).collect();
    let types = input.instance_types.get(&claim.node_pool).map_or(&[][..], Vec::as_slice);
    let named = claim.instance_types.iter();
    let listed = named.filter_map(|name| types.iter().find(|of_type| of_type.name == *name));
    let options = listed.filter_map(|of_type| {
        Some(InstanceOption {
            offering: cheapest(of_type, &requirements)?.clone(),
            instance_type: of_type.clone(),
        })
    });
    let options = options.collect();
    let requests = claim.requests.iter().fold(Resources::ZERO, |all, (name, amount)| all.with(name, *amount));
    let pods = names(&claim.pods);
    let of_pods = input.pods.iter().filter(|pod| pods.contains(&pod.name));
    let of_pods = of_pods.fold(Resources::ZERO, |all, pod| all.plus(&pod.requests));
    PlannedNodeClaim {
        node_pool: claim.node_pool.clone(),
        daemon_requests: requests.minus(&of_pods),
        requirements,
        requests,
        pods,
        options,
        min_values_relaxed: false,
    }
}

fn cheapest<'a>(of_type: &'a InstanceType, wanted: &Requirements) -> Option<&'a Offering> {
    let fitting = of_type.offerings.iter();
    fitting
        .filter(|offering| offering.is_available() && wanted.intersects(&offering.requirements).is_ok())
        .min_by(|a, b| Offering::order(a, b))
}

/// `key Operator [value value]`.
fn requirement(text: &str) -> Option<Requirement> {
    let (key, rest) = text.split_once(' ')?;
    let (operator, values) = rest.split_once(' ').unwrap_or((rest, ""));
    let values = values.trim_start_matches('[');
    let values = values.split(']').next().unwrap_or_default();
    let values: Vec<String> =
        values.split(' ').filter(|value| !value.is_empty()).map(str::to_owned).collect();
    Requirement::parse(key, operator, &values).ok()
}

fn names(pods: &[String]) -> Vec<NamespacedName> {
    let split = pods.iter().filter_map(|pod| pod.split_once('/'));
    split.map(|(namespace, name)| NamespacedName::new(namespace, name)).collect()
}
