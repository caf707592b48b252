use super::world::World;
use super::*;
use crate::ledger::observed::MachineSetView;
use karpenter_capi_model::reason::{ReasonCode, UnavailableReason};

fn with_claims(floor: i64, count: usize) -> World {
    let mut world = World::with_floor(floor);
    for index in 0..count {
        world.claim(&format!("c{index}"));
    }
    world.quiesce();
    world
}

fn machine_of(world: &mut World, claim: &str) -> String {
    world.machine_of(claim).machine.name.to_string()
}

fn ended(step: &Step) -> Vec<(String, EndReason)> {
    let ends = step.writes.iter().filter_map(|write| match write {
        Write::EndClaim { claim, reason, .. } => Some((claim.name.clone(), *reason)),
        _ => None,
    });
    ends.collect()
}

#[test]
fn claims_enter_together_in_one_patch() {
    let mut world = World::with_floor(2);
    (0..3).for_each(|index| world.claim(&format!("c{index}")));
    let step = world.observe();
    let [Write::UpdateLedger { ledger, replicas, .. }] = &step.writes[..] else {
        panic!("{:?}", step.writes)
    };
    assert_eq!((ledger.len(), *replicas), (3, Some(5)));
    world.quiesce();
    world.check(2);
}

#[test]
fn machines_that_were_there_before_are_never_bound() {
    let world = with_claims(3, 2);
    world.check(3);
    let old = world.machines.iter().filter(|machine| machine.created < at(0));
    assert!(old.clone().all(|machine| machine.claim.is_none()));
    assert_eq!(old.count(), 3);
}

#[test]
fn a_raise_is_at_most_fifty_until_its_machines_are_there() {
    let mut world = World::with_floor(0);
    (0..120).for_each(|index| world.claim(&format!("c{index:03}")));
    world.operate(1);
    assert_eq!(world.deployment.replicas, 50);
    world.operate(1);
    assert_eq!(world.deployment.replicas, 50, "raised again though no Machine was made");
    world.quiesce();
    world.check(0);
    assert_eq!(world.deployment.replicas, 120);
}

#[test]
fn exactly_the_machines_of_deleted_claims_go_though_they_are_neither_newest_nor_oldest() {
    let mut world = with_claims(2, 6);
    let going: Vec<String> = ["c1", "c3", "c4"].iter().map(|claim| machine_of(&mut world, claim)).collect();
    let staying: Vec<String> = ["c0", "c2", "c5"].iter().map(|claim| machine_of(&mut world, claim)).collect();
    for claim in ["c1", "c3", "c4"] {
        world.delete_claim(claim);
    }
    world.quiesce();
    world.check(2);
    let names: Vec<String> = world.machines.iter().map(|machine| machine.machine.name.to_string()).collect();
    assert!(
        going.iter().all(|name| !names.contains(name)) && staying.iter().all(|name| names.contains(name))
    );
    assert!(world.shrunk.is_empty(), "Cluster API chose a victim itself: {:?}", world.shrunk);
    assert_eq!(world.made, 8, "a Machine was made again");
}

#[test]
fn a_machine_is_not_deleted_before_its_node_is_drained() {
    let mut world = with_claims(0, 1);
    world.delete_claim("c0");
    assert!(world.observe().writes.is_empty());
}

#[test]
fn the_number_is_lowered_only_after_cluster_api_has_answered_the_deletion() {
    let mut world = with_claims(0, 2);
    world.delete_claim("c0");
    world.drain_all();
    world.operate(usize::MAX);
    assert!(world.machines.iter().any(|machine| machine.deleting));
    world.operate(usize::MAX);
    assert_eq!(world.deployment.replicas, 2);
    world.reconcile_machines();
    world.operate(usize::MAX);
    assert_eq!((world.deployment.replicas, world.deployment.ledger.len()), (1, 1));
}

#[test]
fn the_hook_stays_until_the_lower_number_has_settled() {
    let mut world = with_claims(0, 1);
    world.delete_claim("c0");
    world.drain_all();
    world.operate(usize::MAX);
    world.reconcile_machines();
    world.operate(usize::MAX);
    assert_eq!(world.deployment.replicas, 0);
    world.operate(usize::MAX);
    assert!(world.machines[0].hooked, "released though the MachineSet still wants a replica");
    world.reconcile_deployment();
    world.operate(usize::MAX);
    assert!(world.machines[0].hooked, "released though the MachineSet has not answered");
    world.reconcile_set(false);
    world.operate(usize::MAX);
    assert!(!world.machines[0].hooked);
}

