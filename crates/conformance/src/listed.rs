//! Answers that may be neither equal nor better, as what was recorded is wrong.

use serde::Deserialize;
use std::collections::BTreeSet;

/// The list that is kept with the code.
const LIST: &str = include_str!("../listed.json");

/// One recorded answer that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The document's name.
    pub document: String,
    /// Its description, so that no other document of that name is meant.
    pub description: String,
    /// The field of the answer that is wrong: `podErrors`, `nodeClaims` or `existingNodes`.
    pub field: String,
    /// Upstream's defect: a public issue, or what the code does.
    pub defect: String,
    /// Why the plan is right.
    pub why: String,
}

/// The list, and which of its entries were needed.
#[derive(Clone, Debug, Default)]
pub struct List {
    entries: Vec<Entry>,
    seen: BTreeSet<Entry>,
    needed: BTreeSet<Entry>,
}

impl List {
    /// The list that is kept with the code.
    pub fn kept() -> Result<Self, serde_json::Error> {
        Ok(Self::new(serde_json::from_str(LIST)?))
    }

    /// A list of these entries.
    pub fn new(entries: Vec<Entry>) -> Self {
        Self { entries, ..Self::default() }
    }

    /// Looks a document up and remembers whether it needed its entry.
    pub(crate) fn look_up(&mut self, document: &str, description: &str, needed: bool) -> Option<&Entry> {
        let found = self
            .entries
            .iter()
            .find(|entry| entry.document == document && entry.description == description)?;
        self.seen.insert(found.clone());
        if needed {
            self.needed.insert(found.clone());
        }
        needed.then_some(found)
    }

    /// Entries whose documents were judged equal or better without them.
    pub fn needless(&self) -> impl Iterator<Item = &Entry> {
        self.seen.difference(&self.needed)
    }
}
