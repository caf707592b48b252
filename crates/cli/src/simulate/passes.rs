//! Scheduling passes over what the files hold, and the answer made from their plans.

use super::document::{
    Cost, Finding, MachineDeployment, NodeClaim, Offer, PendingPod, Placement, Reason, Simulation, Warning,
};
use jiff::Timestamp;
use karpenter_capi_api::names::labels;
use karpenter_capi_api::v1;
use karpenter_capi_cluster::claim::draft;
use karpenter_capi_cluster::files::Loaded;
use karpenter_capi_cluster::index::Index;
use karpenter_capi_cluster::input::{InputOptions, Origin, ProvisioningInput, Scope, provisioning_input};
use karpenter_capi_cluster::object::Object;
use karpenter_capi_cluster::scheduler_config::SchedulerConfig;
use karpenter_capi_cluster::snapshot::Snapshot;
use karpenter_capi_cluster::static_claims;
use karpenter_capi_model::feature_gates::FeatureGates;
use karpenter_capi_model::instance_type::order_prices;
use karpenter_capi_model::name::NamespacedName;
use karpenter_capi_model::price::Price;
use karpenter_capi_model::requirement::Requirement;
use karpenter_capi_scheduling::audit;
use karpenter_capi_scheduling::input::{Input, Options};
use karpenter_capi_scheduling::plan::{self, InstanceOption, Plan, PlannedNodeClaim};
use std::collections::{BTreeMap, BTreeSet};

/// What is asked.
pub(super) struct Request {
    pub(super) now: Timestamp,
    pub(super) passes: u32,
    pub(super) scope: Scope,
    pub(super) options: Options,
    pub(super) scheduler_config: SchedulerConfig,
    pub(super) gates: FeatureGates,
    /// Check each plan.
    pub(super) audit: bool,
}

/// Runs the passes; `decide` makes the plans.
pub(super) fn simulate(loaded: Loaded, request: &Request, decide: impl Fn(&Input) -> Plan) -> Simulation {
    let mut options = InputOptions {
        now: request.now,
        origin: Origin::Files,
        scope: request.scope.clone(),
        scheduling: request.options.clone(),
        gates: request.gates.clone(),
        facts: BTreeMap::new(),
        nominations: BTreeMap::new(),
        marked: BTreeSet::new(),
        scheduler_config: request.scheduler_config.clone(),
    };
    let index: Index = loaded.objects.into_iter().collect();
    let mut run = Run { audit: request.audit.then(Vec::new), ..Run::default() };
    run.warnings.extend(loaded.warnings.into_iter().map(|(object, message)| Warning { object, message }));
    let without_effect = request.gates.without_effect().into_iter();
    run.warnings
        .extend(without_effect.map(|message| Warning { object: "--feature-gates".to_owned(), message }));
    for pass in 1..=request.passes {
        let mut snapshot = index.snapshot();
        let mut made = provisioning_input(&snapshot, &options);
        if pass == 1 {
            run.begin(&made);
        }
        let fixed = static_claims::plan(&made);
        run.warn(&fixed.warnings);
        let claims = run.take_claims(pass, &snapshot, &made, &fixed.node_claims);
        if !claims.is_empty() {
            for (_, _, claim) in claims {
                index.apply(claim);
            }
            snapshot = index.snapshot();
            made = provisioning_input(&snapshot, &options);
        }
        let plan = decide(&made.input);
        run.check(pass, &made.input, &plan);
        for (name, pods, claim) in run.take(pass, &snapshot, &made, plan) {
            options.nominations.extend(made.uids(&pods).map(|uid| (uid.to_owned(), name.clone())));
            index.apply(claim);
        }
    }
    run.finish(loaded.others)
}

