//! Optional features, each behind its feature gate, with no more rights than `config/rbac` gives.

use super::process::{Operator, manifests, permit};
use super::stage::{NAMESPACE, Stage, machine, pool, shipped_crds};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Event, Pod};
use karpenter_capi_api::capacity_buffer::CapacityBuffer;
use karpenter_capi_api::condition::{self, Condition};
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::node_overlay::NodeOverlay;
use karpenter_capi_api::v1::NodePool;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;

const USER: &str = "gates-test";
const MINUTE: Duration = Duration::from_mins(1);

/// Starts the operator with these gates, as a user with the shipped rights.
async fn operator(stage: &Stage<'_>, gates: &str) -> Result<Operator> {
    for namespace in manifests("manager/namespace.yaml")? {
        objects::apply(&stage.client, &namespace).await?;
    }
    for role in
        ["rbac/workload/cluster_role.yaml", "rbac/workload/lease_role.yaml", "rbac/management/role.yaml"]
    {
        permit(&stage.client, role, USER).await?;
    }
    let kubeconfig = stage.plane.kubeconfig_for(USER, &[])?;
    let arguments = ["--leader-election-namespace", "karpenter-capi-system", "--feature-gates", gates];
    Operator::start(stage.plane, "operator", &kubeconfig, &arguments)
}

/// The condition of that type, as `status reason`.
fn said(conditions: &[Condition], type_: &str) -> String {
    condition::find(conditions, type_)
        .map_or_else(|| "nothing".to_owned(), |found| format!("{} {}", found.status, found.reason))
}

/// So many claims, and all of them are ready.
async fn claims_are(stage: &Stage<'_>, count: usize, within: Duration) -> Result<()> {
    wait::eventually(&format!("{count} claims are ready"), within, async || {
        let claims = stage.claims().await?;
        let of = |status: Option<&karpenter_capi_api::v1::NodeClaimStatus>| {
            status.is_some_and(|status| condition::is_true(&status.conditions, "Ready"))
        };
        let ready = claims.iter().filter(|claim| of(claim.status.as_ref())).count();
        ensure!(claims.len() == count && ready == count, "{ready} of {} claims are ready", claims.len());
        Ok(())
    })
    .await
}

fn overlay(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": { "name": name }, "spec": spec })
}

