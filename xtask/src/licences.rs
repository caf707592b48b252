//! Where dependencies come from and under which licences: Apache-2.0 code may only be built on what permits that.

use std::process::Command;

use serde_json::Value;

use crate::workspace::root;

/// Licences that permit use in an Apache-2.0 program without asking more than a notice.
const PERMITTED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Zlib",
];

/// Whether an SPDX expression can be satisfied with permitted licences. The old `MIT/Apache-2.0` means `OR`.
fn is_permitted(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest) && rest.is_empty()
}

fn any_of(words: &mut &[&str]) -> bool {
    let mut permitted = all_of(words);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        // Both sides are read to their end, also when the first already decides.
        permitted |= all_of(words);
    }
    permitted
}

fn all_of(words: &mut &[&str]) -> bool {
    let mut permitted = one(words);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        permitted &= one(words);
    }
    permitted
}

fn one(words: &mut &[&str]) -> bool {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let permitted = any_of(words);
            let [")", rest @ ..] = *words else { return false };
            *words = rest;
            permitted
        }
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            PERMITTED.contains(&format!("{licence} WITH {exception}").as_str()) || PERMITTED.contains(licence)
        }
        [licence, rest @ ..] => {
            *words = rest;
            PERMITTED.contains(licence)
        }
        [] => false,
    }
}

/// What is wrong with one package of the dependency tree.
fn complaint(package: &Value) -> Option<String> {
    let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
    match package["source"].as_str() {
        // A path of this workspace has no source.
        None => return None,
        Some(source) if source.starts_with("registry+") => {}
        Some(source) => {
            return Some(format!("{name} comes from {source}: only crates of the registry can be audited"));
        }
    }
    match package["license"].as_str() {
        Some(licence) if is_permitted(licence) => None,
        Some(licence) => {
            Some(format!("{name} is under {licence}, which is not among the permitted licences"))
        }
        None if package["license_file"].is_string() => {
            Some(format!("{name} has a licence of its own: read it"))
        }
        None => Some(format!("{name} names no licence")),
    }
}

/// Packages for other platforms are left out: they are not downloaded for a build, and so not known here.
#[test]
fn dependencies_come_from_the_registry_under_permitted_licences() {
    let host = Command::new("rustc").arg("-vV").output().unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let output = Command::new(crate::command::cargo_path())
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", host])
        .current_dir(root().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "only {} packages seen", packages.len());
    let complaints: Vec<_> = packages.iter().filter_map(complaint).collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_expression_is_permitted_when_one_way_through_it_is() {
        for expression in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "ISC AND (Apache-2.0 OR ISC)",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
        ] {
            assert!(is_permitted(expression), "{expression}");
        }
    }

    #[test]
    fn an_expression_that_needs_another_licence_or_makes_no_sense_is_not() {
        for expression in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR ISC) AND AGPL-3.0-only",
            "(MIT",
            "MIT Apache-2.0",
            "",
        ] {
            assert!(!is_permitted(expression), "{expression}");
        }
    }

    #[test]
    fn a_package_from_a_git_repository_or_without_a_licence_is_found() {
        let package = |source: &str, licence: Option<&str>| json!({"name": "x", "version": "1.0.0", "source": source, "license": licence, "license_file": null});
        assert_eq!(complaint(&package("registry+https://index.example", Some("MIT"))), None);
        assert!(complaint(&package("git+https://host.example/x", Some("MIT"))).is_some());
        assert!(complaint(&package("registry+https://index.example", None)).is_some());
    }
}