// Public report karpenter-provider-cluster-api#70: each retry of a failed creation added a replica.
#[test]
fn an_operator_that_crashes_after_each_write_raises_once() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    for _ in 0..20 {
        world.operate(1);
    }
    assert_eq!(world.deployment.replicas, 2);
}

#[test]
fn a_claim_deleted_before_its_machine_appeared_gives_that_machine_back() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.operate(usize::MAX);
    world.delete_claim("c0");
    world.quiesce();
    world.check(1);
    assert!(world.shrunk.is_empty());
}

#[test]
fn an_entry_whose_machine_is_never_made_leaves_with_its_replica_after_thirty_seconds() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.operate(usize::MAX);
    world.delete_claim("c0");
    // The MachineSet has taken the number over but makes no Machine, as under a failing preflight check.
    world.reconcile_deployment();
    world.sets[0].observed = true;
    world.operate(usize::MAX);
    assert_eq!(world.deployment.replicas, 2, "left at once");
    world.now += 29;
    world.operate(usize::MAX);
    assert_eq!(world.deployment.replicas, 2, "left too early");
    world.now += 1;
    world.operate(usize::MAX);
    assert_eq!((world.deployment.replicas, world.deployment.ledger.len()), (1, 0));
}

// Found by the random walk: with a Machine just gone, its MachineSet was about to make the one that seemed to be missing.
#[test]
fn while_machines_are_going_no_entry_leaves_for_lack_of_one() {
    let mut world = with_claims(0, 1);
    world.claim("c1");
    world.operate(usize::MAX);
    world.delete_claim("c0");
    world.delete_claim("c1");
    world.drain_all();
    world.operate(usize::MAX);
    world.reconcile_machines();
    world.reconcile_deployment();
    // The deleting Machine takes the place of c1's: the MachineSet of two replicas is content with it and one more.
    world.machines.retain(|machine| machine.deleting);
    world.sets[0].observed = true;
    world.deployment.observed = true;
    for _ in 0..10 {
        world.now += 10;
        let step = world.observe();
        let left = step
            .writes
            .iter()
            .any(|write| matches!(write, Write::UpdateLedger { ledger, .. } if ledger.is_empty()));
        assert!(!left, "{:?}", step.writes);
    }
}

#[test]
fn a_living_claim_gets_the_machine_before_an_ending_one() {
    let mut world = World::with_floor(0);
    world.claim("c0");
    world.claim("c1");
    world.operate(usize::MAX);
    world.delete_claim("c0");
    world.make_machine("set-a", 0);
    let step = world.observe();
    assert!(matches!(&step.writes[0], Write::Bind { claim, .. } if claim.name == "c1"), "{:?}", step.writes);
}

#[test]
fn a_machine_that_can_not_be_bound_yet_holds_up_neither_other_bindings_nor_claims_that_want_to_enter() {
    let mut world = World::with_floor(0);
    world.claim("c0");
    world.claim("c1");
    world.operate(usize::MAX);
    for _ in 0..2 {
        world.make_machine("set-a", 0);
    }
    world.claim("c2");
    let writes = world.observe().writes;
    let [bind, record, other_bind, other_record, raise] = &writes[..] else { panic!("{writes:?}") };
    assert!(matches!(raise, Write::UpdateLedger { replicas: Some(3), .. }), "{raise:?}");
    assert!(matches!((bind, other_bind), (Write::Bind { .. }, Write::Bind { .. })), "{writes:?}");
    // A conflict on one Machine takes the note on its own claim with it, and nothing else.
    assert!(record.falls_with(bind));
    assert!(![raise, other_bind, other_record].iter().any(|write| write.falls_with(bind)));
    // One on the MachineDeployment is a picture that has changed.
    assert!(bind.falls_with(raise) && record.falls_with(raise));
}

#[test]
fn claims_beyond_the_maximum_size_end_for_lack_of_capacity() {
    let mut world = World::with_floor(1);
    world.deployment.max_size = Some(2);
    (0..3).for_each(|index| world.claim(&format!("c{index}")));
    let step = world.observe();
    let expected = ["c1", "c2"].map(|name| (name.to_owned(), EndReason::InsufficientCapacity));
    assert_eq!(ended(&step), expected);
    assert!(step.writes.iter().any(|write| matches!(write, Write::UpdateLedger { replicas: Some(2), .. })));
}

// Public report kubernetes/autoscaler#9345: a paused MachineDeployment was scaled.
#[test]
fn case_52_nothing_is_written_to_a_paused_machine_deployment() {
    let mut world = with_claims(0, 2);
    world.deployment.paused = Some("paused by its annotation".into());
    world.delete_claim("c0");
    world.drain_all();
    world.claim("c2");
    let step = world.observe();
    assert_eq!(ended(&step), [("c2".to_owned(), EndReason::InsufficientCapacity)]);
    assert_eq!(step.writes.len(), 1, "{:?}", step.writes);
    assert_eq!(step.waiting[0].message, "paused by its annotation");
}

