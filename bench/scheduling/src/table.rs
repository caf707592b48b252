//! The report as Markdown.

use crate::growth::Step;
use crate::measure::Spread;
use crate::report::{Compared, Report};
use comfy_table::{Table, presets};

pub(crate) fn render(report: &Report) -> String {
    let mut parts = Vec::new();
    if !report.compared.is_empty() {
        parts.push(times(&report.compared).to_string());
        parts.push(outcomes(&report.compared).to_string());
    }
    if !report.growth.is_empty() {
        parts.push(growth(&report.growth).to_string());
    }
    parts.join("\n\n")
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header.to_vec());
    table
}

fn times(compared: &[Compared]) -> Table {
    let mut table = table(&[
        "document",
        "model, ms",
        "solve, ms",
        "sum, ms",
        "sum, CPU ms",
        "upstream: topology + solve, ms",
        "CPU ms",
        "ratio, wall",
        "ratio, CPU",
    ]);
    for each in compared {
        let ours = &each.ours;
        let theirs = each.theirs.as_ref().map(|theirs| theirs.sum);
        let ratio = |pick: fn(&Spread) -> f64| {
            theirs.map_or("-".to_owned(), |theirs| format!("{:.1}", pick(&theirs) / pick(&ours.sum)))
        };
        table.add_row([
            each.document.clone(),
            wall(&ours.model),
            wall(&ours.solve),
            wall(&ours.sum),
            cpu(&ours.sum),
            theirs.as_ref().map_or("-".to_owned(), wall),
            theirs.as_ref().map_or("-".to_owned(), cpu),
            ratio(|spread| spread.median.wall),
            ratio(|spread| spread.least.cpu),
        ]);
    }
    table
}

fn outcomes(compared: &[Compared]) -> Table {
    let mut table = table(&[
        "document",
        "pods",
        "placed",
        "upstream",
        "claims",
        "upstream",
        "dollars an hour",
        "upstream",
        "allocations a pod",
        "upstream",
    ]);
    for each in compared {
        let (ours, theirs) = (&each.ours, each.theirs.as_ref());
        let told = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.add_row([
            each.document.clone(),
            ours.pods.to_string(),
            ours.outcome.pods_placed.to_string(),
            told(theirs.map(|theirs| theirs.outcome.pods_placed.to_string())),
            ours.outcome.node_claims.to_string(),
            told(theirs.map(|theirs| theirs.outcome.node_claims.to_string())),
            format!("{:.4}", ours.outcome.total_price),
            told(theirs.map(|theirs| format!("{:.4}", theirs.outcome.total_price))),
            (ours.allocations / ours.pods.max(1)).to_string(),
            told(theirs.map(|theirs| {
                (theirs.allocations / u64::try_from(ours.pods.max(1)).unwrap_or(1)).to_string()
            })),
        ]);
    }
    table
}

fn growth(steps: &[Step]) -> Table {
    let mut table = table(&[
        "pods",
        "nodes",
        "NodePools",
        "model, CPU ms",
        "solve, CPU ms",
        "times the step before",
        "placed",
        "claims",
        "heap a pod: input, bytes",
        "solve, bytes",
        "allocations a pod",
    ]);
    let mut before: Option<&Step> = None;
    for step in steps {
        let ratio = before.filter(|_| !step.first).map(|before| step.sum().cpu / before.sum().cpu);
        table.add_row([
            step.size.pods.to_string(),
            step.size.nodes.to_string(),
            step.size.pools.to_string(),
            format!("{:.1}", step.model.cpu),
            format!("{:.1}", step.solve.cpu),
            ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.1}")),
            step.outcome.pods_placed.to_string(),
            step.outcome.node_claims.to_string(),
            step.input_bytes.to_string(),
            step.solve_bytes.to_string(),
            step.allocations.to_string(),
        ]);
        before = Some(step);
    }
    table
}

/// `least / median`.
fn wall(spread: &Spread) -> String {
    format!("{:.1} / {:.1}", spread.least.wall, spread.median.wall)
}

fn cpu(spread: &Spread) -> String {
    format!("{:.1} / {:.1}", spread.least.cpu, spread.median.cpu)
}
