//! Our operator and upstream's Karpenter on one stage, each a user of its own, and what either did to the other's objects.

use super::super::audit::{Audit, Request};
use super::super::process::Operator;
use super::super::stage::{Stage, shipped_crds};
use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_capi_api::names::labels;
use karpenter_capi_api::v1::{NodeClaim, NodePool};
use karpenter_capi_e2e::binaries::KwokKarpenter;
use karpenter_capi_e2e::plane::{ControlPlane, Options, Program};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Users.
const OURS: &str = "karpenter-capi";
const THEIRS: &str = "karpenter";
/// Of either user.
const ALL_RIGHTS: &[&str] = &["system:masters"];
/// Field manager of everything that upstream writes, from its user agent.
const THEIR_MANAGER: &str = "karpenter";

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Ours,
    Theirs,
}

impl Owner {
    fn of_claim(claim: &NodeClaim) -> Self {
        if claim.spec.node_class_ref.is_ours() { Self::Ours } else { Self::Theirs }
    }

    /// By the name that the tests give to pools, claims and Deployments, and both Karpenters to what they make for them.
    fn of_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix("web-").or(name.strip_prefix("kwok-")).unwrap_or(name);
        if name.starts_with("theirs") {
            Some(Self::Theirs)
        } else if name.starts_with("ours") || name.starts_with("small") {
            Some(Self::Ours)
        } else {
            None
        }
    }

    /// Whether a field manager is this one's.
    fn manages(self, manager: &str) -> bool {
        match self {
            Self::Ours => manager.starts_with("karpenter-capi-") && manager != objects::FIELD_MANAGER,
            Self::Theirs => manager == THEIR_MANAGER,
        }
    }
}

/// Both, at work.
pub(super) struct Pair<'a> {
    pub(super) stage: Stage<'a>,
    ours: Operator,
    theirs: Program,
    audit: &'a Audit,
}

