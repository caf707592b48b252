//! What is done to a subject, from an empty cluster to a whole fleet, and what is read off meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use karpenter_capi_e2e::plane::{Component, ControlPlane, Program, Served};
use karpenter_capi_e2e::workload;
use kube::Client;

use crate::audit::{Audit, tally};
use crate::process;
use crate::reaction::{self, Reaction, Series};
use crate::report::{Findings, Idle, Moment, Reached, Requests, ScaleUp};
use crate::stage;
use crate::subject::{Subject, cluster_of};
use crate::watches::{MARKS, Mark, Watches};

/// How long a scale-up may take for each Node, and at least.
const PATIENCE_PER_NODE: Duration = Duration::from_secs(2);
const LEAST_PATIENCE: Duration = Duration::from_mins(3);
/// A cluster has settled when the subject has written nothing for so long.
const SETTLED: Duration = Duration::from_secs(10);
/// How long it may take to settle.
const SETTLES_WITHIN: Duration = Duration::from_mins(3);

/// Processes that share the work of a scale-up with the subject.
const COMPONENTS: [Component; 6] = [
    Component::Etcd,
    Component::ApiServer,
    Component::ControllerManager,
    Component::Scheduler,
    Component::Kwok,
    Component::CapiCore,
];

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Nodes of the fleet.
    pub(crate) nodes: u32,
    /// Rounds of one pod each.
    pub(crate) rounds: u32,
    /// Rounds of [`BURST`] pods each.
    pub(crate) bursts: u32,
    /// How long nothing is done.
    pub(crate) idle: Duration,
    /// In which versions Cluster API's kinds are served.
    pub(crate) served: Served,
}

/// Pods of a burst.
const BURST: u32 = 10;

/// A subject at work.
struct Bench<'a> {
    plane: &'a ControlPlane,
    client: Client,
    watches: Watches,
    audit: Audit,
    subject: Program,
    memory: Vec<Moment>,
}

