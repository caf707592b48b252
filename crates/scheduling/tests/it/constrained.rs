//! Random worlds of pods that constrain each other: whatever is decided, `audit` finds nothing wrong.

use crate::properties::shuffle;
use crate::support::*;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_scheduling::input::{PreferencePolicy, VolumeClaim};
use karpenter_capi_scheduling::solve;
use proptest::prelude::*;
use serde_json::json;

const HOST: &str = "kubernetes.io/hostname";
const APPS: [&str; 3] = ["a", "b", "c"];

/// App, kind of constraint and its details, processor time in tenths.
type PodSpec = (u8, u8, u8, u8);

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and any combination happens")]
struct Spec {
    /// Processors, zone (3: none), headroom.
    types: Vec<(u8, u8, Option<u8>)>,
    /// Zone (3: none), and whether the node goes away.
    nodes: Vec<(u8, bool)>,
    bound: Vec<(u8, PodSpec)>,
    pods: Vec<PodSpec>,
    daemon_with_port: bool,
    several_racks_for_one_pool: bool,
    second_pool: bool,
    ignore_preferences: bool,
}

fn specs() -> impl Strategy<Value = Spec> {
    let pod = (0..3_u8, 0..18_u8, any::<u8>(), 1..15_u8);
    (
        prop::collection::vec((1..6_u8, 0..4_u8, prop::option::of(0..4_u8)), 1..6),
        prop::collection::vec((0..4_u8, prop::bool::weighted(0.15)), 0..5),
        prop::collection::vec((0..5_u8, pod.clone()), 0..8),
        prop::collection::vec(pod, 1..16),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.2),
    )
        .prop_map(
            |(
                types,
                nodes,
                bound,
                pods,
                daemon_with_port,
                several_racks_for_one_pool,
                second_pool,
                ignore_preferences,
            )| Spec {
                types,
                nodes,
                bound,
                pods,
                daemon_with_port,
                several_racks_for_one_pool,
                second_pool,
                ignore_preferences,
            },
        )
}

fn with_port(pod: PodOf, number: u16) -> PodOf {
    let mut pod = pod;
    pod.0["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": number}]);
    pod
}

/// The pod's one term is about all namespaces.
fn everywhere(mut pod: PodOf, kind: &str) -> PodOf {
    pod.0["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"][0]["namespaceSelector"] =
        json!({});
    pod
}

fn mounts(pod: PodOf, claims: &[String]) -> PodOf {
    let volumes: Vec<_> = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}))
        .collect();
    pod.spec("volumes", json!(volumes))
}

fn pod_of(name: &str, (app, kind, detail, cpu): PodSpec) -> PodOf {
    let of = |number: u8| APPS[usize::from(number % 3)];
    let plain = pod(name, &format!("cpu={cpu}00m")).label("app", of(app));
    let key = if detail.is_multiple_of(2) { ZONE } else { HOST };
    let skew = i32::from(detail / 2 % 2) + 1;
    let other = of(detail / 4);
    match kind {
        0 | 1 => plain.spreads(key, skew, of(app), json!({})),
        2 => plain.spreads(ZONE, skew, other, json!({"minDomains": detail / 16 % 4 + 1})),
        3 => plain
            .spreads(
                ZONE,
                skew,
                of(app),
                json!({"nodeTaintsPolicy": "Honor", "nodeAffinityPolicy": "Ignore"}),
            )
            .selects(ZONE, &format!("z{}", detail / 8 % 3)),
        4 => plain.spreads(ZONE, skew, of(app), json!({})).spreads(HOST, 1, of(app), json!({})),
        5 => plain.repels_in(key, other),
        6 => plain.wants_in(key, of(app)),
        7 => plain.wants_in(key, other),
        8 => plain.wants_in(ZONE, other).repels_in(HOST, of(app)),
        9 => with_port(plain, 8000 + u16::from(detail % 3)),
        10 => mounts(plain, &[format!("v{}", detail % 4)]),
        11 => plain.spreads(ZONE, 1, of(app), json!({"whenUnsatisfiable": "ScheduleAnyway"})),
        12 => plain.tolerates("dedicated=x").spreads("rack", 1, of(app), json!({})),
        13 => plain.tolerates("dedicated=x").selects("team", "blue").spreads(key, skew, of(app), json!({})),
        14 => plain.in_namespace("other").repels_in(key, other),
        15 => everywhere(plain.repels_in(key, other), "podAntiAffinity"),
        16 => everywhere(plain.in_namespace("other").wants_in(ZONE, other), "podAffinity"),
        _ => plain,
    }
}

