use super::*;

const ROLL_OUT: HeldUp<'_> =
    HeldUp::AwaitingMachineDeployment("a roll-out of MachineDeployment d/m is under way");
const REFUSED: HeldUp<'_> =
    HeldUp::RequestRefused("could not patch MachineDeployment d/m: no (403 Forbidden)");

fn terminating(status: &NodeClaimStatus) -> &Condition {
    condition::find(&status.conditions, "InstanceTerminating").unwrap()
}

fn held(status: &NodeClaimStatus, why: Option<HeldUp<'_>>, now: &str) -> Option<NodeClaimStatus> {
    held_up(&claim(&serde_json::to_value(status).unwrap()), why, at(now))
}

// Public report kubernetes-sigs/cluster-api#8987: a roll-out hung for ever, and only a debug line told of it.
#[test]
fn case_65_a_claim_that_waits_for_a_roll_out_says_so_and_since_when() {
    let paused = HeldUp::AwaitingMachineDeployment("paused by its annotation");
    let first = held(&NodeClaimStatus::default(), Some(paused), "12:00:00").unwrap();
    let later = held(&first, Some(ROLL_OUT), "19:00:00").unwrap();
    let told = terminating(&later);
    assert_eq!((told.status.as_str(), told.reason.as_str()), ("Unknown", "AwaitingMachineDeployment"));
    assert_eq!(told.message, "a roll-out of MachineDeployment d/m is under way");
    assert_eq!(told.last_transition_time.0, at("12:00:00"), "its age is lost");
    assert_eq!(held(&later, Some(ROLL_OUT), "20:00:00"), None, "nothing to write while nothing changes");
}

// Public report kubernetes/autoscaler#8538: the management cluster's rights were for reading only, and nothing said so.
#[test]
fn case_64_a_refused_request_is_told_on_the_claim_and_taken_back_when_it_is_granted() {
    let refused = held(&NodeClaimStatus::default(), Some(REFUSED), "12:00:00").unwrap();
    let told = terminating(&refused);
    assert_eq!((told.status.as_str(), told.reason.as_str()), ("Unknown", "RequestRefused"));
    assert!(
        told.message.contains("MachineDeployment d/m") && told.message.contains("403"),
        "{}",
        told.message
    );
    let granted = held(&refused, None, "12:10:00").unwrap();
    assert_eq!(condition::find(&granted.conditions, "InstanceTerminating"), None);
}

#[test]
fn case_64_a_claim_on_its_way_says_what_is_refused_and_names_it_when_it_ends() {
    let observe = |claim: &NodeClaim, now: &str| {
        progress(&Observed {
            now: at(now),
            claim,
            machine: None,
            nodes: &[],
            promise: None,
            blocked: Some((REFUSED.reason(), REFUSED.message())),
            timeouts: Timeouts {
                launch: SignedDuration::from_mins(15),
                registration: SignedDuration::from_mins(10),
            },
        })
    };
    let seen = observe(&claim(&json!({})), "12:00:10");
    assert_eq!(told(&seen.status, "Launched"), pair("Unknown", "RequestRefused"));
    let (what, message) = observe(&after(&seen), "12:15:00").ended.unwrap();
    assert!(what == Failure::LaunchTimedOut && message.contains("403"), "{what:?} {message}");
}

#[test]
fn a_deletion_that_was_asked_for_stays_so() {
    let asked = json!({"conditions": [
        {"type": "InstanceTerminating", "status": "True", "reason": "InstanceTerminating", "message": "", "lastTransitionTime": "2026-01-05T12:00:00Z"}
    ]});
    let asked: NodeClaimStatus = serde_json::from_value(asked).unwrap();
    for why in [Some(ROLL_OUT), None] {
        assert_eq!(held(&asked, why, "13:00:00"), None);
    }
}