/// Runs `body` with both, and finds afterwards that both are well, that neither has touched what is the other's, and that the CRDs
/// are as they were.
pub(super) async fn with_both(name: &str, body: impl AsyncFnOnce(&Pair<'_>) -> Result<()>) -> Result<()> {
    let karpenter = KwokKarpenter::ensure().await?;
    let audit = Audit::of(&[OURS, THEIRS])?;
    ControlPlane::with(audit.kept_by(Options::complete(name)), async |plane| {
        let stage = Stage::with_crds(plane, plane, &crds(&karpenter)?).await?;
        let before = generations(&stage).await?;
        let theirs = start_theirs(plane, &karpenter, &plane.kubeconfig_for(THEIRS, ALL_RIGHTS)?)?;
        let ours = Operator::start(plane, "operator", &plane.kubeconfig_for(OURS, ALL_RIGHTS)?, &[])?;
        let pair = Pair { stage, ours, theirs, audit: &audit };
        body(&pair).await?;
        pair.nobody_touched_what_is_the_others().await?;
        ensure!(generations(&pair.stage).await? == before, "CRDs have changed");
        pair.end().await
    })
    .await
}

/// Upstream's of its version, and those of ours that it doesn't have.
fn crds(karpenter: &KwokKarpenter) -> Result<Vec<Value>> {
    let name = |crd: &Value| crd.pointer("/metadata/name").cloned();
    let mut crds = karpenter.crds()?;
    let present: Vec<_> = crds.iter().map(name).collect();
    crds.extend(shipped_crds()?.into_iter().filter(|crd| !present.contains(&name(crd))));
    Ok(crds)
}

async fn generations(stage: &Stage<'_>) -> Result<BTreeMap<String, Option<i64>>> {
    let api: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let crds = api.list(&ListParams::default()).await?.items;
    Ok(crds.into_iter().map(|crd| (crd.metadata.name.unwrap_or_default(), crd.metadata.generation)).collect())
}

fn start_theirs(plane: &ControlPlane, karpenter: &KwokKarpenter, kubeconfig: &Path) -> Result<Program> {
    let mut command = Command::new(karpenter.program());
    command.env("KUBECONFIG", kubeconfig).args([
        // Outside of a cluster it knows no namespace for its Lease.
        "--disable-leader-election=true",
        "--metrics-port=0",
        "--health-probe-port=0",
    ]);
    plane.start_program("karpenter-kwok", command)
}

impl Pair<'_> {
    /// The claims of one, by node class.
    pub(super) async fn claims(&self, owner: Owner) -> Result<Vec<NodeClaim>> {
        let mut claims = self.stage.claims().await?;
        claims.retain(|claim| Owner::of_claim(claim) == owner);
        Ok(claims)
    }

    pub(super) async fn uids(&self, owner: Owner) -> Result<BTreeSet<String>> {
        Ok(self.claims(owner).await?.into_iter().filter_map(|claim| claim.metadata.uid).collect())
    }

    /// The Node of the first claim of one, once it is initialized.
    pub(super) async fn a_node(&self, owner: Owner) -> Result<String> {
        wait::eventually(&format!("{owner:?} has an initialized Node"), Duration::from_mins(1), async || {
            let claims = self.claims(owner).await?;
            let claim = claims.first().context("no claim")?;
            let status = claim.status.clone().unwrap_or_default();
            ensure!(
                karpenter_capi_api::condition::is_true(&status.conditions, "Initialized"),
                "{:?}",
                status.conditions
            );
            status.node_name.context("no Node")
        })
        .await
    }

    /// By what the API server was asked for, and by who has written what is there now.
    pub(super) async fn nobody_touched_what_is_the_others(&self) -> Result<()> {
        let requests = self.audit.requests()?;
        for user in [OURS, THEIRS] {
            let wrote = requests.iter().any(|request| request.user == user && request.writes());
            ensure!(wrote, "{user} wrote nothing at all: the audit log or its user is another");
        }
        let crossed: Vec<&Request> = requests.iter().filter(|request| crosses(request)).collect();
        ensure!(crossed.is_empty(), "requests that changed what is the other's: {crossed:#?}");
        self.field_managers_are_the_owners().await
    }

    async fn field_managers_are_the_owners(&self) -> Result<()> {
        let pools: Api<NodePool> = Api::all(self.stage.client.clone());
        let mut owned: Vec<(Owner, String, ObjectMeta)> = Vec::new();
        for pool in pools.list(&ListParams::default()).await?.items {
            let is_ours = pool.spec.template.spec.node_class_ref.is_ours();
            owned.push((
                if is_ours { Owner::Ours } else { Owner::Theirs },
                "NodePool".to_owned(),
                pool.metadata,
            ));
        }
        for claim in self.stage.claims().await? {
            owned.push((Owner::of_claim(&claim), "NodeClaim".to_owned(), claim.metadata));
        }
        for node in workload::nodes(&self.stage.client).await? {
            let is_ours = node.metadata.labels.iter().flatten().any(|(key, _)| key == labels::NODECLASS);
            owned.push((if is_ours { Owner::Ours } else { Owner::Theirs }, "Node".to_owned(), node.metadata));
        }
        for (owner, kind, metadata) in owned {
            let managers: BTreeSet<String> =
                metadata.managed_fields.into_iter().flatten().filter_map(|entry| entry.manager).collect();
            let other = if owner == Owner::Ours { Owner::Theirs } else { Owner::Ours };
            let wrong: Vec<&String> = managers.iter().filter(|manager| other.manages(manager)).collect();
            let name = metadata.name.unwrap_or_default();
            ensure!(wrong.is_empty(), "{kind} {name} of {owner:?} was written by {wrong:?}");
        }
        Ok(())
    }

    /// Both still run, never said a word of an error, and end in order.
    async fn end(self) -> Result<()> {
        let Self { mut ours, mut theirs, .. } = self;
        ours.is_alive().await?;
        ensure!(theirs.ended()?.is_none(), "the other Karpenter has ended; {}", theirs.log_tail(20));
        let said = ours.said();
        let complaints: Vec<&str> =
            said.lines().filter(|line| line.contains(" ERROR ") || line.contains(" WARN ")).collect();
        ensure!(complaints.is_empty(), "our operator complained: {complaints:#?}");
        let said = String::from_utf8_lossy(&std::fs::read(theirs.log())?).into_owned();
        let complaints: Vec<&str> = said.lines().filter(|line| is_complaint(line)).collect();
        ensure!(complaints.is_empty(), "the other Karpenter complained: {complaints:#?}");
        let status = ours.terminate().await?;
        ensure!(status.success(), "our operator ended with {status}");
        theirs.kill();
        Ok(())
    }
}

/// Whether a line of upstream's log tells of trouble. It calls it an error, too, when it has no pool for a pod that we are to serve.
fn is_complaint(line: &str) -> bool {
    let is_our_pod =
        line.contains(r#""message":"could not schedule pod""#) && line.contains(r#"{"name":"web-ours-"#);
    (line.contains(r#""level":"ERROR""#) && !is_our_pod) || line.contains("panic")
}

/// Whether a request, answered or refused, was to change what isn't its user's.
fn crosses(request: &Request) -> bool {
    if !request.writes() {
        return false;
    }
    let by = if request.user == OURS { Owner::Ours } else { Owner::Theirs };
    match (request.group.as_str(), request.resource.as_str()) {
        ("apiextensions.k8s.io", _) => true,
        ("cluster.x-k8s.io" | "karpenter.cluster.x-k8s.io", _) => by == Owner::Theirs,
        ("karpenter.kwok.sh", _) => by == Owner::Ours,
        _ => Owner::of_name(&request.name).is_some_and(|owner| owner != by),
    }
}
