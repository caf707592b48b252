//! Other people's hands: Machines, Nodes, pools and classes that they delete, pods that their drain rules skip, claims that they
//! release.

use super::*;
use k8s_openapi::api::core::v1::Node;
use karpenter_capi_api::names::annotations;
use std::collections::BTreeMap;

#[tokio::test]
async fn machines_and_nodes_that_somebody_deletes_are_drained_and_given_back() -> Result<()> {
    ControlPlane::with(Options::complete("deleted-by-others"), async |plane| {
        let stage = Stage::set(plane).await?;
        small(&stage).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let operator = stage.operator()?;
        run(&stage, "web", 3, |_| {}).await?;
        let all = stage.claims().await?;
        let [of_machine, of_node, of_ghost] = all.as_slice() else { anyhow::bail!("{} claims", all.len()) };

        plane
            .kubectl(&["delete", "machine", "-n", NAMESPACE, &machine_of(of_machine), "--wait=false"])
            .await?;
        is_gone(&stage, of_machine, Duration::from_mins(2)).await?;
        stage.running("web", 3, Duration::from_mins(2)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        ensure!(stage.replicas("small").await? == 3, "{} replicas", stage.replicas("small").await?);

        plane.kubectl(&["delete", "node", &node_of(of_node), "--wait=false"]).await?;
        is_gone(&stage, of_node, Duration::from_mins(2)).await?;
        stage.running("web", 3, Duration::from_mins(2)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;

        // Somebody takes the finalizer off by force: the Node is gone at once, and its Machine runs on.
        let node = node_of(of_ghost);
        let nodes: Api<Node> = Api::all(stage.client.clone());
        nodes
            .patch(
                &node,
                &PatchParams::default(),
                &Patch::Merge(json!({ "metadata": { "finalizers": null } })),
            )
            .await?;
        nodes.delete(&node, &DeleteParams::default()).await?;
        condition_says(&stage, of_ghost, "Initialized", &["False", "NodeNotFound", &node]).await?;
        let started = Instant::now();
        is_gone(&stage, of_ghost, Duration::from_mins(4)).await?;
        println!("a claim without Node was gone after {:.0} s", started.elapsed().as_secs_f64());
        ensure!(started.elapsed() > Duration::from_secs(100), "it ended early");
        stage.running("web", 3, Duration::from_mins(2)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        ensure!(stage.replicas("small").await? == 3, "{} replicas", stage.replicas("small").await?);
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

// Public reports aws/karpenter-provider-aws#2831 and #6905: the pool was deleted while its nodes drained, and they hung.
#[tokio::test]
async fn case_114_a_deleted_pool_takes_its_claims_along_and_its_class_waits_for_their_drain() -> Result<()> {
    ControlPlane::with(Options::complete("deleted-pool"), async |plane| {
        let stage = Stage::set(plane).await?;
        small(&stage).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let operator = stage.operator()?;
        run(&stage, "web", 2, |_| {}).await?;
        apply_budget(&stage, "guard", "web", 2).await?;
        let all = stage.claims().await?;
        plane.kubectl(&["delete", "nodepool", "general"]).await?;
        plane.kubectl(&["delete", "clusterapinodeclass", "default", "--wait=false"]).await?;
        for claim in &all {
            condition_says(&stage, claim, "Drained", &["Unknown", "PodDisruptionBudget guard"]).await?;
        }
        wait::holds("the class waits for the claims", Duration::from_secs(3), async || {
            ensure!(stage.class().await?.metadata.deletion_timestamp.is_some(), "nobody deletes it");
            ensure!(stage.claims().await?.len() == 2, "a claim went in spite of the budget");
            Ok(())
        })
        .await?;
        plane.kubectl(&["delete", "poddisruptionbudget", "-n", NAMESPACE, "guard"]).await?;
        for claim in &all {
            is_gone(&stage, claim, Duration::from_mins(2)).await?;
        }
        wait::eventually("the class is gone", Duration::from_secs(30), async || {
            ensure!(stage.class().await.is_err(), "it is there");
            Ok(())
        })
        .await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        ensure!(stage.replicas("small").await? == 0, "{} replicas", stage.replicas("small").await?);
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_drain_rule_skips_pods_and_a_released_claim_leaves_its_machine() -> Result<()> {
    ControlPlane::with(Options::complete("drain-rule"), async |plane| {
        let stage = Stage::set(plane).await?;
        small(&stage).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let rule = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
            "metadata": { "name": "skip-stubborn", "namespace": NAMESPACE },
            "spec": { "drain": { "behavior": "Skip" }, "pods": [{ "selector": { "matchLabels": { "app": "stubborn" } } }] },
        });
        objects::apply(&stage.client, &rule).await?;
        let operator = stage.operator()?;
        run(&stage, "stubborn", 1, |_| {}).await?;
        // Were its eviction asked for, it would be refused for ever.
        apply_budget(&stage, "guard", "stubborn", 1).await?;
        let claim = the_claim(&stage).await?;
        delete_claim(&stage, &claim).await?;
        is_gone(&stage, &claim, Duration::from_mins(1)).await?;
        // The skipped pod ends when Kubernetes collects pods of Nodes that are gone, after about a minute.
        wait::eventually("its pod has got another Node", Duration::from_mins(3), async || the_claim(&stage).await.map(drop)).await?;
        stage.running("stubborn", 1, Duration::from_mins(2)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;

        let claim = the_claim(&stage).await?;
        let release = Patch::Merge(json!({ "metadata": { "annotations": { annotations::RELEASE: "true" } } }));
        claims(&stage).patch(&name(&claim), &PatchParams::default(), &release).await?;
        delete_claim(&stage, &claim).await?;
        wait::eventually("the claim is gone", Duration::from_secs(30), async || {
            ensure!(claims(&stage).get_opt(&name(&claim)).await?.is_none(), "it is there");
            Ok(())
        })
        .await?;
        let node = Api::<Node>::all(stage.client.clone()).get(&node_of(&claim)).await?;
        let labels: BTreeMap<String, String> = node.metadata.labels.clone().unwrap_or_default();
        ensure!(!labels.keys().any(|key| key.starts_with("karpenter.sh/")), "{labels:?}");
        ensure!(node.metadata.finalizers.is_none(), "{:?}", node.metadata.finalizers);
        let taints = node.spec.and_then(|spec| spec.taints);
        ensure!(taints.is_none(), "{taints:?}");
        let machine = machines(&stage).get(&machine_of(&claim)).await?;
        ensure!(machine.metadata.deletion_timestamp.is_none(), "the Machine goes");
        stage.running("stubborn", 1, Duration::from_secs(5)).await?;
        ensure!(stage.replicas("small").await? == 1, "{} replicas", stage.replicas("small").await?);
        stage.books_are_exact(Duration::from_mins(1)).await?;
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}
