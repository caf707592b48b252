//! Public bug reports about replicas, races and the wrong machine, told to the ledger. Each test carries its report.

use super::world::World;
use super::*;
use karpenter_capi_model::reason::{ReasonCode, UnavailableReason};

/// Operator and Cluster API work by turns until nothing changes; everything that the operator wrote.
fn settle(world: &mut World) -> Vec<Write> {
    let mut written = Vec::new();
    for _ in 0..40 {
        world.now += 10;
        world.drain_all();
        for write in world.observe().writes {
            written.push(write.clone());
            if world.write(write).is_err() {
                break;
            }
        }
        world.reconcile_all();
    }
    written
}

fn raises(written: &[Write], from: i64) -> usize {
    let raises =
        |write: &&Write| matches!(write, Write::UpdateLedger { replicas: Some(to), .. } if *to > from);
    written.iter().filter(raises).count()
}

fn ends(written: &[Write]) -> Vec<(&str, EndReason)> {
    let ends = written.iter().filter_map(|write| match write {
        Write::EndClaim { claim, reason, .. } => Some((claim.name.as_str(), *reason)),
        _ => None,
    });
    ends.collect()
}

// kubernetes-sigs/karpenter-provider-cluster-api#28: two pods, and more than two machines.
#[test]
fn case_49_two_claims_get_a_machine_each_however_late_and_apart_the_machines_come() {
    let mut world = World::with_floor(0);
    world.claim("c0");
    world.claim("c1");
    world.operate(usize::MAX);
    assert_eq!(world.deployment.replicas, 2);
    // x comes at once, y ninety seconds later; meanwhile the operator looks again and again.
    world.make_machine("set-a", 0);
    for second in 1..=90 {
        world.now = second;
        world.operate(usize::MAX);
        assert_eq!(world.deployment.replicas, 2, "raised again after {second} s");
    }
    assert_eq!(world.machines.iter().filter(|machine| machine.claim.is_some()).count(), 1);
    world.make_machine("set-a", 90);
    world.quiesce();
    world.check(0);
    let first = world.machine_of("c0").machine.uid.clone();
    assert_ne!(world.machine_of("c1").machine.uid, first, "both are bound to one Machine");
    assert_eq!((world.deployment.replicas, world.claims.len(), world.made), (2, 2, 2));
}

// kubernetes-sigs/karpenter-provider-cluster-api#70: each retry added a replica.
#[test]
fn case_50_a_machine_that_can_not_be_written_three_times_costs_one_replica_and_not_three() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.operate(usize::MAX);
    world.make_machine("set-a", 0);
    for _ in 0..3 {
        let bind = world.observe().writes.remove(0);
        assert!(matches!(bind, Write::Bind { .. }), "{bind:?}");
        // Somebody writes the Machine at the same moment.
        world.machines[1].machine.resource_version.push('x');
        assert_eq!(world.write(bind), Err(()));
        assert_eq!(world.deployment.replicas, 2);
    }
    world.quiesce();
    world.check(1);
    assert_eq!(world.deployment.replicas, 2);
}

#[test]
fn case_50_a_claim_that_is_given_up_takes_one_off_the_present_number_and_not_back_to_a_remembered_one() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.operate(usize::MAX);
    assert_eq!(world.deployment.replicas, 2);
    world.scale(5);
    world.delete_claim("c0");
    world.quiesce();
    world.check(4);
    assert_eq!((world.deployment.replicas, world.shrunk.len()), (4, 0));
}

// kubernetes/autoscaler#9120: the load is gone, and the machine that can't be made stays asked for.
#[test]
fn case_55_a_claim_that_is_given_up_takes_its_unlaunched_machine_along_and_no_other() {
    let mut world = World::with_claims(0, &["c0", "c1"]);
    let (running, provisioning) =
        (world.machine_of("c0").machine.uid.clone(), world.machine_of("c1").machine.uid.clone());
    world.delete_claim("c1");
    world.quiesce();
    world.check(0);
    assert_eq!(world.deployment.replicas, 1);
    let left: Vec<_> = world.machines.iter().map(|machine| machine.machine.uid.clone()).collect();
    assert!(left == [running] && !left.contains(&provisioning), "{left:?}");
}

