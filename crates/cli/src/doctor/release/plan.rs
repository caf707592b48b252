//! What is to be taken off an object: decided from its metadata alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::names::annotations;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// What kind an object is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Kind {
    Machine,
    MachineDeployment,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Machine => "Machine",
            Self::MachineDeployment => "MachineDeployment",
        }
    }
}

/// An object with something of ours that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// `namespace/name`.
    pub(super) full_name: String,
    resource_version: Option<String>,
    /// Keys to take off.
    pub(super) annotations: Vec<&'static str>,
    pub(super) deleting: bool,
}

/// What holds an object; None: nothing of ours.
///
/// Our note tells our own pause from everybody else's: without the note a pause is never touched.
pub(super) fn plan(kind: Kind, metadata: &ObjectMeta) -> Option<Release> {
    let has = |key: &&str| metadata.annotations.as_ref().is_some_and(|all| all.contains_key(*key));
    let annotations: Vec<&'static str> = match kind {
        Kind::Machine => [annotations::PRE_TERMINATE_HOOK].into_iter().filter(has).collect(),
        Kind::MachineDeployment if has(&annotations::PAUSE_FOR) => {
            [annotations::PAUSE_FOR, annotations::CAPI_PAUSED].into_iter().filter(has).collect()
        }
        Kind::MachineDeployment => Vec::new(),
    };
    let name = metadata.name.clone().unwrap_or_default();
    (!annotations.is_empty()).then(|| Release {
        kind,
        full_name: format!("{}/{name}", metadata.namespace.as_deref().unwrap_or_default()),
        name,
        resource_version: metadata.resource_version.clone(),
        annotations,
        deleting: metadata.deletion_timestamp.is_some(),
    })
}

impl Release {
    /// A merge patch that takes the keys off the object as it was read, and off no later one.
    pub(super) fn patch(&self) -> Value {
        let removed: Map<String, Value> =
            self.annotations.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
        json!({ "metadata": { "resourceVersion": self.resource_version, "annotations": removed } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/karpenter";
    const NOTE: &str = "karpenter.cluster.x-k8s.io/pause-for";
    const PAUSE: &str = "cluster.x-k8s.io/paused";

    fn metadata(annotations: &[&str]) -> ObjectMeta {
        let annotations: Map<String, Value> =
            annotations.iter().map(|key| ((*key).to_owned(), json!(""))).collect();
        serde_json::from_value(json!({
            "name": "m", "namespace": "d", "resourceVersion": "7", "annotations": annotations,
        }))
        .unwrap()
    }

    fn taken_off(kind: Kind, annotations: &[&str]) -> Vec<&'static str> {
        plan(kind, &metadata(annotations)).map(|release| release.annotations).unwrap_or_default()
    }

    #[test]
    fn only_our_hook_is_taken_off_a_machine() {
        let others = ["pre-terminate.delete.hook.machine.cluster.x-k8s.io/other", PAUSE, NOTE];
        assert_eq!(taken_off(Kind::Machine, &others), Vec::<&str>::new());
        let ours = ["pre-terminate.delete.hook.machine.cluster.x-k8s.io/other", HOOK];
        assert_eq!(taken_off(Kind::Machine, &ours), [HOOK]);
    }

    #[test]
    fn a_pause_is_ended_only_with_our_note_beside_it() {
        assert_eq!(taken_off(Kind::MachineDeployment, &[PAUSE]), Vec::<&str>::new());
        assert_eq!(taken_off(Kind::MachineDeployment, &[PAUSE, NOTE]), [NOTE, PAUSE]);
        assert_eq!(taken_off(Kind::MachineDeployment, &[NOTE]), [NOTE], "somebody has lifted the pause");
    }

    #[test]
    fn the_patch_holds_for_the_object_as_it_was_read() {
        let release = plan(Kind::MachineDeployment, &metadata(&[PAUSE, NOTE])).unwrap();
        assert_eq!(
            release.patch(),
            json!({ "metadata": { "resourceVersion": "7", "annotations": { NOTE: null, PAUSE: null } } })
        );
    }
}
