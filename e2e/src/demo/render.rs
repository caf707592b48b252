//! From a picture to lines of text. Nothing here looks at a clock, a terminal or a cluster.

mod changes;
mod table;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use super::picture::{Picture, Stage};
use super::screen::{Line, Style};
pub use changes::changes;
use table::{Column, table};

/// How many of the last events are shown.
const SHOWN_EVENTS: usize = 8;

/// What has happened so far.
#[derive(Clone, Debug, Default)]
pub struct History {
    last: Picture,
    events: VecDeque<(Duration, String)>,
}

impl History {
    /// Compares with the picture before and returns what has happened in between.
    pub fn advance(&mut self, picture: &Picture, elapsed: Duration) -> Vec<String> {
        let news = changes(&self.last, picture);
        self.last = picture.clone();
        for text in &news {
            self.events.push_back((elapsed, text.clone()));
        }
        while self.events.len() > SHOWN_EVENTS {
            self.events.pop_front();
        }
        news
    }
}

/// The table for a terminal of that many columns.
pub fn frame(picture: &Picture, history: &History, elapsed: Duration, width: usize) -> Vec<Line> {
    let mut lines =
        vec![Line::empty(), Line::styled(Style::Bold, format!("{}  {}", clock(elapsed), flow(picture)))];
    lines.push(Line::empty());
    lines.extend(machine_deployments(picture, width));
    lines.push(Line::empty());
    lines.extend(workloads(picture, width));
    lines.push(Line::empty());
    lines.push(Line::text(claims(picture)));
    lines.push(Line::empty());
    lines.extend(
        history.events.iter().map(|(at, text)| Line::styled(Style::Faint, format!("{}  {text}", clock(*at)))),
    );
    lines.into_iter().map(|line| line.clipped(width)).collect()
}

/// The way of the pods in one line.
pub fn flow(picture: &Picture) -> String {
    let going = picture.going().len();
    let going = if going > 0 { format!(" ({going} going)") } else { String::new() };
    format!(
        "pods pending {} → replicas {} → Machines {}{going} → Nodes {} → pods running {}   ${:.2}/h",
        picture.pending(),
        picture.replicas(),
        picture.machines().len(),
        picture.nodes(),
        picture.running(),
        picture.cost(),
    )
}

/// Minutes and seconds.
pub fn clock(elapsed: Duration) -> String {
    format!("{}:{:02}", elapsed.as_secs() / 60, elapsed.as_secs() % 60)
}

fn machine_deployments(picture: &Picture, width: usize) -> Vec<Line> {
    let columns = [
        Column::left("MACHINEDEPLOYMENT").always(),
        Column::left("SIZE"),
        Column::left("ZONE"),
        Column::right("PRICE"),
        Column::right("REPLICAS").always(),
        Column::right("MACHINES").always(),
        Column::right("GOING"),
        Column::right("NODES").always(),
        Column::right("PODS").always(),
        Column::right("$/H"),
    ];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for deployment in &picture.machine_deployments {
        let cost = deployment.price.map(|price| price * f64::from(deployment.replicas));
        rows.push(vec![
            deployment.name.clone(),
            deployment.size.clone(),
            deployment.zone.clone(),
            deployment.price.map_or_else(|| "?".to_owned(), |price| format!("{price:.2}")),
            count(deployment.replicas as usize),
            count(deployment.machines.len()),
            count(deployment.going.len()),
            count(deployment.nodes),
            count(deployment.pods),
            cost.map_or_else(|| "?".to_owned(), |cost| format!("{cost:.2}")),
        ]);
    }
    let pods = picture.machine_deployments.iter().map(|deployment| deployment.pods).sum();
    rows.push(vec![
        "total".to_owned(),
        String::new(),
        String::new(),
        String::new(),
        count(picture.replicas() as usize),
        count(picture.machines().len()),
        count(picture.going().len()),
        count(picture.nodes()),
        count(pods),
        format!("{:.2}", picture.cost()),
    ]);
    table(&columns, &rows, width)
}

fn workloads(picture: &Picture, width: usize) -> Vec<Line> {
    let columns = [
        Column::left("PODS OF").always(),
        Column::right("WANTED"),
        Column::right("PENDING").always(),
        Column::right("RUNNING").always(),
    ];
    let row = |workload: &super::picture::Workload| {
        vec![workload.name.clone(), count(workload.wanted), count(workload.pending), count(workload.running)]
    };
    let rows: Vec<_> = picture.workloads.iter().map(row).collect();
    table(&columns, &rows, width)
}

/// NodeClaims by how far they are.
fn claims(picture: &Picture) -> String {
    let mut text = format!("NodeClaims {}", picture.claims.len());
    for stage in [Stage::Created, Stage::Launched, Stage::Registered, Stage::Initialized, Stage::Deleting] {
        let count = picture.claims.iter().filter(|claim| claim.stage == stage).count();
        if count > 0 {
            // Writing into a String can't fail.
            let _ = write!(text, "  {} {count}", stage.word());
        }
    }
    text
}

/// A zero is an empty place, so that the eye finds what there is.
fn count(number: usize) -> String {
    if number == 0 { "·".to_owned() } else { number.to_string() }
}

#[cfg(test)]
mod tests;
