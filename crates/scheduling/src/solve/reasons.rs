//! Why a pod has no place: for each NodePool, and for each of its instance types, the first constraint that failed.

use super::World;
use super::demand::{Alternative, Demand, Level};
use super::min_values;
use super::template::{Ask, Candidate, Refusal, Template};
use crate::plan::{PendingPod, PendingReason};
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::label::{NODEPOOL, restricted};
use karpenter_capi_model::node_pool::NodePool;
use karpenter_capi_model::pod::Pod;
use karpenter_capi_model::reason::ReasonCode;
use karpenter_capi_model::requirement::{Operator, Requirement};
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::{Resources, Shortfall, format_amount};
use karpenter_capi_model::taint::untolerated;

/// A reason that concerns the pod alone.
pub(super) fn of_the_pod(pod: &Pod, code: ReasonCode, message: String) -> PendingPod {
    PendingPod { pod: pod.name.clone(), reasons: vec![reason(None, None, code, message)] }
}

/// Reasons against the state in which the solve ended.
pub(super) fn explain(world: &World<'_>, demand: &Demand<'_>) -> PendingPod {
    let Some(level) = demand.levels().last().filter(|level| !level.alternatives.is_empty()) else {
        return of_the_pod(demand.pod, ReasonCode::Requirements, contradiction(demand.pod));
    };
    let mut reasons = Vec::new();
    // Templates stand in the same order, and only for usable pools.
    let mut templates = world.templates.iter();
    for pool in &world.pools {
        if let Some(why) = &pool.not_ready {
            reasons.push(reason(Some(pool), None, ReasonCode::NodePoolNotReady, why.clone()));
        } else if pool.paused {
            let message = "provisioning is paused by an annotation on the NodePool".to_owned();
            reasons.push(reason(Some(pool), None, ReasonCode::Paused, message));
        } else if let Some(template) = templates.next() {
            Explanation { world, template, pod: demand.pod, level }.add_to(&mut reasons);
        }
    }
    if reasons.is_empty() {
        reasons.push(reason(None, None, ReasonCode::NodePoolNotReady, "there is no NodePool".to_owned()));
    }
    PendingPod { pod: demand.pod.name.clone(), reasons }
}

fn contradiction(pod: &Pod) -> String {
    let all = super::alternatives(pod);
    let key = all.iter().find_map(Requirements::contradiction).map(Requirement::key).unwrap_or_default();
    format!("the pod's own node selector and node affinity contradict each other on {key}")
}

fn reason(
    pool: Option<&NodePool>,
    of_type: Option<&InstanceType>,
    code: ReasonCode,
    message: String,
) -> PendingReason {
    PendingReason {
        node_pool: pool.map(|pool| pool.name.clone()),
        machine_deployment: of_type.and_then(|of_type| of_type.machine_deployment.clone()),
        instance_type: of_type.map(|of_type| of_type.name.clone()),
        code,
        message,
        remedy: None,
    }
}

struct Explanation<'w, 'a> {
    world: &'w World<'a>,
    template: &'w Template<'a>,
    pod: &'w Pod,
    level: &'w Level,
}

/// How far an attempt came, and what stopped it there.
type Stopped = (u8, ReasonCode, String);

impl Explanation<'_, '_> {
    fn add_to(&self, reasons: &mut Vec<PendingReason>) {
        let pool = Some(self.template.pool);
        let mut passing = Vec::new();
        let mut furthest: Option<Stopped> = None;
        for alternative in &self.level.alternatives {
            match self.at_the_pool(alternative) {
                Ok(requirements) => passing.push(requirements),
                Err(stopped) => furthest = Some(further(furthest, stopped)),
            }
        }
        if passing.is_empty() {
            if let Some((_, code, message)) = furthest {
                reasons.push(reason(pool, None, code, message));
            }
            return;
        }
        if self.template.candidates.is_empty() {
            let message = "no MachineDeployment matches the NodePool".to_owned();
            reasons.push(reason(pool, None, ReasonCode::NoOffering, message));
        }
        let mut sorted: Vec<&Candidate<'_>> = self.template.candidates.iter().collect();
        sorted.sort_by(|a, b| a.of_type.name.cmp(&b.of_type.name));
        let mut some_serve = false;
        for candidate in sorted {
            let stopped = passing.iter().map(|requirements| self.at_the_type(candidate, requirements));
            match stopped.reduce(|a, b| Some(further(Some(a?), b?))).flatten() {
                Some((_, code, message)) => {
                    reasons.push(reason(pool, Some(candidate.of_type), code, message));
                }
                None => some_serve = true,
            }
        }
        if some_serve {
            reasons.push(self.min_values(&passing));
        }
    }

