//! Taints that nodes of a MachineDeployment come up with.

use crate::findings::{Annotations, Findings, is_label_value, is_qualified_name, parts};
use karpenter_capi_api::capi::MachineTaint;
use karpenter_capi_api::names::{annotations, taints};
use karpenter_capi_model::taint::{Taint, TaintEffect};
use std::collections::BTreeMap;

/// Where the Machine template keeps its taints.
const TEMPLATE_FIELD: &str = "spec.template.spec.taints";
const REMEDY: &str =
    "write key=value:effect with effect NoSchedule, PreferNoSchedule or NoExecute, separated by commas";

/// Taints of the Machine template with those of the annotation over them; the same key and effect is the same taint.
///
/// A malformed taint takes the MachineDeployment out: to guess a taint away would send pods to nodes that repel them.
pub(crate) fn taints(
    template: &[MachineTaint],
    annotated: Annotations<'_>,
    findings: &mut Findings,
) -> Vec<Taint> {
    let mut merged = BTreeMap::new();
    for MachineTaint { key, value, effect, propagation: _ } in template {
        match checked(key, value, effect) {
            Some(taint) => _ = merged.insert((taint.key.clone(), taint.effect), taint),
            None => findings.fault(TEMPLATE_FIELD, &format!("{key}={value}:{effect}"), REMEDY),
        }
    }
    let list = annotated.value(annotations::CAPACITY_TAINTS).unwrap_or_default();
    for part in parts(list) {
        match parsed(part) {
            Some(taint) => _ = merged.insert((taint.key.clone(), taint.effect), taint),
            None => findings.fault(annotations::CAPACITY_TAINTS, part, REMEDY),
        }
    }
    merged.into_values().collect()
}

/// `key=value:effect` or `key:effect`.
fn parsed(part: &str) -> Option<Taint> {
    let (name, effect) = part.rsplit_once(':')?;
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    checked(key.trim(), value.trim(), effect.trim())
}

fn checked(key: &str, value: &str, effect: &str) -> Option<Taint> {
    let effect = match effect {
        taints::NO_SCHEDULE => TaintEffect::NoSchedule,
        taints::PREFER_NO_SCHEDULE => TaintEffect::PreferNoSchedule,
        taints::NO_EXECUTE => TaintEffect::NoExecute,
        _ => return None,
    };
    let good = is_qualified_name(key) && is_label_value(value);
    good.then(|| Taint { key: key.to_owned(), value: value.to_owned(), effect })
}
