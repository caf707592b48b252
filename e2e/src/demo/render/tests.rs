use std::collections::BTreeSet;

use super::*;
use crate::demo::picture::{Claim, MachineDeployment, Told, Workload};

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn deployment(name: &str, price: Option<f64>, replicas: u32, machines: &[&str]) -> MachineDeployment {
    MachineDeployment {
        name: name.to_owned(),
        size: "4 cpu 16Gi".to_owned(),
        zone: "a".to_owned(),
        price,
        replicas,
        machines: set(machines),
        going: BTreeSet::new(),
        nodes: 1,
        pods: 3,
    }
}

fn claim(name: &str, stage: Stage) -> Claim {
    Claim {
        name: name.to_owned(),
        node_pool: "general".to_owned(),
        machine_deployment: "small".to_owned(),
        machine: Some("small-1".to_owned()),
        stage,
        pods: 2,
    }
}

fn picture() -> Picture {
    let workload =
        |name: &str, wanted, pending, running| Workload { name: name.to_owned(), wanted, pending, running };
    Picture {
        workloads: vec![workload("api", 4, 1, 3), workload("web", 6, 0, 6)],
        machine_deployments: vec![
            deployment("small", Some(0.25), 2, &["small-1"]),
            deployment("unpriced", None, 1, &["unpriced-1"]),
        ],
        claims: vec![claim("general-a", Stage::Initialized), claim("general-b", Stage::Created)],
        events: Vec::new(),
    }
}

fn texts(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(Line::content).collect()
}

#[test]
fn the_flow_counts_pods_replicas_machines_nodes_and_dollars() {
    assert_eq!(
        flow(&picture()),
        "pods pending 1 → replicas 3 → Machines 2 → Nodes 2 → pods running 9   $0.50/h"
    );
    let mut going = picture();
    going.machine_deployments[0].going = set(&["small-0"]);
    assert!(flow(&going).contains("Machines 2 (1 going) →"), "{}", flow(&going));
}

#[test]
fn a_frame_has_a_row_for_each_machine_deployment_and_a_total() {
    let lines = frame(&picture(), &History::default(), Duration::from_secs(65), 120);
    let texts = texts(&lines);
    assert!(texts[1].starts_with("1:05  pods pending 1"), "{}", texts[1]);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(texts[4]), ["small", "4", "cpu", "16Gi", "a", "0.25", "2", "1", "·", "1", "3", "0.50"]);
    assert_eq!(words(texts[5])[4..], ["a", "?", "1", "1", "·", "1", "3", "?"]);
    assert_eq!(words(texts[6]), ["total", "3", "2", "·", "2", "6", "0.50"]);
    assert!(texts.contains(&"NodeClaims 2  created 1  initialized 1"), "{texts:#?}");
}

#[test]
fn numbers_stand_under_the_end_of_their_heads() {
    let lines = frame(&picture(), &History::default(), Duration::ZERO, 120);
    let texts = texts(&lines);
    let end = |line: &str, word: &str| line.find(word).map(|at| line[..at].chars().count() + word.len());
    assert_eq!(end(texts[3], "PRICE"), end(texts[4], "0.25"));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut history = History::default();
    let mut after = picture();
    after.events.push(Told { about: "NodeClaim/general-a".to_owned(), message: "x".repeat(300) });
    history.advance(&after, Duration::from_secs(1));
    for width in [1, 20, 40, 60, 79, 200] {
        for line in frame(&after, &history, Duration::from_secs(1), width) {
            assert!(line.content().chars().count() <= width, "{width}: {}", line.content());
        }
    }
}

#[test]
fn a_narrow_terminal_keeps_the_columns_that_matter() {
    let lines = frame(&picture(), &History::default(), Duration::ZERO, 60);
    let heads: Vec<&str> = lines[3].content().split_whitespace().collect();
    assert!(heads.starts_with(&["MACHINEDEPLOYMENT"]), "{heads:?}");
    for kept in ["REPLICAS", "MACHINES", "NODES", "PODS"] {
        assert!(heads.contains(&kept), "{heads:?}");
    }
    assert!(!heads.contains(&"$/H"), "{heads:?}");
}

#[test]
fn only_the_last_events_are_remembered() {
    let mut history = History::default();
    for replicas in 1..20 {
        let mut next = Picture::default();
        next.machine_deployments.push(deployment("small", None, replicas, &[]));
        history.advance(&next, Duration::from_secs(u64::from(replicas)));
    }
    let events: Vec<_> = history.events.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(events.len(), SHOWN_EVENTS);
    assert_eq!(events.last(), Some(&"MachineDeployment small: replicas 18 → 19"));
}

#[test]
fn changes_are_told_once_and_in_the_order_of_their_causes() {
    let before = Picture::default();
    let mut created = picture();
    created.claims = vec![claim("general-a", Stage::Created)];
    assert_eq!(
        changes(&before, &created),
        [
            "MachineDeployment small: replicas 0 → 2",
            "MachineDeployment unpriced: replicas 0 → 1",
            "NodeClaim general-a is to be served by MachineDeployment small",
        ]
    );
    assert_eq!(changes(&created, &created), [""; 0]);

    let mut launched = created.clone();
    launched.claims = vec![claim("general-a", Stage::Launched)];
    assert_eq!(changes(&created, &launched), [""; 0]);

    let mut deleting = created.clone();
    deleting.claims = vec![claim("general-a", Stage::Deleting)];
    assert_eq!(changes(&created, &deleting), ["NodeClaim general-a is being deleted"]);

    let mut gone = created.clone();
    gone.claims.clear();
    assert_eq!(changes(&deleting, &gone), ["NodeClaim general-a is gone, and Machine small-1 with it"]);
}
