use super::*;

/// The process's own environment may hold some of our variables, so these tests only pass flags that are stronger.
fn read(arguments: &[&str]) -> Result<Options, String> {
    let required = ["karpenter-capi-manager", "--cluster-namespace=ns", "--cluster-name=c"];
    Options::from_arguments(required.iter().chain(arguments)).map_err(|error| error.to_string())
}

#[test]
fn the_flags_are_consistent() {
    Options::command().debug_assert();
}

#[test]
fn a_bool_flag_takes_true_false_or_nothing_and_nothing_else() {
    let disabled =
        |arguments: &[&str]| read(arguments).map(|options| options.election.disable_leader_election);
    assert_eq!(disabled(&["--disable-leader-election"]), Ok(true));
    assert_eq!(disabled(&["--disable-leader-election=true"]), Ok(true));
    assert_eq!(disabled(&["--disable-leader-election=false"]), Ok(false));
    for wrong in ["yes", "1", "TRUE", "f"] {
        let error = disabled(&[&format!("--disable-leader-election={wrong}")]).unwrap_err();
        assert!(error.contains(wrong) && error.contains("--disable-leader-election"), "{error}");
    }
}

#[test]
fn durations_are_gos_and_not_negative() {
    let batch = |text: &str| {
        let flag = format!("--batch-max-duration={text}");
        read(&[&flag]).map(|options| options.behaviour.batch_max_duration)
    };
    assert_eq!(batch("1m30s"), Ok(Duration::from_secs(90)));
    assert_eq!(batch("1.5s"), Ok(Duration::from_millis(1500)));
    for wrong in ["10", "-1s", "soon"] {
        let error = batch(wrong).unwrap_err();
        assert!(error.contains(wrong) && error.contains("--batch-max-duration"), "{error}");
    }
}

#[test]
fn of_a_flag_that_is_given_twice_the_last_counts() {
    let options = read(&["--metrics-port=1111", "--metrics-port=2222"]).unwrap();
    assert_eq!(options.serving.metrics_port, 2222);
}

#[test]
fn an_unknown_flag_is_an_error() {
    assert!(read(&["--no-such-flag"]).unwrap_err().contains("--no-such-flag"));
}

#[test]
fn one_port_for_two_purposes_is_refused_unless_both_are_off() {
    let error = read(&["--metrics-port=9000", "--health-probe-port=9000"]).unwrap_err();
    assert!(error.contains("--metrics-port and --health-probe-port are both 9000"), "{error}");
    assert!(read(&["--metrics-port=0", "--health-probe-port=0"]).is_ok());
}

#[test]
fn unknown_and_unsupported_gates_are_told_but_not_refused() {
    let options =
        read(&["--feature-gates=NodeRepair=true, Telepathy=true,ReservedCapacity=true,NodeOverlay=false"])
            .unwrap();
    let sentences = options.without_effect();
    assert_eq!(sentences.len(), 2, "{sentences:?}");
    assert!(sentences.iter().any(|sentence| sentence.contains("Telepathy") && sentence.contains("unknown")));
    assert!(sentences.iter().any(|sentence| sentence.contains("NodeRepair")));
    assert_eq!(options.behaviour.feature_gates.to_string(), "ReservedCapacity");
}

#[test]
fn gates_of_features_that_are_there_have_an_effect() {
    let options =
        read(&["--feature-gates=NodeOverlay=true,StaticCapacity=true,CapacityBuffer=true"]).unwrap();
    assert_eq!(options.without_effect(), [""; 0]);
    let on = options.behaviour.feature_gates.to_string();
    assert_eq!(on, "ReservedCapacity,NodeOverlay,StaticCapacity,CapacityBuffer");
}

#[test]
fn a_malformed_gate_is_refused() {
    for wrong in ["NodeRepair", "NodeRepair=on"] {
        let error = read(&[&format!("--feature-gates={wrong}")]).unwrap_err();
        assert!(error.contains("--feature-gates") && error.contains("NodeRepair"), "{error}");
    }
}

#[test]
fn a_scheduler_configuration_is_a_file_or_its_text_and_read_at_once() {
    const TEXT: &str = "podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]}";
    let constraints = |value: &str| {
        read(&[&format!("--scheduler-config={value}")])
            .map(|options| options.behaviour.scheduler_config.has_default_constraints())
    };
    assert_eq!(constraints(""), Ok(false));
    assert_eq!(constraints(TEXT), Ok(true));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), TEXT).unwrap();
    assert_eq!(constraints(file.path().to_str().unwrap()), Ok(true));
    for (wrong, words) in [
        ("/no/such/file", "the file can't be read"),
        ("{podTopologySpread: {defaultConstraint: []}}", "defaultConstraint"),
        (&TEXT.replace("maxSkew: 1", "maxSkew: 0"), "defaultConstraints[0].maxSkew: 0 is below 1"),
    ] {
        let error = constraints(wrong).unwrap_err();
        assert!(error.contains("--scheduler-config") && error.contains(words), "{error}");
    }
}

