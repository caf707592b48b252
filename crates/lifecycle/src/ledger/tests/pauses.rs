//! Our own pause: one Machine out of a MachineSet that isn't the oldest.

use super::world::World;
use super::*;

/// `OnDelete`: one Machine that isn't ours in the older MachineSet; two claims with theirs in the newer one, of which c0 is drained.
fn mixed() -> World {
    let mut world = World::with_floor(1);
    world.deployment.rolling_update = false;
    world.newer_set(2);
    world.deployment.replicas = 3;
    for name in ["c0", "c1"] {
        world.claim(name);
        let entry = world.claim_named(name).entry.clone();
        world.deployment.ledger = world.deployment.ledger.changed([&entry], []);
    }
    world.operate(usize::MAX);
    world.delete_claim("c0");
    world.drain_all();
    world
}

fn writes(world: &mut World) -> Vec<Write> {
    world.observe().writes
}

#[test]
fn the_pause_goes_step_by_step_and_each_waits_for_cluster_api() {
    let mut world = mixed();
    let [Write::ExcludeDrain { .. }, Write::Pause { pause, .. }] = &writes(&mut world)[..] else {
        panic!("{:?}", writes(&mut world))
    };
    assert_eq!(
        (pause.machine_set.as_str(), pause.target, pause.claim_uid.as_str()),
        ("set-b", 1, "c0-uid-000000000000")
    );
    world.operate(usize::MAX);
    assert_eq!(writes(&mut world), [], "before Cluster API has seen the pause");
    world.reconcile_deployment();
    let going = world.machine_of("c0").machine.uid.clone();
    assert!(matches!(&writes(&mut world)[..], [Write::MarkMachine { machine }] if machine.uid == going));
    world.operate(usize::MAX);
    assert!(
        matches!(&writes(&mut world)[..], [Write::ScaleMachineSet { name, replicas: 1, .. }] if name == "set-b")
    );
    world.operate(usize::MAX);
    assert_eq!(writes(&mut world), [], "before the MachineSet has taken the Machine");
    world.reconcile_set(false);
    let [Write::UpdateLedger { ledger, replicas: Some(2), end_pause: true, .. }] = &writes(&mut world)[..]
    else {
        panic!("{:?}", writes(&mut world))
    };
    assert_eq!(ledger.to_string(), "c1-uid-000000");
    world.operate(usize::MAX);
    assert!(
        !writes(&mut world).iter().any(|write| matches!(write, Write::ReleaseHook { .. })),
        "before the number has settled"
    );
    world.reconcile_deployment();
    assert!(
        matches!(&writes(&mut world)[..], [Write::ReleaseHook { machine }] if machine.uid == going),
        "{:?} {:?} {:?}",
        world.deployment,
        world.sets,
        world.machines
    );
    world.quiesce();
    world.check(1);
}

#[test]
fn a_pause_is_gone_through_to_its_end_by_an_operator_that_crashes_after_each_write() {
    let mut world = mixed();
    let (going, staying) =
        (world.machine_of("c0").machine.uid.clone(), world.machine_of("c1").machine.uid.clone());
    for _ in 0..30 {
        world.at_rest_since = None;
        world.operate(1);
        world.reconcile_all();
    }
    world.check(1);
    let left: Vec<&str> = world.machines.iter().map(|machine| machine.machine.uid.as_str()).collect();
    assert!(left.contains(&staying.as_str()) && !left.contains(&going.as_str()), "{left:?}");
    assert_eq!((world.made, world.shrunk.len()), (3, 1), "another Machine was taken, or one made again");
    assert!(world.deployment.own_pause.is_none());
}

#[test]
fn when_a_person_lifts_our_pause_only_the_note_is_removed_and_it_begins_anew() {
    let mut world = mixed();
    world.operate(usize::MAX);
    world.deployment.own_pause.as_mut().unwrap().lifted = true;
    let [Write::UpdateLedger { ledger, replicas: None, end_pause: true, .. }] = &writes(&mut world)[..]
    else {
        panic!("{:?}", writes(&mut world))
    };
    assert_eq!(ledger.len(), 2);
    world.quiesce();
    world.check(1);
    assert_eq!(world.deployment.replicas, 2);
}

#[test]
fn a_pause_without_our_note_is_never_touched() {
    let mut world = mixed();
    world.deployment.paused = Some("paused by its annotation".into());
    world.deployment.pause_acknowledged = true;
    assert_eq!(writes(&mut world), []);
    // Also beside a note of ours that was left when somebody paused by another switch.
    world.deployment.own_pause = Some(OwnPause {
        claim_uid: "c0-uid-000000000000".into(),
        machine_set: "set-b".into(),
        target: 1,
        lifted: false,
    });
    assert_eq!(writes(&mut world), []);
}

// Found by the exploration: before it saw the pause, Cluster API raised the MachineSet for a Machine that somebody deleted, and going
// on to the noted target would have taken two.
#[test]
fn a_target_that_is_no_longer_one_less_is_not_gone_to() {
    let mut world = mixed();
    world.operate(usize::MAX);
    world.sets[0].replicas = 0;
    world.sets[1].replicas = 3;
    world.reconcile_deployment();
    let [Write::UpdateLedger { ledger, replicas: None, end_pause: true, .. }] = &writes(&mut world)[..]
    else {
        panic!("{:?}", writes(&mut world))
    };
    assert_eq!(ledger.len(), 2);
}

// Found by the exploration: the MachineSet took a Machine that was going already, and the pause stayed for ever.
#[test]
fn when_the_machine_set_takes_another_that_somebody_deleted_that_one_is_given_back_and_the_pause_ends() {
    let mut world = mixed();
    world.operate(usize::MAX);
    world.reconcile_deployment();
    world.operate(usize::MAX);
    world.operate(usize::MAX);
    world.machine_of("c1").deleting = true;
    world.machine_of("c1").acknowledged = true;
    world.delete_claim("c1");
    world.drain_all();
    world.reconcile_set(false);
    assert!(!world.machine_of("c0").deleting);
    let [Write::UpdateLedger { ledger, replicas: Some(2), end_pause: true, .. }] = &writes(&mut world)[..]
    else {
        panic!("{:?}", writes(&mut world))
    };
    assert_eq!(ledger.to_string(), "c0-uid-000000");
}

// Found by the exploration: a MachineSet that didn't know of the deletion yet would have taken a healthy Machine in its place.
#[test]
fn under_the_pause_a_machine_that_somebody_deletes_must_be_known_to_be_going_before_the_number_falls() {
    let mut world = mixed();
    world.operate(usize::MAX);
    world.reconcile_deployment();
    world.machine_of("c0").deleting = true;
    assert_eq!(writes(&mut world), []);
    world.machine_of("c0").acknowledged = true;
    assert!(matches!(&writes(&mut world)[..], [Write::ScaleMachineSet { replicas: 1, .. }]));
}

#[test]
fn no_pause_begins_in_a_machine_set_from_which_another_machine_is_going() {
    let mut world = mixed();
    world.machine_of("c1").deleting = true;
    assert!(!writes(&mut world).iter().any(|write| matches!(write, Write::Pause { .. })));
}