// kubernetes/autoscaler#3034: the mark stayed on a machine whose scale-down hadn't gone through, and a later one removed it.
#[test]
fn case_57_conflicts_and_crashes_in_giving_back_leave_no_mark_and_lower_once() {
    let mut world = World::with_claims(0, &["c0", "c1", "c2"]);
    let going = world.machine_of("c1").machine.uid.clone();
    world.delete_claim("c1");
    world.drain_all();
    world.operate(usize::MAX);
    world.reconcile_machines();
    for attempt in 0..3 {
        let lower = world.observe().writes.remove(0);
        assert!(matches!(lower, Write::UpdateLedger { replicas: Some(2), .. }), "{lower:?}");
        // Somebody annotates the MachineDeployment at the same moment.
        world.deployment.resource_version = format!("somebody's {attempt}");
        assert_eq!(world.write(lower), Err(()));
        assert_eq!(world.deployment.replicas, 3);
    }
    for _ in 0..20 {
        // At most one write, and then it crashes.
        world.at_rest_since = None;
        world.operate(1);
        world.reconcile_all();
    }
    world.check(0);
    assert_eq!((world.deployment.replicas, world.made, world.shrunk.len()), (2, 3, 0));
    let kept = |machine: &observed::MachineView| machine.machine.uid != going && !machine.marked;
    assert!(world.machines.iter().all(kept), "{:?}", world.machines);
}

// kubernetes-sigs/cluster-api#8829, #11387, #3227: older versions remove an unhealthy machine instead of the marked one.
#[test]
fn case_58_when_cluster_api_takes_another_machine_as_well_its_claim_is_lost_and_the_third_stays() {
    let mut world = World::with_claims(0, &["bad", "going", "good"]);
    let good = world.machine_of("good").machine.uid.clone();
    world.delete_claim("going");
    world.drain_all();
    world.give_back();
    world.reconcile_deployment();
    // An old MachineSet controller doesn't take the deleting Machine for the one too many.
    world.machine_of("bad").deleting = true;
    world.machine_of("bad").acknowledged = true;
    let written = settle(&mut world);
    world.check(0);
    assert_eq!(ends(&written), [("bad", EndReason::MachineLost)]);
    assert_eq!((world.deployment.replicas, world.made), (1, 3), "a Machine was made again");
    assert_eq!(world.machines[0].machine.uid, good);
}

// kubernetes/autoscaler#7382, kubernetes-sigs/cluster-api#7683 and #8217: the topology controller sets replicas back.
#[test]
fn case_60_a_number_that_is_set_back_is_not_raised_again_and_again() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    let mut reverts = 0;
    for _ in 0..20 {
        world.now += 3;
        world.operate(usize::MAX);
        if world.deployment.replicas != 1 {
            reverts += 1;
            world.scale(1);
        }
        world.reconcile_all();
    }
    assert_eq!(reverts, 1, "it is a tug of war");
}

#[test]
fn case_60_a_claim_on_a_number_that_a_topology_manages_ends_without_a_write_to_it() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    let message = "Cluster c sets replicas 1 in spec.topology".to_owned();
    world.deployment.unavailable = Some(UnavailableReason { code: ReasonCode::ReplicasManaged, message });
    let step = world.observe();
    assert_eq!(ends(&step.writes), [("c0", EndReason::InsufficientCapacity)]);
    assert_eq!(step.writes.len(), 1, "{:?}", step.writes);
}

// kubernetes-sigs/cluster-api#12990: raising replicas starts a roll-out, which replaces the two old machines as well.
#[test]
fn case_61_a_roll_out_that_our_raise_sets_off_replaces_claims_one_by_one_and_moves_no_number() {
    let mut world = World::with_claims(0, &["c0", "c1"]);
    world.now += 100;
    world.claim("c2");
    world.operate(usize::MAX);
    assert_eq!(world.deployment.replicas, 3);
    world.newer_set(3);
    world.sets[0].replicas = 0;
    for old in ["c0", "c1"] {
        world.machine_of(old).deleting = true;
    }
    let written = settle(&mut world);
    world.check(0);
    let replaced = EndReason::ReplacedByRollOut;
    assert_eq!(ends(&written), [("c0", replaced), ("c1", replaced)], "not lost, and not our drift");
    let moved = |write: &&Write| matches!(write, Write::UpdateLedger { replicas: Some(_), .. });
    assert_eq!(written.iter().filter(moved).count(), 0, "{written:?}");
    let mut claims: Vec<&str> = world.claims.iter().map(|claim| claim.claim.name.as_str()).collect();
    claims.sort_unstable();
    assert_eq!(claims, ["c0-next", "c1-next", "c2"]);
    assert!(world.machines.iter().all(|machine| machine.machine_set.as_deref() == Some("set-b")));
}

