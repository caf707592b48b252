//! Why a pod has no place: for each NodePool, and for each of its instance types, the first constraint that failed, and the smallest
//! change that would have helped.

mod topology;
mod types;

use super::demand::{Alternative, alternatives};
use super::fit::Answer;
use super::place::{Errand, Prices};
use super::states::{StateId, WantedId};
use super::template::{Candidate, Template};
use super::world::World;
use crate::plan::{PendingPod, PendingReason};
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::label::{NODEPOOL, restricted};
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_model::requirement::{Operator, Requirement};
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::taint::untolerated;
use std::collections::BTreeMap;

/// A reason that concerns the pod alone.
pub(super) fn of_the_pod(pod: &Pod, code: ReasonCode, message: String) -> PendingPod {
    PendingPod { pod: pod.name.clone(), reasons: vec![reason(None, None, Stopped::new(0, code, message))] }
}

/// The pass ended before the pod's turn came.
pub(super) fn not_evaluated(pod: &Pod) -> PendingPod {
    let message = "the pass ran out of time before it was looked at; the next one goes on".to_owned();
    of_the_pod(pod, ReasonCode::NotEvaluated, message)
}

/// Reasons against the state in which the solve ended. Pods of one shape have the same.
#[derive(Default)]
pub(super) struct Explained(BTreeMap<usize, Vec<PendingReason>>);

impl Explained {
    pub(super) fn why(&mut self, world: &mut World<'_>, pod: usize) -> PendingPod {
        let reasons = self.0.entry(world.shape_of[pod]).or_insert_with(|| explain(world, pod));
        PendingPod { pod: world.pods[pod].name.clone(), reasons: reasons.clone() }
    }
}

fn explain(world: &mut World<'_>, pod: usize) -> Vec<PendingReason> {
    let shape = world.shape_of[pod];
    let level = world.shapes[shape].levels.len() - 1;
    if world.shapes[shape].levels[level].alternatives.is_empty() {
        let message = contradiction(world.pods[pod]);
        return vec![reason(None, None, Stopped::new(0, ReasonCode::Requirements, message))];
    }
    let errand = Errand { pod, shape, level, prices: Prices::Any };
    let mut reasons = Vec::new();
    let waiting_for = world.waits_at[shape].and_then(|level| {
        let first =
            (0..world.templates.len()).find(|template| waits(world, Errand { level, ..errand }, *template));
        first.map(|template| world.templates[template].pool)
    });
    // Templates stand in the same order, and only for usable pools.
    let mut templates = 0..;
    for index in 0..world.pools.len() {
        let pool = world.pools[index];
        if let Some(why) = &pool.not_ready {
            let stopped = Stopped::new(0, ReasonCode::NodePoolNotReady, why.clone());
            reasons.push(reason(Some(pool), None, stopped));
        } else if pool.paused {
            let message = "provisioning is paused by an annotation on the NodePool".to_owned();
            let stopped = Stopped::new(0, ReasonCode::Paused, message);
            reasons.push(reason(Some(pool), None, stopped.helped_by("take the annotation off".to_owned())));
        } else if let Some(template) = templates.next() {
            of_template(world, errand, template, waiting_for, &mut reasons);
        }
    }
    if reasons.is_empty() {
        let stopped = Stopped::new(0, ReasonCode::NodePoolNotReady, "there is no NodePool".to_owned());
        reasons.push(reason(None, None, stopped));
    }
    reasons
}

fn contradiction(pod: &Pod) -> String {
    let all = super::alternatives(pod);
    let key = all.iter().find_map(Requirements::contradiction).map(Requirement::key).unwrap_or_default();
    format!("the pod's own node selector and node affinity contradict each other on {key}")
}

fn reason(pool: Option<&NodePool>, of_type: Option<&InstanceType>, stopped: Stopped) -> PendingReason {
    PendingReason {
        node_pool: pool.map(|pool| pool.name.clone()),
        machine_deployment: of_type.and_then(|of_type| of_type.machine_deployment.clone()),
        instance_type: of_type.map(|of_type| of_type.name.clone()),
        code: stopped.code,
        message: stopped.message,
        remedy: stopped.remedy,
    }
}

/// How far an attempt came, what stopped it there, and what would have helped.
#[derive(Clone)]
struct Stopped {
    rank: u8,
    code: ReasonCode,
    message: String,
    remedy: Option<String>,
}

