//! One test for each defect of karpenter-provider-cluster-api (main at 2e0fec7) that concerns the ledger; and one for each hole that
//! the exploration found in giving back.

use super::world::World;
use super::*;

fn raises(step: &Step) -> usize {
    step.writes.iter().filter(|write| matches!(write, Write::UpdateLedger { replicas: Some(_), .. })).count()
}

#[test]
fn double_decrement_one_claim_lowers_once_however_often_it_is_looked_at() {
    let mut world = World::with_claims(3, &["c0", "c1"]);
    world.delete_claim("c0");
    world.drain_all();
    for _ in 0..3 {
        world.operate(usize::MAX);
    }
    world.reconcile_machines();
    for _ in 0..20 {
        // Cluster API answers nothing more, as with a paused or slow one.
        world.operate(usize::MAX);
    }
    assert_eq!((world.deployment.replicas, world.deployment.ledger.len()), (4, 1));
}

#[test]
fn replica_escalation_a_claim_whose_machine_does_not_appear_is_raised_for_once() {
    let mut world = World::with_floor(0);
    world.claim("c0");
    for _ in 0..20 {
        world.now += 60;
        world.operate(usize::MAX);
    }
    assert_eq!(world.deployment.replicas, 1);
}

#[test]
fn max_size_overrun_claims_that_come_together_are_held_to_the_maximum() {
    let mut world = World::with_floor(1);
    world.deployment.max_size = Some(2);
    (0..5).for_each(|index| world.claim(&format!("c{index}")));
    for _ in 0..10 {
        world.operate(1);
    }
    assert_eq!((world.deployment.replicas, world.deployment.ledger.len()), (2, 1));
}

#[test]
fn double_bind_a_stale_binding_of_a_machine_that_was_bound_meanwhile_fails() {
    let mut world = World::with_floor(0);
    world.claim("c0");
    world.claim("c1");
    world.operate(1);
    world.make_machine("set-a", 0);
    let stale = world.observe().writes.remove(0);
    assert!(matches!(&stale, Write::Bind { claim, .. } if claim.name == "c0"));
    world.operate(1);
    assert_eq!(world.write(stale), Err(()), "the Machine has changed since");
    world.quiesce();
    world.check(0);
}

#[test]
fn adoption_of_existing_nodes_machines_that_were_there_are_left_to_whoever_uses_them() {
    let mut world = World::with_floor(3);
    let there: Vec<String> = world.machines.iter().map(|machine| machine.machine.uid.clone()).collect();
    world.claim("c0");
    for _ in 0..5 {
        // Cluster API has made none yet: only those that were there could be had.
        world.operate(usize::MAX);
    }
    assert!(world.machines.iter().all(|machine| machine.claim.is_none()), "{:?}", world.machines);
    world.quiesce();
    assert!(!there.contains(&world.machine_of("c0").machine.uid));
    assert_eq!(world.deployment.replicas, 4);
}

#[test]
fn leak_a_claim_that_ends_before_it_has_a_provider_id_gives_its_machine_back() {
    // The ledger knows of no provider ID: a Machine is held by the claim's name on it alone.
    let mut world = World::with_claims(0, &["c0"]);
    world.delete_claim("c0");
    world.quiesce();
    world.check(0);
    assert_eq!((world.machines.len(), world.deployment.replicas), (0, 0));
}

#[test]
fn crash_between_machine_and_claim_the_binding_is_completed() {
    let mut world = World::with_floor(0);
    world.claim("c0");
    world.operate(1);
    world.make_machine("set-a", 0);
    world.operate(1);
    assert!(world.claims[0].machine.is_none() && world.machines[0].claim.is_some());
    let name = world.machines[0].machine.name.clone();
    let step = world.observe();
    assert!(
        matches!(&step.writes[..], [Write::RecordMachine { machine, .. }] if *machine == name),
        "{:?}",
        step.writes
    );
}

#[test]
fn deleted_outside_no_replacement_is_made_that_nobody_owns() {
    let mut world = World::with_claims(1, &["c0", "c1"]);
    world.machine_of("c0").deleting = true;
    world.quiesce();
    world.check(1);
    assert_eq!((world.deployment.replicas, world.made), (2, 3));
}

