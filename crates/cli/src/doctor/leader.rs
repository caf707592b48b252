//! Who leads, by the operator's Leases.
//!
//! Clocks of two machines need not agree. So a Lease that has changed between two readings is alive whatever its times say, as for the
//! operators themselves; only a single reading has to believe them.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;

/// Where a Lease doesn't say how long it lasts.
const DEFAULT_DURATION: SignedDuration = SignedDuration::from_secs(15);

/// What a Lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its holder leads.
    Held { holder: String },
    /// Its last holder ended well.
    GivenBack,
    /// Its holder doesn't renew it any more.
    Stale { holder: String, renewed: Option<Timestamp> },
}

/// The state of a Lease, read `now`; `earlier` are all that were read before, and when.
pub(crate) fn state(lease: &Lease, now: Timestamp, earlier: Option<(&[Lease], Timestamp)>) -> State {
    let Some(holder) = holder(lease) else {
        return State::GivenBack;
    };
    let holder = holder.to_owned();
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
    let stale = State::Stale { holder: holder.clone(), renewed };
    if let Some((leases, then)) = earlier
        && let Some(before) = leases.iter().find(|before| is_same(before, lease))
    {
        if has_changed(before, lease) {
            return State::Held { holder };
        }
        if now.duration_since(then) >= duration(lease) {
            return stale;
        }
    }
    match renewed {
        Some(renewed) if now.duration_since(renewed) <= duration(lease) => State::Held { holder },
        _ => stale,
    }
}

/// `namespace/name`.
pub(crate) fn name(lease: &Lease) -> String {
    let metadata = &lease.metadata;
    format!(
        "{}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}

/// Who holds it; None: it was given back.
pub(crate) fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// How long it lasts without being renewed.
pub(crate) fn duration(lease: &Lease) -> SignedDuration {
    let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    seconds.map_or(DEFAULT_DURATION, |seconds| SignedDuration::from_secs(seconds.into()))
}

/// The first Lease that is held and isn't what it was: somebody is at work.
pub(crate) fn renewed<'a>(before: &[Lease], now: &'a [Lease]) -> Option<&'a Lease> {
    now.iter().filter(|lease| holder(lease).is_some()).find(|lease| {
        before.iter().find(|before| is_same(before, lease)).is_none_or(|before| has_changed(before, lease))
    })
}

fn is_same(one: &Lease, other: &Lease) -> bool {
    one.metadata.uid == other.metadata.uid && name(one) == name(other)
}

fn has_changed(before: &Lease, now: &Lease) -> bool {
    before.spec != now.spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).unwrap()
    }

    fn lease(holder: &str, renewed: i64) -> Lease {
        serde_json::from_value(json!({
            "metadata": { "name": "karpenter-capi-c", "namespace": "kube-system", "uid": "u" },
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15,
                "renewTime": format!("{:.6}", at(renewed)),
            },
        }))
        .unwrap()
    }

    fn stale(renewed: i64) -> State {
        State::Stale { holder: "a".into(), renewed: Some(at(renewed)) }
    }

    fn held() -> State {
        State::Held { holder: "a".into() }
    }

    #[test]
    fn a_single_reading_believes_the_times() {
        assert_eq!(state(&lease("a", 0), at(10), None), held());
        assert_eq!(state(&lease("a", 0), at(16), None), stale(0));
        assert_eq!(state(&lease("", 0), at(10), None), State::GivenBack);
    }

    #[test]
    fn a_lease_that_changes_is_alive_although_its_clock_is_an_hour_late() {
        let before = [lease("a", -3600)];
        assert_eq!(state(&lease("a", -3598), at(2), Some((&before, at(0)))), held());
    }

    #[test]
    fn a_lease_that_doesnt_change_for_its_duration_is_stale_although_its_clock_is_an_hour_early() {
        let before = [lease("a", 3600)];
        assert_eq!(state(&lease("a", 3600), at(15), Some((&before, at(0)))), stale(3600));
    }

    #[test]
    fn a_lease_that_didnt_change_yet_may_still_be_alive() {
        let before = [lease("a", 0)];
        assert_eq!(state(&lease("a", 0), at(2), Some((&before, at(1)))), held());
    }

    #[test]
    fn only_a_held_lease_that_is_new_or_has_changed_is_renewed() {
        let before = [lease("a", 0)];
        assert_eq!(renewed(&before, &[lease("a", 0)]), None);
        assert_eq!(renewed(&before, &[lease("", 1)]), None, "given back");
        assert!(renewed(&before, &[lease("a", 2)]).is_some());
        assert!(renewed(&[], &[lease("b", 0)]).is_some());
    }
}
