//! The operator is killed in the middle, and the end is the same.

use super::main_job::{sixty_pods, sixty_pods_run_on_the_cheapest, three_machine_deployments};
use super::stage::{NAMESPACE, Stage, pool};
use anyhow::{Result, ensure};
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn killed_in_the_middle_of_scaling_up_and_down_it_comes_to_the_same_end() -> Result<()> {
    ControlPlane::with(Options::complete("crash"), async |plane| {
        let stage = Stage::set(plane).await?;
        three_machine_deployments(&stage).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let operator = stage.operator()?;
        sixty_pods(&stage).await?;
        wait::eventually("some Machines are bound, and some are not", Duration::from_mins(2), async || {
            let claims = stage.claims().await?;
            let bound = claims.iter().filter(|claim| is_bound(claim)).count();
            ensure!(bound > 0, "{bound} of {} claims are bound", claims.len());
            Ok(())
        })
        .await?;
        operator.kill();

        let operator = stage.operator()?;
        sixty_pods_run_on_the_cheapest(&stage).await?;

        // Without pods nothing is made anew, and the end of scaling down is that everything is gone.
        for deployment in ["web", "batch"] {
            scale(&stage, deployment, 0).await?;
        }
        // A pod that still is there when its node is taken away gets a new one, rightly.
        for deployment in ["web", "batch"] {
            stage.running(deployment, 0, Duration::from_mins(1)).await?;
        }
        for claim in stage.claims().await? {
            let api: Api<NodeClaim> = Api::all(stage.client.clone());
            api.delete(claim.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default()).await?;
        }
        wait::eventually("some Machines are going", Duration::from_mins(2), async || {
            let machines = stage.machines().await?;
            let going =
                machines.iter().filter(|machine| machine.metadata.deletion_timestamp.is_some()).count();
            ensure!(going > 0, "none of {} is going", machines.len());
            Ok(())
        })
        .await?;
        operator.kill();

        let operator = stage.operator()?;
        wait::eventually("all claims and Machines are gone", Duration::from_mins(3), async || {
            let (claims, machines) = (stage.claims().await?.len(), stage.machines().await?.len());
            ensure!(claims == 0 && machines == 0, "{claims} claims and {machines} Machines are left");
            Ok(())
        })
        .await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        for name in ["small", "dear", "large"] {
            ensure!(stage.replicas(name).await? == 0, "{name} has {} replicas", stage.replicas(name).await?);
        }
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

fn is_bound(claim: &NodeClaim) -> bool {
    claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::MACHINE))
}

async fn scale(stage: &Stage<'_>, deployment: &str, replicas: i32) -> Result<()> {
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    api.patch(deployment, &PatchParams::default(), &patch).await?;
    Ok(())
}