#[test]
fn processor_requests_that_cannot_be_are_one_core() {
    let millicores = |text: &str| {
        read(&[&format!("--cpu-requests={text}")]).map(|options| options.cpu_requests_millicores())
    };
    assert_eq!(millicores("2500"), Ok(2500));
    assert_eq!(millicores("0"), Ok(1000));
    assert_eq!(millicores("-5"), Ok(1000));
}

#[test]
fn lease_durations_out_of_order_are_refused() {
    for wrong in [["15s", "15s", "2s"], ["15s", "3s", "2s"], ["1500ms", "1s", "100ms"], ["15s", "10s", "0s"]]
    {
        let [lease, renew, retry] = wrong;
        let flags = [
            format!("--leader-election-lease-duration={lease}"),
            format!("--leader-election-renew-deadline={renew}"),
            format!("--leader-election-retry-period={retry}"),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let error = read(&flags).unwrap_err();
        assert!(error.contains("--leader-election-renew-deadline"), "{wrong:?}: {error}");
    }
    assert!(read(&["--leader-election-lease-duration=60s"]).is_ok());
}

#[test]
fn a_context_needs_its_kubeconfig() {
    let error = read(&["--kubeconfig=", "--context=here"]);
    // An empty path is one that clap refuses by itself.
    assert!(error.unwrap_err().contains("--kubeconfig"));
    let options = read(&["--kubeconfig=/k", "--context=here", "--cluster-api-context=there"]).unwrap();
    let (workload, management) =
        (options.clusters.workload().unwrap(), options.clusters.management().unwrap());
    assert_eq!((workload.path.to_str(), workload.context.as_deref()), (Some("/k"), Some("here")));
    assert_eq!((management.path.to_str(), management.context.as_deref()), (Some("/k"), Some("there")));
    let options = read(&["--kubeconfig=/k"]).unwrap();
    assert_eq!(options.clusters.management(), None, "it is the workload cluster");
}

#[test]
fn log_outputs_are_the_two_streams() {
    let outputs =
        |text: &str| read(&[&format!("--log-output-paths={text}")]).map(|options| options.logging.outputs.0);
    assert_eq!(outputs("stderr"), Ok(vec![LogOutput::Stderr]));
    assert_eq!(outputs("stdout,stderr,stdout"), Ok(vec![LogOutput::Stdout, LogOutput::Stderr]));
    assert!(outputs("/var/log/karpenter.log").unwrap_err().contains("/var/log/karpenter.log"));
}

#[test]
fn a_name_that_no_object_can_have_is_refused() {
    assert!(read(&["--cluster-name=Prod_1"]).unwrap_err().contains("Prod_1"));
    assert!(read(&["--cluster-name=-a"]).is_err());
    assert!(read(&["--cluster-name=prod-1.eu"]).is_ok());
}

#[test]
fn flags_of_upstream_that_change_nothing_are_accepted() {
    let options = read(&[
        "--karpenter-service=karpenter",
        "--enable-profiling",
        "--disable-controller-warmup=false",
        "--memory-limit=-1",
        "--log-error-output-paths=stderr",
        "--ignore-dra-requests=false",
    ])
    .unwrap();
    assert_eq!(options.without_effect().len(), 2);
}

#[test]
fn the_documentation_names_every_flag_with_its_variable_and_default() {
    let page = include_str!("../../../../docs/settings.md");
    for argument in Options::command().get_arguments() {
        let flag = argument.get_long().unwrap();
        let variable = argument.get_env().unwrap().to_str().unwrap();
        let row = format!("| `--{flag}` | `{variable}` |");
        let line = page.lines().find(|line| line.starts_with(&row));
        let line = line.unwrap_or_else(|| panic!("docs/settings.md has no row that begins with {row}"));
        for default in argument.get_default_values() {
            let default = default.to_str().unwrap();
            let shown = default.is_empty()
                || default.split(',').all(|part| line.contains(part))
                    && line.contains(&format!("`{}", default.split(',').next().unwrap()));
            assert!(shown, "docs/settings.md: the row of --{flag} doesn't name its default {default}");
        }
    }
}
