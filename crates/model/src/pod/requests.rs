//! What a pod takes of a node, as Kubernetes computes it.

use crate::quantity::Rounding;
use crate::resources::{CPU, HUGEPAGES_PREFIX, MEMORY, Resources, read_amount};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;
use std::fmt;

/// Whether missing requests are filled in, as the API server does when a pod is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defaulting {
    /// A container's missing request is its limit; a pod-level one is the containers' sum or the pod-level limit.
    /// On an object that the API server stored this changes nothing; templates and files need it.
    Apply,
    /// Requests are taken as written: upstream's `PodRequests`.
    AsWritten,
}

type List = BTreeMap<String, Quantity>;

/// Effective requests, `pods: 1` included. Amounts that can't be read count as zero and are named in `invalid`.
///
/// Containers add up; restartable init containers (sidecars) add up with them; other init containers need their own with
/// the sidecars started before them, and the larger of the two counts. Pod-level requests replace the result for CPU, memory
/// and hugepages, and overhead is added. Where `status` says what a container, a sidecar or the pod as a whole runs with, the
/// largest counts of that, of what it was allocated and of what it asks for; the last not while its node can't ever resize it.
pub fn effective(
    spec: &PodSpec,
    status: Option<&PodStatus>,
    defaulting: Defaulting,
    invalid: &mut Vec<String>,
) -> Resources {
    let mut reader = Reader { defaulting, infeasible: status.is_some_and(is_resize_infeasible), invalid };
    let containers = reader.containers(spec, status);
    let pod_level = reader.pod_level(spec, status, &containers);
    let mut requests = containers;
    for (name, amount) in pod_level {
        requests.set(&name, amount);
    }
    if let Some(overhead) = &spec.overhead {
        requests.add(&reader.list(overhead, format_args!("spec.overhead")));
    }
    requests.pods = requests.pods.saturating_add(1);
    requests
}

/// Paths of fields come as `format_args`, of which a text is made only for what can't be read.
struct Reader<'a> {
    defaulting: Defaulting,
    /// The pod asks for a size that its node never has: what it has counts, not what it asks for.
    infeasible: bool,
    invalid: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn containers(&mut self, spec: &PodSpec, status: Option<&PodStatus>) -> Resources {
        let mut sum = Resources::ZERO;
        for container in &spec.containers {
            let state =
                status.and_then(|status| state_of(status.container_statuses.as_deref(), &container.name));
            sum.add(&self.container(container, state, "containers"));
        }
        let mut sidecars = Resources::ZERO;
        let mut starting = Resources::ZERO;
        for container in spec.init_containers.iter().flatten() {
            // Others have ended when somebody could resize them.
            let state = status
                .filter(|_| is_sidecar(container))
                .and_then(|status| state_of(status.init_container_statuses.as_deref(), &container.name));
            let own = self.container(container, state, "initContainers");
            if is_sidecar(container) {
                sum.add(&own);
                sidecars.add(&own);
                starting = starting.max(&sidecars);
            } else {
                starting = starting.max(&own.plus(&sidecars));
            }
        }
        // Most pods start nothing beforehand.
        if starting.is_zero() { sum } else { sum.max(&starting) }
    }

    fn container(
        &mut self,
        container: &Container,
        state: Option<&ContainerStatus>,
        field: &str,
    ) -> Resources {
        let Some(resources) = &container.resources else {
            return Resources::ZERO;
        };
        let mut own = Resources::ZERO;
        if let Some(requests) = &resources.requests {
            let path = format_args!("spec.{field}[{}].resources.requests", container.name);
            own = self.list(requests, path);
        }
        if let (Some(limits), Defaulting::Apply) = (&resources.limits, self.defaulting) {
            for (name, limit) in limits {
                if resources.requests.as_ref().is_none_or(|requests| !requests.contains_key(name)) {
                    let path = format_args!("spec.{field}[{}].resources.limits", container.name);
                    let amount = self.amount(name, limit, path);
                    own.set(name, amount);
                }
            }
        }
        match state.and_then(|state| Some((state, state.resources.as_ref()?))) {
            Some((state, actual)) => {
                let lists = [actual.requests.as_ref(), state.allocated_resources.as_ref()];
                self.resized(own, lists, format_args!("status of container {}", container.name))
            }
            None => own,
        }
    }

    /// What counts of something that was resized, or is to be.
    fn resized(&mut self, asked: Resources, had: [Option<&List>; 2], path: fmt::Arguments<'_>) -> Resources {
        let asked = if self.infeasible { Resources::ZERO } else { asked };
        had.into_iter().flatten().fold(asked, |most, list| most.max(&self.list(list, path)))
    }

    /// Pod-level requests for the resources that may have some.
    fn pod_level(
        &mut self,
        spec: &PodSpec,
        status: Option<&PodStatus>,
        containers: &Resources,
    ) -> Vec<(String, i64)> {
        let Some(resources) = &spec.resources else {
            return Vec::new();
        };
        let mut amounts = BTreeMap::new();
        for (name, quantity) in resources.requests.iter().flatten() {
            if is_pod_level(name) {
                amounts.insert(
                    name.clone(),
                    self.amount(name, quantity, format_args!("spec.resources.requests")),
                );
            }
        }
        if let Some((status, actual)) = status.and_then(|status| Some((status, status.resources.as_ref()?))) {
            let asked = amounts.iter().fold(Resources::ZERO, |all, (name, amount)| all.with(name, *amount));
            let lists = [actual.requests.as_ref(), status.allocated_resources.as_ref()];
            let counting = self.resized(asked, lists, format_args!("status.resources"));
            for (name, amount) in &mut amounts {
                *amount = counting.get(name);
            }
        }
        if self.defaulting == Defaulting::Apply {
            for (name, quantity) in resources.limits.iter().flatten() {
                if is_pod_level(name) && !amounts.contains_key(name) {
                    let limit = self.amount(name, quantity, format_args!("spec.resources.limits"));
                    let summed = containers.get(name);
                    let overcommittable = !name.starts_with(HUGEPAGES_PREFIX);
                    amounts.insert(name.clone(), if summed > 0 && overcommittable { summed } else { limit });
                }
            }
        }
        amounts.into_iter().collect()
    }

    fn list(&mut self, list: &List, path: fmt::Arguments<'_>) -> Resources {
        let mut resources = Resources::ZERO;
        for (name, quantity) in list {
            let amount = self.amount(name, quantity, path);
            resources.set(name, amount);
        }
        resources
    }

    fn amount(&mut self, name: &str, quantity: &Quantity, path: fmt::Arguments<'_>) -> i64 {
        read_amount(name, &quantity.0, Rounding::Up).unwrap_or_else(|error| {
            self.invalid.push(format!("{path}: {error}"));
            0
        })
    }
}

/// Whether the node has said that it can never give the pod the size that it asks for.
fn is_resize_infeasible(status: &PodStatus) -> bool {
    let mut pending = status.conditions.iter().flatten().filter(|one| one.type_ == "PodResizePending");
    pending.next().is_some_and(|one| one.reason.as_deref() == Some("Infeasible"))
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn is_pod_level(resource: &str) -> bool {
    resource == CPU || resource == MEMORY || resource.starts_with(HUGEPAGES_PREFIX)
}

fn state_of<'a>(statuses: Option<&'a [ContainerStatus]>, name: &str) -> Option<&'a ContainerStatus> {
    statuses.into_iter().flatten().find(|status| status.name == name)
}
