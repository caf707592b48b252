//! From a picture to the input of `solve`. The operator and the simulator call the same function.

mod buffers;
mod daemons;
mod deployments;
mod nodes;
mod overlays;
mod pods;
mod pools;
mod spread;
mod volumes;

use crate::scheduler_config::SchedulerConfig;
use crate::snapshot::Snapshot;
use jiff::Timestamp;
use karpenter_capi_api::names::labels;
use karpenter_capi_catalog::{CatalogEntry, Facts, Overlaid};
use karpenter_capi_model::feature_gates::FeatureGates;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_scheduling::input::{Input, Options};
use karpenter_capi_scheduling::plan::Warning;
use std::collections::{BTreeMap, BTreeSet};

pub use deployments::{Owned, Scope, offer, offer_of};
pub use overlays::overlaid;
pub use pods::namespaces;
pub use pools::StaticPool;
pub use volumes::volumes;

/// Where the objects come from, and so what may be expected of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A live cluster: a pod counts when kube-scheduler has marked it, a NodePool when its conditions say that it is ready.
    Cluster,
    /// Files: neither marks nor conditions are needed; NodePools and node classes are judged by their specs.
    Files,
}

/// What isn't in the picture.
#[derive(Clone, Debug)]
pub struct InputOptions {
    /// The time.
    pub now: Timestamp,
    /// Where the objects come from.
    pub origin: Origin,
    /// The Cluster that MachineDeployments must belong to.
    pub scope: Scope,
    /// Policies of scheduling.
    pub scheduling: Options,
    /// Optional features.
    pub gates: FeatureGates,
    /// What is known of MachineDeployments besides their objects.
    pub facts: BTreeMap<NamespacedName, Facts>,
    /// NodeClaims that earlier passes made for pods, by the pod's UID.
    pub nominations: BTreeMap<String, String>,
    /// Nodes and NodeClaims that a command under way takes away.
    pub marked: BTreeSet<String>,
    /// What pods get that say nothing.
    pub scheduler_config: SchedulerConfig,
}

/// The input of `solve`, and what it was made from.
#[derive(Clone, Debug)]
pub struct ProvisioningInput {
    /// The input.
    pub input: Input,
    /// Every MachineDeployment that a node class takes.
    pub catalog: BTreeMap<NamespacedName, CatalogEntry>,
    /// Claims by assigned MachineDeployment that change its replicas: see [`Books`].
    pub books: BTreeMap<NamespacedName, Books>,
    /// What NodePools choose from, with what NodeOverlays say of it.
    pub overlaid: Overlaid,
    /// NodePools with `replicas`, by name; none while the feature gate is off.
    pub static_pools: Vec<StaticPool>,
    /// Pods of the input that aren't there, but stand for CapacityBuffers; by pod.
    pub buffer_pods: BTreeMap<NamespacedName, NamespacedName>,
    /// What a person should know; sorted.
    pub warnings: Vec<Warning>,
}

impl ProvisioningInput {
    /// The buffer that a pod stands for; None for a pod that is there.
    pub fn buffer_of(&self, pod: &NamespacedName) -> Option<&NamespacedName> {
        self.buffer_pods.get(pod)
    }

    /// UIDs of these pods, as far as they are in the input: what nominations are kept by.
    pub fn uids<'a>(&'a self, pods: &'a [NamespacedName]) -> impl Iterator<Item = &'a str> {
        // The input is sorted by name.
        pods.iter().filter_map(|name| {
            let index = self.input.pods.binary_search_by(|pod| pod.name.cmp(name)).ok()?;
            self.input.pods.get(index).map(|pod| pod.uid.as_str())
        })
    }
}

/// How the claims that are there will change a MachineDeployment's replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Assigned and not yet counted: each will add one.
    pub to_enter: i64,
    /// Counted and being deleted: each will take one away.
    pub to_leave: i64,
}

/// Makes the input. The same picture and options give the same input.
pub fn provisioning_input(snapshot: &Snapshot, options: &InputOptions) -> ProvisioningInput {
    let mut warnings = Warnings::default();
    let books = deployments::books(snapshot);
    let deployments = deployments::read(snapshot, options, &books);
    let classes = pools::classes(snapshot, options, &deployments);
    let overlaid = overlays::of(snapshot, options, &deployments, &classes);
    overlays::tell(&overlaid, &mut warnings);
    let nodes = nodes::read(snapshot, options, &deployments, &overlaid, &mut warnings);
    let pods = pods::read(snapshot, options, &nodes.views, &mut warnings);
    let picture = pools::Picture {
        classes: &classes,
        deployments: &deployments,
        overlaid: &overlaid,
        usage: &nodes.usage,
    };
    let pools = pools::read(snapshot, options, picture, &mut warnings);
    let catalog: BTreeMap<_, _> = deployments
        .into_iter()
        .filter(|(name, _)| pools.taken.contains(name))
        .map(|(name, deployment)| (name, deployment.entry))
        .collect();
    for entry in catalog.values() {
        for warning in &entry.warnings {
            warnings.add(format!("MachineDeployment/{}", entry.name), warning.message.clone());
        }
    }
    let mut well_known_labels: BTreeSet<String> =
        labels::WELL_KNOWN.iter().map(|key| (*key).to_owned()).collect();
    well_known_labels.extend(catalog.values().flat_map(|entry| entry.labels.keys().cloned()));
    let volumes = volumes(snapshot, &pods.wanting, pods.bound.values().flatten());
    let defaults = spread::Defaults::new(snapshot, &options.scheduler_config);
    let buffers = buffers::read(snapshot, options, &mut warnings);
    let wanting = pods.wanting.iter().map(|record| defaults.apply(record));
    let mut wanting: Vec<_> = wanting.chain(buffers.pods).collect();
    wanting.sort_by(|a, b| a.name.cmp(&b.name));
    let input = Input {
        now: options.now,
        options: options.scheduling.clone(),
        pods: wanting,
        bound_pods: pods.bound,
        daemon_pods: daemons::read(snapshot),
        nodes: nodes.views,
        node_pools: pools.dynamic,
        instance_types: pools.instance_types,
        namespaces: pods.namespaces,
        volumes,
        well_known_labels,
        nominations: options.nominations.clone(),
        // Cluster API has no reservations: no MachineDeployment's annotations name one.
        reservation_id_label: String::new(),
    };
    ProvisioningInput {
        input,
        catalog,
        books,
        overlaid,
        static_pools: pools.fixed,
        buffer_pods: buffers.of_pods,
        warnings: warnings.sorted(),
    }
}

/// Collects what a person should know.
#[derive(Debug, Default)]
struct Warnings(BTreeSet<Warning>);

impl Warnings {
    fn add(&mut self, object: impl Into<String>, message: impl Into<String>) {
        self.0.insert(Warning { object: object.into(), message: message.into() });
    }

    fn sorted(self) -> Vec<Warning> {
        self.0.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
