//! Text to documents, and the place of a fault in it.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{Options, Spanned};
use std::fmt;

/// One YAML document of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Document<'a> {
    /// Counted from 1.
    pub(super) number: usize,
    /// Lines of the text before the document's first.
    pub(super) lines_before: usize,
    /// The document's own text.
    pub(super) text: &'a str,
}

/// A fault in YAML itself.
#[derive(Debug)]
pub(super) struct SyntaxError {
    /// Counted from 1 within the document.
    pub(super) line: Option<usize>,
    pub(super) message: String,
}

/// Splits a text at lines that begin a document (`---`), as kubectl does. What has no content but comments is left out, yet counted
/// when a `---` stands before it.
pub(super) fn documents(text: &str) -> Vec<Document<'_>> {
    let mut found = Vec::new();
    let (mut number, mut start, mut start_line, mut offset) = (1, 0, 0, 0);
    let mut opened = false;
    for (line, content) in text.split_inclusive('\n').enumerate() {
        if is_separator(content) {
            let before = text.get(start..offset).unwrap_or_default();
            if has_content(before) {
                found.push(Document { number, lines_before: start_line, text: before });
            }
            if has_content(before) || opened {
                number += 1;
            }
            opened = true;
            // What follows `---` on its line belongs to the document; three blanks keep the columns.
            (start, start_line) = (offset + 3, line);
        }
        offset += content.len();
    }
    let rest = text.get(start..).unwrap_or_default();
    if has_content(rest) {
        found.push(Document { number, lines_before: start_line, text: rest });
    }
    found
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn has_content(text: &str) -> bool {
    text.lines().map(str::trim).any(|line| !line.is_empty() && !line.starts_with('#') && line != "...")
}

/// Reads a document: JSON by the JSON reader, which is faster and takes tabs, everything else as YAML.
pub(super) fn parse(text: &str) -> Result<Value, SyntaxError> {
    if text.trim_start().starts_with(['{', '['])
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(value);
    }
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| SyntaxError {
        line: error
            .location()
            .and_then(|location| usize::try_from(location.line()).ok())
            .filter(|line| *line > 0),
        message: first_line(&error.without_snippet().to_string()),
    })
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().to_owned()
}

/// Large dumps are fine, bottomless nesting isn't. `n`, `no` and `on` are texts: nodes and labels have such names.
fn options() -> Options {
    let budget = serde_saphyr::budget! {
        max_events: 200_000_000,
        max_nodes: 100_000_000,
        max_total_scalar_bytes: 2_000_000_000,
        max_total_comment_bytes: 2_000_000_000,
        max_depth: 200,
    };
    serde_saphyr::options! { budget: budget, with_snippet: false, strict_booleans: true }
}

/// One step of a path into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The line (from 1, within the document) of what stands at the path, or of the deepest part of the path that is there.
pub(super) fn line_of(text: &str, path: &[Step]) -> Option<usize> {
    let root: Spanned<Tree> = serde_saphyr::from_str_with_options(text, options()).ok()?;
    let mut node = &root;
    for step in path {
        let next = match (step, &node.value) {
            (Step::Key(key), Tree::Map(entries)) => {
                entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            (Step::Index(index), Tree::Sequence(items)) => items.get(*index),
            _ => None,
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    usize::try_from(node.referenced.line()).ok().filter(|line| *line > 0)
}

/// A document's shape with the place of each part.
enum Tree {
    Scalar,
    Sequence(Vec<Spanned<Self>>),
    Map(Vec<(String, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(Self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Tree::Sequence(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Vec<(usize, usize)> {
        documents(text).iter().map(|document| (document.number, document.lines_before)).collect()
    }

    #[test]
    fn documents_are_counted_from_one_and_comments_alone_are_none() {
        assert_eq!(numbers("a: 1\n"), [(1, 0)]);
        assert_eq!(numbers("# only a comment\n"), []);
        assert_eq!(numbers("---\na: 1\n---\nb: 2\n"), [(1, 0), (2, 2)]);
        assert_eq!(numbers("# head\n---\na: 1\n---\n# nothing\n---\nc: 3\n"), [(1, 1), (3, 5)]);
        assert_eq!(numbers("a: |\n  text\n  ---\n  more\n"), [(1, 0)], "an indented rule is text");
    }

    #[test]
    fn a_fault_in_yaml_has_its_line() {
        let error = parse("a: 1\nb: [1,\nc: }\n").unwrap_err();
        assert!(error.line.is_some_and(|line| line >= 2), "{error:?}");
    }

    #[test]
    fn the_line_of_a_path_is_found_also_when_its_end_is_missing() {
        let text = "a:\n  b:\n  - c: 1\n  - c: 2\n    d: 3\n";
        let path = |steps: &[&str]| -> Vec<Step> {
            steps
                .iter()
                .map(|step| step.parse().map_or_else(|_| Step::Key((*step).to_owned()), Step::Index))
                .collect()
        };
        assert_eq!(line_of(text, &path(&["a", "b", "1", "d"])), Some(5));
        assert_eq!(line_of(text, &path(&["a", "b", "0", "c"])), Some(3));
        assert_eq!(line_of(text, &path(&["a", "b", "1", "missing"])), Some(4));
    }

    #[test]
    fn json_with_tabs_is_read() {
        assert_eq!(parse("{\n\t\"a\": 1\n}").unwrap(), serde_json::json!({ "a": 1 }));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "([-a-z0-9:{}\\[\\],'\"#|>&* \\n\\t]|---\\n|: |- |ä|\\r\\n){0,60}") {
            for document in documents(&text) {
                _ = parse(document.text);
                _ = line_of(document.text, &[Step::Key("a".to_owned()), Step::Index(1)]);
            }
        }
    }
}
