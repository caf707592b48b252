//! Cases from public reports about topology, host ports and volumes, by their numbers there.

use crate::support::*;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_scheduling::input::VolumeClaim;
use serde_json::{Value, json};

const HOST: &str = "kubernetes.io/hostname";

fn zones(cpu: &str) -> Vec<Md> {
    (1..4).map(|zone| md(&format!("m{zone}"), cpu).price("0.2").zone(&format!("z{zone}"))).collect()
}

fn port(pod: PodOf, number: u16) -> PodOf {
    let requests = pod.0["spec"]["containers"][0]["resources"].clone();
    pod.spec(
        "containers",
        json!([{"name": "c", "resources": requests, "ports": [{"containerPort": 80, "hostPort": number}]}]),
    )
}

/// kubernetes-sigs/karpenter#2785
#[test]
fn zones_that_an_empty_tainted_pool_could_provide_are_domains() {
    let run = |min_domains: i32| {
        pod("run", "cpu=3 memory=4Gi")
            .label("app", "run")
            .selects("karpenter.sh/nodepool", "ci")
            .tolerates("ci=true")
            .spreads(ZONE, 1, "run", json!({"minDomains": min_domains}))
    };
    let base = || world().pool(pool("ci").taint("ci=true:NoSchedule"), &zones("cpu=4 memory=16Gi"));
    let three = base().pods(3, &run(3)).solve();
    let mut types = three.types();
    types.sort_unstable();
    assert_eq!((types, three.pending()), (vec!["m1", "m2", "m3"], vec![]));
    let four = base().pods(4, &run(4)).solve();
    assert_eq!((four.types().len(), four.pending().len()), (3, 1));
    assert!(four.reasons(four.pending()[0])[0].starts_with("Topology: "));
}

/// Azure/karpenter-provider-azure#1384
#[test]
fn a_type_without_a_zone_adds_no_domain_and_takes_no_pod_that_is_spread() {
    let mut types = zones("cpu=4 memory=16Gi");
    types.push(md("m9", "cpu=4 memory=16Gi").price("0.01"));
    let mut base = world().pool(pool("p"), &types);
    for zone in 1..4 {
        let mut full = node(&format!("n{zone}"), "cpu=1");
        full.labels.insert(ZONE.to_owned(), format!("z{zone}"));
        base =
            base.node(full).bound(&format!("n{zone}"), pod(&format!("b{zone}"), "cpu=1").label("app", "web"));
    }
    let web = pod("web", "cpu=3 memory=1Gi").label("app", "web").spreads(ZONE, 1, "web", Value::Null);
    let answer = base.pods(5, &web).solve();
    let mut types = answer.types();
    types.sort_unstable();
    assert_eq!(types.len(), 5);
    assert!(!types.contains(&"m9"), "{types:?}");
    let most = ["m1", "m2", "m3"].map(|name| types.iter().filter(|one| **one == name).count());
    assert!(most.iter().all(|count| (1..=2).contains(count)), "{types:?}");
}

/// kubernetes-sigs/karpenter#3146
#[test]
fn a_label_with_an_empty_value_is_a_domain() {
    let key = "node-role.kubernetes.io/worker";
    let spread = pod("a", "cpu=1").label("app", "a").spreads(key, 1, "a", Value::Null);
    let labelled = md("m1", "cpu=4 memory=16Gi").zone("z1").label(key, "");
    assert_eq!(world().pool(pool("p"), &[labelled]).pods(2, &spread).solve().claims(), ["p/m1: a-0 a-1"]);
    // Without the label there is no domain.
    let bare = md("m1", "cpu=4 memory=16Gi").zone("z1");
    assert_eq!(world().pool(pool("p"), &[bare]).pods(2, &spread).solve().pending().len(), 2);
}

/// kubernetes-sigs/karpenter#2623
#[test]
fn values_that_only_another_pool_offers_are_no_domains_for_a_pod_that_can_not_go_there() {
    let m1 = [md("m1", "cpu=4 memory=16Gi")];
    let mut full = node("n", "cpu=3");
    full.labels
        .extend([("capacity-spread".to_owned(), "1".to_owned()), ("workload".to_owned(), "app".to_owned())]);
    let x = pod("x", "cpu=3").label("app", "x").selects("workload", "app").tolerates("workload=app").spreads(
        "capacity-spread",
        1,
        "x",
        Value::Null,
    );
    let answer = world()
        .pool(
            pool("a").label("workload", "app").taint("workload=app:NoSchedule").requires(
                "capacity-spread",
                "In",
                &["1"],
            ),
            &m1,
        )
        .pool(pool("b").requires("capacity-spread", "In", &["2", "3"]), &m1)
        .node(full)
        .bound("n", pod("old", "cpu=3").label("app", "x"))
        .pods(2, &x)
        .solve();
    assert_eq!(answer.claims(), ["a/m1: x-0", "a/m1: x-1"]);
}

