//! The edges between our crates. Arrows point one way; a crate never reaches back up.

use std::collections::BTreeMap;

use crate::workspace::{END_TO_END, Kind, Package, Workspace};

/// Each crate and the crates of ours that it may depend on. A row names only crates of rows above it, so the table cannot
/// hold a cycle. A new edge is a change of the architecture: change `ARCHITECTURE.md` with it.
const ALLOWED: [(&str, &[&str]); 16] = [
    ("karpenter-capi-api", &[]),
    // How the clusters are reached: it knows nothing of what is done there.
    ("karpenter-capi-access", &["karpenter-capi-api"]),
    ("karpenter-capi-model", &["karpenter-capi-api"]),
    ("karpenter-capi-catalog", &["karpenter-capi-api", "karpenter-capi-model"]),
    // Scheduling must not know where an instance type came from, nor in which API object a thing was written.
    ("karpenter-capi-scheduling", &["karpenter-capi-model"]),
    ("karpenter-capi-lifecycle", &["karpenter-capi-api", "karpenter-capi-model"]),
    (
        "karpenter-capi-cluster",
        &[
            "karpenter-capi-api",
            "karpenter-capi-model",
            "karpenter-capi-catalog",
            "karpenter-capi-scheduling",
            "karpenter-capi-lifecycle",
        ],
    ),
    (
        "karpenter-capi-controllers",
        &[
            "karpenter-capi-api",
            "karpenter-capi-model",
            "karpenter-capi-catalog",
            "karpenter-capi-scheduling",
            "karpenter-capi-lifecycle",
            "karpenter-capi-cluster",
        ],
    ),
    // The manager wires and decides nothing: it sees no crate that decides.
    (
        "karpenter-capi-manager",
        &[
            "karpenter-capi-access",
            "karpenter-capi-api",
            "karpenter-capi-cluster",
            "karpenter-capi-controllers",
        ],
    ),
    // The command line tool never reconciles.
    (
        "karpenter-capi",
        &[
            "karpenter-capi-access",
            "karpenter-capi-api",
            "karpenter-capi-model",
            "karpenter-capi-catalog",
            "karpenter-capi-scheduling",
            "karpenter-capi-lifecycle",
            "karpenter-capi-cluster",
        ],
    ),
    // A tool of developers, which asks the product's own code and is asked by none of it.
    (
        "karpenter-capi-conformance",
        &[
            "karpenter-capi-api",
            "karpenter-capi-model",
            "karpenter-capi-scheduling",
            "karpenter-capi-cluster",
        ],
    ),
    // Knows how Go modules are built, and nothing else.
    ("karpenter-capi-go-programs", &[]),
    (END_TO_END, &["karpenter-capi-api", "karpenter-capi-go-programs"]),
    // The bench sees the operator as anybody else does: as a process, and by what it writes.
    ("karpenter-capi-bench", &[END_TO_END]),
    // This one links the solver itself, and so nothing that brings a Kubernetes client along.
    (
        "karpenter-capi-bench-scheduling",
        &["karpenter-capi-scheduling", "karpenter-capi-conformance", "karpenter-capi-go-programs"],
    ),
    ("xtask", &[]),
];

/// What builders, scenarios and fakes for tests live in; every crate's tests may use it, no crate itself.
const TESTKIT: &str = "karpenter-capi-testkit";

fn violations(packages: &[Package]) -> Vec<String> {
    let allowed: BTreeMap<_, _> = ALLOWED.into_iter().collect();
    let mut found = Vec::new();
    for package in packages.iter().filter(|package| package.name != TESTKIT) {
        let name = package.name.as_str();
        let Some(row) = allowed.get(name) else {
            found.push(format!(
                "{name} has no row in the table of allowed edges (xtask/src/layering.rs): add one"
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let other = dependency.name.as_str();
            let ours = packages.iter().any(|package| package.name == other);
            let for_tests = dependency.kind == Kind::Dev && (other == TESTKIT || name == END_TO_END);
            if ours && !for_tests && !row.contains(&other) {
                found.push(format!(
                    "{name} must not depend on {other} ({:?} dependency): move what it needs down, or take it in as a \
                     trait that a crate above implements",
                    dependency.kind,
                ));
            }
        }
    }
    for (name, _) in ALLOWED {
        if !packages.iter().any(|package| package.name == name) {
            found
                .push(format!("{name} stands in the table of allowed edges but is no crate: remove its row"));
        }
    }
    found
}

#[test]
fn crates_depend_only_on_crates_below_them() {
    let workspace = Workspace::read().unwrap();
    let found = violations(&workspace.packages);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn the_table_of_allowed_edges_points_one_way() {
    for (place, (name, row)) in ALLOWED.iter().enumerate() {
        for other in *row {
            assert!(ALLOWED[..place].iter().any(|(above, _)| above == other), "{name} may depend on {other}");
        }
    }
}

mod tests {
    use super::*;
    use crate::workspace::Dependency;

    /// All crates of the table without edges, and one edge besides.
    fn with_edge(from: &str, to: &str, kind: Kind) -> Vec<Package> {
        let names = ALLOWED.iter().map(|(name, _)| *name).chain([TESTKIT]);
        names
            .map(|name| Package {
                name: name.to_owned(),
                folder: String::new(),
                dependencies: (name == from)
                    .then(|| Dependency { name: to.to_owned(), kind })
                    .into_iter()
                    .collect(),
                integration_tests: Vec::new(),
            })
            .collect()
    }

    #[test]
    fn an_edge_of_the_table_and_an_edge_to_a_strangers_crate_are_fine() {
        assert_eq!(
            violations(&with_edge("karpenter-capi-model", "karpenter-capi-api", Kind::Normal)),
            [""; 0]
        );
        assert_eq!(violations(&with_edge("karpenter-capi-model", "serde", Kind::Normal)), [""; 0]);
    }

    #[test]
    fn an_upward_edge_is_found_for_code_build_and_tests() {
        for kind in [Kind::Normal, Kind::Build, Kind::Dev] {
            let found = violations(&with_edge("karpenter-capi-model", "karpenter-capi-cluster", kind));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("karpenter-capi-model must not depend on karpenter-capi-cluster"));
        }
    }

    #[test]
    fn scheduling_may_not_see_where_instance_types_come_from() {
        assert_eq!(
            violations(&with_edge("karpenter-capi-scheduling", "karpenter-capi-catalog", Kind::Normal)).len(),
            1
        );
    }

    #[test]
    fn only_tests_may_use_the_testkit_and_only_the_suite_may_use_everything() {
        assert_eq!(violations(&with_edge("karpenter-capi-api", TESTKIT, Kind::Dev)), [""; 0]);
        assert_eq!(violations(&with_edge("karpenter-capi-api", TESTKIT, Kind::Normal)).len(), 1);
        assert_eq!(violations(&with_edge(END_TO_END, "karpenter-capi-scheduling", Kind::Dev)), [""; 0]);
        assert_eq!(violations(&with_edge(END_TO_END, "karpenter-capi-scheduling", Kind::Normal)).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
        let mut packages = with_edge("", "", Kind::Normal);
        packages[0].name = "karpenter-capi-new".to_owned();
        let found = violations(&packages);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