/// What the passes have come to so far.
#[derive(Default)]
struct Run {
    claims: Vec<NodeClaim>,
    placements: BTreeMap<(bool, String), Vec<String>>,
    /// In the order of the placements' first pods.
    placement_order: Vec<(bool, String)>,
    placed: BTreeSet<String>,
    pending: Vec<plan::PendingPod>,
    warnings: BTreeSet<Warning>,
    deployments: BTreeMap<NamespacedName, MachineDeployment>,
    /// Of NodePools' nodes that are there or on their way before the run; and of those, the ones that stay.
    before: Prices,
    staying: Prices,
    added: Prices,
    /// The next number, by NodePool.
    numbers: BTreeMap<String, u64>,
    /// What is wrong with the plans; None where nobody asked.
    audit: Option<Vec<Finding>>,
    buffer_pods: BTreeSet<String>,
}

#[derive(Clone, Copy, Default)]
struct Prices {
    sum: Price,
    unknown: usize,
}

impl Prices {
    fn add(&mut self, price: Option<Price>) {
        match price {
            Some(price) => self.sum = self.sum.plus(price),
            None => self.unknown += 1,
        }
    }
}

impl Run {
    fn check(&mut self, pass: u32, input: &Input, plan: &Plan) {
        if let Some(findings) = &mut self.audit {
            let violations = audit(input, plan).into_iter();
            findings.extend(violations.map(|violation| Finding {
                pass,
                subject: violation.subject,
                message: violation.message,
            }));
        }
    }

    /// What is there before the first pass.
    fn begin(&mut self, made: &ProvisioningInput) {
        for node in made.input.nodes.iter().filter(|node| node.node_pool.is_some() || node.is_managed()) {
            self.before.add(node.price);
            if !node.marked_for_deletion {
                self.staying.add(node.price);
            }
        }
        for (name, entry) in &made.catalog {
            let books = made.books.get(name).copied().unwrap_or_default();
            let reason = entry.reason();
            let deployment = MachineDeployment {
                name: name.to_string(),
                replicas: entry.replicas,
                desired_replicas: entry
                    .replicas
                    .saturating_add(books.to_enter)
                    .saturating_sub(books.to_leave)
                    .max(0),
                available: reason.is_none(),
                reason: reason.map_or("", |reason| reason.code.as_str()),
            };
            self.deployments.insert(name.clone(), deployment);
        }
    }

    /// Takes a plan, and returns the claims that are in flight from then on.
    fn take(
        &mut self,
        pass: u32,
        snapshot: &Snapshot,
        made: &ProvisioningInput,
        plan: Plan,
    ) -> Vec<(String, Vec<NamespacedName>, Object)> {
        self.buffer_pods.extend(made.buffer_pods.keys().map(ToString::to_string));
        self.warn(&made.warnings);
        self.warn(&plan.warnings);
        for placement in &plan.placements {
            self.place(placement);
        }
        self.pending = plan.pending;
        self.take_claims(pass, snapshot, made, &plan.node_claims)
    }

    fn warn(&mut self, warnings: &[plan::Warning]) {
        let told = warnings.iter();
        self.warnings.extend(
            told.map(|warning| Warning { object: warning.object.clone(), message: warning.message.clone() }),
        );
    }

    /// Names planned claims, and returns them with their pods.
    fn take_claims(
        &mut self,
        pass: u32,
        snapshot: &Snapshot,
        made: &ProvisioningInput,
        claims: &[PlannedNodeClaim],
    ) -> Vec<(String, Vec<NamespacedName>, Object)> {
        let mut made_claims = Vec::new();
        for planned in claims {
            let Some(pool) = snapshot.node_pool(&planned.node_pool) else {
                continue;
            };
            let Some(mut object) = draft(planned, pool, made) else {
                continue;
            };
            let name = self.name(&planned.node_pool, snapshot);
            object.metadata.name = Some(name.clone());
            self.claim(pass, name.clone(), planned, &object);
            made_claims.push((name, planned.pods.clone(), Object::from(object)));
        }
        made_claims
    }

    /// A pod keeps its first place: claims of earlier passes get the same pods again.
    fn place(&mut self, placement: &plan::Placement) {
        let pods: Vec<String> = placement
            .pods
            .iter()
            .map(ToString::to_string)
            .filter(|pod| self.placed.insert(pod.clone()))
            .collect();
        if pods.is_empty() {
            return;
        }
        let key = (placement.in_flight, placement.node.clone());
        if !self.placements.contains_key(&key) {
            self.placement_order.push(key.clone());
        }
        self.placements.entry(key).or_default().extend(pods);
    }

