//! Manifests to objects: YAML (any number of documents), JSON, `List` kinds, what kubectl prints.
//!
//! Objects are taken as the API server would have stored them: missing defaults are filled in first, and what admission adds to
//! pods. A document that the API server would refuse is an error that names file, document, line and field.

mod admission;
mod document;
mod kinds;

use crate::object::{Kind, Object};
use document::{Document, Step};
use karpenter_capi_model::name::NamespacedName;
use kinds::Typed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// A text with the name that it is known by.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The file's name, or `-`.
    pub name: &'a str,
    /// Its contents.
    pub text: &'a str,
}

/// What is in the files.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Objects of the kinds that are used, by kind, then namespace and name.
    pub objects: Vec<Object>,
    /// How many objects of other kinds there are, by `Kind` and `apiVersion`.
    pub others: BTreeMap<String, usize>,
    /// What a person should know: object and message.
    pub warnings: Vec<(String, String)>,
}

/// What is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    /// The file's name.
    pub file: String,
    /// The document's number in the file, from 1.
    pub document: usize,
    /// The line in the file, from 1, where it is known.
    pub line: Option<usize>,
    /// `Kind namespace/name`, where it is known.
    pub object: Option<String>,
    /// Path of the field, where it is known.
    pub field: Option<String>,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// `pools.yaml: document 2, line 14: NodePool p: spec.weight: …`.
impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: document {}", self.file, self.document)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        for part in [&self.object, &self.field].into_iter().flatten() {
            write!(f, ": {part}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Everything that is wrong with the files; nothing is loaded then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", join(errors))]
pub struct LoadError {
    /// In the order of the files; never empty.
    pub errors: Vec<DocumentError>,
}

fn join(errors: &[DocumentError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads manifests. The order of files and documents has no effect on what is loaded.
pub fn load<'a>(sources: impl IntoIterator<Item = Source<'a>>) -> Result<Loaded, LoadError> {
    let mut loader = Loader::default();
    for source in sources {
        for document in document::documents(source.text) {
            loader.document(source.name, document);
        }
    }
    loader.finish()
}

/// Where an object stands.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    file: &'a str,
    document: Document<'a>,
    /// Index within a `List`.
    item: Option<usize>,
}

impl Place<'_> {
    fn error(&self, object: Option<String>, path: &[Step], message: String) -> DocumentError {
        let mut full: Vec<Step> = Vec::new();
        if let Some(index) = self.item {
            full.extend([Step::Key("items".to_owned()), Step::Index(index)]);
        }
        full.extend(path.iter().cloned());
        DocumentError {
            file: self.file.to_owned(),
            document: self.document.number,
            line: document::line_of(self.document.text, &full).map(|line| line + self.document.lines_before),
            object,
            field: (!path.is_empty()).then(|| show_path(path)),
            message,
        }
    }
}

/// `spec.requirements[0].operator`; keys with dots in them stand in brackets.
fn show_path(path: &[Step]) -> String {
    let steps = path.iter().enumerate().map(|(position, step)| match step {
        Step::Index(index) => format!("[{index}]"),
        Step::Key(key) if key.contains(['.', '/']) => format!("[{key}]"),
        Step::Key(key) if position == 0 => key.clone(),
        Step::Key(key) => format!(".{key}"),
    });
    steps.collect()
}

#[derive(Default)]
struct Loader {
    objects: BTreeMap<(Kind, NamespacedName), Found>,
    /// Objects of kinds that aren't used unless a MachineDeployment names them.
    raw: BTreeMap<NamespacedName, Vec<(String, Object)>>,
    others: BTreeMap<String, usize>,
    warnings: Vec<(String, String)>,
    errors: Vec<DocumentError>,
}

/// An object with its document as it was written, and where.
struct Found {
    object: Object,
    written: Value,
    place: String,
}

