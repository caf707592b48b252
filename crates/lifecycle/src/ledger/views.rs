//! Views of the API objects.

use super::observed::{ClaimView, MachineDeploymentView, MachineSetView, MachineView, OwnPause};
use super::{ClaimRef, Entry, Ledger, MachineRef};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::capi::{Cluster, Machine, MachineDeployment, MachineSet, StrategyType};
use karpenter_capi_api::condition;
use karpenter_capi_api::hypershift;
use karpenter_capi_api::names::{annotations, conditions, labels};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_model::{
    name::NamespacedName,
    reason::{ReasonCode, UnavailableReason},
};

impl MachineDeploymentView {
    /// The view of a MachineDeployment; `headroom` and `unavailable` are what the catalog found of the same object.
    ///
    /// A pause stops every write. Maximum size and roll-outs are looked at by the steps themselves: claims that were assigned before
    /// may still enter up to the maximum, and raising during a roll-out is safe.
    ///
    /// With a HyperShift NodePool number, ledger and resourceVersion are that one's: HyperShift writes its number over the
    /// MachineDeployment's own at every reconcile, and until it has, Cluster API can't have observed the present number. While it has
    /// its autoscaling on, the number is left to the MachineDeployment.
    pub fn of(
        deployment: &MachineDeployment,
        hypershift: Option<&hypershift::NodePool>,
        cluster: Option<&Cluster>,
        headroom: Option<i64>,
        unavailable: &[UnavailableReason],
    ) -> Self {
        let surface = hypershift.map_or(&deployment.metadata, |pool| &pool.metadata);
        let own_replicas = deployment.spec.replicas.unwrap_or_default();
        let replicas = hypershift.and_then(hypershift::NodePool::wanted).unwrap_or(own_replicas);
        // HyperShift takes off every pause, so none of ours is begun there.
        let own_pause = own_pause(deployment).filter(|_| hypershift.is_none());
        let paused = if own_pause.is_some() {
            paused_besides(deployment, cluster)
        } else {
            unavailable
                .iter()
                .find(|reason| reason.code == ReasonCode::Paused)
                .map(|reason| reason.message.clone())
        };
        let own = [ReasonCode::RollingOut, ReasonCode::MaxSize, ReasonCode::Paused, ReasonCode::Deleting];
        Self {
            name: name_of(&deployment.metadata),
            resource_version: surface.resource_version.clone().unwrap_or_default(),
            replicas: replicas.into(),
            ledger: Ledger::of(surface),
            deleting: deployment.metadata.deletion_timestamp.is_some(),
            observed: own_replicas == replicas
                && deployment.status.observed_generation >= deployment.metadata.generation,
            hosted: hypershift.is_some(),
            rolling_update: deployment.spec.strategy() != StrategyType::OnDelete,
            paused,
            own_pause,
            pause_acknowledged: condition::is_true(&deployment.status.conditions, conditions::CAPI_PAUSED),
            max_size: headroom.map(|headroom| i64::from(replicas) + headroom),
            unavailable: unavailable.iter().find(|reason| !own.contains(&reason.code)).cloned(),
        }
    }
}

/// `<claim UID>/<MachineSet>/<target>`; anything else is not ours.
fn own_pause(deployment: &MachineDeployment) -> Option<OwnPause> {
    let mut parts = annotation(&deployment.metadata, annotations::PAUSE_FOR)?.split('/');
    let (claim_uid, machine_set, target) = (parts.next()?, parts.next()?, parts.next()?.parse().ok()?);
    let lifted = annotation(&deployment.metadata, annotations::CAPI_PAUSED).is_none();
    Some(OwnPause { claim_uid: claim_uid.to_owned(), machine_set: machine_set.to_owned(), target, lifted })
}

/// The other two switches, which may be on beside our own pause.
fn paused_besides(deployment: &MachineDeployment, cluster: Option<&Cluster>) -> Option<String> {
    if deployment.spec.paused {
        return Some(format!("spec.paused is true on MachineDeployment {}", name_of(&deployment.metadata)));
    }
    let cluster = cluster.filter(|cluster| cluster.spec.paused)?;
    Some(format!("spec.paused is true on Cluster {}", name_of(&cluster.metadata)))
}

impl ClaimView {
    /// What is left of a claim that no longer exists: a Machine that carries it, or an entry. It is given back like that of a deleted
    /// claim, but without a drain of ours, so Cluster API drains.
    pub fn orphan(claim: ClaimRef, entry: Entry, created: Timestamp) -> Self {
        Self {
            claim,
            entry,
            created,
            deleting: true,
            machine: None,
            drained: true,
            adopts: None,
            replaces: None,
            keeps_machine: false,
            orphan: true,
        }
    }
}

impl MachineSetView {
    /// The view of a MachineSet.
    pub fn of(set: &MachineSet) -> Self {
        Self {
            name: set.metadata.name.clone().unwrap_or_default(),
            resource_version: set.metadata.resource_version.clone().unwrap_or_default(),
            created: created(&set.metadata),
            revision: annotation(&set.metadata, annotations::REVISION)
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
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
        let set =
            karpenter_capi_api::capi::owner_of_kind(metadata, "MachineSet").map(|owner| owner.name.clone());
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
            marked: annotation(metadata, annotations::DELETE_MACHINE).is_some(),
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
        let value = |key| annotation(&claim.metadata, key);
        Self {
            claim: ClaimRef::of(claim),
            entry: Entry::of(claim),
            created: created(&claim.metadata),
            deleting: claim.metadata.deletion_timestamp.is_some(),
            machine: annotation(&claim.metadata, annotations::MACHINE).and_then(|value| value.parse().ok()),
            drained,
            // The UID comes last; what isn't of that form names no Machine that exists, and the claim ends for it.
            adopts: value(annotations::ADOPT)
                .map(|text| text.rsplit('/').next().unwrap_or_default().to_owned()),
            replaces: value(annotations::REPLACES).map(str::to_owned),
            keeps_machine: value(annotations::RELEASE) == Some("true"),
            orphan: false,
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
    NamespacedName::new(
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

fn created(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}
