//! House rules that no lint knows, each a test that names file, line and remedy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::{Workspace, root};

/// A file that is longer wants to be two.
const MOST_LINES: usize = 800;

/// What must not stand in Rust code, and what to do about it. Each is spelled in two parts so that this file passes.
const BANNED_IN_CODE: [(&str, &str); 6] = [
    (concat!("#[ign", "ore"), "a test that does not run proves nothing: make it run or remove it"),
    (concat!("to", "do!("), "finish it"),
    (concat!("unimpl", "emented!("), "finish it, or make the case impossible by its type"),
    (concat!("db", "g!("), "remove it"),
    (concat!("#[al", "low("), "use #[expect(lint, reason = \"…\")], which tells when it is no longer needed"),
    (
        concat!("#![al", "low("),
        "use #![expect(lint, reason = \"…\")], which tells when it is no longer needed",
    ),
];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("../sha", "red/")];

struct Text {
    /// Relative to the root of the repository, with forward slashes.
    path: String,
    text: String,
}

/// All text files of the project: what git tracks or would track, or everything but build output where git is absent.
fn texts() -> Vec<Text> {
    let root = root().unwrap();
    let mut paths = listed_by_git(&root).unwrap_or_else(|| {
        let mut paths = Vec::new();
        walk(&root, &mut paths);
        paths
    });
    paths.sort();
    let relative =
        |path: &Path| path.strip_prefix(&root).unwrap_or(path).to_string_lossy().replace('\\', "/");
    let read = |path: &PathBuf| {
        Some(Text { path: relative(path), text: String::from_utf8(fs::read(path).ok()?).ok()? })
    };
    paths.iter().filter_map(read).filter(|file| !file.text.contains('\0')).collect()
}

fn listed_by_git(root: &Path) -> Option<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths: Vec<_> = names.split_terminator('\0').map(|name| root.join(name)).collect();
    (!paths.is_empty()).then_some(paths)
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != ".git" {
            walk(&path, paths);
        } else if path.is_file() {
            paths.push(path);
        }
    }
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// Complaints about one Rust file.
fn code_complaints(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let length = text.lines().count();
    if length > MOST_LINES {
        complaints.push(format!("{path}: {length} lines, at most {MOST_LINES}: split it by subject"));
    }
    if path.ends_with("/mod.rs") {
        complaints.push(format!("{path}: rename it to the name of its folder and put it beside that folder"));
    }
    for (number, line) in text.lines().enumerate() {
        for (banned, remedy) in BANNED_IN_CODE {
            if line.contains(banned) {
                complaints.push(format!("{path}:{}: `{banned}`: {remedy}", number + 1));
            }
        }
    }
    complaints
}

/// Places where a path of one machine is written. `https://host/work/x` is none: a path begins where a word ends.
fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for machine_path in MACHINE_PATHS {
            let begins = |(place, _): (usize, &str)| {
                let before = line[..place].chars().next_back();
                !before.is_some_and(|before| before.is_alphanumeric() || "-_./".contains(before))
            };
            if line.match_indices(machine_path).any(begins) {
                complaints.push(format!(
                    "{path}:{}: `{machine_path}` is a path of one machine: the project must stand alone",
                    number + 1
                ));
            }
        }
    }
    complaints
}

/// Whether a page names a crate by its package, its folder, or the folder's last part, set as code.
fn names_crate(page: &str, package: &str, folder: &str) -> bool {
    let last = folder.rsplit('/').next().unwrap_or(folder);
    [package, folder, last].iter().any(|name| {
        [format!("`{name}`"), format!("`{name}/`")].iter().any(|spelled| page.contains(spelled.as_str()))
    })
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

fn page(path: &str) -> String {
    fs::read_to_string(root().unwrap().join(path)).unwrap_or_else(|error| panic!("reading {path}: {error}"))
}

#[test]
fn rust_code_keeps_the_house_rules() {
    let texts = texts();
    assert!(texts.iter().any(|file| file.path == "xtask/src/house.rs"), "the list of files is incomplete");
    let complaints: Vec<_> = texts
        .iter()
        .filter(|file| is_rust(&file.path))
        .flat_map(|file| code_complaints(&file.path, &file.text))
        .collect();
    assert_none(&complaints);
}

#[test]
fn no_file_holds_a_path_of_one_machine() {
    let complaints: Vec<_> = texts().iter().flat_map(|file| machine_paths(&file.path, &file.text)).collect();
    assert_none(&complaints);
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let workspace = Workspace::read().unwrap();
    let takes_lints = |folder: &str| {
        let manifest = page(&format!("{folder}/Cargo.toml"));
        let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
        lines.find(|line| !line.is_empty()) == Some("workspace = true")
    };
    let complaints: Vec<_> = workspace
        .packages
        .iter()
        .filter(|package| !takes_lints(&package.folder))
        .map(|package| format!("{}/Cargo.toml: add `[lints]` with `workspace = true`", package.folder))
        .collect();
    assert_none(&complaints);
}

#[test]
fn every_crate_is_named_in_the_maps() {
    let workspace = Workspace::read().unwrap();
    let (readme, architecture) = (page("crates/README.md"), page("ARCHITECTURE.md"));
    let mut complaints = Vec::new();
    for package in &workspace.packages {
        let named = |page: &str| names_crate(page, &package.name, &package.folder);
        if package.folder.starts_with("crates/") && !named(&readme) {
            complaints.push(format!("crates/README.md: add a line for {}", package.name));
        }
        if !named(&architecture) {
            complaints.push(format!("ARCHITECTURE.md: name `{}` and say what it holds", package.folder));
        }
    }
    assert_none(&complaints);
}

/// What a page says of tests: `file.rs` as code, and behind it on the same line the names of tests in it, as code too.
fn named_tests(page: &str) -> Vec<(String, String)> {
    let mut named = Vec::new();
    for line in page.lines() {
        let mut file = None;
        for span in line.split('`').skip(1).step_by(2) {
            if is_rust(span) {
                file = Some(span.to_owned());
            } else if let Some(file) = file.clone().filter(|_| is_name(span)) {
                named.push((file, span.to_owned()));
            }
        }
    }
    named
}

fn is_name(span: &str) -> bool {
    !span.is_empty() && span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Whether the text has a test of that name, and not just a function.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declares = |line: &str| {
        let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        rest.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with('('))
    };
    lines.windows(2).any(|pair| pair[0].starts_with("#[") && pair[0].contains("test") && declares(pair[1]))
}

