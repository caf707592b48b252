//! NodePools.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Taint;

use super::names::{label_value_problem, qualified_name_problem};
use super::{Errors, requirements};
use crate::duration::{DurationError, GoDuration, NillableDuration};
use crate::names::labels;
use crate::schedule::Schedule;
use crate::schema;
use crate::v1::{Budget, NodeClassReference, NodePool, Operator};

const TEMPLATE: &str = "spec.template.spec";
const LABELS: &str = "spec.template.metadata.labels";

/// The CEL rules of a NodePool, and durations and schedules that have the right form but can't be read.
pub(super) fn check_spec(pool: &NodePool, errors: &mut Errors) {
    let spec = &pool.spec;
    if spec.replicas.is_some() {
        if spec.limits.keys().any(|resource| resource != "nodes") {
            let resources: Vec<&str> = spec.limits.keys().map(String::as_str).collect();
            errors.add(
                "spec.limits",
                resources.join(", "),
                schema::STATIC_LIMITS_MESSAGE,
                "keep only limits.nodes, or take replicas out",
            );
        }
        if let Some(weight) = spec.weight {
            errors.add(
                "spec.weight",
                weight,
                schema::STATIC_WEIGHT_MESSAGE,
                "take the weight out, or take replicas out",
            );
        }
    }
    for key in spec.template.metadata.labels.keys() {
        requirements::check_key(key, &format!("{LABELS}[{key}]"), requirements::On::Pool, errors);
    }
    let template = &spec.template.spec;
    requirements::check(
        &template.requirements,
        &format!("{TEMPLATE}.requirements"),
        requirements::On::Pool,
        errors,
    );
    check_class_reference(&template.node_class_ref, &format!("{TEMPLATE}.nodeClassRef"), errors);
    check_durations(
        TEMPLATE,
        template.termination_grace_period.as_ref(),
        template.expire_after.as_ref(),
        errors,
    );
    if let Some(consolidate_after) = &spec.disruption.consolidate_after {
        check_nillable("spec.disruption.consolidateAfter", consolidate_after, errors);
    }
    for (index, budget) in spec.disruption.budgets.iter().flatten().enumerate() {
        check_budget(budget, &format!("spec.disruption.budgets[{index}]"), errors);
    }
}

fn check_budget(budget: &Budget, path: &str, errors: &mut Errors) {
    match (&budget.schedule, &budget.duration) {
        (Some(schedule), None) => errors.add(
            format!("{path}.duration"),
            schedule,
            schema::BUDGET_PAIR_MESSAGE,
            "add a duration such as 8h, or take the schedule out",
        ),
        (None, Some(duration)) => errors.add(
            format!("{path}.schedule"),
            duration,
            schema::BUDGET_PAIR_MESSAGE,
            "add a schedule such as \"0 9 * * mon-fri\" in UTC, or take the duration out",
        ),
        (Some(_), Some(_)) | (None, None) => {}
    }
    if let Some(schedule) = &budget.schedule
        && let Err(error) = Schedule::parse(schedule)
    {
        errors.add(format!("{path}.schedule"), schedule, error.problem, error.remedy);
    }
    if let Some(duration) = &budget.duration {
        check_readable(&format!("{path}.duration"), duration, errors);
    }
}

/// The CEL rules on a reference to a node class.
pub(super) fn check_class_reference(reference: &NodeClassReference, path: &str, errors: &mut Errors) {
    let fields = [("group", &reference.group), ("kind", &reference.kind), ("name", &reference.name)];
    for (field, value) in fields {
        if value.is_empty() {
            errors.add(
                format!("{path}.{field}"),
                "",
                format!("{field} may not be empty"),
                format!("name the {field} of the node class"),
            );
        }
    }
}

/// Durations that have the right form but are too long.
pub(super) fn check_durations(
    path: &str,
    termination_grace_period: Option<&GoDuration>,
    expire_after: Option<&NillableDuration>,
    errors: &mut Errors,
) {
    if let Some(duration) = termination_grace_period {
        check_readable(&format!("{path}.terminationGracePeriod"), duration, errors);
    }
    if let Some(duration) = expire_after {
        check_nillable(&format!("{path}.expireAfter"), duration, errors);
    }
}

fn check_readable(path: &str, duration: &GoDuration, errors: &mut Errors) {
    if let Err(error @ DurationError::TooLong(_)) = duration.parse() {
        errors.add(path, duration, error.to_string(), "write at most 292 years, 2562047h");
    }
}

fn check_nillable(path: &str, duration: &NillableDuration, errors: &mut Errors) {
    if let Err(error @ DurationError::TooLong(_)) = duration.parse() {
        errors.add(path, duration, error.to_string(), "write at most 292 years, 2562047h, or Never");
    }
}

