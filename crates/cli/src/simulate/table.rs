//! The answer for people.

use super::document::{NodeClaim, PendingPod, Reason, Simulation};
use crate::output::counted;
use comfy_table::{ContentArrangement, Table, presets};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::IsTerminal;

/// Pods and places that are named before the rest is only counted.
const NAMED: usize = 3;

/// How the terminal wants it.
pub(super) struct Style {
    colour: bool,
    /// Columns to wrap at; None for a pipe, which wraps nothing.
    width: Option<u16>,
}

impl Style {
    /// Colours and width only for a terminal; no colours where `NO_COLOR` is set.
    pub(super) fn of_stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { colour: terminal && wanted, width: Table::new().width().filter(|_| terminal) }
    }

    fn bold(&self, text: &str) -> String {
        if self.colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn table(&self, header: &[&str]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(header.iter().copied());
        match self.width {
            Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        table
    }
}

pub(super) fn table(simulation: &Simulation, style: &Style) -> String {
    let mut text = String::new();
    section(&mut text, style, "NodeClaims to create", claims(simulation, style));
    section(&mut text, style, "Pods on existing capacity", placements(simulation, style));
    section(&mut text, style, "Pods without a place", pending(&simulation.pending));
    section(&mut text, style, "MachineDeployments", deployments(simulation, style));
    section(&mut text, style, "Warnings", warnings(simulation));
    let title = "Defects of this plan, found by --audit; please report them";
    section(&mut text, style, title, defects(simulation));
    text.push_str(&summary(simulation));
    if !simulation.others.is_empty() {
        let kinds: Vec<String> =
            simulation.others.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        // Writing to a String can't fail.
        _ = writeln!(text, "Not looked at: {}.", kinds.join(", "));
    }
    text
}

fn section(text: &mut String, style: &Style, title: &str, body: Option<String>) {
    if let Some(body) = body {
        text.push_str(&style.bold(title));
        text.push('\n');
        for line in body.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push('\n');
    }
}

fn claims(simulation: &Simulation, style: &Style) -> Option<String> {
    if simulation.node_claims.is_empty() {
        return None;
    }
    let several = simulation.node_claims.iter().any(|claim| claim.pass > 1);
    let mut header = vec![
        "NAME",
        "NODEPOOL",
        "MACHINEDEPLOYMENT",
        "TYPE",
        "ZONE",
        "CAPACITY",
        "$/HOUR",
        "CPU",
        "MEMORY",
        "PODS",
    ];
    if several {
        header.insert(0, "PASS");
    }
    let mut table = style.table(&header);
    for claim in &simulation.node_claims {
        let mut row = claim_row(claim);
        if several {
            row.insert(0, claim.pass.to_string());
        }
        table.add_row(row);
    }
    Some(table.to_string())
}

fn claim_row(claim: &NodeClaim) -> Vec<String> {
    let request = |name: &str| claim.requests.get(name).cloned().unwrap_or_else(|| "0".to_owned());
    vec![
        claim.name.clone(),
        claim.node_pool.clone(),
        claim.offer.machine_deployment.clone(),
        claim.offer.instance_type.clone(),
        or_dash(&claim.offer.zone),
        or_dash(&claim.offer.capacity_type),
        claim.offer.price.map_or_else(|| "unknown".to_owned(), |price| price.to_string()),
        request("cpu"),
        request("memory"),
        claim.pods.len().to_string(),
    ]
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

fn placements(simulation: &Simulation, style: &Style) -> Option<String> {
    if simulation.placements.is_empty() {
        return None;
    }
    let mut table = style.table(&["WHERE", "PODS", ""]);
    for placement in &simulation.placements {
        let place = match (&placement.node, &placement.node_claim) {
            (Some(node), _) => node.clone(),
            (None, Some(claim)) => format!("{claim} (in flight)"),
            (None, None) => String::new(),
        };
        table.add_row([place, placement.pods.len().to_string(), some_of(&placement.pods)]);
    }
    Some(table.to_string())
}

/// The first few, and how many more.
fn some_of(names: &[String]) -> String {
    let first = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Pods with the same reasons stand together, and equal codes are counted, so that the text doesn't grow with the pools.
fn pending(pods: &[PendingPod]) -> Option<String> {
    if pods.is_empty() {
        return None;
    }
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for pod in pods {
        let told = reasons(&pod.reasons);
        match groups.iter_mut().find(|(present, _)| *present == told) {
            Some((_, names)) => names.push(pod.pod.clone()),
            None => groups.push((told, vec![pod.pod.clone()])),
        }
    }
    let mut text = String::new();
    for (told, names) in groups {
        // Writing to a String can't fail.
        _ = writeln!(text, "  {}\n{told}", some_of(&names));
    }
    Some(text.trim_end().to_owned())
}

fn reasons(reasons: &[Reason]) -> String {
    let mut by_code: BTreeMap<(usize, &str), Vec<&Reason>> = BTreeMap::new();
    for reason in reasons {
        let first = reasons.iter().position(|other| other.code == reason.code).unwrap_or_default();
        by_code.entry((first, reason.code)).or_default().push(reason);
    }
    let lines = by_code.into_iter().map(|((_, code), group)| {
        let first = group.first().map_or("", |reason| reason.message.as_str());
        let places = different(group.iter().map(|reason| place(reason)).filter(|place| !place.is_empty()));
        let same = group.iter().filter(|reason| reason.message == first).count();
        let others = match group.len() - same {
            0 => String::new(),
            count => format!("; {count} like it"),
        };
        let places = if places.is_empty() { String::new() } else { format!(" [{}]", some_of(&places)) };
        let count = if group.len() > 1 { format!(" ({})", group.len()) } else { String::new() };
        // A line of its own: behind the message nobody would find it.
        let remedies = different(group.iter().filter_map(|reason| reason.remedy.clone()));
        let remedies = if remedies.is_empty() {
            String::new()
        } else {
            format!("\n      remedy: {}", some_of(&remedies))
        };
        format!("    {code}{count}: {first}{others}{places}{remedies}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Each once, in order.
fn different(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

fn place(reason: &Reason) -> String {
    match (reason.node_pool.as_str(), reason.machine_deployment.as_str()) {
        (pool, "") => pool.to_owned(),
        ("", deployment) => deployment.to_owned(),
        (pool, deployment) => format!("{pool}: {deployment}"),
    }
}

fn deployments(simulation: &Simulation, style: &Style) -> Option<String> {
    if simulation.machine_deployments.is_empty() {
        return None;
    }
    let mut table = style.table(&["NAME", "REPLICAS", "STATE"]);
    for deployment in &simulation.machine_deployments {
        let replicas = if deployment.desired_replicas == deployment.replicas {
            deployment.replicas.to_string()
        } else {
            format!("{} -> {}", deployment.replicas, deployment.desired_replicas)
        };
        let state = if deployment.available { "available" } else { deployment.reason };
        table.add_row([deployment.name.clone(), replicas, state.to_owned()]);
    }
    Some(table.to_string())
}

fn warnings(simulation: &Simulation) -> Option<String> {
    let lines =
        simulation.warnings.iter().map(|warning| format!("  {}: {}", warning.object, warning.message));
    let text = lines.collect::<Vec<_>>().join("\n");
    (!text.is_empty()).then_some(text)
}

fn defects(simulation: &Simulation) -> Option<String> {
    let lines = simulation
        .audit
        .iter()
        .flatten()
        .map(|finding| format!("  pass {}: {}: {}", finding.pass, finding.subject, finding.message));
    let text = lines.collect::<Vec<_>>().join("\n");
    (!text.is_empty()).then_some(text)
}

fn summary(simulation: &Simulation) -> String {
    let new = simulation.node_claims.iter().flat_map(|claim| &claim.pods);
    let existing = simulation.placements.iter().flat_map(|placement| &placement.pods);
    let pending = simulation.pending.iter().map(|pending| &pending.pod);
    let placed = simulation.node_claims.iter().flat_map(|claim| &claim.pods);
    let placed = placed.chain(simulation.placements.iter().flat_map(|placement| &placement.pods));
    let placed = placed.filter(|pod| simulation.buffer_pods.contains(*pod)).count();
    let buffers = match simulation.buffer_pods.len() {
        0 => String::new(),
        wanted => format!(" Room is held for {placed} of {} of buffers.", counted(wanted, "pod")),
    };
    let cost = &simulation.cost;
    let unpriced = match cost.unpriced {
        0 => String::new(),
        1 => " (1 node without a price left out)".to_owned(),
        count => format!(" ({count} nodes without a price left out)"),
    };
    format!(
        "{} on {}, {} on existing capacity, {} without a place.{buffers} Cost: ${}/hour before, ${}/hour after{unpriced}.\n",
        counted(simulation.count_real(new), "pod"),
        counted(simulation.node_claims.len(), "new node"),
        simulation.count_real(existing),
        simulation.count_real(pending),
        cost.before,
        cost.after,
    )
}
