//! Resource amounts in fixed slots.

use crate::quantity::{Quantity, Rounding, Scale, plain};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

mod list;

pub use list::{Exceeded, ResourceList};

/// Millicores.
pub const CPU: &str = "cpu";
/// Bytes.
pub const MEMORY: &str = "memory";
/// Bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Pods on a node.
pub const PODS: &str = "pods";
/// Prefix of the resources whose capacity is taken off memory.
pub const HUGEPAGES_PREFIX: &str = "hugepages-";

/// Amounts by resource name, as integers: CPU in millicores, everything else in its own whole unit (bytes, pieces, pods).
///
/// An absent resource and a zero one are the same for arithmetic; `iter` visits what is non-zero.
/// Arithmetic saturates: no input overflows. Where absent and zero differ (limits, overrides) see [`ResourceList`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    pub(crate) ephemeral_storage: i64,
    pub(crate) pods: i64,
    /// Never holds a zero, so that equal amounts compare equal.
    pub(crate) extended: BTreeMap<Arc<str>, i64>,
}

/// A resource amount that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{resource}: {reason}")]
pub struct InvalidResource {
    /// The resource's name.
    pub resource: String,
    /// The value as written.
    pub value: String,
    /// What is wrong and what would be right.
    pub reason: String,
}

/// The first resource that doesn't fit, with the figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The resource's name.
    pub resource: String,
    /// What is asked for.
    pub needed: i64,
    /// What there is.
    pub available: i64,
}

impl Resources {
    /// Nothing of anything.
    pub const ZERO: Self =
        Self { cpu: 0, memory: 0, ephemeral_storage: 0, pods: 0, extended: BTreeMap::new() };

    /// One pod, which is what each pod takes of a node besides its requests.
    pub fn one_pod() -> Self {
        Self { pods: 1, ..Self::ZERO }
    }

    /// Reads a Kubernetes resource list. The first amount that is unreadable or negative is the error.
    pub fn from_quantities(
        list: &BTreeMap<String, ApiQuantity>,
        rounding: Rounding,
    ) -> Result<Self, InvalidResource> {
        let mut resources = Self::ZERO;
        for (name, quantity) in list {
            resources.set(name, read_amount(name, &quantity.0, rounding)?);
        }
        Ok(resources)
    }

    /// Back to a Kubernetes resource list; zeros are left out.
    pub fn to_quantities(&self) -> BTreeMap<String, ApiQuantity> {
        self.iter()
            .map(|(name, amount)| (name.to_owned(), ApiQuantity(format_amount(name, amount))))
            .collect()
    }

    /// The amount of a resource; zero where absent.
    pub fn get(&self, name: &str) -> i64 {
        match name {
            CPU => self.cpu,
            MEMORY => self.memory,
            EPHEMERAL_STORAGE => self.ephemeral_storage,
            PODS => self.pods,
            _ => self.extended.get(name).copied().unwrap_or(0),
        }
    }

    /// Replaces the amount of a resource.
    pub fn set(&mut self, name: &str, amount: i64) {
        match name {
            CPU => self.cpu = amount,
            MEMORY => self.memory = amount,
            EPHEMERAL_STORAGE => self.ephemeral_storage = amount,
            PODS => self.pods = amount,
            _ if amount == 0 => {
                self.extended.remove(name);
            }
            _ => {
                self.extended.insert(Arc::from(name), amount);
            }
        }
    }

    /// The same with one amount replaced.
    #[must_use]
    pub fn with(mut self, name: &str, amount: i64) -> Self {
        self.set(name, amount);
        self
    }

    /// CPU in millicores.
    pub const fn cpu(&self) -> i64 {
        self.cpu
    }

    /// Memory in bytes.
    pub const fn memory(&self) -> i64 {
        self.memory
    }

    /// Ephemeral storage in bytes.
    pub const fn ephemeral_storage(&self) -> i64 {
        self.ephemeral_storage
    }

    /// Pods.
    pub const fn pods(&self) -> i64 {
        self.pods
    }

