//! NodeOverlays: what people assume of instance types instead of what was read of them.
//!
//! Overlays are taken by weight, the greatest first, and by name, the last first. What one has said of an offering's price or of
//! a resource holds; a weaker one says what is left. Two of one weight that say something about the same thing contradict each
//! other: the later one is left out, all of it.

mod adjustment;

use adjustment::Adjustment;
use karpenter_capi_api::node_overlay::NodeOverlay;
use karpenter_capi_api::validation::validate_node_overlay;
use karpenter_capi_model::instance_type::InstanceType;
use karpenter_capi_model::quantity::Rounding;
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::ResourceList;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A NodePool and what it chooses from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Labels that all nodes of the pool have.
    pub labels: BTreeMap<String, String>,
    /// What it chooses from.
    pub instance_types: Vec<Arc<InstanceType>>,
}

/// What overlays make of the instance types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlaid {
    /// By NodePool: the same instance types in the same order, with what overlays say of them.
    pub choices: BTreeMap<String, Choice>,
    /// By overlay: whether it counts.
    pub verdicts: BTreeMap<String, Verdict>,
    /// Overlay and what a person should know about it.
    pub findings: BTreeSet<(String, String)>,
    /// By NodePool and name of the instance type.
    applied: BTreeMap<String, BTreeMap<String, Applied>>,
}

/// Whether an overlay counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Valid,
    /// It doesn't: something in it can't be read, or is refused.
    Invalid(String),
    /// It doesn't: another one of the same weight says something about the same thing.
    Conflict(String),
}

/// What of an instance type is an overlay's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The price of an offering.
    pub price: bool,
    /// A part of the capacity.
    pub capacity: bool,
}

impl Overlaid {
    /// Without any overlay.
    pub fn untouched(choices: BTreeMap<String, Choice>) -> Self {
        Self { choices, ..Self::default() }
    }

    /// What of the instance type of that name is an overlay's, for that NodePool.
    pub fn applied(&self, node_pool: &str, instance_type: &str) -> Applied {
        self.applied.get(node_pool).and_then(|pool| pool.get(instance_type)).copied().unwrap_or_default()
    }

    /// The instance type of that name as the NodePool sees it; None where no overlay says anything of it.
    pub fn instance_type(&self, node_pool: &str, name: &str) -> Option<&Arc<InstanceType>> {
        if self.applied(node_pool, name) == Applied::default() {
            return None;
        }
        let choice = self.choices.get(node_pool)?;
        choice.instance_types.iter().find(|instance_type| instance_type.name == name)
    }
}

/// Applies overlays to what NodePools choose from.
pub fn overlay<'a>(
    overlays: impl IntoIterator<Item = &'a NodeOverlay>,
    choices: BTreeMap<String, Choice>,
) -> Overlaid {
    let mut ordered: Vec<&NodeOverlay> = overlays.into_iter().collect();
    ordered.sort_by_key(|overlay| Reverse((overlay.spec.effective_weight(), name_of(overlay))));
    let mut accepted = Accepted::default();
    let mut verdicts = BTreeMap::new();
    for object in ordered {
        let verdict = match Reading::of(object) {
            Err(problem) => Verdict::Invalid(problem),
            Ok(reading) => accepted.take(reading, &choices),
        };
        verdicts.insert(name_of(object).to_owned(), verdict);
    }
    let mut overlaid = Overlaid { choices, verdicts, ..Overlaid::default() };
    for (slot, writers) in &accepted.slots {
        if let Some(first) = writers.first().and_then(|first| accepted.readings.get(*first)) {
            overlaid.write(slot, first);
        }
    }
    overlaid
}

/// The overlays that count, the strongest first.
#[derive(Default)]
struct Accepted<'a> {
    readings: Vec<Reading<'a>>,
    /// By thing: the readings that say something about it, the strongest first.
    slots: BTreeMap<Slot, Vec<usize>>,
}

impl<'a> Accepted<'a> {
    /// Takes the next weaker overlay, unless it contradicts one of its own weight.
    fn take(&mut self, reading: Reading<'a>, choices: &BTreeMap<String, Choice>) -> Verdict {
        let wanted = reading.slots(choices);
        if let Some(problem) = wanted.iter().find_map(|slot| self.conflict(&reading, slot)) {
            return Verdict::Conflict(problem);
        }
        for slot in wanted {
            self.slots.entry(slot).or_default().push(self.readings.len());
        }
        self.readings.push(reading);
        Verdict::Valid
    }

