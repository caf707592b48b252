//! Claims, Machines and replicas of one MachineDeployment.
//!
//! The MachineDeployment carries the list of claims that are counted in its replicas (the *ledger*); list and number change in one
//! patch. A Machine is given back by deleting it under our own hook before the number is lowered. Nothing is incremental: each step
//! decides from the objects alone, so a crash between two writes loses nothing.
//!
//! Words: *live* are Machines without deletionTimestamp; the *floor* is `spec.replicas` minus the number of entries: machines that
//! are not ours, whoever moved them; *settled* means that Cluster API has taken over the present number.

mod adopt;
mod bind;
mod enter;
mod give_back;
mod leave;
mod observed;
mod orphans;
mod revisions;
mod roll_out;
mod views;

pub use observed::{ClaimView, MachineDeploymentView, MachineSetView, MachineView, Observed, OwnPause};
pub use orphans::{ORPHAN_AFTER, Orphans, Trust};
pub use views::{assigned, bound};

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_model::name::NamespacedName;
use std::collections::BTreeSet;
use std::fmt;

/// Raising by more than this at once would delay a correction: one MachineSet makes its Machines one after the other.
pub const MAX_RAISE: i64 = 50;
/// How long everything must have been at rest before an entry leaves without having had a Machine.
pub const LEAVE_AFTER_REST: SignedDuration = SignedDuration::from_secs(30);
/// A Machine older than its claim by more than this was not made for it.
pub const MACHINE_MAY_PRECEDE_CLAIM: SignedDuration = SignedDuration::from_secs(60);

/// A claim's place in the ledger: the first 13 characters of its UID (48 bits, enough to tell apart a MachineDeployment's claims).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry(String);

impl Entry {
    /// The entry of the claim with that UID.
    pub fn of_uid(uid: &str) -> Self {
        Self(uid.chars().take(13).collect())
    }

    /// The entry of that claim.
    pub fn of(claim: &NodeClaim) -> Self {
        Self::of_uid(claim.metadata.uid.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The claims that are counted in a MachineDeployment's replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger(BTreeSet<Entry>);

impl Ledger {
    /// The ledger on an object; empty where it carries none.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let text = metadata.annotations.as_ref().and_then(|all| all.get(annotations::CLAIMS));
        text.map(|text| Self::parse(text)).unwrap_or_default()
    }

    /// Reads the annotation's value. Blanks and empty parts are skipped, so that a hand-edited list is still read.
    pub fn parse(value: &str) -> Self {
        Self(
            value
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(|part| Entry(part.to_owned()))
                .collect(),
        )
    }

    /// Whether the entry is in it.
    pub fn contains(&self, entry: &Entry) -> bool {
        self.0.contains(entry)
    }

    /// Number of entries.
    pub fn len(&self) -> i64 {
        i64::try_from(self.0.len()).unwrap_or(i64::MAX)
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }

    /// The ledger with the entries added and others taken out.
    #[must_use]
    pub fn changed<'a>(
        &self,
        add: impl IntoIterator<Item = &'a Entry>,
        remove: impl IntoIterator<Item = &'a Entry>,
    ) -> Self {
        let mut entries = self.0.clone();
        for entry in remove {
            entries.remove(entry);
        }
        entries.extend(add.into_iter().cloned());
        Self(entries)
    }
}

/// Sorted and comma-separated: the annotation's value.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{entry}")?;
        }
        Ok(())
    }
}

/// A claim by name and UID: what a write must find unchanged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRef {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl ClaimRef {
    /// The reference to that claim.
    pub fn of(claim: &NodeClaim) -> Self {
        Self {
            name: claim.metadata.name.clone().unwrap_or_default(),
            uid: claim.metadata.uid.clone().unwrap_or_default(),
        }
    }
}

/// `name/UID`: the value of the annotation on a Machine.
impl fmt::Display for ClaimRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.uid)
    }
}

/// A Machine by name, UID and the resourceVersion that the decision was made on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRef {
    /// Namespace and name.
    pub name: NamespacedName,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

/// Why a claim ends without anybody having deleted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndReason {
    /// It can't be served by the MachineDeployment that it was assigned to.
    InsufficientCapacity,
    /// Somebody lowered the replicas below the number of our claims.
    ScaledByOthers,
    /// Its Machine is gone, or somebody deleted it.
    MachineLost,
    /// Cluster API replaced its Machine in a roll-out; a successor has its place.
    ReplacedByRollOut,
    /// It was to adopt a Machine that it can't have.
    AdoptionRefused,
}

