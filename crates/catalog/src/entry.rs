//! One MachineDeployment in, one entry out.

use crate::availability::{self, Facts};
use crate::capacity::{Capacity, capacity};
use crate::findings::{Annotations, CatalogWarning, Findings};
use crate::taints::taints;
use crate::{labels, overhead, price};
use jiff::{SignedDuration, Timestamp};
use karpenter_capi_api::capi::{Cluster, InfrastructureTemplate, Machine, MachineDeployment, MachineSet};
use karpenter_capi_api::duration::parse_go;
use karpenter_capi_api::names::{annotations, labels as keys};
use karpenter_capi_model::instance_type::{InstanceType, Offering};
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::price::Price;
use karpenter_capi_model::reason::{ReasonCode, UnavailableReason};
use karpenter_capi_model::requirements::Requirements;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys of an older Machine API, which nobody reads here; named where capacity is missing.
const OLDER_CAPACITY_PREFIX: &str = "machine.openshift.io/";

/// A MachineDeployment with everything that may say something about its machines.
#[derive(Clone, Copy, Debug)]
pub struct CatalogInput<'a> {
    /// The MachineDeployment.
    pub machine_deployment: &'a MachineDeployment,
    /// The infrastructure template that it names, where it is known.
    pub infrastructure_template: Option<&'a InfrastructureTemplate>,
    /// MachineSets; those of other MachineDeployments are passed over.
    pub machine_sets: &'a [Arc<MachineSet>],
    /// Machines; those of other MachineDeployments are passed over.
    pub machines: &'a [Arc<Machine>],
    /// The Cluster, where it is known.
    pub cluster: Option<&'a Cluster>,
    /// What isn't in the objects.
    pub facts: &'a Facts,
    /// The time.
    pub now: Timestamp,
}

impl CatalogInput<'_> {
    /// `namespace/name` of the MachineDeployment.
    pub fn name(&self) -> NamespacedName {
        let metadata = &self.machine_deployment.metadata;
        NamespacedName::new(
            metadata.namespace.clone().unwrap_or_default(),
            metadata.name.clone().unwrap_or_default(),
        )
    }

    /// `spec.replicas`; where it is missing, what Cluster API's webhook fills in: the minimum size, else 1.
    pub fn replicas(&self) -> i64 {
        let annotated = Annotations::new(self.machine_deployment.metadata.annotations.as_ref());
        let minimum =
            || annotated.value(annotations::NODE_GROUP_MIN_SIZE).and_then(|value| value.parse().ok());
        self.machine_deployment.spec.replicas.map(i64::from).or_else(minimum).unwrap_or(1)
    }
}

/// What a MachineDeployment offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The MachineDeployment.
    pub name: NamespacedName,
    /// What scheduling looks at. It is there also when nothing can be had, so that the reason is told.
    pub instance_type: Arc<InstanceType>,
    /// Labels that its nodes come up with.
    pub labels: BTreeMap<String, String>,
    /// `spec.replicas`.
    pub replicas: i64,
    /// US dollars an hour; None is unknown.
    pub price: Option<Price>,
    /// When the price was written.
    pub price_updated_at: Option<Timestamp>,
    /// Volumes that a node can attach, by CSI driver.
    pub volume_limits: BTreeMap<String, i64>,
    /// Stronger than the node class's `launchTimeout` and `registrationTimeout`.
    pub launch_timeout: Option<SignedDuration>,
    /// Why no machine can be had now, the most lasting reason first; empty when one can.
    pub unavailable: Vec<UnavailableReason>,
    /// What a person should know; stops nothing.
    pub warnings: Vec<CatalogWarning>,
}

impl CatalogEntry {
    /// The reason that counts, if it is unavailable.
    pub fn reason(&self) -> Option<&UnavailableReason> {
        self.unavailable.first()
    }

    /// The value of the label that names the instance type.
    pub fn instance_type_label(&self) -> &str {
        self.labels.get(keys::INSTANCE_TYPE).map_or("", String::as_str)
    }

    /// The zone, or `""`.
    pub fn zone(&self) -> &str {
        self.labels.get(keys::TOPOLOGY_ZONE).map_or("", String::as_str)
    }

    /// `on-demand`, `spot` or `reserved`.
    pub fn capacity_type(&self) -> &str {
        self.labels.get(keys::CAPACITY_TYPE).map_or("", String::as_str)
    }
}

