//! Flags and variables.

use crate::harness::{Folder, Running, assert_says, bare, flag, free_port, http, http_when_up, manager, run};

#[test]
fn without_a_cluster_it_is_a_usage_error() {
    let (code, said) = run(&mut bare(&[]));
    assert_eq!(code, Some(2));
    assert_says(&said, &["--cluster-namespace", "--cluster-name"]);
}

#[test]
fn wrong_usage_ends_with_2_and_names_the_flag() {
    for (arguments, part) in [
        ("--colour=red", "--colour"),
        ("--metrics-port=http", "--metrics-port"),
        ("--disable-leader-election=yes", "--disable-leader-election"),
        ("--batch-idle-duration=1", "--batch-idle-duration"),
        ("--preference-policy=Maybe", "--preference-policy"),
        ("--log-format=xml", "--log-format"),
    ] {
        let (code, said) = run(&mut manager(&[arguments]));
        assert_eq!(code, Some(2), "{arguments}: {said}");
        assert_says(&said, &[part]);
    }
}

#[test]
fn a_context_that_the_kubeconfig_lacks_is_named_with_its_flag() {
    let folder = Folder::new();
    let kubeconfig = folder.kubeconfig("http://127.0.0.1:1", |_| {});
    for (context, part) in [
        ("--context=there", "--context (KUBE_CONTEXT)"),
        ("--cluster-api-context=there", "--cluster-api-context (CLUSTER_API_CONTEXT)"),
    ] {
        let (code, said) = run(&mut manager(&[&flag(&kubeconfig), context]));
        assert_eq!(code, Some(1), "{said}");
        assert_says(&said, &["there", part]);
    }
    let (code, said) = run(&mut manager(&["--context=there"]));
    assert_eq!(code, Some(2), "{said}");
    assert_says(&said, &["--kubeconfig"]);
}

#[test]
fn a_variable_with_a_wrong_value_is_a_usage_error_too() {
    let (code, said) = run(manager(&[]).env("KUBE_CLIENT_QPS", "fast"));
    assert_eq!(code, Some(2));
    assert_says(&said, &["fast", "--kube-client-qps"]);
    let (code, said) = run(manager(&[]).env("RUST_LOG", "karpenter=loud"));
    assert_eq!(code, Some(2));
    assert_says(&said, &["RUST_LOG", "karpenter=loud"]);
}

#[test]
fn help_and_version_are_no_failure() {
    let (code, said) = run(&mut bare(&["--help"]));
    assert_eq!(code, Some(0));
    assert_says(&said, &["--metrics-port", "METRICS_PORT", "8080"]);
    let (code, said) = run(&mut bare(&["--version"]));
    assert_eq!(code, Some(0));
    assert_says(&said, &[env!("CARGO_PKG_VERSION")]);
}

#[test]
fn a_flag_is_stronger_than_its_variable_and_a_variable_than_the_default() {
    let folder = Folder::new();
    let kubeconfig = folder.kubeconfig(&format!("http://127.0.0.1:{}", free_port()), |_| {});
    let (by_flag, by_variable, unused) = (free_port(), free_port(), free_port());
    let metrics = format!("--metrics-port={by_flag}");
    let process = Running::start(
        manager(&[&flag(&kubeconfig), &metrics])
            .env("METRICS_PORT", unused.to_string())
            .env("HEALTH_PROBE_PORT", by_variable.to_string())
            .env("STARTUP_TIMEOUT", "10m"),
    );
    assert_eq!(http_when_up(by_flag, "/metrics").0, 200);
    assert_eq!(http_when_up(by_variable, "/healthz").0, 200);
    assert_eq!(http(unused, "/metrics"), None);
    drop(process);
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let (code, said) =
        run(manager(&[]).env("KUBECONFIG", "").env("LOG_LEVEL", "").env("KUBE_CLIENT_BURST", ""));
    assert_eq!(code, Some(1), "{said}");
    assert_says(&said, &["--kubeconfig (KUBECONFIG) is not set", "KUBERNETES_SERVICE_HOST"]);
}

#[test]
fn a_feature_gate_that_is_unknown_is_warned_of() {
    let (_, said) = run(&mut manager(&["--kubeconfig=/nowhere", "--feature-gates=Telepathy=true"]));
    assert_says(&said, &["WARN", "Telepathy"]);
}

#[test]
fn a_proxy_is_refused_with_the_way_to_do_without() {
    let folder = Folder::new();
    let path = folder.kubeconfig("https://127.0.0.1:1", |_| {});
    let (code, said) = run(manager(&[&flag(&path)]).env("HTTPS_PROXY", "http://127.0.0.1:3128"));
    assert_eq!(code, Some(1));
    assert_says(&said, &["proxy", "HTTPS_PROXY", "proxy-url"]);
}