    /// Non-zero amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        let fixed = [
            (CPU, self.cpu),
            (EPHEMERAL_STORAGE, self.ephemeral_storage),
            (MEMORY, self.memory),
            (PODS, self.pods),
        ];
        let extended = self.extended.iter().map(|(name, amount)| (&**name, *amount));
        let mut all: Vec<(&str, i64)> =
            fixed.into_iter().chain(extended).filter(|(_, amount)| *amount != 0).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all.into_iter()
    }

    /// Nothing of anything.
    pub fn is_zero(&self) -> bool {
        self.cpu == 0
            && self.memory == 0
            && self.ephemeral_storage == 0
            && self.pods == 0
            && self.extended.values().all(|amount| *amount == 0)
    }

    /// The sum, saturating.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.combine(other, i64::saturating_add)
    }

    /// The difference, saturating; may be negative.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.combine(other, i64::saturating_sub)
    }

    /// Adds in place, saturating.
    pub fn add(&mut self, other: &Self) {
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.memory = self.memory.saturating_add(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.saturating_add(other.ephemeral_storage);
        self.pods = self.pods.saturating_add(other.pods);
        for (name, amount) in &other.extended {
            let sum = self.get(name).saturating_add(*amount);
            self.set(name, sum);
        }
    }

    /// The larger of each amount.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        self.combine(other, i64::max)
    }

    /// The smaller of each amount; an absent one is zero.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        self.combine(other, i64::min)
    }

    /// Negative amounts raised to zero.
    #[must_use]
    pub fn clamped(&self) -> Self {
        self.max(&Self::ZERO)
    }

    fn combine(&self, other: &Self, f: fn(i64, i64) -> i64) -> Self {
        let mut extended = BTreeMap::new();
        for name in self.extended.keys().chain(other.extended.keys()) {
            let amount = f(self.get(name), other.get(name));
            if amount != 0 {
                extended.insert(Arc::clone(name), amount);
            }
        }
        Self {
            cpu: f(self.cpu, other.cpu),
            memory: f(self.memory, other.memory),
            ephemeral_storage: f(self.ephemeral_storage, other.ephemeral_storage),
            pods: f(self.pods, other.pods),
            extended,
        }
    }

    /// Whether these requests fit into what is available. Anything negative in `available` holds nothing more,
    /// whatever is asked for: it is overcommitted already.
    pub fn fits(&self, available: &Self) -> bool {
        let fixed = self.cpu <= available.cpu
            && self.memory <= available.memory
            && self.ephemeral_storage <= available.ephemeral_storage
            && self.pods <= available.pods
            && available.cpu >= 0
            && available.memory >= 0
            && available.ephemeral_storage >= 0
            && available.pods >= 0;
        fixed
            && available.extended.values().all(|amount| *amount >= 0)
            && self.extended.iter().all(|(name, amount)| *amount <= available.get(name))
    }

    /// The first resource for which [`Self::fits`] fails, in the order CPU, memory, ephemeral storage, pods, then others by name.
    pub fn shortfall(&self, available: &Self) -> Option<Shortfall> {
        let others = self.extended.keys().chain(available.extended.keys()).map(|name| &**name);
        let mut others: Vec<&str> = others.collect();
        others.sort_unstable();
        [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].into_iter().chain(others).find_map(|name| {
            let (needed, has) = (self.get(name), available.get(name));
            (needed > has || has < 0).then(|| Shortfall { resource: name.to_owned(), needed, available: has })
        })
    }

    /// Whole capacity to allocatable: overhead off, hugepages off memory, nothing below zero.
    #[must_use]
    pub fn allocatable(&self, overhead: &Self) -> Self {
        let mut allocatable = self.minus(overhead);
        let pages: i64 = self
            .extended
            .iter()
            .filter(|(name, _)| name.starts_with(HUGEPAGES_PREFIX))
            .fold(0, |sum, (_, amount)| sum.saturating_add(*amount));
        allocatable.memory = allocatable.memory.saturating_sub(pages);
        allocatable.clamped()
    }

    /// The same with the list's amounts in place of its own, key by key.
    #[must_use]
    pub fn overridden(&self, with: &ResourceList) -> Self {
        let mut resources = self.clone();
        for (name, amount) in &with.0 {
            resources.set(name, *amount);
        }
        resources
    }
}

impl Shortfall {
    /// `cpu: needs 9, m1 has 4`.
    pub fn message(&self, holder: &str) -> String {
        format!(
            "{}: needs {}, {holder} has {}",
            self.resource,
            format_amount(&self.resource, self.needed),
            format_amount(&self.resource, self.available)
        )
    }
}

/// `cpu=3500m,memory=4Gi`.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, amount)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{name}={}", format_amount(name, amount))?;
        }
        Ok(())
    }
}

/// An amount of a resource as a Kubernetes quantity: `3500m` CPU, `4Gi` memory, plain whole numbers for everything else.
pub fn format_amount(resource: &str, amount: i64) -> String {
    match resource {
        CPU if amount % 1000 == 0 => (amount / 1000).to_string(),
        CPU => format!("{amount}m"),
        MEMORY | EPHEMERAL_STORAGE | "storage" => format_bytes(amount),
        _ if resource.starts_with(HUGEPAGES_PREFIX) => format_bytes(amount),
        _ => amount.to_string(),
    }
}

fn format_bytes(amount: i64) -> String {
    if amount % 1024 == 0 { Quantity::binary(amount).to_string() } else { amount.to_string() }
}

/// One amount of a resource list.
pub fn read_amount(resource: &str, text: &str, rounding: Rounding) -> Result<i64, InvalidResource> {
    let scale = Scale::of(resource);
    if let Some(amount) = plain::amount(text, scale, rounding) {
        return Ok(amount);
    }
    let invalid =
        |reason: String| InvalidResource { resource: resource.to_owned(), value: text.to_owned(), reason };
    let quantity = Quantity::parse(text).map_err(|error| invalid(error.to_string()))?;
    if quantity.is_negative() {
        return Err(invalid(format!("{text:?} is negative; an amount is zero or more")));
    }
    Ok(quantity.amount(scale, rounding))
}

#[cfg(test)]
mod tests;
