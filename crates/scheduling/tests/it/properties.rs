//! What holds for every input.

use crate::support::*;
use karpenter_capi_model::price::Price;
use karpenter_capi_scheduling::input::Input;
use karpenter_capi_scheduling::plan::Plan;
use proptest::prelude::*;
use std::sync::Arc;

/// CPU, GiB, cents, zone (2: none), headroom.
type TypeSpec = (u8, u8, Option<u8>, u8, Option<u8>);

#[derive(Clone, Debug)]
struct Spec {
    types: Vec<TypeSpec>,
    pods: Vec<(u16, u16, u8, u8)>,
    nodes: Vec<(u8, u8)>,
    daemons: Vec<(u16, u8)>,
    pools: Vec<(u8, u8, Option<u8>)>,
}

fn specs() -> impl Strategy<Value = Spec> {
    let types = prop::collection::vec(
        (1..17_u8, 1..33_u8, prop::option::of(1..90_u8), 0..3_u8, prop::option::of(0..4_u8)),
        1..7,
    );
    let pods = prop::collection::vec((50..6000_u16, 50..9000_u16, 0..5_u8, 0..8_u8), 0..30);
    let nodes = prop::collection::vec((1..9_u8, 0..3_u8), 0..4);
    let daemons = prop::collection::vec((50..600_u16, 0..4_u8), 0..3);
    let pools = prop::collection::vec((0..4_u8, 0..4_u8, prop::option::of(1..40_u8)), 1..4);
    (types, pods, nodes, daemons, pools).prop_map(|(types, pods, nodes, daemons, pools)| Spec {
        types,
        pods,
        nodes,
        daemons,
        pools,
    })
}

fn pod_of(index: usize, spec: (u16, u16, u8, u8)) -> PodOf {
    let (cpu, memory, zone, extra) = spec;
    let plain = pod(&format!("p{index}"), &format!("cpu={cpu}m memory={memory}Mi"));
    let placed = match zone {
        0..=2 => plain.selects(ZONE, &format!("z{zone}")),
        3 => plain.requires(ZONE, "In", &["z0"]).requires(ZONE, "NotIn", &["z0", "z1"]),
        _ => plain,
    };
    match extra {
        0 => placed.tolerates("dedicated=x"),
        1 => placed.tolerates("*"),
        2 => placed.prefers(5, ZONE, "In", &["z1"]).prefers(1, "team", "In", &["blue"]),
        3 => placed.selects("team", "red").tolerates("dedicated=x"),
        4 => placed.requires("kubernetes.io/hostname", "NotIn", &["n0"]),
        _ => placed,
    }
}

fn build(spec: &Spec, with_limits: bool) -> Input {
    let types: Vec<Md> = spec
        .types
        .iter()
        .enumerate()
        .map(|(index, (cpu, memory, price, zone, headroom))| {
            let mut one = md(&format!("m{index}"), &format!("cpu={cpu} memory={memory}Gi"));
            if let Some(price) = price {
                one = one.price(&format!("0.{price:02}"));
            }
            if *zone < 2 {
                one = one.zone(&format!("z{zone}"));
            }
            one.0.headroom = headroom.filter(|_| with_limits).map(i64::from);
            if index % 5 == 4 { one.taint("edge:PreferNoSchedule") } else { one }
        })
        .collect();
    let mut world = world();
    if with_limits {
        world.0.options.max_instance_types = 3;
    }
    for (index, (kind, weight, limit)) in spec.pools.iter().enumerate() {
        let mut one = pool(&format!("pool{index}"));
        if *weight > 0 && with_limits {
            one = one.weight(i32::from(*weight));
        }
        one = match kind {
            1 => one.taint("dedicated=x:NoSchedule").requires("team", "Exists", &[]),
            2 => one.taint("soft:PreferNoSchedule"),
            3 if with_limits => one.min_values("node.kubernetes.io/instance-type", 2),
            _ => one,
        };
        if let (Some(limit), true) = (limit, with_limits) {
            one = one.limit("cpu", &limit.to_string()).limit("nodes", &(limit / 4).to_string());
        }
        world = world.pool(one, &types);
    }
    for (index, (cpu, zone)) in spec.nodes.iter().enumerate() {
        let mut one = node(&format!("n{index}"), &format!("cpu={cpu} memory=8Gi"));
        one.labels.insert(ZONE.to_owned(), format!("z{zone}"));
        world = world.node(one);
    }
    for (index, (cpu, kind)) in spec.daemons.iter().enumerate() {
        let one = pod(&format!("d{index}"), &format!("cpu={cpu}m"));
        let one = match kind {
            0 => one.tolerates("*"),
            1 => one.selects(ZONE, "z0"),
            2 => one.requires(ZONE, "In", &["z1"]).requires(ZONE, "DoesNotExist", &[]),
            _ => one,
        };
        world = world.daemon_set(&one, &[]);
    }
    for (index, spec) in spec.pods.iter().enumerate() {
        world = world.pod(pod_of(index, *spec));
    }
    world.0
}

