//! How long it takes from pods that find no place to replicas that are written for them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Serialize;

use crate::stage::{NAMESPACE, lone_pod};
use crate::statistics::{Summary, beyond, milliseconds, summary};
use crate::watches::{Mark, Watches};

/// The operator's and the peer's `--batch-idle-duration`, which is left at its default.
pub(crate) const BATCH_IDLE: Duration = Duration::from_secs(1);
/// How long a round may take. The peer polls for Machines for half a minute, and tries again after its back-off.
const PATIENCE: Duration = Duration::from_mins(3);

/// How many rounds of how many pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series {
    pub(crate) pods: u32,
    pub(crate) rounds: u32,
}

/// What a series of rounds comes to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Reaction {
    /// Nodes that were there before.
    pub(crate) nodes: u32,
    /// Pods that were created together in each round, each needing a machine of its own.
    pub(crate) pods: u32,
    /// From the last pod Unschedulable to the replicas written for all, less the batch window: milliseconds.
    pub(crate) beyond_window: Summary,
    /// From the last pod Unschedulable to the last NodeClaim created, less the batch window: milliseconds.
    pub(crate) claims_beyond_window: Summary,
    /// From the last NodeClaim created to the replicas written for all: milliseconds.
    pub(crate) claims_to_replicas: Summary,
    /// From the request that creates the last pod to its being Unschedulable, which is kube-scheduler's part: milliseconds.
    pub(crate) scheduler: Summary,
    /// Each round's `beyond_window`, in order.
    pub(crate) rounds: Vec<f64>,
}

/// When what was seen of one round.
#[derive(Clone, Copy, Debug)]
struct Round {
    asked: Instant,
    unschedulable: Instant,
    claims: Instant,
    replicas: Instant,
}

/// Plays the rounds one after the other; each ends when its pods run.
pub(crate) async fn measure(
    client: &Client,
    watches: &Watches,
    label: &str,
    series: Series,
) -> Result<Reaction> {
    let nodes = watches.total(Mark::Nodes);
    let mut rounds = Vec::new();
    for number in 0..series.rounds {
        let names: Vec<String> = (0..series.pods).map(|pod| format!("{label}-{number}-{pod}")).collect();
        let round = play(client, watches, &names).await;
        rounds.push(round.with_context(|| format!("round {number} of {label}"))?);
        // Not in step with anything that happens every second.
        tokio::time::sleep(Duration::from_millis(u64::from(200 + number * 137 % 1000))).await;
    }
    reaction(nodes, series.pods, &rounds).context("a series without rounds")
}

async fn play(client: &Client, watches: &Watches, names: &[String]) -> Result<Round> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let before = watches.totals();
    let count = u32::try_from(names.len())?;
    let goal = |mark: Mark| before.get(&mark).copied().unwrap_or_default() + count;
    let asked = Instant::now();
    let params = PostParams::default();
    let objects: Vec<Pod> = names.iter().map(|name| lone_pod(name)).collect();
    try_join_all(objects.iter().map(|pod| pods.create(&params, pod))).await.context("creating pods")?;
    let replicas = watches.until(Mark::Replicas, goal(Mark::Replicas), PATIENCE).await?;
    let claims = watches.until(Mark::Claims, goal(Mark::Claims), PATIENCE).await?;
    let unschedulable = watches.until(Mark::Unschedulable, goal(Mark::Unschedulable), PATIENCE).await?;
    watches.until(Mark::Running, goal(Mark::Running), PATIENCE).await?;
    watches.until(Mark::Initialized, goal(Mark::Initialized), PATIENCE).await?;
    Ok(Round { asked, unschedulable, claims, replicas })
}

fn reaction(nodes: u32, pods: u32, rounds: &[Round]) -> Option<Reaction> {
    let of = |figure: fn(&Round) -> f64| rounds.iter().map(figure).collect::<Vec<f64>>();
    let beyond_window = of(|round| beyond(round.replicas.duration_since(round.unschedulable), BATCH_IDLE));
    Some(Reaction {
        nodes,
        pods,
        beyond_window: summary(&beyond_window)?,
        claims_beyond_window: summary(&of(|round| {
            beyond(round.claims.duration_since(round.unschedulable), BATCH_IDLE)
        }))?,
        claims_to_replicas: summary(&of(|round| milliseconds(round.replicas.duration_since(round.claims))))?,
        scheduler: summary(&of(|round| milliseconds(round.unschedulable.duration_since(round.asked))))?,
        rounds: beyond_window,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_taken_off_once_and_the_parts_add_up() {
        let asked = Instant::now();
        let after = |milliseconds| asked + Duration::from_millis(milliseconds);
        let round = Round { asked, unschedulable: after(20), claims: after(1050), replicas: after(1090) };
        let reaction = reaction(7, 1, &[round]).unwrap();
        let near = |figure: f64, expected: f64| assert!((figure - expected).abs() < 1e-6, "{figure}");
        near(reaction.scheduler.median, 20.0);
        near(reaction.claims_beyond_window.median, 30.0);
        near(reaction.claims_to_replicas.median, 40.0);
        near(reaction.beyond_window.median, 70.0);
        assert_eq!(reaction.nodes, 7);
    }
}