impl Stopped {
    const fn new(rank: u8, code: ReasonCode, message: String) -> Self {
        Self { rank, code, message, remedy: None }
    }

    fn helped_by(self, remedy: String) -> Self {
        Self { remedy: Some(remedy), ..self }
    }
}

/// An alternative that a NodePool could serve, as far as the NodePool goes.
struct Passing {
    requirements: Requirements,
    /// What the pod and its volumes add to those of the NodePool.
    wanted: WantedId,
    /// The state of such a claim; None where no type meets it.
    joined: Option<StateId>,
    /// The states that topology allows.
    targets: Vec<StateId>,
}

fn of_template<'a>(
    world: &mut World<'a>,
    errand: Errand,
    template: usize,
    waiting_for: Option<&'a NodePool>,
    reasons: &mut Vec<PendingReason>,
) {
    let mut passing = Vec::new();
    let mut furthest: Option<Stopped> = None;
    for index in 0..world.shapes[errand.shape].levels[errand.level].alternatives.len() {
        match pass(world, errand, template, index) {
            Ok(passed) => passing.push(passed),
            Err(stopped) => furthest = Some(further(furthest, stopped)),
        }
    }
    let pool = Some(world.templates[template].pool);
    if waiting_for.is_some_and(|other| Some(&other.name) == pool.map(|pool| &pool.name)) {
        let message = "every place in the reservations that would serve is held".to_owned();
        reasons.push(reason(pool, None, Stopped::new(12, ReasonCode::Reserved, message)));
        return;
    }
    if passing.is_empty() {
        reasons.extend(furthest.map(|stopped| reason(pool, None, stopped)));
        return;
    }
    if let Some(other) = waiting_for
        && serves(world, errand, &passing)
    {
        let message = format!("not tried: the pod waits for reserved capacity of NodePool {}", other.name);
        reasons.push(reason(pool, None, Stopped::new(12, ReasonCode::Reserved, message)));
        return;
    }
    let explanation = Explanation { world, template: &world.templates[template], errand };
    if explanation.template.candidates.is_empty() {
        let message = "no MachineDeployment matches the NodePool".to_owned();
        reasons.push(reason(pool, None, Stopped::new(0, ReasonCode::NoOffering, message)));
    }
    explanation.of_types(
        &passing,
        furthest.filter(|stopped| stopped.rank >= topology::RANK).as_ref(),
        reasons,
    );
}

/// Whether the pod waits for reserved capacity of this NodePool.
fn waits(world: &mut World<'_>, errand: Errand, template: usize) -> bool {
    let alternatives = world.shapes[errand.shape].levels[errand.level].alternatives.len();
    let passing: Vec<Passing> =
        (0..alternatives).filter_map(|index| pass(world, errand, template, index).ok()).collect();
    matches!(answer(world, errand, &passing), Answer::Waits)
}

/// Whether a claim of the NodePool would serve the pod.
fn serves(world: &mut World<'_>, errand: Errand, passing: &[Passing]) -> bool {
    !matches!(answer(world, errand, passing), Answer::Never | Answer::NotNow)
}

fn answer(world: &mut World<'_>, errand: Errand, passing: &[Passing]) -> Answer {
    let known = passing.iter().filter_map(|passed| Some((passed.joined?, passed.targets.clone())));
    let (joined, targets): (Vec<StateId>, Vec<Vec<StateId>>) = known.unzip();
    world.best(errand, None, &joined, &targets)
}

/// Whether an alternative gets past the NodePool itself and past topology.
fn pass(world: &mut World<'_>, errand: Errand, template: usize, index: usize) -> Result<Passing, Stopped> {
    let explanation = Explanation { world, template: &world.templates[template], errand };
    let alternatives = std::rc::Rc::clone(&explanation.level().alternatives);
    let (requirements, wanted) = explanation.at_the_pool(&alternatives[index])?;
    let base = world.bases[template];
    let joined = base.and_then(|base| world.states.with(&world.templates, &world.domains, base, wanted));
    let Some(joined) = joined else {
        return Ok(Passing { requirements, wanted, joined: None, targets: Vec::new() });
    };
    let allowed = world.allowed(errand);
    let targets = world.targets(joined, &allowed);
    if targets.is_empty() || !world.new_host_will_do(errand) {
        return Err(topology::stopped(world, errand, joined));
    }
    Ok(Passing { requirements, wanted, joined: Some(joined), targets })
}