fn build(spec: &Spec) -> World {
    let mut world = world();
    if spec.ignore_preferences {
        world.0.options.preference_policy = PreferencePolicy::Ignore;
    }
    let types: Vec<Md> = (0..)
        .zip(&spec.types)
        .map(|(index, (cpu, zone, headroom))| {
            let mut one = md(&format!("m{index}"), &format!("cpu={cpu}")).price(&format!("0.{index}"));
            one.0.headroom = headroom.map(i64::from);
            if *zone < 3 { one.zone(&format!("z{zone}")) } else { one }
        })
        .collect();
    let pool = if spec.several_racks_for_one_pool {
        pool("p").requires("rack", "In", &["r1", "r2"])
    } else {
        pool("p")
    };
    world = world.pool(pool, &types);
    if spec.second_pool {
        let of_team = self::pool("team").weight(1).label("team", "blue").taint("dedicated=x:NoSchedule");
        world = world.pool(of_team.requires("rack", "In", &["r1", "r3"]), &types);
    }
    for (index, (zone, going)) in spec.nodes.iter().enumerate() {
        let mut one = node(&format!("n{index}"), "cpu=3");
        one.marked_for_deletion = *going;
        if *zone < 3 {
            one.labels.insert(ZONE.to_owned(), format!("z{zone}"));
        }
        world = world.node(one);
        let limits = [("csi.example".to_owned(), 2)].into();
        world.0.volumes.attach_limits.insert(format!("n{index}"), limits);
    }
    if spec.daemon_with_port {
        world = world.daemon_set(&with_port(pod("d", "cpu=100m"), 8000), &[]);
    }
    for (index, (place, one)) in spec.bound.iter().enumerate() {
        let Some(place) = usize::from(*place).checked_rem(spec.nodes.len()) else { continue };
        let name = format!("bound{index}");
        let one = pod_of(&name, *one);
        // Pods of nodes that go are to be placed anew.
        if spec.nodes[place].1 {
            world = world.pod(one.clone());
        }
        world = world.bound(&format!("n{place}"), one);
    }
    for (index, one) in spec.pods.iter().enumerate() {
        world = world.pod(pod_of(&format!("p{index}"), *one));
    }
    for index in 0..3 {
        let place = |zone: &str| [Requirement::one_of(ZONE, &[zone])].into_iter().collect();
        let alternatives = (0..index).map(|zone| place(&format!("z{zone}"))).collect();
        let claim = VolumeClaim::Usable { alternatives, driver: Some("csi.example".to_owned()) };
        world.0.volumes.claims.insert(NamespacedName::new("default", format!("v{index}")), claim);
    }
    let gone = VolumeClaim::Unusable("gone".to_owned());
    world.0.volumes.claims.insert(NamespacedName::new("default", "v3"), gone);
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pods_that_constrain_each_other_are_placed_right_whatever_the_order(spec in specs(), seed in any::<u64>()) {
        let input = build(&spec).0;
        let plan = solved(&input);
        let mut shuffled = input;
        shuffle(&mut shuffled.pods, seed);
        shuffle(&mut shuffled.nodes, seed);
        shuffle(&mut shuffled.node_pools, seed);
        for types in shuffled.instance_types.values_mut() {
            shuffle(types, seed);
        }
        for pods in shuffled.bound_pods.values_mut() {
            shuffle(pods, seed);
        }
        prop_assert_eq!(solve(&shuffled), plan);
    }
}
