//! What the cloud does next with a machine: a pure function of the object and the time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::kinds::{HollowMachine, InstanceState};

/// Annotations of a single `HollowMachine`; each overrides the field of the same meaning.
pub mod annotations {
    /// `"true"` or `"false"`: whether the cloud is out of capacity.
    pub const NO_CAPACITY: &str = "hollow.karpenter-capi.dev/no-capacity";
    /// `"true"` or `"false"`: whether the instance never becomes a Node.
    pub const NEVER_JOINS: &str = "hollow.karpenter-capi.dev/never-joins";
    /// A duration such as `10s`: how long after joining the instance disappears. `"0s"` is at once.
    pub const VANISHES_AFTER: &str = "hollow.karpenter-capi.dev/vanishes-after";
    /// A duration that is added to the delay before the provider ID.
    pub const SLOW_BY: &str = "hollow.karpenter-capi.dev/slow-by";
}

/// Keeps a `HollowMachine` until its instance has ended.
pub(super) const FINALIZER: &str = "hollow.karpenter-capi.dev/instance";

/// The delays of machines that give none of their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct DefaultDelays {
    pub(super) provision: Duration,
    pub(super) join: Duration,
    pub(super) deletion: Duration,
}

/// Times that the object doesn't carry precisely enough: its own timestamps count whole seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) now: Timestamp,
    /// When the provider first saw the machine.
    pub(super) created: Timestamp,
    /// When the provider first saw that the machine is being deleted.
    pub(super) deleted: Option<Timestamp>,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing until the object changes.
    Rest,
    /// Nothing before this much time has passed.
    Wait(Duration),
    /// Put the finalizer on.
    Guard,
    /// Report that there is no capacity.
    Refuse,
    /// Start the instance: provider ID, addresses, provisioned.
    Provision,
    /// Make the instance a Node.
    Join,
    /// End the instance and its Node unasked.
    Vanish,
    /// The instance has ended as asked: take the finalizer off.
    Release,
}

/// The next step for a machine. An error is a value that can't be read, as a sentence.
pub(super) fn step(machine: &HollowMachine, seen: Seen, defaults: DefaultDelays) -> Result<Step, String> {
    let finalizers = machine.metadata.finalizers.as_deref().unwrap_or_default();
    let guarded = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    let delays = &machine.spec.delays;
    if machine.metadata.deletion_timestamp.is_some() {
        if !guarded {
            return Ok(Step::Rest);
        }
        let delay = duration("spec.delays.deletion", delays.deletion.as_deref(), defaults.deletion)?;
        return Ok(after(seen.deleted.unwrap_or(seen.now), delay, seen.now, Step::Release));
    }
    let owners = machine.metadata.owner_references.as_deref().unwrap_or_default();
    if !owners.iter().any(|owner| owner.kind == "Machine") {
        return Ok(Step::Rest);
    }
    if !guarded {
        return Ok(Step::Guard);
    }
    let status = machine.status.clone().unwrap_or_default();
    match status.instance_state {
        None if flag(machine, annotations::NO_CAPACITY, machine.spec.no_capacity)? => {
            let refused =
                status.conditions.iter().any(|condition| condition.reason == "InsufficientCapacity");
            Ok(if refused { Step::Rest } else { Step::Refuse })
        }
        None => {
            let slow_by = annotation(machine, annotations::SLOW_BY).or(machine.spec.slow_by.as_deref());
            let delay = duration("spec.delays.provision", delays.provision.as_deref(), defaults.provision)?
                + duration("spec.slowBy", slow_by, Duration::ZERO)?;
            Ok(after(seen.created, delay, seen.now, Step::Provision))
        }
        Some(InstanceState::Running)
            if flag(machine, annotations::NEVER_JOINS, machine.spec.never_joins)? =>
        {
            Ok(Step::Rest)
        }
        Some(InstanceState::Running) => {
            let delay = duration("spec.delays.join", delays.join.as_deref(), defaults.join)?;
            let since = status.running_since.map_or(seen.now, |time| time.0);
            Ok(after(since, delay, seen.now, Step::Join))
        }
        Some(InstanceState::Joined) => {
            let vanishes =
                annotation(machine, annotations::VANISHES_AFTER).or(machine.spec.vanishes_after.as_deref());
            let Some(vanishes) = vanishes else {
                return Ok(Step::Rest);
            };
            let delay = duration("spec.vanishesAfter", Some(vanishes), Duration::ZERO)?;
            let since = status.joined_at.map_or(seen.now, |time| time.0);
            Ok(after(since, delay, seen.now, Step::Vanish))
        }
        Some(InstanceState::Vanished) => Ok(Step::Rest),
    }
}

fn annotation<'a>(machine: &'a HollowMachine, key: &str) -> Option<&'a str> {
    machine.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn flag(machine: &HollowMachine, key: &str, field: bool) -> Result<bool, String> {
    annotation(machine, key).map_or(Ok(field), |value| {
        value.parse().map_err(|_| format!("annotation {key}: {value:?} is neither true nor false"))
    })
}

