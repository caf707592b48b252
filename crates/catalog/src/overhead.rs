//! What of a machine pods can't have.

use crate::amount::reserved_amount;
use crate::findings::{Annotations, Findings, is_qualified_name, parts};
use karpenter_capi_api::names::annotations;
use karpenter_capi_model::resources::Resources;

/// Keys whose lists are added up.
const KEYS: [&str; 3] =
    [annotations::KUBE_RESERVED, annotations::SYSTEM_RESERVED, annotations::EVICTION_THRESHOLD];
const REMEDY: &str = "write a list of resources such as cpu=100m,memory=255Mi";

/// Kube-reserved, system-reserved and eviction threshold, added up. A part that can't be read takes the MachineDeployment out:
/// nodes smaller than expected would be made again and again.
pub(crate) fn overhead(annotated: Annotations<'_>, findings: &mut Findings) -> Resources {
    let mut sum = Resources::default();
    for key in KEYS {
        for part in parts(annotated.value(key).unwrap_or_default()) {
            match reserved(part) {
                Some((resource, amount)) => {
                    let before = sum.get(resource);
                    sum.set(resource, before.saturating_add(amount));
                }
                None => findings.fault(key, part, REMEDY),
            }
        }
    }
    sum
}

fn reserved(part: &str) -> Option<(&str, i64)> {
    let (resource, value) = part.split_once('=')?;
    let (resource, value) = (resource.trim(), value.trim());
    let amount = reserved_amount(resource, value)?;
    (is_qualified_name(resource) && amount >= 0).then_some((resource, amount))
}