    /// `<pool>-<n>`, counted across passes; names that are taken are passed over.
    fn name(&mut self, pool: &str, snapshot: &Snapshot) -> String {
        let number = self.numbers.entry(pool.to_owned()).or_default();
        loop {
            *number += 1;
            let name = format!("{pool}-{number}");
            if snapshot.node_claim(&name).is_none() && snapshot.node(&name).is_none() {
                return name;
            }
        }
    }

    fn claim(&mut self, pass: u32, name: String, planned: &PlannedNodeClaim, object: &v1::NodeClaim) {
        let Some(chosen) = planned.chosen() else { return };
        let deployment = chosen.instance_type.machine_deployment.as_ref();
        if let Some(deployment) = deployment.and_then(|name| self.deployments.get_mut(name)) {
            deployment.desired_replicas += 1;
        }
        let pods: Vec<String> = planned.pods.iter().map(ToString::to_string).collect();
        self.placed.extend(pods.iter().cloned());
        self.added.add(chosen.offering.price);
        self.claims.push(NodeClaim {
            name,
            pass,
            node_pool: planned.node_pool.clone(),
            offer: offer(chosen),
            alternatives: alternatives(planned),
            requests: planned
                .requests
                .to_quantities()
                .into_iter()
                .map(|(name, amount)| (name, amount.0))
                .collect(),
            labels: object.metadata.labels.clone().unwrap_or_default(),
            pods,
        });
    }

    fn finish(mut self, others: BTreeMap<String, usize>) -> Simulation {
        let placements = self.placement_order.into_iter().map(|key| {
            let pods = self.placements.remove(&key).unwrap_or_default();
            let (in_flight, name) = key;
            let (node, node_claim) = if in_flight { (None, Some(name)) } else { (Some(name), None) };
            Placement { node, node_claim, pods }
        });
        Simulation {
            api_version: "karpenter.cluster.x-k8s.io/v1alpha1",
            kind: "Simulation",
            placements: placements.collect(),
            node_claims: self.claims,
            pending: self.pending.into_iter().map(pending).collect(),
            machine_deployments: self.deployments.into_values().collect(),
            disruptions: Vec::new(),
            blocked: Vec::new(),
            warnings: self.warnings.into_iter().collect(),
            cost: Cost {
                before: self.before.sum.to_f64(),
                after: self.staying.sum.plus(self.added.sum).to_f64(),
                unpriced: self.before.unknown + self.added.unknown,
            },
            audit: self.audit,
            others,
            buffer_pods: self.buffer_pods,
        }
    }
}

fn pending(pod: plan::PendingPod) -> PendingPod {
    let reasons = pod.reasons.into_iter().map(|reason| Reason {
        node_pool: reason.node_pool.unwrap_or_default(),
        machine_deployment: reason.machine_deployment.map(|name| name.to_string()).unwrap_or_default(),
        code: reason.code.as_str(),
        message: reason.message,
        remedy: reason.remedy,
    });
    PendingPod { pod: pod.pod.to_string(), reasons: reasons.collect() }
}

fn offer(option: &InstanceOption) -> Offer {
    let label =
        option.instance_type.requirements.get(labels::INSTANCE_TYPE).and_then(Requirement::single_value);
    Offer {
        machine_deployment: option
            .instance_type
            .machine_deployment
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        instance_type: label.unwrap_or_default().to_owned(),
        zone: option.offering.zone().to_owned(),
        capacity_type: option.offering.capacity_type().to_owned(),
        price: option.offering.price.map(Price::to_f64),
    }
}

/// By price, an unknown one last, then name.
fn alternatives(planned: &PlannedNodeClaim) -> Vec<Offer> {
    let mut others: Vec<&InstanceOption> = planned.options.iter().skip(1).collect();
    others.sort_by(|a, b| {
        order_prices(a.offering.price, b.offering.price)
            .then_with(|| a.instance_type.name.cmp(&b.instance_type.name))
    });
    others.into_iter().map(offer).collect()
}

#[cfg(test)]
mod tests;