/// kubernetes-sigs/karpenter#2123
#[test]
fn the_order_of_terms_never_changes_how_many_nodes_a_spread_makes() {
    let base = || world().pool(pool("p").label("role", "stable"), &[md("m1", "cpu=8 memory=32Gi")]);
    let n = || pod("n", "cpu=500m memory=512Mi").label("app", "n").spreads(HOST, 4, "n", Value::Null);
    let one_way = n().requires("role2", "In", &["worker"]).requires("role", "In", &["stable"]);
    let other_way = n().requires("role", "In", &["stable"]).requires("role2", "In", &["worker"]);
    for pods in [one_way, other_way] {
        assert_eq!(base().pods(4, &pods).solve().claims(), ["p/m1: n-0 n-1 n-2 n-3"]);
    }
}

/// kubernetes-sigs/karpenter#3022
#[test]
fn host_ports_are_taken_on_one_node_only() {
    let answer = world()
        .pool(pool("p"), &[md("m", "cpu=4")])
        .daemon_set(&port(pod("ds", "cpu=100m"), 9100), &[])
        .pods(3, &port(pod("p", "cpu=1"), 9000))
        .solve();
    assert_eq!(answer.claims(), ["p/m: p-0", "p/m: p-1", "p/m: p-2"]);
    // What the DaemonSet takes is taken everywhere.
    let clash = world()
        .pool(pool("p"), &[md("m", "cpu=4")])
        .daemon_set(&port(pod("ds", "cpu=100m"), 9100), &[])
        .pod(port(pod("w", "cpu=1"), 9100))
        .solve();
    assert_eq!(clash.reasons("w"), ["HostPorts: host port 9100/TCP is taken by a DaemonSet"]);
}

/// kubernetes-sigs/karpenter#2915
#[test]
fn a_limit_of_nodes_holds_within_one_pass() {
    let mut base = world().pool(pool("p").limit("nodes", "3").uses("cpu=8", 2), &[md("m", "cpu=4")]);
    for index in 0..2 {
        let mut own = node(&format!("n{index}"), "cpu=4");
        own.node_pool = Some("p".to_owned());
        base =
            base.node(own).bound(&format!("n{index}"), pod(&format!("b{index}"), "cpu=1").label("app", "w"));
    }
    let answer = base.pods(3, &pod("w", "cpu=1").label("app", "w").repels("w")).solve();
    assert_eq!((answer.types(), answer.pending().len()), (vec!["m"], 2));
    assert_eq!(answer.reasons(answer.pending()[0]), ["Limits: limit nodes=3 reached (in use 3)"]);
}

/// kubernetes/autoscaler#8161
#[test]
fn pods_spread_over_zones_share_nodes_and_pods_spread_over_hosts_do_not() {
    let types = zones("cpu=8");
    let by_zone = pod("s", "cpu=1").label("app", "s").spreads(ZONE, 1, "s", Value::Null);
    let answer = world().pool(pool("p"), &types).pods(12, &by_zone).solve();
    let counts: Vec<usize> = answer.0.node_claims.iter().map(|claim| claim.pods.len()).collect();
    assert_eq!(counts, [4, 4, 4]);
    let by_host = pod("s", "cpu=1").label("app", "s").spreads(HOST, 1, "s", Value::Null);
    assert_eq!(world().pool(pool("p"), &types).pods(12, &by_host).solve().types().len(), 12);
}

