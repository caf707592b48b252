//! How large the machines of a MachineDeployment are.

use crate::amount::{amount, number};
use crate::findings::{Annotations, Findings, is_qualified_name, parts};
use karpenter_capi_api::capi::InfrastructureTemplate;
use karpenter_capi_api::names::annotations;
use karpenter_capi_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, format_amount};
use std::collections::BTreeMap;

/// Pods on a node where nothing else is said, as the Cluster Autoscaler assumes it.
const DEFAULT_PODS: i64 = 110;
/// Memory or storage below this is taken for a number without its unit.
const SUSPICIOUSLY_SMALL_BYTES: i64 = 64 << 20;
/// Processors below this (in thousandths) are taken for a number with a wrong unit.
const SUSPICIOUSLY_SMALL_MILLICORES: i64 = 50;

/// What the machines have, and what of the documented minimum (CPU and memory) nobody declares.
pub(crate) struct Capacity {
    pub(crate) resources: Resources,
    pub(crate) missing: Vec<&'static str>,
    /// Volumes that a node can attach, by CSI driver.
    pub(crate) volume_limits: BTreeMap<String, i64>,
}

/// Annotations over the infrastructure template's `status.capacity`.
pub(crate) fn capacity(
    template: Option<&InfrastructureTemplate>,
    annotated: Annotations<'_>,
    findings: &mut Findings,
) -> Capacity {
    let mut amounts = of_template(template, findings);
    for (key, resource, example) in [
        (annotations::CAPACITY_CPU, CPU, "write a quantity of processors such as 4 or 3500m"),
        (annotations::CAPACITY_MEMORY, MEMORY, "write a quantity of bytes such as 16Gi"),
        (annotations::CAPACITY_EPHEMERAL_DISK, EPHEMERAL_STORAGE, "write a quantity of bytes such as 100Gi"),
    ] {
        let Some(value) = annotated.value(key) else {
            continue;
        };
        match amount(resource, value) {
            Some(amount) if amount > 0 => {
                suspicious(key, value, resource, amount, findings);
                amounts.insert(resource.to_owned(), amount);
            }
            _ => findings.fault(key, value, example),
        }
    }
    pods(annotated, findings, &mut amounts);
    gpus(annotated, findings, &mut amounts);
    let volume_limits = volume_limits(annotated, findings);
    let missing = [CPU, MEMORY].into_iter().filter(|resource| !amounts.contains_key(*resource)).collect();
    let mut resources = Resources::default();
    for (name, amount) in amounts {
        resources.set(&name, amount);
    }
    Capacity { resources, missing, volume_limits }
}

fn pods(annotated: Annotations<'_>, findings: &mut Findings, amounts: &mut BTreeMap<String, i64>) {
    const KEY: &str = annotations::CAPACITY_MAX_PODS;
    if let Some(value) = annotated.value(KEY) {
        match number(value).filter(|pods| *pods > 0) {
            Some(pods) => _ = amounts.insert(PODS.to_owned(), pods),
            None => findings.fault(KEY, value, "write a whole number of pods such as 110"),
        }
    }
    amounts.entry(PODS.to_owned()).or_insert(DEFAULT_PODS);
}

fn of_template(template: Option<&InfrastructureTemplate>, findings: &mut Findings) -> BTreeMap<String, i64> {
    let mut amounts = BTreeMap::new();
    let Some(template) = template else { return amounts };
    for problem in &template.problems {
        findings.warn(&template.kind, format!("{} {}: {problem}", template.kind, name_of(template)));
    }
    for (resource, quantity) in &template.capacity {
        match amount(resource, &quantity.0) {
            Some(amount) if amount > 0 => _ = amounts.insert(resource.clone(), amount),
            // A provider may write 0 for what a machine lacks.
            Some(0) => {}
            _ => findings.warn(
                &template.kind,
                format!(
                    "{} {}: status.capacity[{resource}] is {:?}; a quantity such as \"4\" is right",
                    template.kind,
                    name_of(template),
                    quantity.0
                ),
            ),
        }
    }
    amounts
}

fn name_of(template: &InfrastructureTemplate) -> &str {
    template.metadata.name.as_deref().unwrap_or_default()
}

/// A bare number is bytes, by the rules of quantities; hardly anybody means 16384 bytes.
fn suspicious(key: &str, value: &str, resource: &str, amount: i64, findings: &mut Findings) {
    let (least, hint) = match resource {
        CPU => (SUSPICIOUSLY_SMALL_MILLICORES, "of a processor; a bare number is whole processors"),
        _ => (SUSPICIOUSLY_SMALL_BYTES, "bytes; a number without a unit is bytes, so write for example 16Gi"),
    };
    if amount < least {
        let shown = if resource == CPU { format_amount(CPU, amount) } else { amount.to_string() };
        findings.warn(key, format!("{key}: {value:?} is suspiciously small: {shown} {hint}"));
    }
}

/// GPUs need both their number and the name of their resource.
fn gpus(annotated: Annotations<'_>, findings: &mut Findings, amounts: &mut BTreeMap<String, i64>) {
    const TYPE: &str = annotations::CAPACITY_GPU_TYPE;
    const COUNT: &str = annotations::CAPACITY_GPU_COUNT;
    const DRIVER: &str = annotations::CAPACITY_DRA_DRIVER;
    if let Some(driver) = annotated.value(DRIVER) {
        findings.warn(DRIVER, format!("{DRIVER}: devices of {driver:?} are allocated dynamically, which isn't evaluated; pods with spec.resourceClaims stay pending"));
    }
    let count = annotated.value(COUNT).and_then(|value| {
        let count = number(value).filter(|count| *count >= 0);
        if count.is_none() {
            findings.fault(COUNT, value, "write a whole number of GPUs such as 2");
        }
        count
    });
    match (annotated.value(TYPE), count) {
        (Some(name), _) if !is_qualified_name(name) => {
            findings.fault(TYPE, name, "write the name of the GPUs' resource such as nvidia.com/gpu");
        }
        (Some(name), Some(count)) if count > 0 => _ = amounts.insert(name.to_owned(), count),
        (Some(name), None) if !annotated.has(COUNT) => findings.warn(
            TYPE,
            format!("{TYPE}: {name:?} has no effect without {COUNT}; write the number of GPUs there"),
        ),
        (None, Some(count)) if count > 0 && !annotated.has(DRIVER) => findings.warn(
            COUNT,
            format!(
                "{COUNT}: \"{count}\" has no effect without {TYPE}; write for example nvidia.com/gpu there"
            ),
        ),
        _ => {}
    }
}

fn volume_limits(annotated: Annotations<'_>, findings: &mut Findings) -> BTreeMap<String, i64> {
    const KEY: &str = annotations::CAPACITY_CSI_DRIVER;
    let mut limits = BTreeMap::new();
    for part in parts(annotated.value(KEY).unwrap_or_default()) {
        let limit = part.split_once('=').and_then(|(driver, limit)| {
            let limit = number(limit.trim()).filter(|limit| *limit >= 0)?;
            Some((driver.trim().to_owned(), limit)).filter(|(driver, _)| !driver.is_empty())
        });
        match limit {
            Some((driver, limit)) => _ = limits.insert(driver, limit),
            None => findings.ignore(
                KEY,
                part,
                "write driver=limit such as ebs.csi.aws.com=26, separated by commas",
            ),
        }
    }
    limits
}