/// Reads a MachineDeployment.
pub fn catalog(input: &CatalogInput<'_>) -> CatalogEntry {
    let deployment = input.machine_deployment;
    let name = input.name();
    let annotated = Annotations::new(deployment.metadata.annotations.as_ref());
    let mut findings = Findings::default();
    let template = input.infrastructure_template;
    let labels = labels::node_labels(deployment, template, annotated, &mut findings);
    let Capacity { resources: capacity, missing, volume_limits } =
        capacity(template, annotated, &mut findings);
    let overhead = overhead::overhead(annotated, &mut findings);
    let taints = taints(&deployment.spec.template.spec.taints, annotated, &mut findings);
    let price = price::price(annotated, &mut findings);
    let price_updated_at = price::price_updated_at(annotated, &mut findings);
    let priority = price::priority(annotated, &mut findings);
    let launch_timeout = launch_timeout(annotated, &mut findings);
    let (headroom, full) = availability::headroom(input, annotated, &mut findings);
    let excluded = excluded(annotated, &mut findings);

    let unreadable = no_capacity(&name, &missing, annotated, &findings);
    let by_hand = excluded.into_iter().chain(invalid(&name, &findings.faults)).chain(unreadable);
    let unavailable = in_order(availability::unavailable(input), by_hand, full);
    let mut of_offering = labels.clone();
    of_offering.retain(|key, _| matches!(key.as_str(), keys::TOPOLOGY_ZONE | keys::CAPACITY_TYPE));
    let offering = Offering {
        requirements: Requirements::from_labels(&of_offering),
        price,
        unavailable: unavailable.first().cloned(),
        reservation_capacity: None,
        capacity_override: None,
        overhead_override: None,
    };
    let instance_type = InstanceType {
        name: name.to_string(),
        machine_deployment: Some(name.clone()),
        requirements: Requirements::from_labels(&labels),
        taints,
        capacity,
        overhead,
        offerings: vec![offering],
        headroom,
        priority,
    };
    let mut warnings = findings.faults;
    warnings.extend(findings.warnings);
    CatalogEntry {
        name,
        instance_type: Arc::new(instance_type),
        labels,
        replicas: input.replicas(),
        price,
        price_updated_at,
        volume_limits,
        launch_timeout,
        unavailable,
        warnings,
    }
}

/// Deletion first, since it ends everything else; then what a person has written; the maximum size last, since it alone is ordinary.
fn in_order(
    mut of_objects: Vec<UnavailableReason>,
    by_hand: impl Iterator<Item = UnavailableReason>,
    full: Option<UnavailableReason>,
) -> Vec<UnavailableReason> {
    let deleting = of_objects.iter().take_while(|reason| reason.code == ReasonCode::Deleting).count();
    of_objects.splice(deleting..deleting, by_hand);
    of_objects.extend(full);
    of_objects
}

fn invalid(name: &NamespacedName, faults: &[CatalogWarning]) -> Option<UnavailableReason> {
    if faults.is_empty() {
        return None;
    }
    let told: Vec<_> = faults.iter().map(|fault| fault.message.as_str()).collect();
    Some(UnavailableReason {
        code: ReasonCode::Invalid,
        message: format!("{}: {}", name.name, told.join("; ")),
    })
}

/// Says what is missing, unless it is there and can't be read, which is told as `Invalid`.
fn no_capacity(
    name: &NamespacedName,
    missing: &[&str],
    annotated: Annotations<'_>,
    findings: &Findings,
) -> Option<UnavailableReason> {
    let unreadable = |resource: &&str| {
        findings
            .faults
            .iter()
            .any(|fault| fault.key.strip_prefix(annotations::CAPACITY_PREFIX) == Some(*resource))
    };
    let missing: Vec<_> = missing.iter().copied().filter(|resource| !unreadable(resource)).collect();
    if missing.is_empty() {
        return None;
    }
    let keys: Vec<_> =
        missing.iter().map(|resource| format!("{}{resource}", annotations::CAPACITY_PREFIX)).collect();
    let older = annotated.keys_with_prefix(OLDER_CAPACITY_PREFIX);
    let unread = if older.is_empty() { String::new() } else { format!(" ({} isn't read)", older.join(", ")) };
    Some(UnavailableReason {
        code: ReasonCode::NoCapacityDeclared,
        message: format!(
            "{}: no {} capacity; set {}{unread}",
            name.name,
            missing.join(" and "),
            keys.join(" and ")
        ),
    })
}

/// `"false"`, alone or with a reason behind it, takes the MachineDeployment out. So does what is neither true nor false: whoever
/// wrote it meant to say something.
fn excluded(annotated: Annotations<'_>, findings: &mut Findings) -> Option<UnavailableReason> {
    const KEY: &str = annotations::AVAILABLE;
    let value = annotated.value(KEY)?;
    if value.is_empty() || value.eq_ignore_ascii_case("true") {
        return None;
    }
    let no = value.get(..5).filter(|start| start.eq_ignore_ascii_case("false"));
    let rest =
        no.and_then(|start| value.get(start.len()..)).filter(|rest| !rest.starts_with(char::is_alphanumeric));
    let Some(rest) = rest else {
        findings.fault(KEY, value, "write \"true\", or \"false\" with an optional reason behind it");
        return None;
    };
    let why = rest.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '(' | ')' | '.'));
    let message =
        if why.is_empty() { format!("excluded by {KEY}") } else { format!("excluded by {KEY}: {why}") };
    Some(UnavailableReason { code: ReasonCode::Excluded, message })
}

fn launch_timeout(annotated: Annotations<'_>, findings: &mut Findings) -> Option<SignedDuration> {
    const KEY: &str = annotations::MAX_NODE_PROVISION_TIME;
    let value = annotated.value(KEY)?;
    let timeout = parse_go(value).ok().filter(SignedDuration::is_positive);
    if timeout.is_none() {
        findings.ignore(
            KEY,
            value,
            "write a duration such as 20m; until then the node class's timeouts hold",
        );
    }
    timeout
}
