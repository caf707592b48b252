//! Instance types and their offerings.

use super::{DocumentError, list, optional};
use karpenter_capi_model::instance_type::{InstanceType, Offering};
use karpenter_capi_model::price::Price;
use karpenter_capi_model::quantity::Rounding;
use karpenter_capi_model::reason::{ReasonCode, UnavailableReason};
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::{ResourceList, Resources, read_amount};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The parts of an overhead, which count as their sum.
const OVERHEAD: [&str; 3] = ["kubeReserved", "systemReserved", "evictionThreshold"];

pub(super) fn by_pool(value: &Value) -> Result<BTreeMap<String, Vec<Arc<InstanceType>>>, DocumentError> {
    let pools = value
        .as_object()
        .ok_or_else(|| DocumentError::new("instanceTypes", "must be an object of lists by NodePool"))?;
    let mut found = BTreeMap::new();
    for (pool, types) in pools {
        let at = |index: usize| format!("instanceTypes.{pool}[{index}]");
        let types = types.as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate();
        let read = types
            .map(|(index, each)| instance_type(each).map(Arc::new).map_err(|error| error.within(&at(index))));
        found.insert(pool.clone(), read.collect::<Result<_, _>>()?);
    }
    Ok(found)
}

fn instance_type(value: &Value) -> Result<InstanceType, DocumentError> {
    let offerings: Vec<Value> = list(value, "offerings")?;
    let mut overhead = Resources::ZERO;
    for part in OVERHEAD {
        overhead.add(&sum(&amounts(&value["overhead"], part)?));
    }
    let mut read = InstanceType {
        name: optional(value, "name")?.ok_or_else(|| DocumentError::new("name", "is missing"))?,
        machine_deployment: None,
        requirements: requirements(value)?,
        taints: Vec::new(),
        capacity: sum(&amounts(value, "capacity")?),
        overhead,
        offerings: offerings.iter().map(offering).collect::<Result<_, _>>()?,
        headroom: None,
        priority: 0,
    };
    read.sort_offerings();
    Ok(read)
}

fn offering(value: &Value) -> Result<Offering, DocumentError> {
    let price: f64 =
        optional(value, "price")?.ok_or_else(|| DocumentError::new("offerings[].price", "is missing"))?;
    let available = optional(value, "available")?.unwrap_or(true);
    Ok(Offering {
        requirements: requirements(value)?,
        price: Some(
            Price::from_f64(price).ok_or_else(|| DocumentError::new("offerings[].price", "is no price"))?,
        ),
        unavailable: (!available)
            .then(|| UnavailableReason::new(ReasonCode::OutOfCapacity, "unavailable in the document")),
        reservation_capacity: optional(value, "reservationCapacity")?,
        capacity_override: replacement(value, "capacityOverride")?,
        overhead_override: overhead_override(&value["overheadOverride"])?,
    })
}

fn requirements(value: &Value) -> Result<Requirements, DocumentError> {
    let mut read = Requirements::new();
    for one in list::<Value>(value, "requirements")? {
        let text = |key: &str| one[key].as_str().unwrap_or_default();
        let values: Vec<String> = list(&one, "values")?;
        let parsed = Requirement::parse(text("key"), text("operator"), &values);
        read.add(parsed.map_err(|error| DocumentError::new("requirements", error))?);
    }
    Ok(read)
}

fn amounts(value: &Value, key: &str) -> Result<BTreeMap<Arc<str>, i64>, DocumentError> {
    let texts: BTreeMap<String, Value> = optional(value, key)?.unwrap_or_default();
    let read = |(name, amount): (String, Value)| {
        let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        read_amount(&name, &text, Rounding::Down)
            .map(|amount| (Arc::from(name.as_str()), amount))
            .map_err(|error| DocumentError::new(key, error))
    };
    texts.into_iter().map(read).collect()
}

fn sum(amounts: &BTreeMap<Arc<str>, i64>) -> Resources {
    amounts.iter().fold(Resources::ZERO, |all, (name, amount)| all.with(name, *amount))
}

fn replacement(value: &Value, key: &str) -> Result<Option<ResourceList>, DocumentError> {
    let amounts = amounts(value, key)?;
    Ok((!amounts.is_empty()).then_some(ResourceList(amounts)))
}

/// Parts of an overhead replace the type's sum key by key, so they count as their sum, too.
fn overhead_override(value: &Value) -> Result<Option<ResourceList>, DocumentError> {
    let mut all = BTreeMap::new();
    for part in OVERHEAD {
        for (name, amount) in amounts(value, part)? {
            *all.entry(name).or_insert(0) += amount;
        }
    }
    Ok((!all.is_empty()).then_some(ResourceList(all)))
}