impl Loader {
    fn document(&mut self, file: &str, document: Document<'_>) {
        let place = Place { file, document, item: None };
        match document::parse(document.text) {
            Err(error) => self.errors.push(DocumentError {
                file: file.to_owned(),
                document: document.number,
                line: error.line.map(|line| line + document.lines_before),
                object: None,
                field: None,
                message: error.message,
            }),
            Ok(Value::Null) => {}
            Ok(value) => self.value(place, value),
        }
    }

    fn value(&mut self, place: Place<'_>, value: Value) {
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
        let of_list = kind.strip_suffix("List").filter(|of| of.is_empty() || value.get("items").is_some());
        let item_kind = of_list.filter(|_| place.item.is_none()).map(str::to_owned);
        match (item_kind, value) {
            (Some(item_kind), Value::Object(list)) => self.list(place, &item_kind, list),
            (_, value) => match kinds::read(&value) {
                Err(error) => {
                    let object = kinds::describe(&value);
                    for fault in error.faults {
                        self.errors.push(place.error(object.clone(), &fault.path, fault.message));
                    }
                }
                Ok(Typed::Other { kind, template }) => match template {
                    Some(object) => self.raw.entry(object.key()).or_default().push((kind, object)),
                    None => *self.others.entry(kind).or_default() += 1,
                },
                Ok(Typed::Known { object, warnings }) => {
                    self.warnings.extend(warnings);
                    self.take(place, object, value);
                }
            },
        }
    }

    /// Items of a typed list (`PodList`) may leave out what the list says already.
    fn list(&mut self, place: Place<'_>, item_kind: &str, mut list: serde_json::Map<String, Value>) {
        match list.remove("items") {
            Some(Value::Array(items)) => {
                for (index, mut item) in items.into_iter().enumerate() {
                    if let (Value::Object(item), false) = (&mut item, item_kind.is_empty()) {
                        item.entry("kind").or_insert_with(|| Value::String(item_kind.to_owned()));
                        if let Some(version) = list.get("apiVersion") {
                            item.entry("apiVersion").or_insert_with(|| version.clone());
                        }
                    }
                    self.value(Place { item: Some(index), ..place }, item);
                }
            }
            None | Some(Value::Null) => {}
            Some(_) => {
                let path = [Step::Key("items".to_owned())];
                self.errors.push(place.error(None, &path, "items must be a list of objects".to_owned()));
            }
        }
    }

    /// The same object twice is fine as long as both are equal; else nobody could say which one is meant.
    fn take(&mut self, place: Place<'_>, object: Object, written: Value) {
        let key = (object.kind(), object.key());
        let here = format!("{} document {}", place.file, place.document.number);
        match self.objects.get(&key) {
            Some(first) if first.written == written => {}
            Some(first) => {
                let message =
                    format!("it is given twice and differently, first in {}; leave one out", first.place);
                let described = kinds::describe(&written);
                self.errors.push(place.error(described, &[], message));
            }
            None => {
                self.objects.insert(key, Found { object, written, place: here });
            }
        }
    }

    fn finish(mut self) -> Result<Loaded, LoadError> {
        if !self.errors.is_empty() {
            return Err(LoadError { errors: self.errors });
        }
        let mut objects: Vec<Object> = self.objects.into_values().map(|found| found.object).collect();
        let named = kinds::named_templates(&objects);
        for (key, mut candidates) in self.raw {
            // The same template in two versions: which one counts must not depend on the files' order.
            candidates.sort_by_cached_key(|(kind, object)| (kind.clone(), format!("{object:?}")));
            let used = named.contains(&key).then(|| candidates.pop()).flatten();
            objects.extend(used.map(|(_, object)| object));
            for (kind, _) in candidates {
                *self.others.entry(kind).or_default() += 1;
            }
        }
        admission::admit(&mut objects);
        self.warnings.sort_unstable();
        self.warnings.dedup();
        Ok(Loaded { objects, others: self.others, warnings: self.warnings })
    }
}

#[cfg(test)]
mod tests;