    /// Another overlay of the same weight that says something about the same thing, in words.
    fn conflict(&self, reading: &Reading<'_>, slot: &Slot) -> Option<String> {
        let writers = self.slots.get(slot)?.iter().filter_map(|index| self.readings.get(*index));
        let other = writers.into_iter().find(|other| other.weight == reading.weight)?;
        let what = match &slot.what {
            What::Price(_) => "the price".to_owned(),
            What::Capacity(resource) => format!("the capacity {resource}"),
        };
        Some(format!(
            "conflict with another overlay: {} of the same weight ({}) sets {what} of the same instance type for NodePool {}; \
             give them different weights",
            other.name, other.weight, slot.node_pool
        ))
    }
}

/// A thing that only one overlay can say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    node_pool: String,
    /// Index within the pool's choice.
    instance_type: usize,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The price of the offering of that index.
    Price(usize),
    /// The amount of that resource.
    Capacity(Arc<str>),
}

/// An overlay, parsed.
struct Reading<'a> {
    name: &'a str,
    weight: i32,
    requirements: Requirements,
    price: Option<Adjustment>,
    capacity: ResourceList,
}

impl<'a> Reading<'a> {
    fn of(overlay: &'a NodeOverlay) -> Result<Self, String> {
        if let Some(error) = validate_node_overlay(overlay).first() {
            return Err(error.to_string());
        }
        let spec = &overlay.spec;
        let requirements = Requirements::from_api(&spec.requirements_without_min_values())
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let price = spec.price.as_deref().map(|text| ("spec.price", text));
        let price = price.or(spec.price_adjustment.as_deref().map(|text| ("spec.priceAdjustment", text)));
        let price = price
            .map(|(field, text)| text.parse().map_err(|error| format!("{field}: {error}")))
            .transpose()?;
        let capacity = spec.capacity.clone().unwrap_or_default();
        let capacity = ResourceList::from_quantities(&capacity, Rounding::Down)
            .map_err(|error| format!("spec.capacity: {error}"))?;
        Ok(Self { name: name_of(overlay), weight: spec.effective_weight(), requirements, price, capacity })
    }

    /// Everything that it has something to say about. Capacity is all or nothing: it is that of the type if one of its
    /// offerings is meant.
    fn slots(&self, choices: &BTreeMap<String, Choice>) -> Vec<Slot> {
        let mut slots = Vec::new();
        for (node_pool, choice) in choices {
            for (index, instance_type) in choice.instance_types.iter().enumerate() {
                let offerings = self.offerings(&choice.labels, instance_type);
                let slot = |what| Slot { node_pool: node_pool.clone(), instance_type: index, what };
                if self.price.is_some() {
                    slots.extend(offerings.iter().map(|offering| slot(What::Price(*offering))));
                }
                if !offerings.is_empty() {
                    let resources = self.capacity.0.keys();
                    slots.extend(resources.map(|resource| slot(What::Capacity(Arc::clone(resource)))));
                }
            }
        }
        slots
    }

    /// The offerings that its requirements mean. Nodes have the labels of their type and those of their pool; what neither
    /// has, a node lacks.
    fn offerings(&self, labels: &BTreeMap<String, String>, instance_type: &InstanceType) -> Vec<usize> {
        let mut all = Requirements::from_labels(labels);
        all.add_all(&instance_type.requirements);
        if all.compatible(&self.requirements, &BTreeSet::new()).is_err() {
            return Vec::new();
        }
        let offerings = instance_type.offerings.iter().enumerate();
        offerings
            .filter(|(_, offering)| self.requirements.intersects(&offering.requirements).is_ok())
            .map(|(index, _)| index)
            .collect()
    }
}

impl Overlaid {
    fn write(&mut self, slot: &Slot, by: &Reading<'_>) {
        let choice = self.choices.get_mut(&slot.node_pool);
        let Some(shared) = choice.and_then(|choice| choice.instance_types.get_mut(slot.instance_type)) else {
            return;
        };
        let applied = self.applied.entry(slot.node_pool.clone()).or_default();
        let applied = applied.entry(shared.name.clone()).or_default();
        match &slot.what {
            What::Price(index) => {
                let (Some(adjustment), Some(offering)) = (by.price, shared.offerings.get(*index)) else {
                    return;
                };
                let price = adjustment.apply(offering.price);
                if price.is_none() {
                    let message = format!(
                        "spec.priceAdjustment changes nothing for {}, whose price is unknown; set spec.price",
                        shared.name
                    );
                    self.findings.insert((by.name.to_owned(), message));
                    return;
                }
                applied.price = true;
                if let Some(offering) = Arc::make_mut(shared).offerings.get_mut(*index) {
                    offering.price = price;
                }
            }
            What::Capacity(resource) => {
                let Some(amount) = by.capacity.get(resource) else { return };
                applied.capacity = true;
                Arc::make_mut(shared).capacity.set(resource, amount);
            }
        }
    }
}

fn name_of(overlay: &NodeOverlay) -> &str {
    overlay.metadata.name.as_deref().unwrap_or_default()
}
