//! Upstream's Karpenter works in the same cluster, with the same kinds and a node class of its own, kwok's. Neither touches what is
//! the other's.
//!
//! The CRDs are upstream's, of its version, and only the node class is ours.

mod pair;

use super::stage::{NAMESPACE, machine, pool};
use super::termination::apply_budget;
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_capi_api::names::{annotations, finalizers};
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use kube::api::DeleteParams;
use pair::{Owner, Pair, with_both};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);
/// Label of the nodes of a pool, with the pool's owner.
const KARPENTER: &str = "example.com/karpenter";
/// The only instance type of the other's pool: four processors, as our `small`.
const THEIR_TYPE: &str = "c-4x-amd64-linux";

/// A NodePool of ours, for pods that ask for it.
fn our_pool() -> Value {
    let mut pool = pool("ours");
    pool["spec"]["template"]["metadata"] = json!({ "labels": { KARPENTER: "ours" } });
    pool
}

/// The other's node class, and a NodePool whose nodes go as soon as they are empty.
fn their_pool() -> [Value; 2] {
    let class = json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": { "name": "default" }, "spec": {},
    });
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": "theirs" },
        "spec": {
            "template": {
                "metadata": { "labels": { KARPENTER: "theirs" } },
                "spec": {
                    "requirements": [
                        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": [THEIR_TYPE] },
                        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
                    ],
                    "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
                    "expireAfter": "Never",
                },
            },
            "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": [{ "nodes": "100%" }] },
        },
    });
    [class, pool]
}

/// `small`, and a pool each.
async fn two_pools(pair: &Pair<'_>) -> Result<()> {
    pair.stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10").in_zone("a")).await?;
    objects::apply(&pair.stage.client, &our_pool()).await?;
    objects::apply_all(&pair.stage.client, &their_pool()).await
}

/// Pods of which each fills a node; with a selector unless they can go to both.
async fn pods(pair: &Pair<'_>, name: &str, replicas: i32, karpenter: Option<&str>) -> Result<()> {
    let mut deployment = workload::deployment(NAMESPACE, name, replicas, &[("cpu", "3"), ("memory", "1Gi")]);
    if let Some(pod) = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
        pod.node_selector = karpenter.map(|owner| BTreeMap::from([(KARPENTER.to_owned(), owner.to_owned())]));
    }
    workload::apply(&pair.stage.client, &deployment).await
}

#[tokio::test]
async fn two_karpenters_make_and_end_nodes_of_their_own_pools_only() -> Result<()> {
    with_both("coexistence", async |pair| {
        two_pools(pair).await?;
        pods(pair, "web-ours", 3, Some("ours")).await?;
        pods(pair, "web-theirs", 3, Some("theirs")).await?;
        each_has(pair, 3).await?;
        room_on_their_nodes_counts(pair).await?;
        neither_holds_nor_hurries_the_others_nodes(pair).await?;
        each_has(pair, 3).await?;
        they_take_empty_nodes_away(pair).await?;
        we_give_all_nodes_back(pair).await
    })
    .await
}

/// Each has as many claims, with its own pods on their nodes, and books and replicas are exact.
async fn each_has(pair: &Pair<'_>, count: usize) -> Result<()> {
    pair.stage.running("web-ours", count, MINUTE).await?;
    pair.stage.running("web-theirs", count, MINUTE).await?;
    for owner in [Owner::Ours, Owner::Theirs] {
        wait::eventually(&format!("{count} claims of {owner:?} are there"), MINUTE, async || {
            let claims = pair.claims(owner).await?;
            ensure!(claims.len() == count, "{} are", claims.len());
            Ok(())
        })
        .await?;
    }
    pair.stage.books_are_exact(MINUTE).await?;
    let replicas = pair.stage.replicas("small").await?;
    ensure!(usize::try_from(replicas)? == count, "{replicas} replicas");
    Ok(())
}

/// Three processors of each node are taken. Pods that fit beside, wherever, cost no node.
async fn room_on_their_nodes_counts(pair: &Pair<'_>) -> Result<()> {
    let before = pair.uids(Owner::Ours).await?;
    let beside = workload::deployment(NAMESPACE, "beside", 4, &[("cpu", "500m")]);
    workload::apply(&pair.stage.client, &beside).await?;
    pair.stage.running("beside", 4, MINUTE).await?;
    pair.stage.scale("beside", 0).await?;
    pair.stage.running("beside", 0, MINUTE).await?;
    ensure!(pair.uids(Owner::Ours).await? == before, "machines were ordered for pods that had room");
    Ok(())
}

/// A Node of each is deleted while a budget holds its pod. Finalizer and taints have the same names on both, so whoever mistakes the
/// other's Node for its own lets it go, or takes the drain's taint off.
async fn neither_holds_nor_hurries_the_others_nodes(pair: &Pair<'_>) -> Result<()> {
    let nodes: Api<Node> = Api::all(pair.stage.client.clone());
    let mut going = Vec::new();
    for (owner, app) in [(Owner::Ours, "web-ours"), (Owner::Theirs, "web-theirs")] {
        apply_budget(&pair.stage, app, app, 3).await?;
        going.push(pair.a_node(owner).await?);
    }
    for node in &going {
        nodes.delete(node, &DeleteParams::default()).await?;
    }
    let draining = async || {
        for name in &going {
            let node = nodes.get_opt(name).await?;
            let Some(node) = node else { anyhow::bail!("Node {name} is gone, with a pod that may not go") };
            let held = node.metadata.finalizers.iter().flatten().any(|held| held == finalizers::TERMINATION);
            let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
            let tainted = taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted");
            ensure!(held && tainted, "Node {name}: finalizer {held}, taint {tainted}");
        }
        Ok(())
    };
    wait::eventually("both Nodes are being drained", MINUTE, draining).await?;
    wait::holds("both Nodes wait for their pods", Duration::from_secs(8), draining).await?;
    pair.nobody_touched_what_is_the_others().await?;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(pair.stage.client.clone(), NAMESPACE);
    for app in ["web-ours", "web-theirs"] {
        budgets.delete(app, &DeleteParams::default()).await?;
    }
    wait::eventually("both Nodes are gone", MINUTE, async || {
        for name in &going {
            ensure!(nodes.get_opt(name).await?.is_none(), "Node {name} is there");
        }
        Ok(())
    })
    .await
}

