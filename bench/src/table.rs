//! The report for people: tables on a terminal.

use comfy_table::{CellAlignment, Table, presets};

use crate::report::{Findings, Idle, Ratio, Report, Requests, ScaleUp};
use crate::statistics::Summary;

/// Kinds of requests that a table names; the JSON has all.
const MOST_KINDS: usize = 14;

/// The whole report, in lines.
pub(crate) fn render(report: &Report) -> String {
    let machine = &report.machine;
    let versions: Vec<String> =
        report.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let mut parts = vec![
        format!(
            "{} cores ({}), {} GiB; {}",
            machine.cores,
            machine.processor,
            machine.memory_kib / 1024 / 1024,
            versions.join(", ")
        ),
        format!(
            "batch window {:.0} ms; node leases {} s; hollow cloud waits {:.0} ms; Cluster API in {}; {}",
            report.settings.batch_idle_milliseconds,
            report.settings.node_lease_seconds,
            report.settings.cloud_delay_milliseconds,
            report.settings.cluster_api_versions,
            report.settings.relaxed.join(", ")
        ),
    ];
    for findings in &report.subjects {
        parts.extend(of_subject(findings));
    }
    if !report.ratios.is_empty() {
        parts.push(headed("The peer's figures by the operator's", &ratios(&report.ratios)));
    }
    parts.join("\n\n")
}

fn of_subject(findings: &Findings) -> Vec<String> {
    let name = findings.name;
    vec![
        headed(
            &format!("{name}: pod unschedulable to replicas written, in milliseconds"),
            &reactions(findings),
        ),
        headed(
            &format!(
                "{name}: scale-up by {} Nodes took {:.1} s; seconds from its begin",
                findings.scale_up.nodes, findings.scale_up.seconds
            ),
            &timeline(&findings.scale_up),
        ),
        headed(&format!("{name}: processor seconds during the scale-up"), &processors(&findings.scale_up)),
        requests(&format!("{name}: requests during the scale-up"), &findings.scale_up.requests),
        idle(name, &findings.idle),
        headed(&format!("{name}: memory"), &memory(findings)),
    ]
}

fn headed(heading: &str, table: &Table) -> String {
    format!("{heading}\n{table}")
}

/// A table whose columns after the first are figures.
fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn reactions(findings: &Findings) -> Table {
    let rows = findings.reactions.iter().flat_map(|reaction| {
        let row = |what: &str, summary: &Summary| {
            let situation = format!("{} Nodes, {} pods: {what}", reaction.nodes, reaction.pods);
            vec![
                situation,
                summary.count.to_string(),
                format!("{:.0}", summary.median),
                format!("{:.0}", summary.p90),
                format!("{:.0}", summary.max),
            ]
        };
        [
            row("beyond the window", &reaction.beyond_window),
            row("  NodeClaims, beyond the window", &reaction.claims_beyond_window),
            row("  NodeClaims to replicas", &reaction.claims_to_replicas),
            row("  (before: kube-scheduler)", &reaction.scheduler),
        ]
    });
    table(&["", "rounds", "median", "p90", "max"], rows)
}

fn timeline(scale_up: &ScaleUp) -> Table {
    let rows = scale_up.timeline.iter().map(|reached| {
        vec![
            reached.mark.title().to_owned(),
            format!("{:.1}", reached.first),
            format!("{:.1}", reached.half),
            format!("{:.1}", reached.all),
        ]
    });
    table(&["", "first", "half", "all"], rows)
}

fn processors(scale_up: &ScaleUp) -> Table {
    let rows =
        scale_up.processor_seconds.iter().map(|(name, seconds)| vec![name.clone(), format!("{seconds:.1}")]);
    table(&["process", "seconds"], rows)
}

fn requests(heading: &str, requests: &Requests) -> String {
    let rows = requests.by_kind.iter().take(MOST_KINDS).map(|tally| {
        vec![format!("{} {} {}", tally.cluster, tally.verb, tally.resource), tally.count.to_string()]
    });
    let mut table = table(&["cluster, verb, resource", "requests"], rows);
    let left: u32 = requests.by_kind.iter().skip(MOST_KINDS).map(|tally| tally.count).sum();
    if left > 0 {
        table.add_row(vec!["others".to_owned(), left.to_string()]);
    }
    headed(&format!("{heading}: {} in all, {:.2} a second", requests.count, requests.per_second), &table)
}

fn idle(name: &str, idle: &Idle) -> String {
    let heading = format!(
        "{name}: requests in {:.0} idle seconds ({:.2} processor seconds)",
        idle.seconds, idle.processor_seconds
    );
    requests(&heading, &idle.requests)
}

fn memory(findings: &Findings) -> Table {
    let mebibytes = |kib: u32| format!("{:.1}", f64::from(kib) / 1024.0);
    let rows = findings.memory.iter().map(|moment| {
        vec![
            moment.when.to_owned(),
            mebibytes(moment.memory.resident_kib),
            mebibytes(moment.memory.peak_kib),
            format!("{:.1}", moment.processor_seconds),
        ]
    });
    table(&["", "RSS, MiB", "peak RSS, MiB", "processor seconds so far"], rows)
}

fn ratios(ratios: &[Ratio]) -> Table {
    let rows = ratios.iter().map(|ratio| {
        vec![
            ratio.what.clone(),
            format!("{:.2}", ratio.ours),
            format!("{:.2}", ratio.peer),
            format!("{:.1}", ratio.times),
        ]
    });
    table(&["", "ours", "peer", "ratio"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Tally;

    #[test]
    fn kinds_that_find_no_room_in_the_table_are_summed_up() {
        let tally = |number: usize| Tally {
            cluster: "workload",
            verb: "get".to_owned(),
            resource: format!("r{number}"),
            count: 2,
        };
        let text = requests("x", &Requests::over(1.0, (0..MOST_KINDS + 3).map(tally).collect()));
        assert!(text.starts_with("x: 34 in all, 34.00 a second"), "{text}");
        let others = text.lines().find(|line| line.contains("others")).unwrap();
        assert!(others.trim_end().ends_with(" 6"), "{text}");
    }
}