#[test]
fn roll_out_the_new_machine_has_a_claim_again() {
    let mut world = World::with_claims(0, &["c0"]);
    world.now += 100;
    world.newer_set(1);
    world.sets[0].replicas = 0;
    world.machine_of("c0").deleting = true;
    for _ in 0..6 {
        world.drain_all();
        world.operate(usize::MAX);
    }
    let new = world.machines.iter().find(|machine| machine.machine_set.as_deref() == Some("set-b")).unwrap();
    assert_eq!(new.claim.as_ref().map(|claim| claim.name.as_str()), Some("c0-next"));
    assert_eq!((world.deployment.replicas, world.deployment.ledger.to_string()), (1, "c0-next-uid-0".into()));
}

#[test]
fn list_fails_as_a_whole_one_machine_that_names_nonsense_stops_nothing() {
    let mut world = World::with_claims(0, &["c0"]);
    world.make_machine("set-a", 0);
    world.machines[1].claim = Some(ClaimRef { name: "no such".into(), uid: String::new() });
    world.machines[1].machine_set = None;
    world.deployment.replicas = 2;
    world.sets[0].replicas = 2;
    world.claim("c1");
    world.delete_claim("c0");
    world.drain_all();
    let step = world.observe();
    assert!(
        step.writes.iter().any(|write| matches!(write, Write::DeleteMachine { .. })),
        "{:?}",
        step.writes
    );
    assert_eq!(raises(&step), 1, "{:?}", step.writes);
}

#[test]
fn batch_of_one_caller_that_fails_is_made_again_for_the_others() {
    let mut world = World::with_floor(0);
    (0..3).for_each(|index| world.claim(&format!("c{index}")));
    let step = world.observe();
    // Somebody changes the MachineDeployment, and deletes the first claim: the one patch for all fails.
    world.scale(1);
    world.delete_claim("c0");
    assert!(step.writes.into_iter().all(|write| world.write(write).is_err()));
    world.quiesce();
    world.check(1);
    assert_eq!(world.claims.len(), 2);
}

#[test]
fn duplicates_a_machine_that_carries_the_name_of_a_claim_but_another_uid_is_not_its_machine() {
    let mut world = World::with_claims(0, &["c0"]);
    world.make_machine("set-a", 0);
    world.machines[1].claim = Some(ClaimRef { name: "c0".into(), uid: "c0 of another time".into() });
    world.machines[1].hooked = true;
    // It comes first, wherever one looks.
    world.machines.swap(0, 1);
    world.delete_claim("c0");
    world.drain_all();
    let own = world.machines[1].machine.uid.clone();
    let step = world.observe();
    let touched = step.writes.iter().filter_map(|write| match write {
        Write::DeleteMachine { machine } | Write::ExcludeDrain { machine } => Some(machine.uid.clone()),
        _ => None,
    });
    assert_eq!(touched.collect::<Vec<_>>(), [own.clone(), own]);
}

// Found by the exploration: the mark was taken as proof that the deletion was ours, and the number fell by two.
#[test]
fn a_scale_down_that_gets_our_machine_between_our_mark_and_our_deletion_is_not_lowered_for_again() {
    let mut world = World::with_claims(1, &["c0"]);
    world.delete_claim("c0");
    world.drain_all();
    world.operate(1);
    assert!(world.machine_of("c0").drain_excluded && !world.machine_of("c0").deleting);
    world.scale(1);
    world.reconcile_deployment();
    world.machine_of("c0").deleting = true;
    world.quiesce();
    world.check(1);
    assert_eq!((world.deployment.replicas, world.machines.len(), world.shrunk.len()), (1, 1, 0));
}

// Found by the exploration: Cluster API raises only when the held Machine is gone, and the hook waited until it had raised.
#[test]
fn claims_that_enter_while_a_machine_is_held_do_not_keep_its_hook_on() {
    let mut world = World::with_claims(1, &["c0"]);
    world.deployment.rolling_update = false;
    world.delete_claim("c0");
    world.drain_all();
    world.give_back();
    world.reconcile_deployment();
    world.claim("c1");
    world.operate(1);
    assert_eq!(world.deployment.replicas, 2);
    world.quiesce();
    world.check(1);
    assert_eq!((world.claims.len(), world.machines.len()), (1, 2));
}