    /// What a new claim of the pool would require, or what stops the pod before any type is looked at.
    fn at_the_pool(&self, alternative: &Alternative) -> Result<Requirements, Stopped> {
        let pool = self.template.pool;
        if let Some(taint) = untolerated(&pool.taints, &self.pod.tolerations, self.level.prefer_too) {
            let message = format!("NodePool {} has taint {taint}, which the pod doesn't tolerate", pool.name);
            return Err((0, ReasonCode::Taints, message));
        }
        let wanted = alternative.on_new().map_err(|wanted| {
            let why = restricted(wanted.key()).unwrap_or("can't be asked for");
            (1, ReasonCode::Requirements, format!("{wanted} is wanted, but {} {why}", wanted.key()))
        })?;
        if let Some(conflict) = pool.requirements.first_conflict(wanted, self.template.keys.of_types()) {
            let message = if conflict.key() == NODEPOOL && conflict.operator() == Operator::DoesNotExist {
                format!("excluded from Karpenter nodes by its own affinity ({conflict})")
            } else {
                format!("NodePool {}: {}", pool.name, pool.requirements.incompatible(conflict))
            };
            return Err((2, ReasonCode::Requirements, message));
        }
        if let Some(limit) = pool.node_limit.filter(|_| self.template.is_full()) {
            let message = format!("limit nodes={limit} reached (in use {})", self.template.nodes);
            return Err((3, ReasonCode::Limits, message));
        }
        Ok(pool.requirements.and(wanted))
    }

    /// What stops the pod at a type; None where nothing does.
    fn at_the_type(&self, candidate: &Candidate<'_>, requirements: &Requirements) -> Option<Stopped> {
        let name = candidate.of_type.display_name();
        let ask = Ask {
            requirements,
            requests: &self.pod.requests,
            tolerations: &self.pod.tolerations,
            prefer_too: self.level.prefer_too,
        };
        if let Err(refusal) = self.template.assess(candidate, &ask) {
            let (code, message) = self.words(candidate, &refusal);
            return Some((refusal.rank(), code, message));
        }
        if !self.world.headroom.allows(candidate.headroom, None) {
            let message = match candidate.of_type.headroom {
                Some(most) if most > 0 => {
                    format!("{name} may grow by {most} before its maximum size, all taken in this pass")
                }
                _ => format!("{name} is at its maximum size"),
            };
            return Some((10, ReasonCode::MaxSize, message));
        }
        let exceeded =
            self.template.pool.limits.exceeded(&self.template.used, &candidate.of_type.capacity)?;
        Some((11, ReasonCode::Limits, format!("{exceeded}, by NodePool {}", self.template.pool.name)))
    }

    fn words(&self, candidate: &Candidate<'_>, refusal: &Refusal<'_>) -> (ReasonCode, String) {
        let name = candidate.of_type.display_name();
        match refusal {
            Refusal::Taint(taint) => {
                (ReasonCode::Taints, format!("{name} has taint {taint}, which the pod doesn't tolerate"))
            }
            Refusal::Requirement(wanted) => {
                let why = candidate.of_type.requirements.incompatible(wanted);
                (ReasonCode::Requirements, format!("{name}: {why}"))
            }
            Refusal::Offering(Some(wanted)) => {
                (ReasonCode::NoOffering, format!("{name} has no offering with {wanted}"))
            }
            Refusal::Offering(None) => (ReasonCode::NoOffering, format!("{name} has no offering")),
            Refusal::Unavailable(why) => (why.code, why.message.clone()),
            Refusal::Reserved => (
                ReasonCode::Reserved,
                format!("{name} is reserved capacity, which this version doesn't evaluate"),
            ),
            Refusal::Room(room) => (ReasonCode::InsufficientResources, self.shortfall(candidate, room)),
        }
    }

    /// The first resource that is short, with what DaemonSets take where they take some.
    fn shortfall(&self, candidate: &Candidate<'_>, room: &Resources) -> String {
        let name = candidate.of_type.display_name();
        let Some(Shortfall { resource, needed, available }) = self.pod.requests.shortfall(room) else {
            return format!("{name} is too small");
        };
        let daemons = candidate.daemons.get(&resource);
        let whole = available.saturating_add(daemons);
        let holder = if candidate.seen_smaller {
            format!("the largest allocatable seen for {name} is")
        } else {
            format!("{name} has")
        };
        let amount = |amount| format_amount(&resource, amount);
        let taken = match daemons {
            0 => String::new(),
            _ => format!(", of which DaemonSets take {}", amount(daemons)),
        };
        format!("{resource}: needs {}, {holder} {}{taken}", amount(needed), amount(whole))
    }

    /// Types would serve, but not enough different ones.
    fn min_values(&self, passing: &[Requirements]) -> PendingReason {
        let pool = self.template.pool;
        let cap = self.world.input.options.max_instance_types;
        let unmet = passing.iter().find_map(|requirements| {
            let serving = self.template.candidates.iter();
            let serving = serving.filter(|candidate| self.at_the_type(candidate, requirements).is_none());
            let types: Vec<&InstanceType> = serving.map(|candidate| &**candidate.of_type).collect();
            min_values::select(&types, requirements, cap).err()
        });
        let message = match unmet {
            Some(unmet) => {
                let found: Vec<String> = unmet.found.into_iter().collect();
                let found_count = found.len();
                format!(
                    "{}: minValues is {}, {found_count} left ({})",
                    unmet.key,
                    unmet.wanted,
                    found.join(", ")
                )
            }
            None => "the instance types that would serve can't be combined".to_owned(),
        };
        reason(Some(pool), None, ReasonCode::MinValues, message)
    }
}

/// Of two attempts the one that came further; the first of equals.
fn further(a: Option<Stopped>, b: Stopped) -> Stopped {
    match a {
        Some(a) if a.0 >= b.0 => a,
        _ => b,
    }
}
