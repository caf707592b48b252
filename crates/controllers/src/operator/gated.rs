//! Watches of optional features' kinds. A feature that is off has no objects.

use super::{Operator, Tasks};
use crate::optional::Place;
use k8s_openapi::api::{apps::v1 as apps, core::v1 as core};
use karpenter_capi_api::capacity_buffer::CapacityBuffer;
use karpenter_capi_api::node_overlay::NodeOverlay;
use karpenter_capi_cluster::object::Kind;
use karpenter_capi_model::feature_gates::Gate;
use kube::Api;
use kube::runtime::watcher::Config;
use std::collections::BTreeSet;

impl Operator {
    /// Custom resources are watched where they are served: upstream's gates may be on in a cluster that lacks the definitions.
    pub(super) fn watch_gated(&self, tasks: &mut Tasks) {
        let gates = &self.context.settings.feature_gates;
        if gates.is_on(Gate::NodeOverlay) {
            self.watch_overlays(tasks);
        } else {
            self.watch_none(&[Kind::NodeOverlay]);
        }
        if gates.is_on(Gate::CapacityBuffer) {
            self.watch_buffers(tasks);
        } else {
            self.watch_none(&[
                Kind::CapacityBuffer,
                Kind::PodTemplate,
                Kind::Deployment,
                Kind::ReplicaSet,
                Kind::StatefulSet,
            ]);
        }
    }

    fn watch_overlays(&self, tasks: &mut Tasks) {
        let client = self.context.workload.clone();
        let place = Place {
            client: client.clone(),
            api_version: "karpenter.sh/v1alpha1",
            plural: "nodeoverlays",
            kind: Kind::NodeOverlay,
        };
        self.watch_optional(tasks, place, Api::<NodeOverlay>::all(client));
    }

    /// Buffers, and what they may refer to.
    fn watch_buffers(&self, tasks: &mut Tasks) {
        let client = self.context.workload.clone();
        let place = Place {
            client: client.clone(),
            api_version: "autoscaling.x-k8s.io/v1beta1",
            plural: "capacitybuffers",
            kind: Kind::CapacityBuffer,
        };
        self.watch_optional(tasks, place, Api::<CapacityBuffer>::all(client.clone()));
        let own = || client.clone();
        self.feed(tasks, Kind::PodTemplate, Api::<core::PodTemplate>::all(own()), Config::default());
        self.feed(tasks, Kind::Deployment, Api::<apps::Deployment>::all(own()), Config::default());
        self.feed(tasks, Kind::ReplicaSet, Api::<apps::ReplicaSet>::all(own()), Config::default());
        self.feed(tasks, Kind::StatefulSet, Api::<apps::StatefulSet>::all(own()), Config::default());
    }

    fn watch_none(&self, kinds: &[Kind]) {
        for kind in kinds {
            self.context.index.retain(*kind, &BTreeSet::new());
        }
    }
}
