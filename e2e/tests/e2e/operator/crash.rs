//! The operator is killed in the middle, and the end is the same.

use super::main_job::{
    nothing_is_left, sixty_pods, sixty_pods_go, sixty_pods_run_on_the_cheapest, three_machine_deployments,
};
use super::stage::{Stage, pool};
use anyhow::{Result, ensure};
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait};
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
        sixty_pods_go(&stage).await?;
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
        nothing_is_left(&stage).await?;
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

fn is_bound(claim: &NodeClaim) -> bool {
    claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::MACHINE))
}
