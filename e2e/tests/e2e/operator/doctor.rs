//! `karpenter-capi doctor` against real clusters: sound ones, damaged ones, and such whose operator is lost.

use super::stage::{CLUSTER, NAMESPACE, Stage, binary, machine, pool};
use anyhow::{Context, Result, ensure};
use karpenter_capi_api::capi::{CapiVersion, Machine, MachineDeployment};
use karpenter_capi_api::names::annotations;
use karpenter_capi_api::v1::NodeClaim;
use karpenter_capi_e2e::plane::{ControlPlane, Options};
use karpenter_capi_e2e::{objects, wait, workload};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What a run has said.
struct Said {
    code: i32,
    answer: Value,
    stderr: String,
}

/// Runs `doctor -o json` on the stage's clusters. In another process, and without blocking this one, which plays the cloud.
async fn doctor(stage: &Stage<'_>, arguments: &[&str]) -> Result<Said> {
    let program = binary("KARPENTER_CAPI_BIN", "karpenter-capi");
    let output = tokio::process::Command::new(&program)
        .env_clear()
        .arg("doctor")
        .arg("--kubeconfig")
        .arg(stage.plane.kubeconfig())
        .args(["--cluster-namespace", NAMESPACE, "--cluster-name", CLUSTER, "-o", "json"])
        .args(arguments)
        .output()
        .await
        .with_context(|| format!("running {}", program.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code().with_context(|| format!("it was killed: {stderr}"))?;
    // A refusal is told on standard error alone.
    let answer = if output.stdout.is_empty() { Value::Null } else { serde_json::from_slice(&output.stdout)? };
    Ok(Said { code, answer, stderr })
}

/// Code and object of each finding.
fn findings(said: &Said) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = said.answer["findings"].as_array().into_iter().flatten();
    findings.map(|finding| (text(&finding["code"]), text(&finding["object"]))).collect()
}

fn machines(stage: &Stage<'_>) -> Api<Machine> {
    Api::namespaced_with(stage.management.clone(), NAMESPACE, &CapiVersion::V1Beta2)
}

fn deployments(stage: &Stage<'_>) -> Api<MachineDeployment> {
    Api::namespaced_with(stage.management.clone(), NAMESPACE, &CapiVersion::V1Beta2)
}

fn claims(stage: &Stage<'_>) -> Api<NodeClaim> {
    Api::all(stage.client.clone())
}

fn name(claim: &NodeClaim) -> &str {
    claim.metadata.name.as_deref().unwrap_or_default()
}

/// Name of the claim's Machine.
fn machine_of(claim: &NodeClaim) -> Result<String> {
    let bound = claim.metadata.annotations.as_ref().and_then(|all| all.get(annotations::MACHINE));
    let bound = bound.with_context(|| format!("{} isn't bound", name(claim)))?;
    Ok(bound.rsplit('/').next().unwrap_or_default().to_owned())
}

fn is_hooked(machine: &Machine) -> bool {
    let all = machine.metadata.annotations.as_ref();
    all.is_some_and(|all| all.contains_key(annotations::PRE_TERMINATE_HOOK))
}

async fn annotate<K>(api: &Api<K>, name: &str, all: Value) -> Result<()>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let patch = Patch::Merge(json!({ "metadata": { "annotations": all } }));
    api.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

async fn strip_finalizers(stage: &Stage<'_>, claim: &str) -> Result<()> {
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    claims(stage).patch(claim, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Pods of which each takes a Node for itself, running.
async fn pods_run(stage: &Stage<'_>, count: i32) -> Result<()> {
    stage.machine_deployment(&machine("small", "4", "16Gi").priced("0.10").in_zone("a")).await?;
    objects::apply(&stage.client, &pool("general")).await?;
    let web = workload::deployment(NAMESPACE, "web", count, &[("cpu", "3"), ("memory", "1Gi")]);
    workload::apply(&stage.client, &web).await?;
    stage.running("web", usize::try_from(count)?, Duration::from_mins(2)).await?;
    stage.books_are_exact(Duration::from_mins(1)).await
}

#[tokio::test]
async fn doctor_is_content_after_scaling_up_and_names_everything_that_is_damaged_by_hand() -> Result<()> {
    ControlPlane::with(Options::complete("doctor"), async |plane| {
        let stage = Stage::set(plane).await?;
        let operator = stage.operator()?;
        pods_run(&stage, 3).await?;
        let started = Instant::now();
        let said = doctor(&stage, &[]).await?;
        eprintln!("doctor on a sound cluster: {:.1} s", started.elapsed().as_secs_f64());
        ensure!(said.code == 0 && said.answer["healthy"] == true, "{} {}", said.answer, said.stderr);
        ensure!(said.answer["findings"] == json!([]), "{}", said.answer);
        ensure!(said.answer["counts"]["machines"] == 3, "{}", said.answer);
        ensure!(said.answer["leader"].is_string(), "{}", said.answer);

        let refused = doctor(&stage, &["--release-hooks"]).await?;
        ensure!(refused.code == 1 && refused.answer.is_null(), "{} {}", refused.code, refused.answer);
        ensure!(refused.stderr.contains("an operator is at work"), "{}", refused.stderr);
        ensure!(stage.machines().await?.iter().all(is_hooked), "hooks were taken off beside an operator");

        operator.kill();
        let damaged = damage(&stage).await?;
        let said = doctor(&stage, &["--settle", "16s"]).await?;
        ensure!(said.code == 1 && said.answer["readings"] == 2, "{} {}", said.code, said.answer);
        ensure!(findings(&said) == damaged, "found {:#?}\nof {damaged:#?}", findings(&said));
        let told = said.answer.to_string();
        for part in ["ledger entry ffffffff-ffff has 0 claims", "4 claims in the ledger, but 3 replicas"] {
            ensure!(told.contains(part), "{part:?} isn't told: {told}");
        }

        // As the remedies say, an operator puts hook and finalizer back.
        let operator = stage.operator()?;
        wait::eventually("hook and finalizer are back", Duration::from_mins(1), async || {
            ensure!(stage.machines().await?.iter().all(is_hooked), "a hook is missing");
            let without = stage.claims().await?;
            let without: Vec<_> =
                without.iter().filter(|claim| claim.metadata.finalizers.is_none()).map(name).collect();
            ensure!(without.is_empty(), "without finalizer: {without:?}");
            Ok(())
        })
        .await?;
        operator.terminate(Duration::from_secs(30)).await?;
        Ok(())
    })
    .await
}

/// One Machine without hook, a stranger in the ledger, a claim without finalizer, and one that was torn out.
async fn damage(stage: &Stage<'_>) -> Result<BTreeSet<(String, String)>> {
    let all = stage.claims().await?;
    let [first, second, third] = all.as_slice() else {
        anyhow::bail!("{} claims", all.len());
    };
    let unhooked = machine_of(first)?;
    annotate(&machines(stage), &unhooked, json!({ annotations::PRE_TERMINATE_HOOK: null })).await?;
    let small = deployments(stage).get("small").await?;
    let ledger = small.metadata.annotations.as_ref().and_then(|all| all.get(annotations::CLAIMS));
    let ledger = format!("{},ffffffff-ffff", ledger.context("no ledger")?);
    annotate(&deployments(stage), "small", json!({ annotations::CLAIMS: ledger })).await?;
    strip_finalizers(stage, name(second)).await?;
    strip_finalizers(stage, name(third)).await?;
    claims(stage).delete(name(third), &DeleteParams::default()).await?;
    let node = third.status.as_ref().and_then(|status| status.node_name.clone()).context("no Node")?;
    let found = [
        ("NoLeader", format!("Cluster {NAMESPACE}/{CLUSTER}")),
        ("Hook", format!("Machine {NAMESPACE}/{unhooked}")),
        ("Ledger", format!("MachineDeployment {NAMESPACE}/small")),
        ("Finalizer", format!("NodeClaim {}", name(second))),
        ("Orphan", format!("Machine {NAMESPACE}/{}", machine_of(third)?)),
        ("Leftover", format!("Node {node}")),
    ];
    Ok(found.into_iter().map(|(code, object)| (code.to_owned(), object)).collect())
}

#[tokio::test]
async fn doctor_frees_what_an_operator_that_died_while_giving_back_has_held() -> Result<()> {
    ControlPlane::with(Options::complete("doctor-release"), async |plane| {
        let stage = Stage::set(plane).await?;
        stage.machine_deployment(&machine("dear", "4", "16Gi").priced("0.90").in_zone("a")).await?;
        let operator = stage.operator()?;
        pods_run(&stage, 2).await?;
        let all = stage.claims().await?;
        let going = all.first().context("no claim")?;
        let held = machine_of(going)?;
        claims(&stage).delete(name(going), &DeleteParams::default()).await?;
        wait::eventually("its Machine is being deleted", Duration::from_mins(1), async || {
            let machine = machines(&stage).get(&held).await?;
            ensure!(machine.metadata.deletion_timestamp.is_some(), "it isn't");
            Ok(())
        })
        .await?;
        operator.kill();
        pauses(&stage, going).await?;
        wait::holds("the hook holds the Machine", Duration::from_secs(5), async || {
            ensure!(is_hooked(&machines(&stage).get(&held).await?), "without a hook");
            Ok(())
        })
        .await?;

        let planned = doctor(&stage, &["--release-hooks", "--dry-run"]).await?;
        ensure!(planned.code == 0, "{}", planned.stderr);
        // Of the MachineDeployments only the one with our own pause.
        let hooked = stage.machines().await?.iter().filter(|machine| is_hooked(machine)).count();
        let objects = planned.answer["objects"].as_array().map_or(0, Vec::len);
        ensure!(hooked >= 2 && objects == hooked + 1, "{hooked} hooks: {}", planned.answer);
        ensure!(is_hooked(&machines(&stage).get(&held).await?), "a dry run has taken the hook off");

        // The Lease is still the dead operator's; it isn't renewed.
        let started = Instant::now();
        let released = doctor(&stage, &["--release-hooks"]).await?;
        let taken = started.elapsed();
        eprintln!("doctor --release-hooks beside a dead operator's Lease: {:.1} s", taken.as_secs_f64());
        ensure!(
            released.code == 0 && released.answer["complete"] == true,
            "{} {}",
            released.answer,
            released.stderr
        );
        ensure!(
            taken > Duration::from_secs(14),
            "it was not watched whether the Lease is renewed: {taken:?}"
        );
        all_is_free(&stage, &held).await?;

        let again = doctor(&stage, &["--release-hooks", "--force"]).await?;
        ensure!(again.code == 0 && again.answer["objects"] == json!([]), "{} {}", again.answer, again.stderr);
        Ok(())
    })
    .await
}

/// Our own pause as the operator would have noted it, under `OnDelete`, and somebody else's.
async fn pauses(stage: &Stage<'_>, claim: &NodeClaim) -> Result<()> {
    let on_delete =
        json!({ "spec": { "rollout": { "strategy": { "type": "OnDelete", "rollingUpdate": null } } } });
    deployments(stage).patch("small", &PatchParams::default(), &Patch::Merge(on_delete)).await?;
    let note = format!("{}/small-set/1", claim.metadata.uid.as_deref().unwrap_or_default());
    let own = json!({ annotations::CAPI_PAUSED: "", annotations::PAUSE_FOR: note });
    annotate(&deployments(stage), "small", own).await?;
    annotate(&deployments(stage), "dear", json!({ annotations::CAPI_PAUSED: "a person" })).await
}

async fn all_is_free(stage: &Stage<'_>, held: &str) -> Result<()> {
    wait::eventually("the Machine that was held is gone", Duration::from_mins(1), async || {
        ensure!(machines(stage).get_opt(held).await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    let hooked: Vec<_> = stage.machines().await?.into_iter().filter(is_hooked).collect();
    ensure!(hooked.is_empty(), "still hooked: {hooked:?}");
    let has = async |name: &str, key: &str| {
        let found = deployments(stage).get(name).await?;
        anyhow::Ok(found.metadata.annotations.is_some_and(|all| all.contains_key(key)))
    };
    ensure!(!has("small", annotations::CAPI_PAUSED).await?, "our own pause is still on");
    ensure!(!has("small", annotations::PAUSE_FOR).await?, "the note of our own pause is still there");
    ensure!(has("dear", annotations::CAPI_PAUSED).await?, "somebody else's pause was lifted");
    // Unless the operator had lowered the number already, Cluster API makes another Machine, as docs/uninstall.md says.
    let asked = usize::try_from(stage.replicas("small").await?)?;
    wait::eventually(&format!("there are {asked} Machines again"), Duration::from_mins(1), async || {
        let all = stage.machines().await?;
        let staying = all.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none()).count();
        ensure!(staying == asked, "{staying}");
        Ok(())
    })
    .await
}
