//! Adoption and release; orphans; a MachineDeployment that is deleted.

use super::world::World;
use super::*;

/// A floor of two, and a claim that asks for the first of them.
fn asking() -> (World, String) {
    let mut world = World::with_floor(2);
    let uid = world.machines[0].machine.uid.clone();
    world.claim("c0");
    world.claims[0].adopts = Some(uid.clone());
    (world, uid)
}

fn refused(world: &mut World) -> bool {
    let step = world.observe();
    let ends = matches!(&step.writes[..], [Write::EndClaim { claim, reason: EndReason::AdoptionRefused, .. }] if claim.name == "c0");
    ends || panic!("{:?}", step.writes)
}

#[test]
fn adopting_binds_that_machine_and_leaves_the_number() {
    let (mut world, uid) = asking();
    let step = world.observe();
    assert!(
        matches!(&step.writes[..], [Write::UpdateLedger { ledger, replicas: None, .. }] if ledger.len() == 1),
        "{:?}",
        step.writes
    );
    world.quiesce();
    world.check(1);
    assert_eq!(world.machine_of("c0").machine.uid, uid);
    assert_eq!((world.deployment.replicas, world.made), (2, 2));
}

#[test]
fn a_machine_that_has_a_claim_is_not_adopted() {
    let (mut world, _) = asking();
    world.machines[0].claim = Some(ClaimRef { name: "other".into(), uid: "other-uid".into() });
    world.machines[0].hooked = true;
    assert!(refused(&mut world));
}

#[test]
fn a_machine_that_is_going_is_not_adopted() {
    let (mut world, _) = asking();
    world.machines[0].deleting = true;
    assert!(refused(&mut world));
}

#[test]
fn a_machine_that_is_gone_is_not_adopted() {
    let (mut world, _) = asking();
    world.machines.remove(0);
    assert!(refused(&mut world));
}

#[test]
fn with_no_machine_beyond_the_claimed_ones_nothing_is_adopted() {
    let (mut world, _) = asking();
    let [a, b] = ["entry-a", "entry-b"].map(Entry::of_uid);
    world.deployment.ledger = world.deployment.ledger.changed([&a, &b], []);
    assert!(refused(&mut world));
}

#[test]
fn two_claims_that_ask_for_one_machine_do_not_both_get_it() {
    let (mut world, uid) = asking();
    world.claim("c1");
    world.claim_named("c1").adopts = Some(uid);
    world.quiesce();
    world.check(1);
    assert_eq!(world.claims.len(), 1);
}

#[test]
fn a_released_claim_leaves_its_machine_and_the_number_behind() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.quiesce();
    let machine = world.machine_of("c0").machine.uid.clone();
    world.claim_named("c0").keeps_machine = true;
    world.delete_claim("c0");
    assert_eq!(world.observe().writes, [], "before our marks are off the Node");
    world.drain_all();
    let step = world.observe();
    assert!(
        matches!(&step.writes[..], [Write::UpdateLedger { ledger, replicas: None, .. }] if ledger.is_empty()),
        "{:?}",
        step.writes
    );
    world.quiesce();
    world.check(2);
    assert!(world.claims.is_empty());
    let left = world.machines.iter().find(|left| left.machine.uid == machine).unwrap();
    assert!(left.claim.is_none() && !left.hooked && !left.deleting);
}

// Found by the exploration: nobody took the hook off.
#[test]
fn a_machine_that_somebody_deletes_while_it_is_released_is_let_go() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.quiesce();
    world.claim_named("c0").keeps_machine = true;
    world.delete_claim("c0");
    world.machine_of("c0").deleting = true;
    world.quiesce();
    world.check(2);
    assert_eq!(world.made, 3, "what was released belongs to the floor, and is made anew");
}

// Found by the exploration: the Machine that was released, still with our keys on it, was counted among ours, and the claim that waited
// didn't get its Machine.
#[test]
fn a_machine_that_is_being_released_takes_no_other_claims_place() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.quiesce();
    world.claim("c1");
    world.operate(1);
    world.reconcile_all();
    world.claim_named("c0").keeps_machine = true;
    world.delete_claim("c0");
    let entry = world.claim_named("c0").entry.clone();
    world.deployment.ledger = world.deployment.ledger.changed([], [&entry]);
    let step = world.observe();
    assert!(
        step.writes.iter().any(|write| matches!(write, Write::Bind { claim, .. } if claim.name == "c1")),
        "{:?}",
        step.writes
    );
}