#[tokio::test]
async fn an_overlay_changes_which_machine_deployment_is_chosen() -> Result<()> {
    ControlPlane::with(Options::complete("overlay"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10")).await?;
        stage.machine_deployment(&machine("dear", "4", "16Gi").priced("0.20")).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let dear =
            json!([{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["dear"] }]);
        let cheaper =
            overlay("cheaper", &json!({ "requirements": dear, "priceAdjustment": "-75%", "weight": 5 }));
        objects::apply(&stage.client, &cheaper).await?;
        let other = overlay("a-contradiction", &json!({ "requirements": [], "price": "9", "weight": 5 }));
        objects::apply(&stage.client, &other).await?;
        let operator = operator(&stage, "NodeOverlay=true").await?;
        let overlays: Api<NodeOverlay> = Api::all(stage.client.clone());
        for (name, expected) in
            [("cheaper", "True ValidationSucceeded"), ("a-contradiction", "False Conflict")]
        {
            wait::eventually(&format!("{name} says {expected}"), MINUTE, async || {
                let status = overlays.get(name).await?.status.unwrap_or_default();
                let found = said(&status.conditions, "ValidationSucceeded");
                ensure!(found == expected, "{found}");
                Ok(())
            })
            .await?;
        }
        let web = workload::deployment(NAMESPACE, "web", 2, &[("cpu", "3")]);
        workload::apply(&stage.client, &web).await?;
        stage.running("web", 2, MINUTE).await?;
        let replicas = (stage.replicas("small").await?, stage.replicas("dear").await?);
        ensure!(replicas == (0, 2), "{replicas:?}");
        for claim in stage.claims().await? {
            let all = claim.metadata.annotations.unwrap_or_default();
            ensure!(all.contains_key(annotations::PRICE_OVERLAY_APPLIED), "{all:?}");
        }
        stage.books_are_exact(MINUTE).await?;
        operator.terminate().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn gates_without_their_custom_resources_keep_nobody_from_working() -> Result<()> {
    ControlPlane::with(Options::complete("gates-without-crds"), async |plane| {
        let is_needed = |crd: &Value| {
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default();
            !["NodeOverlay", "CapacityBuffer"].contains(&kind)
        };
        let crds: Vec<Value> = shipped_crds()?.into_iter().filter(is_needed).collect();
        ensure!(crds.len() == 3, "{} CRDs", crds.len());
        let stage = Stage::with_crds(plane, plane, &crds).await?;
        stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10")).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        let gates = "NodeOverlay=true,StaticCapacity=true,CapacityBuffer=true";
        let mut operator = operator(&stage, gates).await?;
        workload::apply(&stage.client, &workload::deployment(NAMESPACE, "web", 1, &[("cpu", "3")])).await?;
        stage.running("web", 1, MINUTE).await?;
        operator.is_alive().await?;
        operator.terminate().await?;
        Ok(())
    })
    .await
}

/// What `kubectl scale` sends.
async fn scale(pools: &Api<NodePool>, name: &str, replicas: i32) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    pools.patch_scale(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test]
async fn a_static_pool_is_scaled_up_and_down_and_loses_what_holds_no_pods() -> Result<()> {
    ControlPlane::with(Options::complete("static"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10")).await?;
        stage.machine_deployment(&machine("dear", "4", "16Gi").priced("0.20")).await?;
        let mut fixed = pool("fixed");
        fixed["spec"]["replicas"] = json!(1);
        objects::apply(&stage.client, &fixed).await?;
        let operator = operator(&stage, "StaticCapacity=true").await?;
        claims_are(&stage, 1, MINUTE).await?;
        // A pod takes the only node: it must outlive the others.
        workload::apply(&stage.client, &workload::deployment(NAMESPACE, "web", 1, &[("cpu", "1")])).await?;
        let before = stage.running("web", 1, MINUTE).await?;

        let pools: Api<NodePool> = Api::all(stage.client.clone());
        scale(&pools, "fixed", 4).await?;
        claims_are(&stage, 4, MINUTE).await?;
        let replicas = (stage.replicas("small").await?, stage.replicas("dear").await?);
        ensure!(replicas == (4, 0), "{replicas:?}");
        stage.books_are_exact(MINUTE).await?;

        scale(&pools, "fixed", 1).await?;
        claims_are(&stage, 1, Duration::from_mins(2)).await?;
        stage.books_are_exact(MINUTE).await?;
        let after = stage.running("web", 1, MINUTE).await?;
        let uid = |pods: &[Pod]| pods.first().and_then(|pod| pod.metadata.uid.clone());
        ensure!(uid(&before) == uid(&after), "the pod was moved: its node wasn't the last to go");
        ensure!(stage.replicas("small").await? == 1, "{} replicas", stage.replicas("small").await?);
        operator.terminate().await?;
        Ok(())
    })
    .await
}

/// Room for one pod of three processors.
fn spare() -> [Value; 2] {
    let pod = json!({ "containers": [{
        "name": "main", "image": "registry.invalid/nothing", "resources": { "requests": { "cpu": "3" } },
    }] });
    [
        json!({
            "apiVersion": "v1", "kind": "PodTemplate", "metadata": { "name": "web", "namespace": NAMESPACE },
            "template": { "spec": pod },
        }),
        json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": { "name": "spare", "namespace": NAMESPACE },
            "spec": { "podTemplateRef": { "name": "web" }, "replicas": 1 },
        }),
    ]
}

/// Room is held, says the buffer.
async fn room_is_held(stage: &Stage<'_>) -> Result<()> {
    let buffers: Api<CapacityBuffer> = Api::namespaced(stage.client.clone(), NAMESPACE);
    wait::eventually("the buffer says that its room is there", MINUTE, async || {
        let status = buffers.get("spare").await?.status.context("it has no status")?;
        let found = ["ReadyForProvisioning", "Provisioning"].map(|type_| said(&status.conditions, type_));
        ensure!(
            found == ["True Resolved", "True FitsExistingCapacity"] && status.replicas == Some(1),
            "{status:?}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_buffer_gives_its_spare_node_to_a_pod_and_makes_another() -> Result<()> {
    ControlPlane::with(Options::complete("buffer"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10")).await?;
        objects::apply(&stage.client, &pool("general")).await?;
        objects::apply_all(&stage.client, &spare()).await?;
        let operator = operator(&stage, "CapacityBuffer=true").await?;
        claims_are(&stage, 1, MINUTE).await?;
        room_is_held(&stage).await?;
        let stays = async |count: usize| {
            let found = stage.claims().await?.len();
            ensure!(found == count, "{found} claims");
            Ok(())
        };
        // Longer than a buffer is looked at.
        wait::holds("one spare node is enough", Duration::from_secs(40), async || stays(1).await).await?;

        workload::apply(&stage.client, &workload::deployment(NAMESPACE, "web", 1, &[("cpu", "3")])).await?;
        let pods = stage.running("web", 1, Duration::from_secs(15)).await?;
        let of_first = stage.claims().await?.into_iter().filter_map(|claim| claim.status?.node_name);
        let node = pods.first().and_then(|pod| pod.spec.as_ref()?.node_name.clone());
        ensure!(
            of_first.collect::<Vec<_>>().contains(&node.unwrap_or_default()),
            "it waited for a node of its own"
        );
        claims_are(&stage, 2, MINUTE).await?;
        room_is_held(&stage).await?;
        wait::holds("another spare node is enough", Duration::from_secs(40), async || stays(2).await).await?;
        stage.books_are_exact(MINUTE).await?;
        no_event_is_about_a_pod_that_is_not_there(&stage).await?;
        operator.terminate().await?;
        Ok(())
    })
    .await
}

async fn no_event_is_about_a_pod_that_is_not_there(stage: &Stage<'_>) -> Result<()> {
    let events: Api<Event> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let all = events.list(&ListParams::default()).await?.items;
    let names = all.iter().filter_map(|event| event.involved_object.name.as_deref());
    let wrong: Vec<_> = names.filter(|name| name.starts_with("capacity-buffer-")).collect();
    ensure!(wrong.is_empty(), "{wrong:?}");
    Ok(())
}
