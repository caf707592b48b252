//! What a step decides from: plain views of the objects, all read live.

use super::{ClaimRef, Entry, Ledger, MachineRef};
use jiff::Timestamp;
use karpenter_capi_model::{name::NamespacedName, reason::UnavailableReason};

/// One MachineDeployment with everything that belongs to it, at one moment.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The moment.
    pub now: Timestamp,
    /// None: it is gone.
    pub machine_deployment: Option<&'a MachineDeploymentView>,
    /// Its MachineSets.
    pub machine_sets: &'a [MachineSetView],
    /// Its Machines, deleting ones included.
    pub machines: &'a [MachineView],
    /// Every claim that is assigned to it.
    pub claims: &'a [ClaimView],
    /// Since when this process has seen it at rest ([`Observed::at_rest`]) without interruption.
    pub at_rest_since: Option<Timestamp>,
}

/// A MachineDeployment.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and none excludes another")]
pub struct MachineDeploymentView {
    /// Namespace and name.
    pub name: NamespacedName,
    /// `metadata.resourceVersion` of the object that carries number and ledger.
    pub resource_version: String,
    /// `spec.replicas`; absent is 0, as at `/scale`.
    pub replicas: i64,
    /// The claims that are counted in `replicas`.
    pub ledger: Ledger,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// `status.observedGeneration` is current, of the present number.
    pub observed: bool,
    /// Number and ledger stand on a HyperShift NodePool, and HyperShift takes off any pause of the MachineDeployment.
    pub hosted: bool,
    /// `RollingUpdate`; false is `OnDelete`.
    pub rolling_update: bool,
    /// Somebody paused it, and by which switch: no write to it or its Machines.
    pub paused: Option<String>,
    /// We paused it, to take one Machine out of a MachineSet that isn't the oldest.
    pub own_pause: Option<OwnPause>,
    /// Cluster API has seen the pause (`Paused=True`).
    pub pause_acknowledged: bool,
    /// Most replicas that it may have.
    pub max_size: Option<i64>,
    /// Why no claim may enter now, by the catalog; maximum size and roll-outs apart, which are looked at here.
    pub unavailable: Option<UnavailableReason>,
}

/// Our own pause, as it stands in the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPause {
    /// UID of the claim whose Machine is taken out.
    pub claim_uid: String,
    /// The MachineSet that is shrunk by hand.
    pub machine_set: String,
    /// To how many replicas.
    pub target: i64,
    /// The pause itself is gone: somebody lifted it, and only this note is left.
    pub lifted: bool,
}

/// A MachineSet.
#[derive(Clone, Debug)]
pub struct MachineSetView {
    /// Its name.
    pub name: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// When it was made: Cluster API lowers the oldest first.
    pub created: Timestamp,
    /// Cluster API's number of the revision: the highest is the present template's, also when that went back to an older one.
    pub revision: i64,
    /// `spec.replicas`.
    pub replicas: i64,
    /// `status.replicas`: Machines that it counts, deleting ones included.
    pub status_replicas: i64,
    /// `status.observedGeneration` is current.
    pub observed: bool,
}

/// A Machine.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and none excludes another")]
pub struct MachineView {
    /// Name, UID and resourceVersion.
    pub machine: MachineRef,
    /// When it was made.
    pub created: Timestamp,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// Cluster API has answered the deletion (`Deleting=True` or `status.deletion`): from then on its MachineSet knows of it, too.
    pub acknowledged: bool,
    /// Its MachineSet.
    pub machine_set: Option<String>,
    /// The claim that is written on it.
    pub claim: Option<ClaimRef>,
    /// It carries our hook.
    pub hooked: bool,
    /// We have excluded Cluster API's drain: the mark of a Machine that we gave back ourselves.
    pub drain_excluded: bool,
    /// It carries Cluster API's mark of the one that goes first.
    pub marked: bool,
}

/// A NodeClaim that is assigned to the MachineDeployment.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and none excludes another")]
pub struct ClaimView {
    /// Name and UID.
    pub claim: ClaimRef,
    /// Its place in the ledger.
    pub entry: Entry,
    /// When it was made.
    pub created: Timestamp,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// The Machine that is written on it: it was bound at some time.
    pub machine: Option<NamespacedName>,
    /// Its Node is drained and its volumes are detached, or there is nothing to drain, or the deadline is over.
    pub drained: bool,
    /// It is to have this Machine, by UID, which is there already.
    pub adopts: Option<String>,
    /// It takes the place of this claim, by UID, whose Machine a roll-out replaces.
    pub replaces: Option<String>,
    /// When it is deleted, its Machine stays.
    pub keeps_machine: bool,
    /// The claim itself is gone: nobody has drained for it, and Cluster API is to do so.
    pub orphan: bool,
}