/// Complaints about the tests that a page names, given the files' texts.
fn missing_tests(page: &str, text_of: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let missing = |(file, name): &(String, String)| match text_of(file) {
        None => Some(format!("there is no file {file}")),
        Some(text) if !has_test(&text, name) => Some(format!("{file} has no test {name}")),
        Some(_) => None,
    };
    named_tests(page).iter().filter_map(missing).collect()
}

#[test]
fn every_test_that_the_page_on_defects_names_is_there() {
    const PAGE: &str = "docs/peer-defects.md";
    let page = page(PAGE);
    assert!(named_tests(&page).len() > 50, "{PAGE}: its tables aren't read any more");
    let complaints: Vec<_> = missing_tests(&page, |file| fs::read_to_string(root().unwrap().join(file)).ok())
        .into_iter()
        .map(|missing| format!("{PAGE}: {missing}: name the test that has taken its place"))
        .collect();
    assert_none(&complaints);
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| there"));
    let untested: Vec<_> = rows
        .filter(|row| named_tests(row).is_empty())
        .map(|row| format!("{PAGE}: no test is named in: {row}"))
        .collect();
    assert_none(&untested);
}

mod tests {
    use super::*;

    #[test]
    fn a_test_that_a_page_names_must_be_a_test_of_that_file() {
        let page = "| wrong | right | `a.rs`: `one`, `two`; `b.rs`: `three` |\nno `file` here";
        let texts = |file: &str| match file {
            "a.rs" => Some(
                "#[test]\nfn one() {}\nfn two() {}\n    #[tokio::test]\n    async fn three() {}".to_owned(),
            ),
            _ => None,
        };
        assert_eq!(missing_tests(page, texts), ["a.rs has no test two", "there is no file b.rs"]);
        assert_eq!(missing_tests("`a.rs`: `three`", texts), [""; 0]);
    }

    #[test]
    fn a_long_file_and_an_old_module_file_are_found() {
        assert_eq!(code_complaints("crates/x/src/lib.rs", &"//\n".repeat(MOST_LINES)), [""; 0]);
        assert_eq!(code_complaints("crates/x/src/lib.rs", &"//\n".repeat(MOST_LINES + 1)).len(), 1);
        assert_eq!(code_complaints("crates/x/src/y/mod.rs", "").len(), 1);
    }

    #[test]
    fn banned_code_is_found_with_its_line() {
        let code = concat!("fn f() {\n    to", "do!()\n}\n");
        let complaints = code_complaints("a.rs", code);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("a.rs:2: "), "{complaints:?}");
    }

    #[test]
    fn a_machine_path_is_found_and_a_part_of_an_address_is_not() {
        for (line, found) in [
            (concat!("see /wo", "rk/x"), 1),
            (concat!("\"/wo", "rk/x\""), 1),
            (concat!("https://host.example/wo", "rk/x"), 0),
            (concat!("fire/wo", "rk/x"), 0),
        ] {
            assert_eq!(machine_paths("a.md", line).len(), found, "{line}");
        }
    }

    #[test]
    fn a_crate_counts_as_named_only_when_set_as_code() {
        assert!(names_crate("* `api`: objects", "karpenter-capi-api", "crates/api"));
        assert!(names_crate("* `crates/api/`: objects", "karpenter-capi-api", "crates/api"));
        assert!(!names_crate("`karpenter-capi-api-more` and the api", "karpenter-capi-api", "crates/api"));
    }
}