struct Explanation<'w, 'a> {
    world: &'w World<'a>,
    template: &'w Template<'a>,
    errand: Errand,
}

impl Explanation<'_, '_> {
    fn level(&self) -> &super::shape::Level {
        &self.world.shapes[self.errand.shape].levels[self.errand.level]
    }

    fn pod(&self) -> &Pod {
        self.world.pods[self.errand.pod]
    }

    /// `elsewhere`: what stopped alternatives that didn't get as far as the types, where that tells more.
    fn of_types(&self, passing: &[Passing], elsewhere: Option<&Stopped>, reasons: &mut Vec<PendingReason>) {
        let pool = Some(self.template.pool);
        let mut sorted: Vec<(usize, &Candidate<'_>)> = self.template.candidates.iter().enumerate().collect();
        sorted.sort_by(|(_, a), (_, b)| a.of_type.name.cmp(&b.of_type.name));
        let mut some_serve = false;
        for (index, candidate) in sorted {
            let stopped = passing.iter().map(|passed| self.at_the_type(index, candidate, passed));
            match stopped.reduce(|a, b| Some(further(Some(a?), b?))).flatten() {
                Some(stopped) => {
                    let stopped = elsewhere.map_or_else(
                        || stopped.clone(),
                        |other| further(Some(stopped.clone()), other.clone()),
                    );
                    reasons.push(reason(pool, Some(candidate.of_type), stopped));
                }
                None => some_serve = true,
            }
        }
        if some_serve {
            reasons.push(reason(pool, None, self.min_values(passing)));
        }
    }

    /// What a new claim of the pool would require, or what stops the pod before any type is looked at.
    fn at_the_pool(&self, alternative: &Alternative) -> Result<(Requirements, WantedId), Stopped> {
        let pool = self.template.pool;
        if let Some(taint) = untolerated(&pool.taints, &self.pod().tolerations, self.level().prefer_too) {
            let message = format!("NodePool {} has taint {taint}, which the pod doesn't tolerate", pool.name);
            return Err(Stopped::new(0, ReasonCode::Taints, message).helped_by(format!("tolerate {taint}")));
        }
        let wanted = alternative.on_new().map_err(|wanted| {
            let why = restricted(wanted.key()).unwrap_or("can't be asked for");
            let message = format!("{wanted} is wanted, but {} {why}", wanted.key());
            Stopped::new(1, ReasonCode::Requirements, message)
        })?;
        let asked = wanted;
        let wanted = self.world.states.wanted(asked);
        if let Some(conflict) = pool.requirements.first_conflict(wanted, self.template.keys.of_types()) {
            let message = if conflict.key() == NODEPOOL && conflict.operator() == Operator::DoesNotExist {
                format!("excluded from Karpenter nodes by its own affinity ({conflict})")
            } else {
                format!("NodePool {}: {}", pool.name, pool.requirements.incompatible(conflict))
            };
            let stopped = Stopped::new(2, self.whose(asked, conflict), message);
            return Err(match pool.requirements.get(conflict.key()) {
                Some(offered) => stopped.helped_by(format!("ask for {offered}")),
                None => stopped.helped_by(format!("give NodePool {} a requirement {conflict}", pool.name)),
            });
        }
        if let Some(limit) = pool.node_limit.filter(|_| self.template.is_full()) {
            let used = self.template.nodes;
            let message = format!("limit nodes={limit} reached (in use {used})");
            let remedy =
                format!("raise limits.nodes of NodePool {} to {}", pool.name, used.saturating_add(1));
            return Err(Stopped::new(3, ReasonCode::Limits, message).helped_by(remedy));
        }
        Ok((pool.requirements.and(wanted), asked))
    }

    /// Whether its volumes alone ask for it, of all that is asked for.
    fn whose(&self, asked: WantedId, wanted: &Requirement) -> ReasonCode {
        let key = wanted.key();
        let own = alternatives(self.pod()).iter().any(|one| one.contains_key(key));
        let by_volumes =
            !own && self.world.states.wanted(asked).contains_key(key) && !self.pod().volume_claims.is_empty();
        if by_volumes { ReasonCode::Volumes } else { ReasonCode::Requirements }
    }
}

/// Of two attempts the one that came further; the first of equals.
fn further(a: Option<Stopped>, b: Stopped) -> Stopped {
    match a {
        Some(a) if a.rank >= b.rank => a,
        _ => b,
    }
}