// Found by the exploration: so it also seemed that Cluster API had a Machine more to make, and that somebody had scaled down.
#[test]
fn beside_a_machine_that_is_being_released_the_number_still_falls_for_one_that_is_given_back() {
    let mut world = World::with_floor(0);
    world.claim("c0");
    world.claim("c1");
    world.quiesce();
    world.claim("c2");
    world.operate(1);
    world.reconcile_all();
    world.claim_named("c0").keeps_machine = true;
    world.delete_claim("c0");
    world.delete_claim("c1");
    world.drain_all();
    let entry = world.claim_named("c0").entry.clone();
    world.deployment.ledger = world.deployment.ledger.changed([], [&entry]);
    let machine = world.machine_of("c1");
    (machine.deleting, machine.acknowledged, machine.drain_excluded) = (true, true, true);
    let step = world.observe();
    assert!(
        step.writes.iter().any(|write| matches!(write, Write::UpdateLedger { replicas: Some(2), .. })),
        "{:?}",
        step.writes
    );
}

#[test]
fn a_machine_whose_claim_is_gone_is_given_back_and_cluster_api_drains_it() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.quiesce();
    let claim = world.claims.remove(0);
    let left_alone = world.observe();
    assert_eq!(left_alone.writes, [], "before it is known to be an orphan");
    world.claims.push(ClaimView::orphan(claim.claim, claim.entry, claim.created));
    let step = world.observe();
    assert!(matches!(&step.writes[..], [Write::DeleteMachine { .. }]), "{:?}", step.writes);
    world.quiesce();
    world.check(1);
    assert_eq!((world.deployment.replicas, world.made, world.shrunk.len()), (1, 2, 0));
}

#[test]
fn an_entry_whose_claim_is_gone_leaves_with_its_replica() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.operate(1);
    let claim = world.claims.remove(0);
    world.claims.push(ClaimView::orphan(claim.claim, claim.entry, claim.created));
    world.quiesce();
    world.check(1);
    assert_eq!(world.deployment.replicas, 1);
}

#[test]
fn when_the_machine_deployment_is_deleted_the_hooks_are_released_after_the_drain_and_the_claims_end() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.quiesce();
    world.deployment.deleting = true;
    world.machines.iter_mut().for_each(|machine| machine.deleting = true);
    let step = world.observe();
    assert!(
        matches!(&step.writes[..], [Write::EndClaim { reason: EndReason::MachineLost, .. }]),
        "{:?}",
        step.writes
    );
    world.operate(usize::MAX);
    assert_eq!(world.observe().writes, [], "released before the drain");
    world.drain_all();
    assert!(matches!(&world.observe().writes[..], [Write::ReleaseHook { .. }]));
    let replicas = world.deployment.replicas;
    world.operate(usize::MAX);
    assert_eq!(world.deployment.replicas, replicas, "a MachineDeployment that is going was scaled");
}

// Found by the exploration: only claims that wait for a replica of their own ended with the MachineDeployment.
#[test]
fn successors_and_claims_that_would_adopt_end_with_the_machine_deployment() {
    let (mut world, _) = asking();
    world.claim("c1");
    world.claim_named("c1").replaces = Some("gone".into());
    world.deployment.deleting = true;
    let ended =
        |step: &Step| step.writes.iter().filter(|write| matches!(write, Write::EndClaim { .. })).count();
    assert_eq!(ended(&world.observe()), 2);
    let claims = world.claims.clone();
    let observed = Observed {
        now: at(0),
        machine_deployment: None,
        machine_sets: &[],
        machines: &[],
        claims: &claims,
        at_rest_since: None,
    };
    assert_eq!(ended(&step(&observed)), 2);
}

// A hole of the protocol: a person asks to adopt the Machine that was just made for a claim that waits.
#[test]
fn a_machine_that_was_made_for_a_claim_is_not_adopted_by_another() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.operate(usize::MAX);
    world.reconcile_all();
    let young = world.machines.last().unwrap().machine.uid.clone();
    world.claim("adopter");
    world.claim_named("adopter").adopts = Some(young.clone());
    world.operate(usize::MAX);
    assert_eq!(world.machine_of("c0").machine.uid, young);
    let ended = world.observe().writes;
    assert!(
        matches!(&ended[..], [Write::EndClaim { claim, reason: EndReason::AdoptionRefused, .. }] if claim.name == "adopter"),
        "{ended:?}"
    );
    world.quiesce();
    world.check(1);
}

#[test]
fn of_two_young_machines_a_claim_leaves_the_one_to_a_person_that_he_asks_for() {
    let mut world = World::with_floor(0);
    world.claim("c0");
    world.operate(usize::MAX);
    world.scale(2);
    world.reconcile_all();
    let asked_for = world.machines.last().unwrap().machine.uid.clone();
    world.claim("adopter");
    world.claim_named("adopter").adopts = Some(asked_for.clone());
    world.quiesce();
    world.check(0);
    assert_eq!(world.machine_of("adopter").machine.uid, asked_for);
}
