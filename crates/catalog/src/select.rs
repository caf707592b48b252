//! Which MachineDeployments a node class takes.

use karpenter_capi_api::capi::MachineDeployment;
use karpenter_capi_api::names::labels;
use karpenter_capi_api::v1alpha1::ClusterAPINodeClass;
use karpenter_capi_model::selector::LabelSelector;
use std::collections::BTreeMap;

/// A node class's choice, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// None takes every member.
    selector: Option<LabelSelector>,
}

/// A selector that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ClusterAPINodeClass {node_class}: spec.scalableResourceSelector can't be read: {message}")]
pub struct SelectorError {
    /// Name of the node class.
    pub node_class: String,
    /// What is wrong.
    pub message: String,
}

impl Selection {
    /// Reads the node class's `scalableResourceSelector`.
    pub fn of(class: &ClusterAPINodeClass) -> Result<Self, SelectorError> {
        let selector = class.spec.scalable_resource_selector.as_ref();
        let selector = selector.map(LabelSelector::from_api).transpose().map_err(|error| SelectorError {
            node_class: class.metadata.name.clone().unwrap_or_default(),
            message: error.to_string(),
        })?;
        Ok(Self { selector })
    }

    /// Whether the MachineDeployment is a member and matches the selector, which narrows and never widens.
    pub fn takes(&self, deployment: &MachineDeployment) -> bool {
        let none = BTreeMap::new();
        let labels = deployment.metadata.labels.as_ref().unwrap_or(&none);
        is_member(deployment) && self.selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }
}

/// Whether the MachineDeployment carries the opt-in label with an empty value.
pub fn is_member(deployment: &MachineDeployment) -> bool {
    let labels = deployment.metadata.labels.as_ref();
    labels.and_then(|all| all.get(labels::MEMBER)).is_some_and(String::is_empty)
}
