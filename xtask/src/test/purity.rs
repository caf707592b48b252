//! The pure crates decide; nothing that could do anything else may be among their dependencies.

/// Crates (by package name) whose decisions depend on nothing but their input.
pub(super) const PURE: [&str; 5] = [
    "karpenter-capi-api",
    "karpenter-capi-model",
    "karpenter-capi-catalog",
    "karpenter-capi-scheduling",
    "karpenter-capi-lifecycle",
];

/// Libraries that bring a runtime, a network or chance. A crate whose name starts with one of them and a hyphen or an
/// underscore (`tokio-util`, `rand_core`) is meant too.
const FORBIDDEN: [&str; 12] = [
    "async-std",
    "fastrand",
    "getrandom",
    "hyper",
    "kube-client",
    "kube-runtime",
    "mio",
    "rand",
    "reqwest",
    "rustls",
    "smol",
    "tokio",
];

/// The forbidden libraries in the output of `cargo tree --prefix none`, one package a line.
pub(super) fn impurities(tree: &str) -> Vec<&str> {
    let mut found: Vec<_> =
        tree.lines().filter_map(|line| line.split_whitespace().next()).filter(is_forbidden).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn is_forbidden(name: &&str) -> bool {
    FORBIDDEN.iter().any(|forbidden| {
        name.strip_prefix(forbidden).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_deep_in_the_tree_is_found_once() {
        let tree = "karpenter-capi-model v0.1.0 (/x)\nserde v1.0.0\ntokio v1.0.0\ntokio-util v0.7.0\ntokio v1.0.0 (*)\n";
        assert_eq!(impurities(tree), ["tokio", "tokio-util"]);
    }

    #[test]
    fn names_that_only_begin_alike_are_no_impurity() {
        assert_eq!(
            impurities("random-names v1.0.0\nhyperbole v1.0.0\nkube v5.0.0\nkube-core v5.0.0\n"),
            [""; 0]
        );
    }
}
