use crate::common::{NOW, answer, deployment, pod, run, simulate, world};
use std::fs;

fn small() -> String {
    world("", &[deployment("m1", &[("cpu", "4"), ("memory", "16Gi"), ("price", "0.2")])])
}

#[test]
fn the_exit_code_tells_whether_every_pod_has_a_place() {
    let fits = simulate(&(small() + &pod("a", "", "cpu: 1")), &[]);
    assert_eq!((fits.code, fits.stderr.as_str()), (0, ""));
    let too_large = simulate(&(small() + &pod("a", "", "cpu: 99")), &[]);
    assert_eq!((too_large.code, too_large.stderr.as_str()), (1, ""));
    let nothing = simulate("", &["-o", "json"]);
    assert_eq!(nothing.code, 0, "no pod is without a place");
}

#[test]
fn a_bad_document_is_named_and_nothing_is_simulated() {
    let text = small() + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: 7\n";
    let line = text.lines().count();
    let ran = simulate(&text, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    let told = format!(
        "error: nothing was simulated: -: document 4, line {line}: Pod a: spec.containers: invalid type"
    );
    assert!(ran.stderr.starts_with(&told), "{}", ran.stderr);
}

#[test]
fn a_scheduler_configuration_that_can_not_be_used_is_named_with_its_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler.yaml");
    let constraint =
        "{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}";
    let with = |text: String| {
        fs::write(&path, text).unwrap();
        simulate(&(small() + &pod("a", "", "cpu: 1")), &["--scheduler-config", path.to_str().unwrap()])
    };
    let right = with(format!("podTopologySpread: {{defaultConstraints: [{constraint}]}}"));
    assert_eq!((right.code, right.stderr.as_str()), (0, ""));
    let twice = with(format!("podTopologySpread: {{defaultConstraints: [{constraint}, {constraint}]}}"));
    assert_eq!((twice.code, twice.stdout.as_str()), (2, ""));
    assert!(twice.stderr.starts_with("error: --scheduler-config: "), "{}", twice.stderr);
    assert!(twice.stderr.contains("defaultConstraints[1]: topology.kubernetes.io/zone"), "{}", twice.stderr);
    let missing = simulate(&small(), &["--scheduler-config", "/no/such/file"]);
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("/no/such/file: the file can't be read"), "{}", missing.stderr);
}

#[test]
fn files_and_folders_are_read_and_missing_ones_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("world.yaml"), small()).unwrap();
    fs::write(path("pods.yml"), pod("a", "", "cpu: 1")).unwrap();
    fs::write(path("README.md"), "not: [a manifest").unwrap();
    let whole = run(&["simulate", "-f", folder.path().to_str().unwrap(), "--now", NOW, "-o", "json"], "");
    assert_eq!((whole.code, whole.stderr.as_str()), (0, ""));
    let each = run(
        &["simulate", "-f", &path("pods.yml"), "-f", &path("world.yaml"), "--now", NOW, "-o", "json"],
        "",
    );
    assert_eq!(whole.stdout, each.stdout);
    let missing = run(&["simulate", "-f", &path("gone.yaml")], "");
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("gone.yaml: the file can't be read"), "{}", missing.stderr);
    let empty = tempfile::tempdir().unwrap();
    let ran = run(&["simulate", "-f", empty.path().to_str().unwrap()], "");
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("there is no .yaml, .yml or .json file"), "{}", ran.stderr);
}

#[test]
fn bad_usage_is_told_with_exit_code_2() {
    for (args, told) in [
        (vec!["simulate"], "--filename"),
        (vec!["simulate", "-f", "-", "--now", "yesterday"], "--now"),
        (vec!["simulate", "-f", "-", "--passes", "0"], "--passes"),
        (vec!["simulate", "-f", "-", "-o", "xml"], "--output"),
        (vec!["simulate", "-f", "-", "--preference-policy", "Maybe"], "--preference-policy"),
        (vec!["teleport"], "teleport"),
    ] {
        let ran = run(&args, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ran.stderr.contains(told), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn disruption_is_refused_for_now() {
    for flag in ["--disrupt", "--disrupt=all"] {
        let ran = simulate(&small(), &[flag]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
        assert!(
            ran.stderr.contains("--disrupt: this version doesn't evaluate disruption yet"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn several_clusters_need_a_choice() {
    let other =
        deployment("m2", &[("cpu", "4"), ("memory", "16Gi")]).replace("clusterName: k", "clusterName: other");
    let both = small() + "---\n" + &other;
    let ran = simulate(&both, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr
            .contains("objects of 2 Clusters: default/k, default/other; choose one with --cluster-name"),
        "{}",
        ran.stderr
    );
    let (code, chosen) = answer(&both, &["--cluster-name", "other"]);
    assert_eq!(code, 0);
    assert_eq!(chosen["machineDeployments"][0]["name"], "default/m2");
    assert_eq!(chosen["machineDeployments"].as_array().unwrap().len(), 1);
    let elsewhere = both
        .replacen("namespace: default", "namespace: east", 1)
        .replace("clusterName: other", "clusterName: k");
    let ran = simulate(&elsewhere, &["--cluster-name", "k"]);
    assert!(ran.stderr.contains("--cluster-name and --cluster-namespace"), "{}", ran.stderr);
    assert_eq!(answer(&elsewhere, &["--cluster-name", "k", "--cluster-namespace", "east"]).0, 0);
    let ran = simulate(&both, &["--cluster-name", "gone"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("there is default/k, default/other"), "{}", ran.stderr);
}

#[test]
fn help_shows_how_to_begin() {
    let ran = run(&["simulate", "--help"], "");
    assert_eq!(ran.code, 0);
    for told in ["--filename", "Exit status", "examples/web-shop"] {
        assert!(ran.stdout.contains(told), "{told}: {}", ran.stdout);
    }
}

#[test]
fn the_version_is_printed_for_people_and_for_scripts() {
    assert_eq!(run(&["version"], "").stdout, format!("karpenter-capi {}\n", env!("CARGO_PKG_VERSION")));
    let json = run(&["version", "-o", "json"], "").stdout;
    assert_eq!(json, format!("{{\n  \"version\": \"{}\"\n}}\n", env!("CARGO_PKG_VERSION")));
}
