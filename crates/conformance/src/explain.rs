//! What a person needs to find out why an answer is worse.

use crate::answer::{Answer, Claim};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Pods that only one side placed, and both sides' claims as far as they differ.
pub(crate) fn explain(ours: &Answer, recorded: &Answer) -> String {
    let mut text = String::new();
    let (own, theirs) = (ours.placed(), recorded.placed());
    pods(&mut text, "recorded with a place, without one here", theirs.difference(&own), &ours.errors);
    pods(&mut text, "placed here, recorded without a place", own.difference(&theirs), &recorded.errors);
    placements(&mut text, ours, recorded);
    claims(&mut text, ours, recorded);
    text
}

fn pods<'a>(
    text: &mut String,
    title: &str,
    pods: impl Iterator<Item = &'a &'a str>,
    reasons: &BTreeMap<String, String>,
) {
    for (index, pod) in pods.enumerate() {
        if index == 0 {
            line(text, 1, title);
        }
        let why = reasons.get(*pod).map_or("", String::as_str);
        line(text, 2, &format!("{pod}: {why}"));
    }
}

fn placements(text: &mut String, ours: &Answer, recorded: &Answer) {
    let nodes: BTreeSet<&String> = ours.placements.keys().chain(recorded.placements.keys()).collect();
    let differing: Vec<&String> = nodes
        .into_iter()
        .filter(|node| ours.placements.get(*node) != recorded.placements.get(*node))
        .collect();
    if !differing.is_empty() {
        line(text, 1, "existing nodes that got other pods");
    }
    for node in differing {
        let pods = |answer: &Answer| answer.placements.get(node).map_or(String::new(), |pods| pods.join(" "));
        line(text, 2, node);
        line(text, 3, &format!("here     {}", pods(ours)));
        line(text, 3, &format!("recorded {}", pods(recorded)));
    }
}

/// Each claim beside the recorded one that shares most pods with it.
fn claims(text: &mut String, ours: &Answer, recorded: &Answer) {
    line(
        text,
        1,
        &format!(
            "{} claims at {:.6} here, {} at {:.6} recorded; those that differ:",
            ours.node_claims.len(),
            ours.total_price(),
            recorded.node_claims.len(),
            recorded.total_price()
        ),
    );
    let mut open: Vec<&Claim> = recorded.node_claims.iter().collect();
    let mut pairs = Vec::new();
    for own in &ours.node_claims {
        let shared = |other: &Claim| other.pods.iter().filter(|pod| own.pods.contains(pod)).count();
        let best = open.iter().enumerate().max_by_key(|(index, other)| (shared(other), usize::MAX - index));
        let best = best.filter(|(_, other)| shared(other) > 0).map(|(index, _)| index);
        pairs.push((Some(own), best.map(|index| open.remove(index))));
    }
    pairs.extend(open.into_iter().map(|other| (None, Some(other))));
    for (own, other) in pairs.into_iter().filter(|(own, other)| own != other) {
        line(text, 2, &format!("here     {}", own.map_or_else(|| "-".to_owned(), told)));
        line(text, 2, &format!("recorded {}", other.map_or_else(|| "-".to_owned(), told)));
        if let (Some(own), Some(other)) = (own, other) {
            differences(text, own, other);
        }
    }
}

fn told(claim: &Claim) -> String {
    let cheapest = claim.instance_types.first().map_or("no type", String::as_str);
    format!("{}: {cheapest} at {:.6} for {}", claim.node_pool, claim.price, claim.pods.join(" "))
}

/// What else two claims differ in.
fn differences(text: &mut String, own: &Claim, other: &Claim) {
    let only = |a: &[String], b: &[String]| -> Vec<String> {
        a.iter().filter(|each| !b.contains(each)).cloned().collect()
    };
    let mut part = |what: &str, a: Vec<String>, b: Vec<String>| {
        if !a.is_empty() || !b.is_empty() {
            line(text, 3, &format!("{what}: only here {a:?}, only recorded {b:?}"));
        }
    };
    part(
        "requirements",
        only(&own.requirements, &other.requirements),
        only(&other.requirements, &own.requirements),
    );
    part(
        "instance types",
        only(&own.instance_types, &other.instance_types),
        only(&other.instance_types, &own.instance_types),
    );
    let requests = |claim: &Claim| -> Vec<String> {
        claim.requests.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
    };
    let (a, b) = (requests(own), requests(other));
    part("requests", only(&a, &b), only(&b, &a));
}

fn line(text: &mut String, depth: usize, words: &str) {
    // Writing to a String can't fail.
    let _ = writeln!(text, "{}{words}", "  ".repeat(depth));
}
