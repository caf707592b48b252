//! Views of the API objects.

use super::observed::{ClaimView, MachineDeploymentView, MachineSetView, MachineView};
use super::{ClaimRef, Entry, Ledger, MachineRef};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::capi::{Machine, MachineDeployment, MachineSet, StrategyType};
use karpenter_capi_api::names::{annotations, labels};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_model::{name::NamespacedName, reason::{ReasonCode, UnavailableReason}};

impl MachineDeploymentView {
    /// The view of a MachineDeployment; `headroom` and `unavailable` are what the catalog found of the same object.
    ///
    /// A pause stops every write. Maximum size and roll-outs are looked at by the steps themselves: claims that were assigned before
    /// may still enter up to the maximum, and raising during a roll-out is safe.
    pub fn of(deployment: &MachineDeployment, headroom: Option<i64>, unavailable: &[UnavailableReason]) -> Self {
        let ledger = annotation(&deployment.metadata, annotations::CLAIMS).map(Ledger::parse).unwrap_or_default();
        let replicas = i64::from(deployment.spec.replicas.unwrap_or_default());
        let pause = unavailable.iter().find(|reason| reason.code == ReasonCode::Paused);
        let own = [ReasonCode::RollingOut, ReasonCode::MaxSize, ReasonCode::Paused, ReasonCode::Deleting];
        Self {
            name: name_of(&deployment.metadata),
            resource_version: deployment.metadata.resource_version.clone().unwrap_or_default(),
            replicas,
            ledger,
            deleting: deployment.metadata.deletion_timestamp.is_some(),
            observed: deployment.status.observed_generation >= deployment.metadata.generation,
            rolling_update: deployment.spec.strategy() != StrategyType::OnDelete,
            paused: pause.map(|reason| reason.message.clone()),
            max_size: headroom.map(|headroom| replicas + headroom),
            unavailable: unavailable.iter().find(|reason| !own.contains(&reason.code)).cloned(),
        }
    }
}

impl MachineSetView {
    /// The view of a MachineSet.
    pub fn of(set: &MachineSet) -> Self {
        Self {
            name: set.metadata.name.clone().unwrap_or_default(),
            created: created(&set.metadata),
            replicas: set.spec.replicas.unwrap_or_default().into(),
            status_replicas: set.status.replicas.unwrap_or_default().into(),
            observed: set.status.observed_generation >= set.metadata.generation,
        }
    }
}

impl MachineView {
    /// The view of a Machine.
    pub fn of(machine: &Machine) -> Self {
        let metadata = &machine.metadata;
        let set = karpenter_capi_api::capi::owner_of_kind(metadata, "MachineSet").map(|owner| owner.name.clone());
        Self {
            machine: MachineRef {
                name: name_of(metadata),
                uid: metadata.uid.clone().unwrap_or_default(),
                resource_version: metadata.resource_version.clone().unwrap_or_default(),
            },
            created: created(metadata),
            deleting: metadata.deletion_timestamp.is_some(),
            acknowledged: machine.deletion_is_acknowledged(),
            machine_set: set,
            claim: annotation(metadata, annotations::NODECLAIM).map(claim_ref),
            hooked: annotation(metadata, annotations::PRE_TERMINATE_HOOK).is_some(),
            drain_excluded: annotation(metadata, annotations::EXCLUDE_NODE_DRAINING).is_some(),
        }
    }

    /// The MachineDeployment of a Machine, by Cluster API's label.
    pub fn machine_deployment(machine: &Machine) -> Option<NamespacedName> {
        let name = machine.metadata.labels.as_ref()?.get(labels::DEPLOYMENT_NAME)?;
        Some(NamespacedName::new(machine.metadata.namespace.clone().unwrap_or_default(), name))
    }
}

impl ClaimView {
    /// The view of a NodeClaim. `drained` is found by [`crate::claim::is_drained`].
    pub fn of(claim: &NodeClaim, drained: bool) -> Self {
        let has = |key| annotation(&claim.metadata, key).is_some();
        Self {
            claim: ClaimRef::of(claim),
            entry: Entry::of(claim),
            created: created(&claim.metadata),
            deleting: claim.metadata.deletion_timestamp.is_some(),
            machine: annotation(&claim.metadata, annotations::MACHINE).and_then(|value| value.parse().ok()),
            drained,
            takes_over: has(annotations::ADOPT) || has(annotations::REPLACES),
        }
    }
}

/// The MachineDeployment that a claim is assigned to.
pub fn assigned(claim: &NodeClaim) -> Option<NamespacedName> {
    annotation(&claim.metadata, annotations::MACHINE_DEPLOYMENT)?.parse().ok()
}

/// The Machine that a claim is bound to.
pub fn bound(claim: &NodeClaim) -> Option<NamespacedName> {
    annotation(&claim.metadata, annotations::MACHINE)?.parse().ok()
}

/// A text without a slash is a name with an unknown UID: it belongs to no claim that exists, and no other claim gets the Machine.
fn claim_ref(value: &str) -> ClaimRef {
    let (name, uid) = value.split_once('/').unwrap_or((value, ""));
    ClaimRef { name: name.to_owned(), uid: uid.to_owned() }
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn name_of(metadata: &ObjectMeta) -> NamespacedName {
    NamespacedName::new(metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn created(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}