#[test]
fn claims_of_an_unavailable_machine_deployment_end_and_bound_ones_stay() {
    let mut world = with_claims(0, 1);
    world.claim("c1");
    world.deployment.unavailable =
        Some(UnavailableReason { code: ReasonCode::Excluded, message: "excluded by its annotation".into() });
    assert_eq!(ended(&world.observe()), [("c1".to_owned(), EndReason::InsufficientCapacity)]);
}

// Public report openshift/hypershift#2106: another controller sets the replicas.
#[test]
fn case_62_when_somebody_lowers_below_our_claims_the_newest_unbound_one_ends_and_nothing_is_raised() {
    let mut world = with_claims(0, 2);
    world.claim("c2");
    world.now += 1;
    world.claim("c3");
    world.operate(1);
    assert_eq!(world.deployment.replicas, 4);
    world.claim("c4");
    world.scale(3);
    let step = world.observe();
    assert!(step.scaled_by_others);
    assert_eq!(ended(&step), [("c3".to_owned(), EndReason::ScaledByOthers)]);
    assert!(
        !step.writes.iter().any(|write| matches!(write, Write::UpdateLedger { .. })),
        "{:?}",
        step.writes
    );
}

#[test]
fn a_machine_that_somebody_deletes_is_not_remade_and_its_claim_ends_as_lost() {
    let mut world = with_claims(1, 2);
    let victim = machine_of(&mut world, "c0");
    world.machines.iter_mut().find(|machine| machine.machine.name.to_string() == victim).unwrap().deleting =
        true;
    assert_eq!(ended(&world.observe()), [("c0".to_owned(), EndReason::MachineLost)]);
    world.quiesce();
    world.check(1);
    assert_eq!(world.made, 3, "the lost Machine was made again");
}

#[test]
fn when_somebody_scales_down_and_takes_our_machine_the_number_is_not_lowered_again() {
    let mut world = with_claims(2, 1);
    // Cluster API takes the first by name: make that ours.
    let ours = machine_of(&mut world, "c0");
    for machine in &mut world.machines {
        machine.machine.name.name = format!(
            "{}-{}",
            if machine.machine.name.to_string() == ours { "a" } else { "z" },
            machine.machine.name.name
        );
    }
    world.claims[0].machine =
        Some(world.machines.iter().find(|machine| machine.claim.is_some()).unwrap().machine.name.clone());
    world.scale(2);
    world.reconcile_deployment();
    world.reconcile_set(false);
    assert_eq!(world.shrunk.len(), 1);
    world.quiesce();
    assert_eq!((world.deployment.replicas, world.machines.len(), world.claims.len()), (2, 2, 0));
    world.check(2);
}

#[test]
fn during_a_roll_out_a_drained_claim_waits() {
    let mut world = with_claims(0, 2);
    world.sets.push(MachineSetView {
        name: "set-b".into(),
        resource_version: "1".into(),
        created: at(50),
        revision: 2,
        replicas: 0,
        status_replicas: 1,
        observed: true,
    });
    world.delete_claim("c0");
    world.drain_all();
    let step = world.observe();
    assert!(step.writes.is_empty(), "{:?}", step.writes);
    assert_eq!(step.waiting.len(), 1);
}

#[test]
fn with_two_revisions_under_on_delete_only_machines_of_the_older_one_are_given_back() {
    let mut world = with_claims(0, 2);
    world.deployment.rolling_update = false;
    let newer = machine_of(&mut world, "c1");
    world.sets[0].replicas = 1;
    world.sets.push(MachineSetView {
        name: "set-b".into(),
        resource_version: "1".into(),
        created: at(50),
        revision: 2,
        replicas: 1,
        status_replicas: 1,
        observed: true,
    });
    world
        .machines
        .iter_mut()
        .find(|machine| machine.machine.name.to_string() == newer)
        .unwrap()
        .machine_set = Some("set-b".into());
    world.delete_claim("c0");
    world.delete_claim("c1");
    world.drain_all();
    let step = world.observe();
    let deleted: Vec<_> =
        step.writes.iter().filter(|write| matches!(write, Write::DeleteMachine { .. })).collect();
    assert_eq!(deleted.len(), 1);
    assert_eq!(step.waiting.iter().map(|waiting| waiting.claim.name.as_str()).collect::<Vec<_>>(), ["c1"]);
}