/// Starts a control plane and the subject, and goes through all of it.
pub(crate) async fn run(subject: &Subject, plan: Plan) -> Result<Findings> {
    let name = subject.name();
    eprintln!("{name}: starting etcd, Kubernetes, Cluster API and a hollow cloud");
    let folder = std::env::temp_dir().join(format!("karpenter-capi-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let audit = Audit::of(subject.users(), &folder)?;
    let options = audit.kept_by(stage::plane_options("bench", plan.served));
    let findings = ControlPlane::with(options, async |plane| {
        let client = plane.client()?;
        let _cloud = stage::set(plane, &client).await?;
        let watches = Watches::start(&client);
        let program = subject.start(plane)?;
        let bench = Bench { plane, client, watches, audit, subject: program, memory: Vec::new() };
        bench.play(name, plan).await
    })
    .await;
    if findings.is_ok() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    findings
}

impl Bench<'_> {
    async fn play(mut self, name: &'static str, plan: Plan) -> Result<Findings> {
        // Not counted: connections are made, code is read in, first lists are taken.
        let warm_up = Series { pods: 1, rounds: 1 };
        reaction::measure(&self.client, &self.watches, "warm-up", warm_up).await?;
        self.remember("after the first pod")?;
        let mut reactions = self.react("few", plan).await?;
        self.remember("before the scale-up")?;
        let scale_up = self.scale_up(plan.nodes).await?;
        self.settle().await?;
        self.remember("scaled up and settled")?;
        let idle = self.idle(plan.idle).await?;
        self.remember("after the idle time")?;
        reactions.extend(self.react("many", plan).await?);
        self.remember("at the end")?;
        self.plane.all_alive()?;
        Ok(Findings { name, reactions, scale_up, idle, memory: self.memory })
    }

    async fn react(&self, label: &str, plan: Plan) -> Result<Vec<Reaction>> {
        let mut reactions = Vec::new();
        for series in [Series { pods: 1, rounds: plan.rounds }, Series { pods: BURST, rounds: plan.bursts }] {
            if series.rounds == 0 {
                continue;
            }
            eprintln!(
                "{} rounds of {} pods, {} Nodes",
                series.rounds,
                series.pods,
                self.watches.total(Mark::Nodes)
            );
            let label = format!("{label}-{}", series.pods);
            reactions.push(reaction::measure(&self.client, &self.watches, &label, series).await?);
        }
        Ok(reactions)
    }

    fn remember(&mut self, when: &'static str) -> Result<()> {
        if let Some(status) = self.subject.ended()? {
            anyhow::bail!("the subject has ended ({status}); {}", self.subject.log_tail(20));
        }
        let process_id = self.subject.process_id();
        self.memory.push(Moment {
            when,
            memory: process::memory(process_id)?,
            processor_seconds: process::processor_seconds(process_id)?,
        });
        Ok(())
    }

    async fn scale_up(&mut self, nodes: u32) -> Result<ScaleUp> {
        eprintln!("scaling up by {nodes} Nodes");
        let before = self.watches.totals();
        let processors = self.processors()?;
        let (begun, began_at) = (Instant::now(), Timestamp::now());
        for (number, zone) in (0..).zip(stage::zones()) {
            workload::apply(&self.client, &stage::fleet(&zone, share(nodes, stage::ZONES, number))).await?;
        }
        let patience = LEAST_PATIENCE.max(PATIENCE_PER_NODE * nodes);
        let goal = |mark: Mark| before.get(&mark).copied().unwrap_or_default() + nodes;
        for mark in [Mark::Running, Mark::Initialized] {
            let reached = self.watches.until(mark, goal(mark), patience).await;
            reached.with_context(|| {
                format!("the scale-up: {:?}; {}", self.watches.totals(), self.subject.log_tail(10))
            })?;
        }
        let ended_at = Timestamp::now();
        let seconds = begun.elapsed().as_secs_f64();
        let timeline =
            MARKS.into_iter().filter_map(|mark| self.timeline(mark, &before, nodes, begun)).collect();
        Ok(ScaleUp {
            nodes,
            seconds,
            timeline,
            processor_seconds: difference(&processors, &self.processors()?),
            requests: self.requests(began_at, ended_at)?,
        })
    }

    /// Nothing where not all objects went through the mark: a pod that found its place at once was never unschedulable.
    fn timeline(
        &self,
        mark: Mark,
        before: &BTreeMap<Mark, u32>,
        nodes: u32,
        begun: Instant,
    ) -> Option<Reached> {
        let base = before.get(&mark).copied().unwrap_or_default();
        let after = |count: u32| {
            let at = self.watches.reached(mark, base + count)?;
            Some(at.duration_since(begun).as_secs_f64())
        };
        Some(Reached { mark, first: after(1)?, half: after(nodes.div_ceil(2))?, all: after(nodes)? })
    }

    async fn settle(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let settled = Timestamp::now() - SETTLED;
            let last = self.audit.requests()?.iter().rfind(|request| request.writes()).cloned();
            if begun.elapsed() >= SETTLED && last.as_ref().is_none_or(|last| last.at < settled) {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < SETTLES_WITHIN,
                "the subject still writes {} s after the scale-up, last: {last:?}",
                begun.elapsed().as_secs()
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn idle(&mut self, span: Duration) -> Result<Idle> {
        eprintln!("doing nothing for {} s", span.as_secs());
        let process_id = self.subject.process_id();
        let (before, from) = (process::processor_seconds(process_id)?, Timestamp::now());
        tokio::time::sleep(span).await;
        let until = Timestamp::now();
        let processor_seconds = process::processor_seconds(process_id)? - before;
        Ok(Idle { seconds: span.as_secs_f64(), processor_seconds, requests: self.requests(from, until)? })
    }

    fn requests(&mut self, from: Timestamp, until: Timestamp) -> Result<Requests> {
        let seconds = Duration::try_from(until.duration_since(from))?.as_secs_f64();
        let by_kind = tally(self.audit.requests()?, (from, until), cluster_of);
        Ok(Requests::over(seconds, by_kind))
    }

    /// Processor time so far of everybody who takes part.
    fn processors(&self) -> Result<Vec<(String, f64)>> {
        let mut processes = vec![
            ("the subject".to_owned(), self.subject.process_id()),
            ("bench and hollow cloud".to_owned(), std::process::id()),
        ];
        for component in COMPONENTS {
            let process_id = self.plane.process_id(component);
            processes.push((
                component.name().to_owned(),
                process_id.with_context(|| format!("{} isn't running", component.name()))?,
            ));
        }
        processes.into_iter().map(|(name, id)| Ok((name, process::processor_seconds(id)?))).collect()
    }
}

fn difference(before: &[(String, f64)], after: &[(String, f64)]) -> Vec<(String, f64)> {
    let mut used: Vec<(String, f64)> =
        before.iter().zip(after).map(|((name, before), (_, after))| (name.clone(), after - before)).collect();
    used.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    used
}

/// What falls to the part of that number when something is divided into parts that are as equal as can be.
fn share(all: u32, parts: u32, number: u32) -> u32 {
    all / parts + u32::from(number < all % parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_equal_but_for_one_and_add_up() {
        let shares: Vec<u32> = (0..10).map(|number| share(1003, 10, number)).collect();
        assert_eq!(shares.iter().sum::<u32>(), 1003);
        assert_eq!((shares[0], shares[2], shares[3], shares[9]), (101, 101, 100, 100));
    }
}
