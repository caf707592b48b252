//! Topology keys, their domains, and which slots may be in which domain.
//!
//! A label with an empty value is a domain like any other; a machine without the label is in none.

use super::bits::Bits;
use super::template::Template;
use karpenter_capi_model::node::Node;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_model::requirements::Requirements;
use std::collections::{BTreeMap, BTreeSet};

/// The topology keys of a solve, the host name aside: each host is a domain of that by itself.
pub(super) struct Domains {
    keys: Vec<Key>,
    /// For each NodePool, each key and each domain the slots that may be in it.
    slots: Vec<Vec<Vec<Bits>>>,
}

struct Key {
    name: String,
    /// Sorted; a domain is an index.
    values: Vec<String>,
}

impl Domains {
    pub(super) fn new(names: BTreeSet<&str>, templates: &[Template<'_>], nodes: &[&Node]) -> Self {
        let (mut keys, mut slots) = (Vec::new(), vec![Vec::new(); templates.len()]);
        for name in names {
            let of_slots: Vec<Vec<Values<'_>>> = templates
                .iter()
                .map(|template| {
                    (0..template.slots.len()).map(|slot| values_of(template, slot, name)).collect()
                })
                .collect();
            let on_nodes = nodes.iter().filter_map(|node| node.labels.get(name)).map(String::as_str);
            let values: BTreeSet<&str> =
                on_nodes.chain(of_slots.iter().flatten().flat_map(Values::named).copied()).collect();
            let values: Vec<&str> = values.into_iter().collect();
            for (template, of_slots) in slots.iter_mut().zip(&of_slots) {
                template.push(slots_of(&values, of_slots));
            }
            let values = values.into_iter().map(str::to_owned).collect();
            keys.push(Key { name: name.to_owned(), values });
        }
        Self { keys, slots }
    }

    pub(super) const fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn key(&self, name: &str) -> Option<usize> {
        self.keys.binary_search_by(|key| key.name.as_str().cmp(name)).ok()
    }

    pub(super) fn name(&self, key: usize) -> &str {
        &self.keys[key].name
    }

    /// How many domains the key has.
    pub(super) fn count(&self, key: usize) -> usize {
        self.keys[key].values.len()
    }

    pub(super) fn value(&self, key: usize, domain: usize) -> &str {
        &self.keys[key].values[domain]
    }

    /// The domain of each key that these labels stand for.
    pub(super) fn of_labels(&self, labels: &BTreeMap<String, String>) -> Vec<Option<usize>> {
        let domain = |key: &Key| key.values.binary_search(labels.get(&key.name)?).ok();
        self.keys.iter().map(domain).collect()
    }

    /// Slots of a NodePool that may be in a domain.
    pub(super) fn slots(&self, template: usize, key: usize, domain: usize) -> &Bits {
        &self.slots[template][key][domain]
    }

    /// For each key the domains that some of the slots may be in under the requirements, and whether some may have no such label.
    pub(super) fn of(&self, template: usize, wanted: &Requirements, slots: &Bits) -> (Vec<Bits>, Vec<bool>) {
        let (mut domains, mut absent) = (Vec::new(), Vec::new());
        for (key, of_key) in self.keys.iter().zip(&self.slots[template]) {
            let requirement = wanted.get(&key.name);
            let admitted = of_key.iter().enumerate().filter(|(domain, of_domain)| {
                requirement.is_none_or(|own| own.has(&key.values[*domain])) && of_domain.intersects(slots)
            });
            domains.push(Bits::of(key.values.len(), admitted.map(|(domain, _)| domain)));
            let mut bare = slots.clone();
            for of_domain in of_key {
                bare.drop_all(of_domain);
            }
            absent.push(!bare.is_empty());
        }
        (domains, absent)
    }
}

/// The values that a slot's machines may have of a label.
enum Values<'a> {
    These(Vec<&'a str>),
    /// Any that this allows: the NodePool has the label written, and leaves open with which value.
    Any(&'a Requirement),
}

impl<'a> Values<'a> {
    fn named(&self) -> &[&'a str] {
        match self {
            Self::These(values) => values,
            Self::Any(_) => &[],
        }
    }

    fn may_be(&self, value: &str) -> bool {
        match self {
            Self::These(values) => values.contains(&value),
            Self::Any(requirement) => requirement.has(value),
        }
    }
}

/// For each of the values the slots that may have it.
fn slots_of(values: &[&str], of_slots: &[Values<'_>]) -> Vec<Bits> {
    let slots = |value: &str| {
        let own = of_slots.iter().enumerate().filter(|(_, own)| own.may_be(value));
        Bits::of(of_slots.len(), own.map(|(slot, _)| slot))
    };
    values.iter().map(|value| slots(value)).collect()
}

/// What offering and type enumerate and the NodePool allows, or what the NodePool says where it has the label written.
fn values_of<'a>(template: &Template<'a>, slot: usize, key: &str) -> Values<'a> {
    let of_type = template.candidate(slot).of_type.requirements.get(key);
    let offered = template.offering(slot).requirements.get(key);
    let pool = template.pool.requirements.get(key);
    let written = of_type.is_none() && offered.is_none();
    if written && !template.keys.is_written_by(template.pool, key) {
        return Values::These(Vec::new());
    }
    let all = [offered, of_type, pool];
    let may_be = |value: &str| all.iter().flatten().all(|own| own.has(value));
    match (all.into_iter().flatten().find(|own| own.is_enumerated()), pool) {
        (Some(source), _) => Values::These(source.values().filter(|value| may_be(value)).collect()),
        (None, Some(pool)) if written => Values::Any(pool),
        (None, _) => Values::These(Vec::new()),
    }
}
