//! Shapes: what pods that are alike ask for, worked out once.
//!
//! A Deployment's pods differ in name alone, and Deployments in little more. Everything about placing a pod depends on its shape, so a
//! solve takes as long as its shapes are many, and hardly longer for more pods.

use super::amounts::Axes;
use super::demand::{Alternative, Wishes, alternatives, relaxations};
use super::domains::Domains;
use super::states::States;
use super::topology::{Catalogue, Constraint, Field, Filter, Labels, Matcher, Rule};
use super::volumes;
use crate::input::Input;
use karpenter_capi_model::label::HOSTNAME;
use karpenter_capi_model::pod::{HostPort, Pod, PodAffinityTerm, PreferredTerm, TopologySpreadConstraint};
use karpenter_capi_model::requirements::Requirements;
use karpenter_capi_model::resources::Resources;
use karpenter_capi_model::taint::Toleration;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// What equal pods have in common.
pub(super) struct Shape<'a> {
    /// One of the pods.
    pub(super) sample: &'a Pod,
    /// Requests, by [`Axes`].
    pub(super) requests: Vec<i64>,
    pub(super) levels: Vec<Level>,
    /// Groups that count these pods.
    pub(super) counted_by: Vec<usize>,
    /// Repulsions that these pods carry.
    pub(super) repels: Vec<usize>,
    pub(super) ports: &'a [HostPort],
    /// Which set of tolerations.
    pub(super) tolerations: usize,
    /// Which nodes have room for the volumes depends on the pod.
    pub(super) has_attachments: bool,
}

/// A set of wishes, tried together.
pub(super) struct Level {
    /// OR-ed: any of them will do. Sorted, so that the order in the manifest never matters. Empty: they contradict themselves.
    pub(super) alternatives: Rc<Vec<Alternative>>,
    pub(super) prefer_too: bool,
    /// Over groups by topology key.
    pub(super) by_key: Vec<Ruling>,
    /// Over groups of hosts.
    pub(super) by_host: Vec<Ruling>,
    /// What has been given up to come here; empty at first.
    pub(super) given_up: Option<String>,
}

/// A constraint, and what it is about.
#[derive(Clone, Copy)]
pub(super) struct Ruling {
    pub(super) constraint: Constraint,
    /// Over a repulsion, not a group.
    pub(super) repulsion: bool,
    /// No mere wish.
    pub(super) required: bool,
    /// The topology key; none for hosts.
    pub(super) key: Option<usize>,
}

/// What is the same for pods that only differ in requests and labels.
struct Spec {
    levels: Vec<Draft>,
    repels: Vec<usize>,
    tolerations: usize,
}

struct Draft {
    alternatives: Rc<Vec<Alternative>>,
    prefer_too: bool,
    constraints: Vec<Drafted>,
    given_up: Option<String>,
}

/// A constraint before it is known whether the group counts the pod itself.
struct Drafted {
    rule: Rule,
    group: usize,
    /// No mere wish.
    required: bool,
}

#[derive(PartialEq, Eq, Hash)]
struct SpecKey<'a> {
    node_selector: &'a Requirements,
    required: &'a [Requirements],
    preferred: &'a [PreferredTerm<Requirements>],
    tolerations: &'a [Toleration],
    spread: &'a [TopologySpreadConstraint],
    near: (&'a [PodAffinityTerm], &'a [PreferredTerm<PodAffinityTerm>]),
    away: (&'a [PodAffinityTerm], &'a [PreferredTerm<PodAffinityTerm>]),
    /// Where terms or spreads look at pods, in whose namespace.
    namespace: Option<&'a str>,
    volumes: Vec<Requirements>,
}

/// What makes a shape: spec, requests, host ports, whether volumes are attached, and what counts the pod.
type Key<'a> = (usize, &'a Resources, &'a [HostPort], bool, usize);

/// Everything about pods that is worked out before any is placed.
pub(super) struct Compiler<'a, 'w> {
    pub(super) input: &'a Input,
    pub(super) axes: &'w Axes,
    pub(super) domains: &'w Domains,
    pub(super) states: &'w mut States,
    /// Some taint is `PreferNoSchedule`.
    pub(super) prefers: bool,
    pub(super) catalogues: Catalogues,
    specs: Vec<Spec>,
    spec_numbers: FxHashMap<SpecKey<'a>, usize>,
}

/// What terms look at.
#[derive(Default)]
pub(super) struct Catalogues {
    pub(super) groups: Catalogue<(Field, usize)>,
    pub(super) repulsions: Catalogue<Field>,
    /// By number; the first lets everything through.
    pub(super) filters: Vec<Filter>,
    filter_numbers: FxHashMap<Filter, usize>,
    pub(super) tolerations: Vec<Vec<Toleration>>,
    toleration_numbers: FxHashMap<Vec<Toleration>, usize>,
}

