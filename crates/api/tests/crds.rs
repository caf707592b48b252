//! The definitions that are checked in.

#[path = "../examples/crds/files.rs"]
mod files;

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn generated_crds_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds");
    let generated = files::files().unwrap();
    for (name, text) in &generated {
        let checked_in = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(checked_in == *text, "crds/{name} is stale; run: cargo xtask crds");
    }
    let expected: BTreeSet<String> = generated.into_iter().map(|(name, _)| name).collect();
    let present: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    assert_eq!(present, expected, "crds/ holds other files than those generated; run: cargo xtask crds");
}
