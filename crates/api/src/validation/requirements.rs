//! Requirements on labels.

use super::Errors;
use super::names::{label_value_problem, qualified_name_problem};
use crate::names::labels;
use crate::schema;
use crate::v1::{NodeSelectorRequirementWithMinValues, Operator};

/// What carries the requirements: a NodePool may not ask for a pool, the others may.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    Pool,
    Claim,
    Overlay,
}

/// The CEL rules on a list of requirements.
pub(super) fn check(
    requirements: &[NodeSelectorRequirementWithMinValues],
    path: &str,
    on: On,
    errors: &mut Errors,
) {
    for (index, requirement) in requirements.iter().enumerate() {
        let path = format!("{path}[{index}]");
        check_key(&requirement.key, &format!("{path}.key"), on, errors);
        check_values(requirement, &path, on, errors);
    }
}

/// Whether the rule on domains refuses the key. By the rule's own text, it is the end of what stands before the first `/`.
pub(super) fn is_in_restricted_domain(key: &str) -> bool {
    let domain = key.split('/').next().unwrap_or_default();
    !labels::UNRESTRICTED.contains(&key)
        && labels::RESTRICTED_DOMAINS.iter().any(|restricted| domain.ends_with(restricted))
}

/// Checks the key of a requirement or of a template's label.
pub(super) fn check_key(key: &str, path: &str, on: On, errors: &mut Errors) {
    if is_in_restricted_domain(key) {
        errors.add(
            path,
            key,
            schema::DOMAIN_MESSAGE,
            format!("use {} or a key of a domain of your own", labels::CAPACITY_TYPE),
        );
    }
    if on == On::Pool && key == labels::NODEPOOL {
        errors.add(path, key, schema::NODEPOOL_KEY_MESSAGE, "leave it out; the NodePool's name is put there");
    }
    if labels::RESTRICTED.contains(&key) {
        errors.add(
            path,
            key,
            schema::HOSTNAME_KEY_MESSAGE,
            "leave it out; every Node has its own name there",
        );
    }
}

fn check_values(requirement: &NodeSelectorRequirementWithMinValues, path: &str, on: On, errors: &mut Errors) {
    let shown = || format!("{} {} {:?}", requirement.key, requirement.operator, requirement.values);
    match requirement.operator {
        Operator::In => {
            if requirement.values.is_empty() {
                errors.add(
                    format!("{path}.values"),
                    shown(),
                    schema::IN_MESSAGE,
                    "name a value, or use the operator Exists",
                );
            }
            let present = i32::try_from(requirement.values.len()).unwrap_or(i32::MAX);
            if let Some(min_values) = requirement.min_values.filter(|min_values| present < *min_values) {
                errors.add(
                    format!("{path}.minValues"),
                    min_values,
                    schema::MIN_VALUES_MESSAGE,
                    format!("lower minValues to {present} or name more values"),
                );
            }
        }
        Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
            let is_single_bound = match requirement.values.as_slice() {
                [value] => value.parse::<i64>().is_ok_and(|value| value >= 0),
                _ => false,
            };
            if !is_single_bound {
                errors.add(
                    format!("{path}.values"),
                    shown(),
                    if on == On::Overlay { schema::OVERLAY_BOUND_MESSAGE } else { schema::BOUND_MESSAGE },
                    "write one whole number from 0 on, in quotes",
                );
            }
        }
        Operator::NotIn | Operator::Exists | Operator::DoesNotExist | Operator::Other(_) => {}
    }
}

/// What upstream's `ValidateRequirement` refuses beyond schema and CEL rules.
pub(super) fn check_at_run_time(
    requirements: &[NodeSelectorRequirementWithMinValues],
    path: &str,
    errors: &mut Errors,
) {
    for (index, requirement) in requirements.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let key = labels::normalized(&requirement.key);
        if let Some(problem) = qualified_name_problem(key) {
            errors.add(
                format!("{path}.key"),
                key,
                format!("this can't be a label's key: {problem}"),
                "write a key such as example.com/team",
            );
        }
        for (position, value) in requirement.values.iter().enumerate() {
            if let Some(problem) = label_value_problem(value) {
                errors.add(
                    format!("{path}.values[{position}]"),
                    value,
                    format!("no label can have this value: {problem}"),
                    "write a value that a label can have",
                );
            }
        }
        check_capacity_type(requirement, key, &path, errors);
    }
}

fn check_capacity_type(
    requirement: &NodeSelectorRequirementWithMinValues,
    key: &str,
    path: &str,
    errors: &mut Errors,
) {
    if key != labels::CAPACITY_TYPE || requirement.operator != Operator::In || requirement.values.is_empty() {
        return;
    }
    let known =
        requirement.values.iter().filter(|value| labels::CAPACITY_TYPES.contains(&value.as_str())).count();
    let known = i32::try_from(known).unwrap_or(i32::MAX);
    let remedy = || format!("use {}", labels::CAPACITY_TYPES.join(", "));
    let shown = requirement.values.join(", ");
    if known == 0 {
        errors.add(format!("{path}.values"), shown, "none of these is a capacity type", remedy());
    } else if requirement.min_values.is_some_and(|min_values| known < min_values) {
        errors.add(
            format!("{path}.values"),
            shown,
            "fewer of these are capacity types than minValues asks for",
            remedy(),
        );
    }
}
