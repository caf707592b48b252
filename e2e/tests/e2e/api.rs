//! The CRDs on a real API server: what it accepts, refuses, fills in and gives back.

use anyhow::{Context, Result, bail, ensure};
use karpenter_capi_e2e::objects;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};

/// A pool as it is written for upstream Karpenter, with most fields in use.
fn upstream_pool(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": name, "annotations": { "kubernetes.io/description": "general purpose" } },
        "spec": {
            "template": {
                "metadata": { "labels": { "billing-team": "my-team" }, "annotations": { "example.com/owner": "my-team" } },
                "spec": {
                    "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                    "taints": [{ "key": "example.com/special-taint", "effect": "NoSchedule" }],
                    "startupTaints": [{ "key": "example.com/another-taint", "effect": "NoSchedule", "value": "x" }],
                    "expireAfter": "720h",
                    "terminationGracePeriod": "48h",
                    "requirements": [
                        { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"], "minValues": 2 },
                        { "key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["3"] },
                        { "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64", "amd64"] },
                        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"] },
                    ],
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "1m",
                "budgets": [
                    { "nodes": "10%" },
                    { "schedule": "0 9 * * mon-fri", "duration": "8h", "nodes": "0", "reasons": ["Drifted"] },
                ],
            },
            "limits": { "cpu": "1000", "memory": "1000Gi" },
            "weight": 10,
        },
    })
}

async fn create(client: &Client, object: &Value) -> Result<DynamicObject> {
    let typed: DynamicObject = serde_json::from_value(object.clone())?;
    Ok(objects::api_of(client, object)?.create(&PostParams::default(), &typed).await?)
}

/// The object with one place set otherwise.
fn with(mut object: Value, pointer: &str, value: Value) -> Result<Value> {
    let (parent, key) = pointer.rsplit_once('/').context("a pointer without parent")?;
    let parent = object.pointer_mut(parent).with_context(|| format!("no {pointer}"))?;
    match (parent, key.parse::<usize>()) {
        (Value::Array(items), Ok(index)) => *items.get_mut(index).context("no such item")? = value,
        (Value::Object(fields), _) => drop(fields.insert(key.to_owned(), value)),
        _ => bail!("{pointer} is no place"),
    }
    Ok(object)
}

#[tokio::test]
async fn the_api_server_takes_good_objects_as_they_are_and_refuses_bad_ones() -> Result<()> {
    ControlPlane::with(Options::bare("crds"), async |plane| {
        let client = plane.client()?;
        crate::operator::stage::apply_crds(&client).await?;
        an_upstream_pool_comes_back_as_it_was(&client).await?;
        defaults_are_filled_in(&client).await?;
        bad_pools_are_refused(&client).await?;
        what_may_not_change_does_not(&client).await
    })
    .await
}

async fn an_upstream_pool_comes_back_as_it_was(client: &Client) -> Result<()> {
    let pool = upstream_pool("upstream");
    let created = serde_json::to_value(create(client, &pool).await?)?;
    ensure!(created["spec"] == pool["spec"], "spec came back as {}", created["spec"]);
    ensure!(created["metadata"]["annotations"] == pool["metadata"]["annotations"], "annotations changed");
    Ok(())
}

async fn defaults_are_filled_in(client: &Client) -> Result<()> {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "minimal" },
        "spec": { "template": { "spec": {
            "requirements": [],
            "nodeClassRef": { "group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default" },
        } } },
    });
    let created = serde_json::to_value(create(client, &pool).await?)?;
    let disruption = json!({
        "budgets": [{ "nodes": "10%" }], "consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized",
    });
    ensure!(created["spec"]["disruption"] == disruption, "{}", created["spec"]["disruption"]);
    ensure!(
        created["spec"]["template"]["spec"]["expireAfter"] == "720h",
        "{}",
        created["spec"]["template"]["spec"]
    );
    Ok(())
}

