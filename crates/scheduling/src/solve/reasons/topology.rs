//! Why no domain, or no new host, will do.

use super::super::place::Errand;
use super::super::shape::Ruling;
use super::super::states::StateId;
use super::super::topology::{Group, Rule};
use super::super::world::World;
use super::Stopped;
use karpenter_capi_model::label::HOSTNAME;
use karpenter_capi_model::reason::ReasonCode;

/// The rank of what topology refuses: after everything that a type may lack.
pub(super) const RANK: u8 = 8;

/// The first constraint that leaves nothing of what a claim of this state could be.
pub(super) fn stopped(world: &World<'_>, errand: Errand, state: StateId) -> Stopped {
    let level = &world.shapes[errand.shape].levels[errand.level];
    let state = world.states.get(state);
    for key in 0..world.domains.len() {
        let (mut left, mut bare) = (state.domains[key].clone(), state.absent[key]);
        for ruling in level.by_key.iter().filter(|ruling| ruling.key == Some(key)) {
            let group = world.group_of(ruling);
            let before: Vec<usize> = left.iter().collect();
            for domain in before.iter().filter(|domain| !ruling.constraint.allows(group, **domain)) {
                left.remove(*domain);
            }
            bare &= !ruling.constraint.needs_label();
            if left.is_empty() && !bare {
                let known: Vec<(&str, u32)> = before
                    .iter()
                    .map(|domain| (world.domains.value(key, *domain), group.count(*domain)))
                    .collect();
                return words(world.domains.name(key), ruling, group, &known);
            }
        }
    }
    let new = world.host(world.claims.len());
    let refusing = level.by_host.iter().find(|ruling| !ruling.constraint.allows(world.group_of(ruling), new));
    if let Some(ruling) = refusing {
        return words(HOSTNAME, ruling, world.group_of(ruling), &[]);
    }
    let message = "its topology constraints can't be met together".to_owned();
    Stopped::new(RANK, ReasonCode::Topology, message)
}

/// What the rules over topology keys are about: spread, or else affinity.
pub(super) fn code(world: &World<'_>, errand: Errand) -> ReasonCode {
    let rulings = &world.shapes[errand.shape].levels[errand.level].by_key;
    let spread = rulings.iter().any(|ruling| matches!(ruling.constraint.rule, Rule::Spread { .. }));
    if spread { ReasonCode::Topology } else { ReasonCode::Affinity }
}

/// `known`: the domains that were left, with how many pods each has.
fn words(key: &str, ruling: &Ruling, group: &Group, known: &[(&str, u32)]) -> Stopped {
    let listed: Vec<String> = known.iter().map(|(value, count)| format!("{value:?}: {count}")).collect();
    let listed = if listed.is_empty() { "none".to_owned() } else { listed.join(", ") };
    match ruling.constraint.rule {
        Rule::Spread { most, min_domains, itself } => {
            let least = group.minimum(min_domains);
            let domains = group.eligible.count();
            let short = u32::try_from(domains).is_ok_and(|domains| domains < min_domains);
            let message = format!(
                "spread over {key}: maxSkew {most} leaves no domain (pods by domain: {listed}; fewest in a domain: {least}{})",
                if short {
                    format!(", as there are {domains} domains and minDomains is {min_domains}")
                } else {
                    String::new()
                }
            );
            let stopped = Stopped::new(RANK, ReasonCode::Topology, message);
            let lowest = known.iter().map(|(_, count)| count.saturating_add(u32::from(itself))).min();
            match lowest {
                Some(lowest) => {
                    stopped.helped_by(format!("raise maxSkew to {}", lowest.saturating_sub(least)))
                }
                None => stopped.helped_by(format!("declare the label {key} on machines")),
            }
        }
        Rule::Near { .. } => {
            let message = format!(
                "pod affinity over {key}: no matching pod is where a new machine could be (domains: {listed})"
            );
            Stopped::new(RANK, ReasonCode::Affinity, message)
        }
        Rule::Away if ruling.repulsion => {
            let message = format!(
                "anti-affinity of other pods over {key} keeps it away everywhere (pods by domain: {listed})"
            );
            Stopped::new(RANK, ReasonCode::Affinity, message)
        }
        Rule::Away => {
            let message = format!(
                "pod anti-affinity over {key}: every domain has matching pods (pods by domain: {listed})"
            );
            Stopped::new(RANK, ReasonCode::Affinity, message)
        }
    }
}
