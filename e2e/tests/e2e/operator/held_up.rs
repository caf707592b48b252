//! What keeps claims from going on is told on them: rights that are missing, a roll-out that never ends.

use super::process::{Operator, manifests, permit};
use super::stage::{NAMESPACE, Stage, machine, pool};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::rbac::v1::RoleBinding;
use karpenter_capi_api::condition::Condition;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use std::time::Duration;

/// Who the operator is in the management cluster.
const READER: &str = "reader";

// Public report kubernetes/autoscaler#8538: machines were marked for removal, the MachineDeployment never shrank, and nothing said why.
#[tokio::test]
async fn case_64_what_the_management_cluster_refuses_is_told_on_the_claims_until_it_is_granted() -> Result<()>
{
    ControlPlane::with(Options::complete("refused"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10").in_zone("a")).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        permit_to_read(&stage).await?;
        let path = plane.kubeconfig_for(READER, &[])?.display().to_string();
        let arguments = ["--cluster-api-kubeconfig", path.as_str()];
        let operator = Operator::start(plane, "operator", plane.kubeconfig(), &arguments)?;
        let web = workload::deployment(NAMESPACE, "web", 1, &[("cpu", "3"), ("memory", "1Gi")]);
        workload::apply(&stage.client, &web).await?;
        let refused = ["Unknown", "RequestRefused", "MachineDeployment default/small", "403"];
        the_claim_says(&stage, "Launched", &refused).await?;
        an_event_says(&stage, "RequestRefused", "MachineDeployment default/small").await?;
        ensure!(stage.replicas("small").await? == 0, "{} replicas", stage.replicas("small").await?);

        permit(&stage.management, "rbac/management/role.yaml", READER).await?;
        stage.running("web", 1, Duration::from_mins(2)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;

        let bindings: Api<RoleBinding> = Api::namespaced(stage.management.clone(), NAMESPACE);
        bindings.delete(&format!("karpenter-capi-management-{READER}"), &DeleteParams::default()).await?;
        without_its_pods_the_claim_goes(&stage).await?;
        let refused = ["Unknown", "RequestRefused", "Machine default/small-", "403"];
        the_claim_says(&stage, "InstanceTerminating", &refused).await?;
        permit(&stage.management, "rbac/management/role.yaml", READER).await?;
        wait::eventually("the claim and its Machine are gone", Duration::from_mins(2), async || {
            let (claims, machines) = (stage.claims().await?.len(), stage.machines().await?.len());
            ensure!(claims == 0 && machines == 0, "{claims} claims and {machines} Machines are left");
            Ok(())
        })
        .await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;
        operator.terminate().await?;
        Ok(())
    })
    .await
}

// Public report kubernetes-sigs/cluster-api#8987: a roll-out hung for ever.
#[tokio::test]
async fn case_65_a_claim_that_waits_for_a_roll_out_without_end_says_so_and_since_when() -> Result<()> {
    ControlPlane::with(Options::complete("endless-roll-out"), async |plane| {
        let stage = Stage::set(plane).await?;
        let mut small = machine("small", "4", "16Gi").priced("0.10").in_zone("a");
        stage.machine_deployment(&small).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let operator = stage.operator()?;
        let web = workload::deployment(NAMESPACE, "web", 1, &[("cpu", "3"), ("memory", "1Gi")]);
        workload::apply(&stage.client, &web).await?;
        stage.running("web", 1, Duration::from_mins(1)).await?;
        stage.books_are_exact(Duration::from_mins(1)).await?;

        // The new revision's first Machine takes longer than the test; until it is ready the old one stays.
        small.machine.delays.provision = Some("10m".into());
        small.replicas = 1;
        stage.machine_deployment(&small).await?;
        stage.change_template("small").await?;
        wait::eventually("the roll-out has begun", Duration::from_mins(1), async || {
            ensure!(stage.machines().await?.len() == 2, "{} Machines", stage.machines().await?.len());
            Ok(())
        })
        .await?;
        without_its_pods_the_claim_goes(&stage).await?;
        let waits = ["Unknown", "AwaitingMachineDeployment", "a roll-out of MachineDeployment default/small"];
        let since = the_claim_says(&stage, "InstanceTerminating", &waits).await?.last_transition_time;
        an_event_says(&stage, "AwaitingMachineDeployment", "a roll-out of MachineDeployment default/small")
            .await?;
        wait::holds("it waits since the same moment", Duration::from_secs(5), async || {
            let now = condition_of_the_claim(&stage, "InstanceTerminating").await?;
            ensure!(now.last_transition_time == since, "{now:?}");
            Ok(())
        })
        .await?;
        wait::eventually(
            "the node class says since when it rolls out",
            Duration::from_secs(30),
            async || {
                let status = stage.class().await?.status.context("no status")?;
                let told = status.machine_deployments.first().context("no MachineDeployment")?;
                let message = told.message.clone().unwrap_or_default();
                ensure!(message.contains("a roll-out is under way since 20"), "{:?} {message}", told.reason);
                Ok(())
            },
        )
        .await?;
        ensure!(stage.replicas("small").await? == 1, "{} replicas", stage.replicas("small").await?);
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// The shipped rights without those that write.
async fn permit_to_read(stage: &Stage<'_>) -> Result<()> {
    for mut object in manifests("rbac/management/role.yaml")? {
        object["metadata"]["name"] = "reads-only".into();
        if object["kind"] == "RoleBinding" {
            object["roleRef"]["name"] = "reads-only".into();
            object["subjects"] =
                json!([{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": READER }]);
        }
        for rule in object.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
            rule["verbs"] = json!(["get", "list", "watch"]);
        }
        objects::apply(&stage.management, &object).await?;
    }
    Ok(())
}

/// Takes the pods away and then the claim, so that none is made anew.
async fn without_its_pods_the_claim_goes(stage: &Stage<'_>) -> Result<()> {
    stage.scale("web", 0).await?;
    stage.running("web", 0, Duration::from_mins(1)).await?;
    let claims: Api<NodeClaim> = Api::all(stage.client.clone());
    let claim = the_claim(stage).await?;
    claims.delete(claim.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default()).await?;
    Ok(())
}

async fn the_claim(stage: &Stage<'_>) -> Result<NodeClaim> {
    let mut claims = stage.claims().await?;
    ensure!(claims.len() == 1, "{} claims", claims.len());
    claims.pop().context("no claim")
}

async fn condition_of_the_claim(stage: &Stage<'_>, kind: &str) -> Result<Condition> {
    let all = the_claim(stage).await?.status.map(|status| status.conditions).unwrap_or_default();
    all.into_iter().find(|condition| condition.type_ == kind).context("no such condition")
}

async fn the_claim_says(stage: &Stage<'_>, kind: &str, words: &[&str]) -> Result<Condition> {
    wait::eventually(&format!("the claim's {kind} says {words:?}"), Duration::from_secs(30), async || {
        let found = condition_of_the_claim(stage, kind).await?;
        let text = format!("{} {}: {}", found.status, found.reason, found.message);
        ensure!(words.iter().all(|word| text.contains(word)), "{text}");
        Ok(found)
    })
    .await
}

async fn an_event_says(stage: &Stage<'_>, reason: &str, words: &str) -> Result<()> {
    wait::eventually(
        &format!("an Event {reason} of the claim says {words:?}"),
        Duration::from_secs(30),
        async || {
            let events: Api<Event> = Api::all(stage.client.clone());
            let events = events.list(&ListParams::default()).await?.items;
            let told = events.iter().any(|event| {
                event.involved_object.kind.as_deref() == Some("NodeClaim")
                    && event.reason.as_deref() == Some(reason)
                    && event.message.as_deref().is_some_and(|text| text.contains(words))
            });
            ensure!(told, "none of {} Events does", events.len());
            Ok(())
        },
    )
    .await
}