/// What upstream's `RuntimeValidate` refuses beyond schema and CEL rules.
pub(super) fn check_at_run_time(pool: &NodePool, errors: &mut Errors) {
    for (key, value) in &pool.spec.template.metadata.labels {
        let path = format!("{LABELS}[{key}]");
        if let Some(problem) = qualified_name_problem(key) {
            errors.add(
                &path,
                key,
                format!("this can't be a label's key: {problem}"),
                "write a key such as example.com/team",
            );
        }
        if let Some(problem) = label_value_problem(value) {
            errors.add(
                &path,
                value,
                format!("no label can have this value: {problem}"),
                "write a value that a label can have",
            );
        }
    }
    let template = &pool.spec.template.spec;
    let mut seen = BTreeSet::new();
    check_taints(&template.taints, &format!("{TEMPLATE}.taints"), &mut seen, errors);
    check_taints(&template.startup_taints, &format!("{TEMPLATE}.startupTaints"), &mut seen, errors);
    requirements::check_at_run_time(&template.requirements, &format!("{TEMPLATE}.requirements"), errors);
}

/// Taints are unique by key and effect, over taints and startup taints together.
fn check_taints<'a>(
    taints: &'a [Taint],
    path: &str,
    seen: &mut BTreeSet<(&'a str, &'a str)>,
    errors: &mut Errors,
) {
    for (index, taint) in taints.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if let Some(problem) = qualified_name_problem(&taint.key) {
            errors.add(
                format!("{path}.key"),
                &taint.key,
                format!("this can't be a taint's key: {problem}"),
                "write a key such as example.com/dedicated",
            );
        }
        let value = taint.value.as_deref().unwrap_or_default();
        if let Some(problem) = (!value.is_empty()).then(|| qualified_name_problem(value)).flatten() {
            errors.add(
                format!("{path}.value"),
                value,
                format!("this can't be a taint's value: {problem}"),
                "write letters, digits, '-', '_' and '.'",
            );
        }
        if !seen.insert((&taint.key, &taint.effect)) {
            errors.add(
                path,
                format!("{}:{}", taint.key, taint.effect),
                "another of the taints and startupTaints has the same key and effect",
                "keep one of them",
            );
        }
    }
}

/// The CEL rules on a change.
pub(super) fn check_transition(old: &NodePool, new: &NodePool, errors: &mut Errors) {
    if old.spec.replicas.is_some() != new.spec.replicas.is_some() {
        errors.add(
            "spec.replicas",
            new.spec.replicas.map_or_else(String::new, |replicas| replicas.to_string()),
            "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
            "make another NodePool",
        );
    }
    let (old, new) = (&old.spec.template.spec.node_class_ref, &new.spec.template.spec.node_class_ref);
    for (field, old, new) in [("group", &old.group, &new.group), ("kind", &old.kind, &new.kind)] {
        if old != new {
            errors.add(
                format!("{TEMPLATE}.nodeClassRef.{field}"),
                new,
                format!("nodeClassRef.{field} is immutable"),
                format!("keep {old:?}, or make another NodePool"),
            );
        }
    }
}

/// What is allowed, but most likely not meant.
pub(super) fn check_for_warnings(pool: &NodePool, warnings: &mut Errors) {
    for (key, value) in &pool.spec.template.metadata.labels {
        if is_reserved_to_kubernetes(key) {
            warnings.add(
                format!("{LABELS}[{key}]"),
                value,
                format!("the domain of the label {key} is reserved to Kubernetes and its tools"),
                "use a key of a domain of your own",
            );
        }
    }
    for (index, requirement) in pool.spec.template.spec.requirements.iter().enumerate() {
        let is_capacity_type = labels::normalized(&requirement.key) == labels::CAPACITY_TYPE;
        if !is_capacity_type || requirement.operator != Operator::In {
            continue;
        }
        for (position, value) in requirement.values.iter().enumerate() {
            if !labels::CAPACITY_TYPES.contains(&value.as_str()) {
                warnings.add(
                    format!("{TEMPLATE}.requirements[{index}].values[{position}]"),
                    value,
                    "this is no capacity type and is passed over",
                    format!("use {}", labels::CAPACITY_TYPES.join(", ")),
                );
            }
        }
    }
}

/// Domains in which Kubernetes itself lets anybody label Nodes.
const OPEN_DOMAINS: &[&str] =
    &["node-restriction.kubernetes.io", "node-role.kubernetes.io", "node.kubernetes.io"];

fn is_reserved_to_kubernetes(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    let within = |parent: &str| {
        domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
    };
    // cluster.x-k8s.io is a domain of its own; it doesn't end in ".k8s.io".
    (within("kubernetes.io") || within("k8s.io"))
        && !OPEN_DOMAINS.iter().any(|open| within(open))
        && !labels::is_well_known(labels::normalized(key))
}