// openshift/hypershift#2106 and #2354: another owner forces replicas down.
#[test]
fn case_62_when_somebody_lowers_a_number_of_bound_claims_nobody_fights_and_the_lost_ones_leave_the_books() {
    let mut world = World::with_claims(0, &["c0", "c1", "c2", "c3"]);
    world.scale(1);
    world.claim("c4");
    let step = world.observe();
    assert!(step.scaled_by_others, "the offering isn't left alone for a while, and nobody is told");
    assert_eq!(raises(&step.writes, 1), 0, "{:?}", step.writes);
    world.claims.retain(|claim| claim.claim.name != "c4");
    let written = settle(&mut world);
    assert_eq!(ends(&written).len(), 3);
    assert!(ends(&written).iter().all(|(_, reason)| *reason == EndReason::MachineLost), "{written:?}");
    assert_eq!(raises(&written, 1), 0, "{written:?}");
    world.check(0);
    assert_eq!((world.deployment.replicas, world.claims.len(), world.made), (1, 1, 4));
}

// gardener/machine-controller-manager#1085: down and up again before anybody looked; the machine stayed marked for ever.
#[test]
fn case_66_down_and_up_before_cluster_api_looks_removes_the_machine_and_makes_a_new_one() {
    let mut world = World::with_claims(0, &["c0", "c1", "c2", "c3", "c4", "c5"]);
    let going = world.machine_of("c0").machine.uid.clone();
    world.delete_claim("c0");
    world.drain_all();
    world.give_back();
    world.claim("c6");
    world.operate(usize::MAX);
    assert_eq!(world.deployment.replicas, 6, "the new claim has entered before Cluster API has looked");
    assert!(world.claim_named("c6").machine.is_none());
    world.quiesce();
    world.check(0);
    assert_eq!((world.deployment.replicas, world.made, world.shrunk.len()), (6, 7, 0));
    assert!(world.machines.iter().all(|machine| machine.machine.uid != going && !machine.marked));
}

// kubernetes-sigs/karpenter#1392 and #2072: the Node was removed by hand, and then its machine was gone, too.
#[test]
fn case_110_a_claim_whose_machine_is_gone_ends_and_a_number_that_was_lowered_for_it_is_not_lowered_again() {
    let mut world = World::with_claims(1, &["c0"]);
    let machine = world.machine_of("c0").machine.uid.clone();
    world.machines.retain(|found| found.machine.uid != machine);
    world.scale(1);
    let written = settle(&mut world);
    assert_eq!(ends(&written), [("c0", EndReason::MachineLost)]);
    assert_eq!((world.claims.len(), world.deployment.replicas, world.made), (0, 1, 2));
    world.check(1);
}

// cloudpilot-ai/karpenter-provider-gcp#334: a claim that never launched could not be deleted.
#[test]
fn case_112_a_claim_that_never_entered_is_finished_at_once() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.delete_claim("c0");
    let step = world.observe();
    assert!(matches!(&step.writes[..], [Write::FinishClaim { .. }]), "{:?}", step.writes);
}

#[test]
fn case_112_a_claim_deleted_before_its_machine_is_bound_gives_that_machine_back_once() {
    let mut world = World::with_floor(1);
    world.claim("c0");
    world.operate(usize::MAX);
    world.reconcile_all();
    assert!(world.machines.len() == 2 && world.claims[0].machine.is_none(), "it is made and unclaimed");
    world.delete_claim("c0");
    let written = settle(&mut world);
    world.check(1);
    let lowered = |write: &&Write| matches!(write, Write::UpdateLedger { replicas: Some(1), .. });
    assert_eq!(written.iter().filter(lowered).count(), 1, "{written:?}");
    assert_eq!((world.claims.len(), world.shrunk.len()), (0, 0));
}
