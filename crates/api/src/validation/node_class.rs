//! Node classes.

use super::Errors;
use super::names::{label_value_problem, qualified_name_problem};
use crate::duration::{DurationError, GoDuration};
use crate::v1alpha1::ClusterAPINodeClass;

const SELECTOR: &str = "spec.scalableResourceSelector";

/// Timeouts that can't be read and selectors that can't be evaluated.
pub(super) fn check_spec(class: &ClusterAPINodeClass, errors: &mut Errors) {
    check_timeout("spec.launchTimeout", class.spec.launch_timeout.as_ref(), errors);
    check_timeout("spec.registrationTimeout", class.spec.registration_timeout.as_ref(), errors);
    let Some(selector) = &class.spec.scalable_resource_selector else {
        return;
    };
    for (key, value) in selector.match_labels.iter().flatten() {
        let path = format!("{SELECTOR}.matchLabels[{key}]");
        check_key(key, &path, errors);
        check_value(value, &path, errors);
    }
    for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let path = format!("{SELECTOR}.matchExpressions[{index}]");
        check_key(&expression.key, &format!("{path}.key"), errors);
        let values = expression.values.as_deref().unwrap_or_default();
        for (position, value) in values.iter().enumerate() {
            check_value(value, &format!("{path}.values[{position}]"), errors);
        }
        match expression.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => errors.add(
                format!("{path}.values"),
                "",
                format!("the operator {} needs values", expression.operator),
                "name a value, or use Exists or DoesNotExist",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.add(
                format!("{path}.values"),
                values.join(", "),
                format!("the operator {} takes no values", expression.operator),
                "take the values out, or use In or NotIn",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.add(
                format!("{path}.operator"),
                other,
                "a selector doesn't know this operator",
                "use In, NotIn, Exists or DoesNotExist",
            ),
        }
    }
}

fn check_timeout(path: &str, timeout: Option<&GoDuration>, errors: &mut Errors) {
    let Some(timeout) = timeout else { return };
    match timeout.parse() {
        Err(error @ DurationError::TooLong(_)) => {
            errors.add(path, timeout, error.to_string(), "write a timeout such as 15m");
        }
        Ok(length) if length.is_zero() => {
            errors.add(
                path,
                timeout,
                "a timeout of nothing ends every launch at once",
                "write a timeout such as 15m",
            );
        }
        Ok(_) | Err(DurationError::Malformed(_)) => {}
    }
}

fn check_key(key: &str, path: &str, errors: &mut Errors) {
    if let Some(problem) = qualified_name_problem(key) {
        errors.add(
            path,
            key,
            format!("this can't be a label's key: {problem}"),
            "write a key such as example.com/team",
        );
    }
}

fn check_value(value: &str, path: &str, errors: &mut Errors) {
    if let Some(problem) = label_value_problem(value) {
        errors.add(
            path,
            value,
            format!("no label can have this value: {problem}"),
            "write a value that a label can have",
        );
    }
}
