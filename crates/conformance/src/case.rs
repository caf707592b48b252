//! Documents with their recorded answers, judged one by one.

use crate::answer::Answer;
use crate::document::{self, Document, DocumentError};
use crate::explain::explain;
use crate::listed::List;
use crate::recorded::faults;
use crate::verdict::{Verdict, judge};
use karpenter_capi_scheduling::input::Input;
use karpenter_capi_scheduling::plan::Plan;
use karpenter_capi_scheduling::solve;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

const INPUT: &str = ".in.json";
const ANSWER: &str = ".out.json";

/// A document and its answer.
#[derive(Clone, Debug)]
pub struct Case {
    /// `0001`.
    pub name: String,
    /// The document.
    pub document: Value,
    /// The recorded answer.
    pub answer: Value,
}

/// A case with its verdict.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The case's name.
    pub name: String,
    /// What came out.
    pub verdict: Verdict,
    /// For those that are worse: what a person needs to find out why.
    pub explanation: String,
}

impl Case {
    /// Whether it is about disruption and so not judged.
    pub fn is_of_disruption(&self) -> bool {
        document::is_of_disruption(&self.answer)
    }

    /// Solves and compares. A panic of the solver makes this case worse and ends nothing.
    pub fn judge(&self, list: &mut List) -> Judged {
        self.judge_by(list, &solve)
    }

    /// The same by another solver.
    pub fn judge_by(&self, list: &mut List, solver: &dyn Fn(&Input) -> Plan) -> Judged {
        let description = self.document["description"].as_str().unwrap_or_default();
        let result = catch_unwind(AssertUnwindSafe(|| self.compare(solver))).unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Ok((Verdict::Worse(vec![format!("panicked: {words}")]), String::new()))
        });
        let (verdict, explanation) =
            result.unwrap_or_else(|error| (Verdict::Worse(vec![error.to_string()]), String::new()));
        let needed = matches!(verdict, Verdict::Worse(_));
        let listed = list.look_up(&self.name, description, needed);
        let verdict = listed.map_or(verdict, |entry| {
            Verdict::Listed(format!("{}: {}; {}", entry.field, entry.defect, entry.why))
        });
        Judged { name: self.name.clone(), verdict, explanation }
    }

    fn compare(&self, solver: &dyn Fn(&Input) -> Plan) -> Result<(Verdict, String), DocumentError> {
        let recorded = Answer::recorded(&self.answer)?;
        let input = Document::parse(&self.document)?.into_input();
        let plan = solver(&input);
        let verdict = judge(&input, &plan, &recorded);
        let faults = faults(&input, &recorded);
        let faults = if faults.is_empty() {
            String::new()
        } else {
            format!("  the recorded answer breaks rules itself: {}\n", faults.join("; "))
        };
        Ok((verdict, faults + &explain(&Answer::of_plan(&plan), &recorded)))
    }
}

/// The cases of a folder, by name: each `x.in.json` with its `x.out.json`.
pub fn folder(path: &Path) -> io::Result<Vec<Case>> {
    let mut inputs: BTreeMap<String, PathBuf> = BTreeMap::new();
    for entry in std::fs::read_dir(path)? {
        let file = entry?.path();
        let name = file.file_name().and_then(|name| name.to_str());
        if let Some(name) = name.and_then(|name| name.strip_suffix(INPUT)) {
            inputs.insert(name.to_owned(), file.clone());
        }
    }
    let read = |(name, file): (String, PathBuf)| {
        let answer = file.with_file_name(format!("{name}{ANSWER}"));
        Ok(Case { document: json(&file)?, answer: json(&answer)?, name })
    };
    inputs.into_iter().map(read).collect()
}

fn json(path: &Path) -> io::Result<Value> {
    let at = |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| at(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| at(&error))
}

/// The cases of a compressed archive: a line of JSON for each, with `name`, `in` and `out`.
pub fn archive(compressed: &[u8]) -> io::Result<Vec<Case>> {
    let lines = BufReader::new(zstd::Decoder::new(compressed)?).lines();
    let read = |line: io::Result<String>| {
        let mut line: Value = serde_json::from_str(&line?)?;
        Ok(Case {
            name: line["name"].as_str().unwrap_or_default().to_owned(),
            document: line["in"].take(),
            answer: line["out"].take(),
        })
    };
    lines.map(read).collect()
}
