//! Machines and entries whose claim no longer exists: given back late, few at a time, and never on a mere suspicion.
//!
//! A claim has a finalizer, so it only vanishes when somebody strips that, or when the workload cluster isn't the one that it was: a
//! wrong kubeconfig, a restored backup. Neither may cost machines in a hurry.

use super::observed::{ClaimView, MachineDeploymentView, MachineView};
use super::{ClaimRef, Entry};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// What has had no claim for less than this is left alone.
pub const ORPHAN_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// Since when things of one MachineDeployment have had no claim, as far as this process has seen.
#[derive(Clone, Debug, Default)]
pub struct Orphans(BTreeMap<Entry, Timestamp>);

/// What stands between an orphan and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The workload cluster is the recorded one, and some claim is visible in it.
    Full,
    /// Nothing is given back.
    None,
}

impl Orphans {
    /// Those that are to be given back now, as claims that are being deleted: at most a tenth of what is ours, at least one; what is
    /// under way goes on first.
    pub fn ripe(
        &mut self,
        deployment: &MachineDeploymentView,
        machines: &[MachineView],
        claims: &[ClaimView],
        trust: Trust,
        now: Timestamp,
    ) -> Vec<ClaimView> {
        let known: BTreeSet<&Entry> = claims.iter().map(|claim| &claim.entry).collect();
        let mut found: BTreeMap<Entry, (ClaimRef, bool)> = BTreeMap::new();
        for entry in deployment.ledger.iter().filter(|entry| !known.contains(entry)) {
            let nameless = ClaimRef { name: String::new(), uid: entry.to_string() };
            found.insert(entry.clone(), (nameless, false));
        }
        for machine in machines {
            let Some(owner) = &machine.claim else { continue };
            let entry = Entry::of_uid(&owner.uid);
            if !known.contains(&entry) {
                found.insert(entry, (owner.clone(), machine.deleting));
            }
        }
        self.0.retain(|entry, _| found.contains_key(entry));
        for entry in found.keys() {
            self.0.entry(entry.clone()).or_insert(now);
        }
        if trust == Trust::None {
            return Vec::new();
        }
        let ours = machines.iter().filter(|machine| machine.claim.is_some()).count();
        let mut ripe: Vec<(bool, Timestamp, Entry, ClaimRef)> = found
            .into_iter()
            .filter_map(|(entry, (claim, under_way))| {
                let since = *self.0.get(&entry)?;
                let old = now.duration_since(since) >= ORPHAN_AFTER;
                (old || under_way).then_some((!under_way, since, entry, claim))
            })
            .collect();
        ripe.sort_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
        ripe.truncate((ours / 10).max(1));
        ripe.into_iter().map(|(_, since, entry, claim)| ClaimView::orphan(claim, entry, since)).collect()
    }

    /// How many there are, whatever their age.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Ledger, MachineRef};
    use super::*;
    use karpenter_capi_model::name::NamespacedName;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(1_767_600_000 + 60 * minute).unwrap()
    }

    fn uid(number: usize) -> String {
        format!("{number:08}-0000-0000")
    }

    /// A MachineDeployment with so many Machines of claims that don't exist.
    fn deserted(count: usize) -> (MachineDeploymentView, Vec<MachineView>) {
        let entries: Vec<String> = (0..count).map(|number| Entry::of_uid(&uid(number)).to_string()).collect();
        let deployment = MachineDeploymentView {
            name: NamespacedName::new("d", "m"),
            resource_version: "1".into(),
            replicas: i64::try_from(count).unwrap(),
            ledger: Ledger::parse(&entries.join(",")),
            deleting: false,
            observed: true,
            hosted: false,
            rolling_update: true,
            paused: None,
            own_pause: None,
            pause_acknowledged: false,
            max_size: None,
            unavailable: None,
        };
        let machine = |number| MachineView {
            machine: MachineRef {
                name: NamespacedName::new("d", format!("m-{number}")),
                uid: format!("machine-{number}"),
                resource_version: "1".into(),
            },
            created: at(0),
            deleting: false,
            acknowledged: false,
            machine_set: None,
            claim: Some(ClaimRef { name: format!("c{number}"), uid: uid(number) }),
            hooked: true,
            drain_excluded: false,
            marked: false,
        };
        (deployment, (0..count).map(machine).collect())
    }

    #[test]
    fn nothing_is_given_back_before_ten_minutes() {
        let (deployment, machines) = deserted(1);
        let mut orphans = Orphans::default();
        assert!(orphans.ripe(&deployment, &machines, &[], Trust::Full, at(0)).is_empty());
        assert!(orphans.ripe(&deployment, &machines, &[], Trust::Full, at(9)).is_empty());
        assert_eq!(orphans.ripe(&deployment, &machines, &[], Trust::Full, at(10)).len(), 1);
    }

    #[test]
    fn at_most_a_tenth_goes_at_a_time_and_what_is_under_way_goes_on() {
        let (deployment, mut machines) = deserted(30);
        let mut orphans = Orphans::default();
        orphans.ripe(&deployment, &machines, &[], Trust::Full, at(0));
        assert_eq!(orphans.ripe(&deployment, &machines, &[], Trust::Full, at(10)).len(), 3);
        machines[20].deleting = true;
        let going = orphans.ripe(&deployment, &machines, &[], Trust::Full, at(11));
        assert_eq!(going[0].claim.uid, uid(20));
    }

    #[test]
    fn in_another_workload_cluster_or_without_any_claim_nothing_goes() {
        let (deployment, machines) = deserted(5);
        let mut orphans = Orphans::default();
        orphans.ripe(&deployment, &machines, &[], Trust::None, at(0));
        assert!(orphans.ripe(&deployment, &machines, &[], Trust::None, at(600)).is_empty());
        assert_eq!(orphans.len(), 5);
    }

    #[test]
    fn a_claim_that_comes_back_ends_the_suspicion() {
        let (deployment, machines) = deserted(1);
        let mut orphans = Orphans::default();
        orphans.ripe(&deployment, &machines, &[], Trust::Full, at(0));
        let mut claim = ClaimView::orphan(machines[0].claim.clone().unwrap(), Entry::of_uid(&uid(0)), at(0));
        claim.orphan = false;
        assert!(orphans.ripe(&deployment, &machines, &[claim], Trust::Full, at(5)).is_empty());
        assert!(
            orphans.ripe(&deployment, &machines, &[], Trust::Full, at(12)).is_empty(),
            "the time begins anew"
        );
    }
}