// Found by the exploration: one patch for a Machine that somebody's scaling down had got was made while another's deletion wasn't
// answered yet, and its MachineSet took a healthy one for that.
#[test]
fn the_number_is_not_lowered_for_a_machine_whose_machine_set_may_not_know_that_it_goes() {
    let mut world = World::with_claims(1, &["c0", "c1"]);
    world.scale(2);
    world.reconcile_deployment();
    world.machine_of("c0").deleting = true;
    world.machine_of("c0").acknowledged = true;
    world.delete_claim("c0");
    world.delete_claim("c1");
    world.drain_all();
    let machine = world.machine_of("c1");
    (machine.deleting, machine.drain_excluded) = (true, true);
    let step = world.observe();
    assert!(
        !step.writes.iter().any(|write| matches!(write, Write::UpdateLedger { .. })),
        "{:?}",
        step.writes
    );
    world.machine_of("c1").acknowledged = true;
    let step = world.observe();
    let lowers = |write: &Write| matches!(write, Write::UpdateLedger { ledger, replicas: Some(1), .. } if ledger.is_empty());
    assert!(step.writes.iter().any(lowers), "{:?}", step.writes);
}

// Found by the exploration: of two MachineSets under OnDelete the older one had been lowered by somebody and had got our Machine; the
// new one was yet to make one, which looked like our Machine's replacement.
#[test]
fn a_machine_that_another_machine_set_has_yet_to_make_is_not_taken_for_the_replacement_of_ours() {
    let mut world = World::with_claims(1, &["c0"]);
    world.deployment.rolling_update = false;
    world.newer_set(0);
    world.sets[0].replicas = 1;
    world.sets[1].replicas = 1;
    world.machine_of("c0").deleting = true;
    world.machine_of("c0").acknowledged = true;
    world.delete_claim("c0");
    world.drain_all();
    let step = world.observe();
    assert!(
        matches!(&step.writes[..], [Write::UpdateLedger { ledger, replicas: None, .. }] if ledger.is_empty()),
        "{:?}",
        step.writes
    );
}

// Found by the exploration: under OnDelete the new MachineSet couldn't make its Machine, and lowering for that would have taken one of
// the old MachineSet.
#[test]
fn an_entry_whose_machine_a_newer_machine_set_has_yet_to_make_does_not_lower_the_older_one() {
    let mut world = World::with_floor(1);
    world.deployment.rolling_update = false;
    world.newer_set(0);
    world.claim("c0");
    world.operate(1);
    world.sets[1].replicas = 1;
    world.deployment.observed = true;
    world.delete_claim("c0");
    for _ in 0..10 {
        world.now += 10;
        let step = world.observe();
        assert_eq!(step.writes, []);
    }
    assert_eq!(world.observe().waiting.len(), 1);
    world.make_machine("set-b", world.now);
    assert!(matches!(&world.observe().writes[0], Write::Bind { claim, .. } if claim.name == "c0"));
}

// Found by the random walks when claims entered before Machines were bound: the Machine that was made for the first claim stayed behind as nobody's, as it was too old for the second.
#[test]
fn a_claim_that_comes_late_gets_the_newest_machine_and_leaves_the_older_one_to_whoever_may_have_it() {
    let mut world = World::with_floor(0);
    world.claim("early");
    world.operate(1);
    world.reconcile_all();
    world.now = 200;
    world.claim("late");
    // Binding meets a conflict, which holds up no claim that wants to enter.
    let raise = world.observe().writes.pop().unwrap();
    assert!(matches!(raise, Write::UpdateLedger { replicas: Some(2), .. }), "{raise:?}");
    world.write(raise).unwrap();
    world.reconcile_all();
    assert_eq!(world.machines.iter().filter(|machine| machine.claim.is_none()).count(), 2);
    world.quiesce();
    world.check(0);
    assert_eq!((world.machine_of("early").created, world.machine_of("late").created), (at(0), at(200)));
}
