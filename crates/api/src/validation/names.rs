//! Names of objects, keys and values of labels.

use super::Errors;

/// The most characters that a label's value may have.
const LABEL_VALUE_MAX: usize = 63;

/// What is wrong with the key of a label or taint; `None` if nothing.
pub fn qualified_name_problem(key: &str) -> Option<String> {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    if let Some(domain) = domain
        && let Some(problem) = subdomain_problem(domain)
    {
        return Some(format!("its domain {problem}"));
    }
    if name.is_empty() {
        return Some("it has no name".to_owned());
    }
    if name.len() > LABEL_VALUE_MAX {
        return Some(format!(
            "its name has {} characters, at most {LABEL_VALUE_MAX} are allowed",
            name.len()
        ));
    }
    (!is_label_text(name)).then(|| {
        "its name must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit".to_owned()
    })
}

/// What is wrong with a label's value; `None` if nothing.
pub(super) fn label_value_problem(value: &str) -> Option<String> {
    if value.len() > LABEL_VALUE_MAX {
        return Some(format!("it has {} characters, a label's value at most {LABEL_VALUE_MAX}", value.len()));
    }
    (!value.is_empty() && !is_label_text(value)).then(|| {
        "a label's value consists of letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"
            .to_owned()
    })
}

fn is_label_text(text: &str) -> bool {
    let edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let bytes = text.as_bytes();
    edge(bytes.first().copied())
        && edge(bytes.last().copied())
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

fn subdomain_problem(text: &str) -> Option<String> {
    let is_label = |label: &str| {
        let edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let bytes = label.as_bytes();
        edge(bytes.first().copied())
            && edge(bytes.last().copied())
            && bytes.iter().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == b'-')
    };
    if text.len() > 253 {
        return Some(format!("has {} characters, at most 253 are allowed", text.len()));
    }
    (!text.split('.').all(is_label)).then(|| "must be a DNS name in lower case".to_owned())
}

/// Checks what holds for the name of every object.
pub(super) fn check_object_name(name: &str, errors: &mut Errors) {
    // Objects that are about to be created with generateName have none yet.
    if name.is_empty() {
        return;
    }
    if let Some(problem) = subdomain_problem(name) {
        errors.add(
            "metadata.name",
            name,
            format!("the name {problem}"),
            "write letters in lower case, digits, '-' and '.'",
        );
    }
}

/// Checks the name of a NodePool, which becomes the value of a label.
pub(super) fn check_pool_name(name: &str, errors: &mut Errors) {
    check_label_name(name, "karpenter.sh/nodepool", errors);
}

/// Checks the name of a node class, which becomes the value of a label.
pub(super) fn check_class_name(name: &str, errors: &mut Errors) {
    check_label_name(name, crate::names::labels::NODECLASS, errors);
}

fn check_label_name(name: &str, label: &str, errors: &mut Errors) {
    if name.len() > LABEL_VALUE_MAX {
        errors.add(
            "metadata.name",
            name,
            format!("the name has {} characters, but becomes the value of the label {label}", name.len()),
            format!("use at most {LABEL_VALUE_MAX} characters"),
        );
    }
    check_object_name(name, errors);
}