/// The other consolidates: its claims go, ours stay.
async fn they_take_empty_nodes_away(pair: &Pair<'_>) -> Result<()> {
    let before = pair.uids(Owner::Ours).await?;
    pair.stage.scale("web-theirs", 1).await?;
    wait::eventually("one claim of theirs is left", Duration::from_mins(2), async || {
        let claims = pair.claims(Owner::Theirs).await?;
        ensure!(claims.len() == 1, "{} are", claims.len());
        Ok(())
    })
    .await?;
    ensure!(pair.uids(Owner::Ours).await? == before, "claims of ours went or came");
    pair.stage.running("web-ours", 3, MINUTE).await?;
    pair.stage.books_are_exact(MINUTE).await
}

/// All our claims are deleted: theirs stay, and our pods get new nodes of ours.
async fn we_give_all_nodes_back(pair: &Pair<'_>) -> Result<()> {
    let theirs = pair.uids(Owner::Theirs).await?;
    let ours = pair.uids(Owner::Ours).await?;
    let api: Api<NodeClaim> = Api::all(pair.stage.client.clone());
    for claim in pair.claims(Owner::Ours).await? {
        api.delete(claim.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default()).await?;
    }
    wait::eventually("new claims have taken the place of ours", Duration::from_mins(2), async || {
        let now = pair.uids(Owner::Ours).await?;
        ensure!(
            now.is_disjoint(&ours) && now.len() == 3,
            "{} of {} are new",
            now.difference(&ours).count(),
            now.len()
        );
        Ok(())
    })
    .await?;
    pair.stage.running("web-ours", 3, MINUTE).await?;
    pair.stage.books_are_exact(MINUTE).await?;
    ensure!(pair.uids(Owner::Theirs).await? == theirs, "claims of theirs went or came");
    Ok(())
}

#[tokio::test]
async fn a_claim_belongs_to_the_karpenter_of_its_node_class_whatever_else_it_says() -> Result<()> {
    with_both("coexistence-mixed", async |pair| {
        two_pools(pair).await?;
        // Each names the other's pool, and theirs is assigned to our MachineDeployment, too.
        let ours = claim("ours-by-hand", "theirs", &our_pool());
        let mut theirs = claim("theirs-by-hand", "ours", &their_pool()[1]);
        theirs["metadata"]["annotations"] = json!({ annotations::MACHINE_DEPLOYMENT: "default/small" });
        objects::apply_all(&pair.stage.client, &[ours, theirs]).await?;
        for owner in [Owner::Ours, Owner::Theirs] {
            pair.a_node(owner).await?;
        }
        pair.stage.books_are_exact(MINUTE).await?;
        let replicas = pair.stage.replicas("small").await?;
        ensure!(replicas == 1, "{replicas} replicas for the one claim of ours");

        // Pods that both can take get nodes of either or of both; wherever they run, nothing else is touched.
        pods(pair, "either", 3, None).await?;
        pair.stage.running("either", 3, MINUTE).await?;
        pair.stage.books_are_exact(MINUTE).await?;
        println!(
            "three pods for either, one node of each before: {} claims of ours, {} of theirs",
            pair.claims(Owner::Ours).await?.len(),
            pair.claims(Owner::Theirs).await?.len()
        );
        pair.stage.scale("either", 0).await?;
        pair.stage.running("either", 0, MINUTE).await?;
        all_claims_end(pair).await
    })
    .await
}

async fn all_claims_end(pair: &Pair<'_>) -> Result<()> {
    let api: Api<NodeClaim> = Api::all(pair.stage.client.clone());
    for owner in [Owner::Ours, Owner::Theirs] {
        for claim in pair.claims(owner).await? {
            let name = claim.metadata.name.unwrap_or_default();
            match api.delete(&name, &DeleteParams::default()).await {
                // The other takes its empty nodes away by itself.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                result => drop(result?),
            }
        }
    }
    wait::eventually("all claims, Machines and Nodes are gone", MINUTE, async || {
        let left: BTreeSet<String> =
            pair.stage.claims().await?.into_iter().filter_map(|claim| claim.metadata.name).collect();
        let nodes = workload::nodes(&pair.stage.client).await?.len();
        ensure!(left.is_empty() && nodes == 0, "{left:?} and {nodes} Nodes");
        Ok(())
    })
    .await?;
    pair.stage.books_are_exact(MINUTE).await?;
    ensure!(pair.stage.replicas("small").await? == 0, "replicas are left");
    Ok(())
}

/// A claim that a person makes, of one pool's node class, with another pool's label.
fn claim(name: &str, pool_label: &str, pool: &Value) -> Value {
    let template = &pool["spec"]["template"]["spec"];
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": { "name": name, "labels": { "karpenter.sh/nodepool": pool_label } },
        "spec": {
            "requirements": template["requirements"],
            "nodeClassRef": template["nodeClassRef"],
            "expireAfter": "Never",
            "resources": { "requests": { "cpu": "1" } },
        },
    })
}
