//! What nodes of a MachineDeployment turned out to have.

use crate::findings::Findings;
use karpenter_capi_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Resources, format_amount};

/// Resources that every kubelet reports, so that a smaller amount is a fact and not a delay.
const COMPARED: [&str; 3] = [CPU, MEMORY, EPHEMERAL_STORAGE];

/// Raises the overhead where the largest allocatable seen on an initialized node is below what the annotations promise: the same
/// machine made again would be as small, and the pod that doesn't fit would have nodes made for it without end.
pub(crate) fn cut_to_observed(
    capacity: &Resources,
    overhead: &mut Resources,
    observed: Option<&Resources>,
    name: &str,
    findings: &mut Findings,
) {
    let Some(observed) = observed else { return };
    for resource in COMPARED {
        let promised = capacity.allocatable(overhead).get(resource);
        let seen = observed.get(resource);
        if seen > 0 && seen < promised {
            let reserved = overhead.get(resource).saturating_add(promised - seen);
            overhead.set(resource, reserved);
            findings.warn(
                "",
                format!(
                    "largest allocatable {resource} seen for {name} is {}, the annotations promise {}; lower the capacity or write what is reserved",
                    format_amount(resource, seen),
                    format_amount(resource, promised)
                ),
            );
        }
    }
}