fn total(plan: &Plan) -> Price {
    plan.node_claims.iter().filter_map(|claim| claim.chosen()?.offering.price).sum()
}

/// A permutation from a seed, without a random generator.
pub(crate) fn shuffle<T>(list: &mut [T], seed: u64) {
    let mut state = seed | 1;
    for index in (1..list.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list.swap(index, usize::try_from((state >> 33) % (index as u64 + 1)).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn audit_finds_nothing_and_the_order_of_input_never_matters(spec in specs(), seed in any::<u64>()) {
        let input = build(&spec, true);
        let plan = solved(&input);
        let mut shuffled = input.clone();
        shuffle(&mut shuffled.pods, seed);
        shuffle(&mut shuffled.nodes, seed);
        shuffle(&mut shuffled.daemon_pods, seed);
        shuffle(&mut shuffled.node_pools, seed);
        for types in shuffled.instance_types.values_mut() {
            shuffle(types, seed);
        }
        for pod in &mut shuffled.pods {
            let mut turned = (**pod).clone();
            turned.required_node_affinity.reverse();
            turned.preferred_node_affinity.reverse();
            *pod = Arc::new(turned);
        }
        prop_assert_eq!(solved(&shuffled), plan);
    }

    #[test]
    fn one_dearer_type_never_lowers_the_price_of_a_single_claim(spec in specs(), which in 0..6_usize, more in 1..50_u8) {
        // For one pod the choice is the cheapest type that serves. (With several pods the packing may change, and the
        // total with it, either way.)
        let mut spec = spec;
        spec.pods.truncate(1);
        let input = build(&spec, false);
        let which = which % spec.types.len();
        let before = solved(&input);
        if let Some(price) = &mut spec.types[which].2 {
            *price = price.saturating_add(more).min(99);
        }
        let after = solved(&build(&spec, false));
        prop_assert!(total(&after) >= total(&before));
        prop_assert_eq!(after.pending.len(), before.pending.len());
    }

    #[test]
    fn a_dearer_type_never_lowers_the_total(spec in specs(), which in 0..6_usize, more in 1..50_u8) {
        // Without limits, and without alternatives, of which the cheaper one is taken: then prices decide what is launched and not how
        // pods are packed. Types without a price are left out of the total, so that all have one.
        let mut spec = spec;
        for pod in spec.pods.iter_mut().filter(|pod| pod.2 == 3) {
            pod.2 = 4;
        }
        for price in spec.types.iter_mut().map(|one| &mut one.2) {
            *price = price.or(Some(50));
        }
        let before = solved(&build(&spec, false));
        let which = which % spec.types.len();
        spec.types[which].2 = spec.types[which].2.map(|price| price.saturating_add(more).min(99));
        let after = solved(&build(&spec, false));
        prop_assert!(total(&after) >= total(&before));
        prop_assert_eq!(after.pending.len(), before.pending.len());
    }

    #[test]
    fn a_pod_that_a_new_node_would_serve_is_never_stranded(spec in specs()) {
        // Without limits. Pods that only an existing node can serve may lose it to others: packing is greedy.
        let input = build(&spec, false);
        for pending in solved(&input).pending {
            let mut alone = input.clone();
            alone.nodes.clear();
            alone.pods.retain(|pod| pod.name == pending.pod);
            prop_assert_eq!(solved(&alone).pending.len(), 1, "{} was stranded", pending.pod);
        }
    }

    #[test]
    fn a_further_type_never_strands_a_pod(spec in specs(), cpu in 1..33_u8) {
        // Without limits and preferences.
        let mut spec = spec;
        spec.types.truncate(4);
        for pod in &mut spec.pods {
            pod.3 = if pod.3 == 2 { 5 } else { pod.3 };
        }
        for pool in &mut spec.pools {
            pool.0 %= 2;
        }
        let before = solved(&build(&spec, false));
        spec.types.insert(0, (cpu, 32, Some(1), 2, None));
        let after = solved(&build(&spec, false));
        for pending in after.pending {
            let also_before = before.pending.iter().any(|one| one.pod == pending.pod);
            prop_assert!(also_before, "{} was stranded", pending.pod);
        }
    }
}