async fn bad_pools_are_refused(client: &Client) -> Result<()> {
    let spec = "/spec/template/spec";
    let cases = [
        ("weight beyond 100", "/spec/weight", json!(101), "weight"),
        ("no requirement values", &format!("{spec}/requirements/2/values"), json!([]), "In"),
        ("two bounds", &format!("{spec}/requirements/1/values"), json!(["3", "4"]), "Gt"),
        ("a bound that is no number", &format!("{spec}/requirements/1/values"), json!(["a"]), "Gt"),
        ("fewer values than minValues", &format!("{spec}/requirements/0/values"), json!(["c"]), "minValues"),
        ("unknown operator", &format!("{spec}/requirements/0/operator"), json!("Like"), "operator"),
        (
            "restricted domain",
            &format!("{spec}/requirements/0/key"),
            json!("karpenter.sh/initialized"),
            "restricted",
        ),
        ("hostname", &format!("{spec}/requirements/0/key"), json!("kubernetes.io/hostname"), "restricted"),
        (
            "restricted label",
            "/spec/template/metadata/labels",
            json!({ "karpenter.sh/nodepool": "x" }),
            "restricted",
        ),
        ("unknown taint effect", &format!("{spec}/taints/0/effect"), json!("Never"), "effect"),
        ("taint without key", &format!("{spec}/taints/0/key"), json!(""), "key"),
        ("expireAfter in days", &format!("{spec}/expireAfter"), json!("30d"), "expireAfter"),
        (
            "negative grace period",
            &format!("{spec}/terminationGracePeriod"),
            json!("-1h"),
            "terminationGracePeriod",
        ),
        ("node class without name", &format!("{spec}/nodeClassRef/name"), json!(""), "name"),
        ("budget beyond 100 %", "/spec/disruption/budgets/0/nodes", json!("101%"), "nodes"),
        ("schedule without duration", "/spec/disruption/budgets/0/schedule", json!("@daily"), "duration"),
        ("unknown reason", "/spec/disruption/budgets/1/reasons", json!(["Expired"]), "reasons"),
        ("duration in seconds", "/spec/disruption/budgets/1/duration", json!("30s"), "duration"),
        ("unknown policy", "/spec/disruption/consolidationPolicy", json!("Sometimes"), "consolidationPolicy"),
        ("static pool with weight", "/spec/replicas", json!(1), "static"),
        ("limit that is no quantity", "/spec/limits/cpu", json!("many"), "limits"),
    ];
    for (what, pointer, value, told) in cases {
        let pool = with(upstream_pool("bad"), pointer, value)?;
        match create(client, &pool).await {
            Ok(_) => bail!("{what} was accepted"),
            Err(error) => {
                let text = format!("{error:?}");
                ensure!(
                    text.to_lowercase().contains(&told.to_lowercase()),
                    "{what}: {told:?} is not in: {text}"
                );
            }
        }
    }
    Ok(())
}

async fn what_may_not_change_does_not(client: &Client) -> Result<()> {
    let pool = upstream_pool("upstream");
    let api = objects::api_of(client, &pool)?;
    let change = |patch: Value| {
        let api = api.clone();
        async move {
            api.patch("upstream", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await
        }
    };
    let class = |field: &str, value: &str| json!({ "spec": { "template": { "spec": { "nodeClassRef": { field: value } } } } });
    ensure!(change(class("kind", "Other")).await.is_err(), "the node class's kind was changed");
    ensure!(change(class("group", "other.example.com")).await.is_err(), "the node class's group was changed");
    change(class("name", "other")).await.context("the node class's name can't be changed")?;
    ensure!(
        change(json!({ "spec": { "replicas": 1, "weight": null, "limits": null } })).await.is_err(),
        "a dynamic pool became static"
    );

    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": "c" },
        "spec": {
            "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }],
            "nodeClassRef": { "group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default" },
            "resources": { "requests": { "cpu": "1" } },
        },
    });
    create(client, &claim).await?;
    let claims = objects::api_of(client, &claim)?;
    let patch = kube::api::Patch::Merge(json!({ "spec": { "expireAfter": "1h" } }));
    let changed = claims.patch("c", &kube::api::PatchParams::default(), &patch).await;
    ensure!(
        changed.is_err_and(|error| format!("{error:?}").contains("immutable")),
        "the spec of a claim was changed"
    );
    claims.delete("c", &DeleteParams::default()).await?;
    Ok(())
}