/// aws/karpenter-provider-aws#1795
#[test]
fn a_pod_whose_volume_is_missing_stays_alone_and_a_bound_volume_says_where_its_pod_goes() {
    let mounts = |name: &str, claim: &str| {
        pod(name, "cpu=1")
            .spec("volumes", json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]))
    };
    let mut base = world()
        .pool(pool("p"), &zones("cpu=4"))
        .pod(mounts("a", "gone"))
        .pod(pod("b", "cpu=1"))
        .pod(mounts("d", "st"));
    let there: karpenter_capi_model::requirements::Requirements =
        [Requirement::one_of(ZONE, &["z3"])].into_iter().collect();
    base.0.volumes.claims.insert(
        NamespacedName::new("default", "st"),
        VolumeClaim::Usable { alternatives: vec![there], driver: None },
    );
    let answer = base.solve();
    assert_eq!(answer.claims(), ["p/m3: b d"]);
    assert_eq!(answer.reasons("a"), ["VolumeMissing: PersistentVolumeClaim default/gone not found"]);
}

/// kubernetes-sigs/karpenter#1208
#[test]
fn an_affinity_over_the_pool_leads_into_it_and_no_restricted_key_gets_into_a_claim() {
    let mut full = node("n", "cpu=1");
    full.labels.insert("karpenter.sh/nodepool".to_owned(), "p".to_owned());
    let answer = world()
        .pool(pool("p"), &[md("m", "cpu=8")])
        .pool(pool("q").weight(10), &[md("m", "cpu=8")])
        .node(full)
        .bound("n", pod("old", "cpu=1").label("app", "a"))
        .pod(pod("a", "cpu=1").selects("karpenter.sh/registered", "true"))
        .pod(pod("b", "cpu=1").wants_in("karpenter.sh/nodepool", "a"))
        .pod(pod("c", "cpu=1").selects("karpenter.sh/nodepool", "p"))
        .solve();
    assert_eq!(answer.claims(), ["p/m: b c"]);
    assert!(answer.reasons("a").iter().all(|why| why.contains("use karpenter.sh/nodepool")));
}

/// aws/karpenter-provider-aws#8496
#[test]
fn a_missing_selector_matches_nothing_and_an_empty_one_everything() {
    let z = |selector: Value| {
        let mut constraint = json!({"topologyKey": HOST, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"});
        if !selector.is_null() {
            constraint["labelSelector"] = selector;
        }
        pod("z", "cpu=500m").label("app", "z").spec("topologySpreadConstraints", json!([constraint]))
    };
    let nodes = |selector: Value| {
        world().pool(pool("p"), &[md("m", "cpu=8")]).pods(3, &z(selector)).solve().types().len()
    };
    assert_eq!(nodes(Value::Null), 1);
    assert_eq!(nodes(json!({})), 3);
    assert_eq!(nodes(json!({"matchLabels": {"app": "{{ bad }}"}})), 1);
}

#[test]
fn pods_that_keep_away_from_each_other_by_zone_all_find_one_in_one_pass() {
    // Upstream leaves all but the first for later passes, as that one might still be in any zone.
    let web = pod("w", "cpu=1").label("app", "w").repels_in(ZONE, "w");
    let answer = world().pool(pool("p"), &zones("cpu=4")).pods(4, &web).solve();
    let mut types = answer.types();
    types.sort_unstable();
    assert_eq!((types, answer.pending().len()), (vec!["m1", "m2", "m3"], 1));
}

#[test]
fn pods_that_want_each_other_go_where_the_first_has_gone() {
    let together = pod("w", "cpu=3").label("app", "w").wants_in(ZONE, "w");
    let answer = world().pool(pool("p"), &zones("cpu=4")).pods(3, &together).solve();
    assert_eq!(answer.types(), ["m1", "m1", "m1"]);
    let by_host = pod("w", "cpu=1").label("app", "w").wants_in(HOST, "w");
    let answer = world().pool(pool("p"), &zones("cpu=2")).pods(3, &by_host).solve();
    assert_eq!((answer.types().len(), answer.pending().len()), (1, 1), "two fit on the host of the first");
}

#[test]
fn a_claim_stays_open_until_somebody_asks_where_it_is() {
    // The first pod would be launched in z1. The second, larger one is cheaper in z2, and both go there.
    let types = [
        md("small", "cpu=2").price("0.10").zone("z1"),
        md("big1", "cpu=8").price("0.90").zone("z1"),
        md("big2", "cpu=8").price("0.50").zone("z2"),
    ];
    let first = pod("a", "cpu=1100m").label("app", "a").wants_in(ZONE, "a");
    let answer = world().pool(pool("p"), &types).pod(first).pod(pod("b", "cpu=1")).solve();
    assert_eq!(answer.claims(), ["p/big2: a b"]);
}