/// One write. Each carries the precondition under which it was decided; a conflict means: observe and decide again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Claim and hook onto the Machine, in one patch.
    Bind {
        /// The Machine, unchanged since.
        machine: MachineRef,
        /// The claim that gets it.
        claim: ClaimRef,
    },
    /// The Machine onto the claim.
    RecordMachine {
        /// The claim.
        claim: ClaimRef,
        /// The Machine that carries the claim already.
        machine: NamespacedName,
    },
    /// Delete the claim; what it holds is then given back by the ordinary way.
    EndClaim {
        /// The claim.
        claim: ClaimRef,
        /// Why, typed.
        reason: EndReason,
        /// Why, for people.
        message: String,
    },
    /// Keep Cluster API from draining a second time, and from waiting for volumes: we have done both. With it the hook is renewed.
    ExcludeDrain {
        /// The Machine, unchanged since.
        machine: MachineRef,
    },
    /// Delete the Machine, with its UID as precondition; our hook holds it.
    DeleteMachine {
        /// The Machine.
        machine: MachineRef,
    },
    /// Ledger and replicas in one patch of the MachineDeployment.
    UpdateLedger {
        /// The MachineDeployment's resourceVersion.
        resource_version: String,
        /// The new ledger.
        ledger: Ledger,
        /// The new number, where it changes.
        replicas: Option<i64>,
        /// Our own pause ends with it.
        end_pause: bool,
    },
    /// Pause the MachineDeployment for one Machine, noting which.
    Pause {
        /// The MachineDeployment's resourceVersion.
        resource_version: String,
        /// What for.
        pause: OwnPause,
    },
    /// Mark the Machine as the one that goes first; only under our own pause, which ends with its deletion.
    MarkMachine {
        /// The Machine, unchanged since.
        machine: MachineRef,
    },
    /// Set a MachineSet's replicas by hand, under our own pause.
    ScaleMachineSet {
        /// Its name.
        name: String,
        /// Its resourceVersion.
        resource_version: String,
        /// The number.
        replicas: i64,
    },
    /// Make the claim that takes this one's place.
    CreateSuccessor {
        /// The claim whose Machine a roll-out replaces.
        claim: ClaimRef,
    },
    /// Take everything of ours off the Machine, which stays.
    Forget {
        /// The Machine, unchanged since.
        machine: MachineRef,
    },
    /// Take our hook off: the Machine may go.
    ReleaseHook {
        /// The Machine, unchanged since.
        machine: MachineRef,
    },
    /// Nothing is held for the claim any more: its finalizer may go, once a live read shows no entry of it.
    FinishClaim {
        /// The claim.
        claim: ClaimRef,
    },
}

impl Write {
    /// Whether this write, later in the same step, must not be made when an earlier one met a conflict.
    ///
    /// A Machine changes all the time while it comes up. That one can't be bound yet says nothing of the others, nor of claims that
    /// want to enter; only the note of it on its claim must wait. After any other conflict all of the rest is stale.
    pub fn falls_with(&self, conflicting: &Self) -> bool {
        let Self::Bind { machine: unbound, .. } = conflicting else {
            return true;
        };
        matches!(self, Self::RecordMachine { machine, .. } if *machine == unbound.name)
    }
}

/// What a claim waits for, for its status and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The claim.
    pub claim: ClaimRef,
    /// One sentence.
    pub message: String,
}

/// What to do next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// In this order; after a failed one those that [fall with it](Write::falls_with) are dropped, and everything is observed anew.
    pub writes: Vec<Write>,
    /// What can't go on yet, and why.
    pub waiting: Vec<Waiting>,
    /// Look again after this long even if nothing changes.
    pub look_again: Option<SignedDuration>,
    /// Somebody took machines of ours: for a back-off's time the offering is unavailable, and nothing is raised.
    pub scaled_by_others: bool,
}

/// The next writes for one MachineDeployment.
///
/// Writes on different objects are returned together; the MachineDeployment itself is patched at most once in a step, and lowering
/// goes before raising.
pub fn step(observed: &Observed<'_>) -> Step {
    let mut step = Step::default();
    bind::record(observed, &mut step);
    if !revisions::under_own_pause(observed, &mut step) {
        bind::bind(observed, &mut step);
        give_back::release(observed, &mut step);
        adopt::forget(observed, &mut step);
        // The MachineDeployment is patched by the first of these that has a reason to.
        let patched = give_back::lower(observed, &mut step)
            || roll_out::succeed(observed, &mut step)
            || adopt::release(observed, &mut step)
            || leave::leave(observed, &mut step)
            || give_back::delete(observed, &mut step);
        enter::end_unserved(observed, &mut step);
        if !patched && !adopt::adopt(observed, &mut step) {
            enter::enter(observed, &mut step);
        }
    }
    leave::finish(observed, &mut step);
    step
}

#[cfg(test)]
mod tests;