fn duration(what: &str, text: Option<&str>, default: Duration) -> Result<Duration, String> {
    let Some(text) = text else { return Ok(default) };
    let parsed: Result<SignedDuration, _> = text.parse();
    parsed
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| format!("{what}: {text:?} isn't a duration such as 500ms or 2s"))
}

fn after(since: Timestamp, delay: Duration, now: Timestamp, then: Step) -> Step {
    let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    match delay.saturating_sub(passed) {
        Duration::ZERO => then,
        rest => Step::Wait(rest),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference, Time};

    use super::{
        super::kinds::{HollowMachineSpec, HollowMachineStatus},
        *,
    };

    const DEFAULTS: DefaultDelays = DefaultDelays {
        provision: Duration::from_secs(1),
        join: Duration::from_secs(2),
        deletion: Duration::from_secs(3),
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000 + seconds).unwrap()
    }

    fn owned(spec: HollowMachineSpec) -> HollowMachine {
        let mut machine = HollowMachine::new("m", spec);
        machine.metadata.owner_references =
            Some(vec![OwnerReference { kind: "Machine".into(), ..OwnerReference::default() }]);
        machine.metadata.finalizers = Some(vec![FINALIZER.into()]);
        machine
    }

    fn in_state(spec: HollowMachineSpec, state: InstanceState) -> HollowMachine {
        let mut machine = owned(spec);
        machine.status = Some(HollowMachineStatus {
            instance_state: Some(state),
            running_since: Some(MicroTime(at(0))),
            joined_at: Some(MicroTime(at(0))),
            ..HollowMachineStatus::default()
        });
        machine
    }

    fn next(machine: &HollowMachine, now: i64) -> Step {
        let deleted = machine.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        step(machine, Seen { now: at(now), created: at(0), deleted }, DEFAULTS).unwrap()
    }

    #[test]
    fn a_machine_without_owner_is_left_alone() {
        assert_eq!(next(&HollowMachine::new("m", HollowMachineSpec::default()), 100), Step::Rest);
    }

    #[test]
    fn a_machine_is_guarded_before_its_instance_starts() {
        let mut machine = owned(HollowMachineSpec::default());
        machine.metadata.finalizers = None;
        assert_eq!(next(&machine, 100), Step::Guard);
    }

    #[test]
    fn delays_are_kept_and_slowness_is_added() {
        let machine = owned(HollowMachineSpec::default());
        assert_eq!(next(&machine, 0), Step::Wait(Duration::from_secs(1)));
        assert_eq!(next(&machine, 1), Step::Provision);
        let slow = owned(HollowMachineSpec { slow_by: Some("30s".into()), ..HollowMachineSpec::default() });
        assert_eq!(next(&slow, 1), Step::Wait(Duration::from_secs(30)));
        let running = in_state(HollowMachineSpec::default(), InstanceState::Running);
        assert_eq!(next(&running, 1), Step::Wait(Duration::from_secs(1)));
        assert_eq!(next(&running, 2), Step::Join);
    }

    #[test]
    fn an_annotation_overrides_the_template() {
        let mut machine = owned(HollowMachineSpec { no_capacity: true, ..HollowMachineSpec::default() });
        assert_eq!(next(&machine, 9), Step::Refuse);
        let annotation = (annotations::NO_CAPACITY.to_owned(), "false".to_owned());
        machine.metadata.annotations = Some([annotation].into());
        assert_eq!(next(&machine, 9), Step::Provision);
    }

    #[test]
    fn an_instance_that_never_joins_rests_and_a_vanishing_one_goes() {
        let never = in_state(
            HollowMachineSpec { never_joins: true, ..HollowMachineSpec::default() },
            InstanceState::Running,
        );
        assert_eq!(next(&never, 1_000), Step::Rest);
        let spec = HollowMachineSpec { vanishes_after: Some("10s".into()), ..HollowMachineSpec::default() };
        let vanishing = in_state(spec, InstanceState::Joined);
        assert_eq!(next(&vanishing, 9), Step::Wait(Duration::from_secs(1)));
        assert_eq!(next(&vanishing, 10), Step::Vanish);
    }

    #[test]
    fn deletion_takes_its_time_whatever_the_machine_was_doing() {
        let mut machine = in_state(HollowMachineSpec::default(), InstanceState::Joined);
        machine.metadata.deletion_timestamp = Some(Time(at(20)));
        assert_eq!(next(&machine, 21), Step::Wait(Duration::from_secs(2)));
        assert_eq!(next(&machine, 23), Step::Release);
        machine.metadata.finalizers = None;
        assert_eq!(next(&machine, 23), Step::Rest);
    }

    #[test]
    fn an_unreadable_duration_is_named() {
        let machine =
            owned(HollowMachineSpec { slow_by: Some("soon".into()), ..HollowMachineSpec::default() });
        let error = step(&machine, Seen { now: at(0), created: at(0), deleted: None }, DEFAULTS).unwrap_err();
        assert_eq!(error, "spec.slowBy: \"soon\" isn't a duration such as 500ms or 2s");
    }
}