impl Observed<'_> {
    /// Machines without deletionTimestamp.
    pub(super) fn live(&self) -> i64 {
        count(self.machines.iter().filter(|machine| !machine.deleting))
    }

    /// The Machine that carries the claim, live or deleting.
    pub(super) fn machine_of(&self, claim: &ClaimView) -> Option<&MachineView> {
        self.machines
            .iter()
            .find(|machine| machine.claim.as_ref().is_some_and(|owner| owner.uid == claim.claim.uid))
    }

    /// The claim that the Machine carries, if it still exists.
    pub(super) fn claim_of(&self, machine: &MachineView) -> Option<&ClaimView> {
        let owner = machine.claim.as_ref()?;
        self.claims.iter().find(|claim| claim.claim.uid == owner.uid)
    }

    /// Whether the Machine carries a claim that is counted. One that is being released still carries its claim, but belongs to the
    /// floor already.
    pub(super) fn is_ours(&self, machine: &MachineView) -> bool {
        let Some(deployment) = self.machine_deployment else {
            return false;
        };
        machine.claim.as_ref().is_some_and(|owner| deployment.ledger.contains(&Entry::of_uid(&owner.uid)))
    }

    /// Whether Cluster API has taken over the present number.
    pub fn settled(&self) -> bool {
        self.machine_deployment.is_some_and(|deployment| {
            deployment.observed
                && self.machine_sets.iter().all(|set| set.observed)
                && self.machine_sets.iter().map(|set| set.replicas).sum::<i64>() == deployment.replicas
        })
    }

    /// Whether Cluster API has taken over the present number as far as it goes down: from now on no replacement is made for a Machine
    /// that isn't counted.
    ///
    /// It may still want to go up: a held Machine counts for it, and until that is gone it raises no further.
    pub(super) fn lowered(&self) -> bool {
        self.machine_deployment.is_some_and(|deployment| {
            deployment.observed
                && self.machine_sets.iter().all(|set| set.observed)
                && self.machine_sets.iter().map(|set| set.replicas).sum::<i64>() <= deployment.replicas
        })
    }

    /// Settled, no Machine is going, and the MachineSets have counted those that are there.
    ///
    /// A deleting Machine still takes the place of one that is to be made, and when it has gone its MachineSet makes that one as soon
    /// as it notices: Machines that are missing meanwhile are not missing for good.
    pub fn at_rest(&self) -> bool {
        self.settled()
            && !self.machines.iter().any(|machine| machine.deleting)
            && self.machine_sets.iter().map(|set| set.status_replicas).sum::<i64>() == self.live()
    }

    /// The MachineSet of the present template.
    pub(super) fn newest_set(&self) -> Option<&MachineSetView> {
        self.machine_sets.iter().max_by_key(|set| (set.revision, set.created, set.name.as_str()))
    }

    /// The claim's entry is in the ledger.
    pub(super) fn is_counted(&self, claim: &ClaimView) -> bool {
        self.machine_deployment.is_some_and(|deployment| deployment.ledger.contains(&claim.entry))
    }

    /// Whether several MachineSets have replicas or Machines: a roll-out, or revisions side by side.
    pub(super) fn several_revisions(&self) -> bool {
        self.machine_sets.iter().filter(|set| self.populated(set)).count() > 1
    }

    /// A roll-out by Cluster API is under way: whatever we lower, it decides which Machines go.
    pub(super) fn rolling_out(&self) -> bool {
        let newest = self.newest_set().map(|set| set.name.as_str());
        let older =
            || self.machine_sets.iter().any(|set| newest != Some(set.name.as_str()) && self.populated(set));
        self.machine_deployment.is_some_and(|deployment| deployment.rolling_update) && older()
    }

    /// Whether lowering by one takes this very Machine, once it is deleting: no roll-out, and it is in the oldest MachineSet with
    /// replicas.
    pub(super) fn lowering_takes(&self, machine: &MachineView) -> bool {
        if self.rolling_out() {
            return false;
        }
        if !self.several_revisions() {
            return true;
        }
        self.oldest_set().is_some_and(|set| machine.machine_set.as_ref() == Some(&set.name))
    }

    /// The MachineSet with replicas that is lowered first: the oldest, that of the present template last.
    pub(super) fn oldest_set(&self) -> Option<&MachineSetView> {
        let newest = self.newest_set().map(|set| set.name.as_str());
        let wanting = self.machine_sets.iter().filter(|set| set.replicas > 0);
        wanting.min_by_key(|set| (newest == Some(set.name.as_str()), set.created, set.name.as_str()))
    }

    /// Of several MachineSets: how many Machines that stay are missing in the one that is lowered first.
    pub(super) fn vacant_in_oldest(&self, stays: fn(&MachineView) -> bool) -> Option<i64> {
        let set = self.oldest_set().filter(|_| self.several_revisions())?;
        let its_own = self
            .machines
            .iter()
            .filter(|machine| machine.machine_set.as_ref() == Some(&set.name) && stays(machine));
        Some(set.replicas - count(its_own))
    }

    fn populated(&self, set: &MachineSetView) -> bool {
        set.replicas > 0
            || set.status_replicas > 0
            || self.machines.iter().any(|machine| machine.machine_set.as_ref() == Some(&set.name))
    }
}

impl MachineDeploymentView {
    /// Machines that are not ours; negative when somebody took machines of ours.
    pub fn floor(&self) -> i64 {
        self.replicas - self.ledger.len()
    }
}

/// The number of items, for arithmetic with replicas.
pub(super) fn count<T>(items: impl Iterator<Item = T>) -> i64 {
    i64::try_from(items.count()).unwrap_or(i64::MAX)
}
