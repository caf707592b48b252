//! Each folder of `examples/` goes through the simulation twice: it must end well and answer the same.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::log::Log;
use crate::command::{CLI, build_binaries, program};
use crate::workspace::{Profile, Workspace};

struct Answer {
    code: Option<i32>,
    output: Vec<u8>,
}

pub(super) fn check(workspace: &Workspace, log: &mut Log) -> Result<()> {
    log.run(build_binaries(workspace, Profile::Dev))?;
    let mut complaints = Vec::new();
    for folder in folders(&workspace.root.join("examples"))? {
        let name = folder.strip_prefix(&workspace.root).unwrap_or(&folder);
        let (first, second) = (simulate(workspace, name, log)?, simulate(workspace, name, log)?);
        match complaint(&first, &second) {
            Some(complaint) => complaints.push(format!("{}: {complaint}", name.display())),
            None => log.note(&format!("{}: {} bytes, twice the same", name.display(), first.output.len()))?,
        }
    }
    if !complaints.is_empty() {
        bail!("{}", complaints.join("\n      "));
    }
    Ok(())
}

fn folders(examples: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(examples).with_context(|| format!("reading {}", examples.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    if folders.is_empty() {
        bail!("{} holds no example", examples.display());
    }
    folders.sort();
    Ok(folders)
}

fn simulate(workspace: &Workspace, folder: &Path, log: &mut Log) -> Result<Answer> {
    let mut command = program(workspace, workspace.binary(Profile::Dev, CLI));
    command.arg("simulate").arg("-f").arg(folder).args(["--now", "2026-01-05T12:00:00Z", "-o", "json"]);
    let (code, output) = log.capture(command)?;
    Ok(Answer { code, output })
}

/// Exit code 0 says that all pods found a place, 1 that some did not; both are answers.
fn complaint(first: &Answer, second: &Answer) -> Option<String> {
    if !matches!(first.code, Some(0 | 1)) {
        return Some(match first.code {
            Some(code) => format!("the simulation ended with exit code {code}, not 0 or 1"),
            None => "the simulation was ended by a signal".to_owned(),
        });
    }
    if let Err(error) = serde_json::from_slice::<serde_json::Value>(&first.output) {
        return Some(format!("the simulation's answer is not JSON: {error}"));
    }
    if first.code != second.code {
        return Some(format!(
            "two runs ended with different exit codes: {:?} and {:?}",
            first.code, second.code
        ));
    }
    let difference = first_difference(&first.output, &second.output)?;
    Some(format!("two runs gave different answers: {difference}"))
}

fn first_difference(first: &[u8], second: &[u8]) -> Option<String> {
    if first == second {
        return None;
    }
    let (first, second) = (String::from_utf8_lossy(first), String::from_utf8_lossy(second));
    let (mut left, mut right) = (first.lines(), second.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (left.next(), right.next()) {
            (None, None) => return Some("the ends of lines".to_owned()),
            (one, other) if one == other => {}
            (one, other) => {
                let shown = |line: Option<&str>| line.unwrap_or("(end)").trim().to_owned();
                return Some(format!("line {number}: `{}` and `{}`", shown(one), shown(other)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint_about(first: (Option<i32>, &str), second: (Option<i32>, &str)) -> Option<String> {
        let answer = |(code, output): (Option<i32>, &str)| Answer { code, output: output.into() };
        complaint(&answer(first), &answer(second))
    }

    #[test]
    fn the_same_json_twice_is_fine_also_when_pods_found_no_place() {
        for code in [0, 1] {
            assert_eq!(complaint_about((Some(code), "{}\n"), (Some(code), "{}\n")), None);
        }
    }

    #[test]
    fn a_failed_or_killed_simulation_is_found() {
        assert!(complaint_about((Some(2), ""), (Some(2), "")).unwrap().contains("exit code 2"));
        assert!(complaint_about((None, ""), (None, "")).unwrap().contains("signal"));
        assert!(complaint_about((Some(0), "no json"), (Some(0), "no json")).unwrap().contains("not JSON"));
    }

    #[test]
    fn a_simulation_that_answers_differently_is_found_with_the_first_line_that_differs() {
        let found = complaint_about((Some(0), "{\n\"a\": 1}\n"), (Some(0), "{\n\"a\": 2}\n")).unwrap();
        assert!(found.contains("line 2: `\"a\": 1}` and `\"a\": 2}`"), "{found}");
        assert!(complaint_about((Some(0), "{}\n"), (Some(1), "{}\n")).is_some());
        assert!(complaint_about((Some(0), "{}\n"), (Some(0), "{}")).is_some());
    }

    #[test]
    fn a_folder_without_examples_is_an_error() {
        let empty = std::env::temp_dir().join(format!("xtask-examples-{}", std::process::id()));
        fs::create_dir_all(&empty).unwrap();
        assert!(folders(&empty).is_err());
        assert!(folders(&empty.join("absent")).is_err());
        fs::remove_dir(&empty).unwrap();
    }
}