impl Catalogues {
    fn filter(&mut self, filter: Filter) -> usize {
        let next = self.filters.len();
        let number = *self.filter_numbers.entry(filter.clone()).or_insert(next);
        if number == next {
            self.filters.push(filter);
        }
        number
    }

    fn tolerations(&mut self, tolerations: &[Toleration]) -> usize {
        if let Some(number) = self.toleration_numbers.get(tolerations) {
            return *number;
        }
        let number = self.tolerations.len();
        self.tolerations.push(tolerations.to_vec());
        self.toleration_numbers.insert(tolerations.to_vec(), number);
        number
    }
}

impl<'a, 'w> Compiler<'a, 'w> {
    pub(super) fn new(
        input: &'a Input,
        axes: &'w Axes,
        domains: &'w Domains,
        states: &'w mut States,
        prefers: bool,
    ) -> Self {
        let mut catalogues = Catalogues::default();
        catalogues.filter(Filter::default());
        let (specs, spec_numbers) = (Vec::new(), FxHashMap::default());
        Self { input, axes, domains, states, prefers, catalogues, specs, spec_numbers }
    }

    /// The shapes, and which one each pod has.
    pub(super) fn shapes(&mut self, pods: &[&'a Pod]) -> (Vec<Shape<'a>>, Vec<usize>) {
        let specs: Vec<usize> = pods.iter().map(|pod| self.spec(pod)).collect();
        // All groups are known now: what counts a pod can be told.
        let mut seen: FxHashMap<(&str, &Labels), usize> = FxHashMap::default();
        let mut counted: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        let mut counted_numbers: FxHashMap<(Vec<usize>, Vec<usize>), usize> = FxHashMap::default();
        let mut numbers: FxHashMap<Key<'_>, usize> = FxHashMap::default();
        let mut shapes = Vec::new();
        let of = pods.iter().zip(specs).map(|(pod, spec)| {
            let by = *seen.entry((&pod.name.namespace, &pod.labels)).or_insert_with(|| {
                *counted_numbers.entry(self.counted(pod)).or_insert_with_key(|by| {
                    counted.push(by.clone());
                    counted.len() - 1
                })
            });
            let attachments = !pod.volume_claims.is_empty();
            *numbers.entry((spec, &pod.requests, &pod.host_ports, attachments, by)).or_insert_with(|| {
                let (groups, repelled) = &counted[by];
                shapes.push(self.shape(pod, spec, groups, repelled));
                shapes.len() - 1
            })
        });
        let of = of.collect();
        (shapes, of)
    }

    /// The repulsions that a bound pod carries.
    pub(super) fn repulsions_of(&mut self, pod: &Pod) -> Vec<usize> {
        let fields: Vec<_> =
            pod.pod_anti_affinity.iter().map(|term| (term, self.field(&term.topology_key))).collect();
        let own = &pod.name.namespace;
        fields
            .into_iter()
            .filter_map(|(term, field)| {
                Some(self.catalogues.repulsions.number(Matcher::of_terms([term], own), field?))
            })
            .collect()
    }

    fn counted(&self, pod: &Pod) -> (Vec<usize>, Vec<usize>) {
        let namespaces = &self.input.namespaces;
        let groups = self.catalogues.groups.matching(pod, namespaces);
        (groups, self.catalogues.repulsions.matching(pod, namespaces))
    }

    fn spec(&mut self, pod: &'a Pod) -> usize {
        let looks = !(pod.topology_spread.is_empty()
            && pod.pod_affinity.is_empty()
            && pod.pod_anti_affinity.is_empty()
            && pod.preferred_pod_affinity.is_empty()
            && pod.preferred_pod_anti_affinity.is_empty());
        let key = SpecKey {
            node_selector: &pod.node_selector,
            required: &pod.required_node_affinity,
            preferred: &pod.preferred_node_affinity,
            tolerations: &pod.tolerations,
            spread: &pod.topology_spread,
            near: (&pod.pod_affinity, &pod.preferred_pod_affinity),
            away: (&pod.pod_anti_affinity, &pod.preferred_pod_anti_affinity),
            namespace: looks.then_some(pod.name.namespace.as_str()),
            volumes: volumes::alternatives(self.input, pod),
        };
        if let Some(number) = self.spec_numbers.get(&key) {
            return *number;
        }
        let spec = self.compile(pod, &key.volumes);
        self.spec_numbers.insert(key, self.specs.len());
        self.specs.push(spec);
        self.specs.len() - 1
    }

    fn compile(&mut self, pod: &'a Pod, volumes: &[Requirements]) -> Spec {
        let hard = alternatives(pod);
        let mut levels: Vec<Draft> = Vec::new();
        let mut last: Option<(Option<&Requirements>, Rc<Vec<Alternative>>)> = None;
        for wishes in relaxations(pod, self.input.options.preference_policy, self.prefers) {
            let same = last.as_ref().filter(|(node, _)| *node == wishes.node);
            let alternatives = match same {
                Some((_, alternatives)) => Rc::clone(alternatives),
                None => Rc::new(self.alternatives(&hard, wishes.node, volumes)),
            };
            last = Some((wishes.node, Rc::clone(&alternatives)));
            let constraints = self.constraints(pod, &hard, &wishes);
            let Wishes { prefer_too, given_up, .. } = wishes;
            levels.push(Draft { alternatives, prefer_too, constraints, given_up });
        }
        Spec {
            levels,
            repels: self.repulsions_of(pod),
            tolerations: self.catalogues.tolerations(&pod.tolerations),
        }
    }

    fn alternatives(
        &mut self,
        hard: &[Requirements],
        wish: Option<&Requirements>,
        volumes: &[Requirements],
    ) -> Vec<Alternative> {
        let wished = hard.iter().map(|one| wish.map_or_else(|| one.clone(), |wish| one.and(wish)));
        let reached = wished.flat_map(|one| match volumes {
            [] => vec![one],
            _ => volumes.iter().map(|volume| one.and(volume)).collect(),
        });
        Alternative::all(reached, self.states)
    }

    /// Rules with their groups. A term over a key that no node and no type has is kept as a rule that nothing can meet.
    fn constraints(&mut self, pod: &Pod, hard: &[Requirements], wishes: &Wishes<'_>) -> Vec<Drafted> {
        let own = &pod.name.namespace;
        let mut all = Vec::new();
        for constraint in &wishes.spread {
            let filter = Filter {
                alternatives: if constraint.honor_node_affinity { hard.to_vec() } else { Vec::new() },
                tolerations: constraint.honor_node_taints.then(|| pod.tolerations.clone()),
            };
            let filter = self.catalogues.filter(filter);
            let most = u32::try_from(constraint.max_skew).unwrap_or(0);
            let min_domains = constraint.min_domains.and_then(|least| u32::try_from(least).ok()).unwrap_or(1);
            let matcher = Matcher::of_selector(constraint.selector.as_ref(), own);
            let rule = Rule::Spread { most, min_domains, itself: false };
            let group = self.group(matcher, &constraint.topology_key, filter);
            all.extend(group.map(|group| Drafted { rule, group, required: constraint.required }));
        }
        let together = Matcher::of_terms(&pod.pod_affinity, own);
        for term in &pod.pod_affinity {
            let group = self.group(together.clone(), &term.topology_key, 0);
            all.extend(group.map(|group| Drafted {
                rule: Rule::Near { itself: false },
                group,
                required: true,
            }));
        }
        for term in &wishes.near {
            let group = self.group(Matcher::of_terms([*term], own), &term.topology_key, 0);
            all.extend(group.map(|group| Drafted {
                rule: Rule::Near { itself: false },
                group,
                required: false,
            }));
        }
        let required = pod.pod_anti_affinity.iter().map(|term| (term, true));
        for (term, required) in required.chain(wishes.away.iter().map(|term| (*term, false))) {
            let group = self.group(Matcher::of_terms([term], own), &term.topology_key, 0);
            all.extend(group.map(|group| Drafted { rule: Rule::Away, group, required }));
        }
        all
    }

    fn group(&mut self, matcher: Matcher, key: &str, filter: usize) -> Option<usize> {
        let field = self.field(key)?;
        Some(self.catalogues.groups.number(matcher, (field, filter)))
    }

    fn field(&self, key: &str) -> Option<Field> {
        if key == HOSTNAME { Some(Field::Host) } else { self.domains.key(key).map(Field::Key) }
    }

    fn shape(&self, pod: &'a Pod, spec: usize, groups: &[usize], repelled: &[usize]) -> Shape<'a> {
        let spec = &self.specs[spec];
        let levels = spec.levels.iter().map(|draft| {
            let own = draft.constraints.iter().map(|drafted| {
                let group = drafted.group;
                let rule = drafted.rule.seen_by(groups.binary_search(&group).is_ok());
                Ruling {
                    constraint: Constraint { rule, group },
                    repulsion: false,
                    required: drafted.required,
                    key: self.catalogues.groups.get(group).0.key(),
                }
            });
            let others = repelled.iter().map(|repulsion| Ruling {
                constraint: Constraint { rule: Rule::Away, group: *repulsion },
                repulsion: true,
                required: true,
                key: self.catalogues.repulsions.get(*repulsion).key(),
            });
            let (by_host, by_key) = own.chain(others).partition(|ruling: &Ruling| ruling.key.is_none());
            Level {
                alternatives: Rc::clone(&draft.alternatives),
                prefer_too: draft.prefer_too,
                by_key,
                by_host,
                given_up: draft.given_up.clone(),
            }
        });
        Shape {
            sample: pod,
            requests: self.axes.row(&pod.requests),
            levels: levels.collect(),
            counted_by: groups.to_vec(),
            repels: spec.repels.clone(),
            ports: &pod.host_ports,
            tolerations: spec.tolerations,
            has_attachments: !pod.volume_claims.is_empty(),
        }
    }
}
