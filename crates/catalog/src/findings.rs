//! What is wrong with a MachineDeployment's annotations: warnings that stop nothing, and faults that take it out.

use std::collections::BTreeMap;

/// Something that a person should know about one MachineDeployment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CatalogWarning {
    /// The annotation's key or the field; empty where the whole object is meant.
    pub key: String,
    /// One sentence naming key and value and what would be right.
    pub message: String,
}

/// Collects findings while annotations are read, so that every fault is reported and none hides another.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Stop nothing.
    pub(crate) warnings: Vec<CatalogWarning>,
    /// Take the MachineDeployment out, reason `Invalid`.
    pub(crate) faults: Vec<CatalogWarning>,
}

impl Findings {
    pub(crate) fn warn(&mut self, key: &str, message: impl Into<String>) {
        self.warnings.push(CatalogWarning { key: key.to_owned(), message: message.into() });
    }

    /// A value that can't be read and whose meaning must not be guessed.
    pub(crate) fn fault(&mut self, key: &str, value: &str, remedy: &str) {
        self.faults.push(unreadable(key, value, remedy));
    }

    /// A value that can't be read and that can be done without.
    pub(crate) fn ignore(&mut self, key: &str, value: &str, remedy: &str) {
        self.warnings.push(unreadable(key, value, remedy));
    }
}

fn unreadable(key: &str, value: &str, remedy: &str) -> CatalogWarning {
    CatalogWarning { key: key.to_owned(), message: format!("{key}: {value:?} can't be read; {remedy}") }
}

/// An object's annotations, or nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Annotations<'a>(Option<&'a BTreeMap<String, String>>);

impl<'a> Annotations<'a> {
    pub(crate) fn new(annotations: Option<&'a BTreeMap<String, String>>) -> Self {
        Self(annotations)
    }

    /// The value, blanks around it cut off.
    pub(crate) fn value(self, key: &str) -> Option<&'a str> {
        self.0.and_then(|annotations| annotations.get(key)).map(|value| value.trim())
    }

    pub(crate) fn has(self, key: &str) -> bool {
        self.0.is_some_and(|annotations| annotations.contains_key(key))
    }

    /// Keys that start so, sorted.
    pub(crate) fn keys_with_prefix(self, prefix: &str) -> Vec<&'a str> {
        let keys = self.0.into_iter().flat_map(BTreeMap::keys).map(String::as_str);
        keys.filter(|key| key.starts_with(prefix)).collect()
    }
}

/// The parts of a comma-separated list, blanks cut off, empty parts (as after a trailing comma) left out.
pub(crate) fn parts(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// Whether `key` is a qualified name: an optional DNS prefix with `/`, then at most 63 letters, digits, `-`, `_`, `.`.
pub(crate) fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(is_dns_name)
}

fn is_dns_name(prefix: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !prefix.is_empty()
        && prefix.len() <= 253
        && prefix.split('.').all(|part| {
            !part.is_empty() && part.chars().all(fits) && !part.starts_with('-') && !part.ends_with('-')
        })
}

/// Whether `value` may stand as a label's value: empty, or at most 63 letters, digits, `-`, `_`, `.` with an alphanumeric
/// character at both ends.
pub(crate) fn is_label_value(value: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: char| c.is_ascii_alphanumeric();
    value.is_empty()
        || value.len() <= 63 && value.chars().all(fits) && value.starts_with(ends) && value.ends_with(ends)
}
