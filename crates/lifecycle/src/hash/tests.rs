use super::*;
use serde_json::{Value, json};

/// Hashes that upstream Karpenter v1.14.1 computed itself.
const VECTORS: &[u8] = include_bytes!("../../tests/fixtures/node_pool_hash.json.zst");

fn template(more: Value) -> Value {
    let mut template = json!({
        "metadata": {},
        "spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default"},
            "expireAfter": "720h",
        },
    });
    merge(&mut template, more);
    template
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn pool(more: Value) -> NodePool {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "p"},
        "spec": {"template": template(more)},
    }))
    .unwrap()
}

fn hashed(mut pool: NodePool, hash: &str, version: &str) -> NodePool {
    pool.metadata.annotations = Some(stamps(hash, version));
    pool
}

fn stamps(hash: &str, version: &str) -> Annotations {
    [(annotations::NODEPOOL_HASH, hash), (annotations::NODEPOOL_HASH_VERSION, version)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

fn claim(name: &str, hash: &str, version: &str, conditions: Value) -> NodeClaim {
    let mut claim = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "p"}, "annotations": stamps(hash, version)},
        "spec": template(json!({}))["spec"],
    });
    claim["status"]["conditions"] = conditions;
    serde_json::from_value(claim).unwrap()
}

fn condition(type_: &str, status: &str) -> Value {
    json!([{"type": type_, "status": status, "lastTransitionTime": "2026-01-05T12:00:00Z"}])
}

#[test]
fn every_hash_of_upstream_is_reproduced() {
    let vectors: Value = serde_json::from_slice(&zstd::decode_all(VECTORS).unwrap()).unwrap();
    assert_eq!(vectors["version"], annotations::NODEPOOL_HASH_VERSION_VALUE);
    let cases = vectors["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 16);
    for case in cases {
        let pool: NodePool = serde_json::from_value(case["nodePool"].clone()).unwrap();
        assert_eq!(node_pool_hash(&pool), case["hash"].as_str().unwrap(), "{}", case["name"]);
    }
}

/// Numbers computed by Go's `hashstructure` v2.0.2 over types of the same names and fields.
#[test]
fn the_corners_of_the_algorithm_are_those_of_go() {
    let taint = |more: Value| {
        let mut taint = json!({"key": "k", "effect": "NoExecute"});
        merge(&mut taint, more);
        taint
    };
    let everything = json!({
        "metadata": {"labels": {"team": "web", "tier": ""}, "annotations": {"a.example/x": "ü", "b": ""}},
        "spec": {
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "j", "effect": "NoExecute"}],
            "startupTaints": [{"key": "s", "value": "true", "effect": "NoExecute"}],
            "terminationGracePeriod": "1h30m",
            "expireAfter": "336h",
        },
    });
    let added = json!({"timeAdded": "2026-01-05T12:00:00Z"});
    for (what, more, hash) in [
        ("nothing set", json!({}), "18334128632711491354"),
        ("expireAfter Never", json!({"spec": {"expireAfter": "Never"}}), "14327136011462032137"),
        ("expireAfter 0s", json!({"spec": {"expireAfter": "0s"}}), "856792474232887558"),
        ("grace 0s", json!({"spec": {"terminationGracePeriod": "0s"}}), "5432649350891891304"),
        ("timeAdded", json!({"spec": {"taints": [taint(added)]}}), "12119603988872089721"),
        (
            "a taint twice",
            json!({"spec": {"taints": [taint(json!({})), taint(json!({}))]}}),
            "5402980088241439814",
        ),
        ("everything", everything, "3013634460236732918"),
    ] {
        assert_eq!(node_pool_hash(&pool(more)), hash, "{what}");
    }
}

#[test]
fn what_is_no_part_of_the_template_does_not_change_the_hash() {
    let mut other = pool(
        json!({"spec": {"requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]}}),
    );
    other.metadata.annotations = Some([("owner".to_owned(), "web".to_owned())].into());
    other.spec.weight = Some(10);
    other.spec.limits =
        [("cpu".to_owned(), k8s_openapi::apimachinery::pkg::api::resource::Quantity("9".into()))].into();
    other.spec.disruption.consolidate_after = Some("1h".into());
    assert_eq!(node_pool_hash(&other), node_pool_hash(&pool(json!({}))));
}

#[test]
fn a_missing_expire_after_is_hashed_as_its_default() {
    let mut unset = pool(json!({}));
    unset.spec.template.spec.expire_after = None;
    assert_eq!(node_pool_hash(&unset), node_pool_hash(&pool(json!({"spec": {"expireAfter": "720h"}}))));
}

#[test]
fn a_duration_that_cannot_be_read_still_gives_a_hash_that_depends_on_it() {
    let hash = |text: &str| {
        node_pool_hash(&pool(json!({"spec": {"expireAfter": text, "terminationGracePeriod": text}})))
    };
    assert_ne!(hash("3000000h"), hash("4000000h"));
    assert_eq!(hash("3000000h"), hash("3000000h"));
}

#[test]
fn order_and_empty_collections_do_not_drift_and_every_hashed_field_does() {
    let taint = |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
    let before =
        json!({"metadata": {"labels": {"a": "1"}}, "spec": {"taints": [taint("x", ""), taint("y", "1")]}});
    let hash = node_pool_hash(&pool(before.clone()));
    let claim = claim("c", &hash, "v3", json!([]));
    let drifted = |change: Value| {
        let mut after = before.clone();
        merge(&mut after, change);
        let after = pool(after);
        let hash = node_pool_hash(&after);
        template_changed(&hashed(after, &hash, "v3"), &claim)
    };
    assert!(!drifted(json!({"spec": {"taints": [taint("y", "1"), taint("x", "")]}})));
    assert!(!drifted(json!({"metadata": {"annotations": {}}, "spec": {"startupTaints": []}})));
    for change in [
        json!({"metadata": {"labels": {"b": "1"}}}),
        json!({"metadata": {"annotations": {"b": "1"}}}),
        json!({"spec": {"taints": [taint("x", ""), taint("y", "2")]}}),
        json!({"spec": {"taints": [taint("x", ""), taint("y", "1"), taint("z", "")]}}),
        json!({"spec": {"startupTaints": [taint("x", "")]}}),
        json!({"spec": {"expireAfter": "1h"}}),
        json!({"spec": {"terminationGracePeriod": "1h"}}),
        json!({"spec": {"nodeClassRef": {"name": "other"}}}),
    ] {
        assert!(drifted(change.clone()), "{change}");
    }
}

/// Upstream hashes `labels: {}` and `taints: []` otherwise than nothing; the two hashes were computed by its library.
#[test]
fn a_claim_of_upstream_whose_pool_writes_out_empty_collections_is_not_drifted() {
    let pool = pool(json!({"metadata": {"labels": {}}}));
    let hash = node_pool_hash(&pool);
    let pool = hashed(pool, &hash, "v3");
    for upstream in ["11538951889639635180", "5402980088241439814"] {
        assert_ne!(hash, upstream);
        assert!(!template_changed(&pool, &claim("c", upstream, "v3", json!([]))), "{upstream}");
    }
    assert!(template_changed(&pool, &claim("c", "11538951889639635181", "v3", json!([]))));
}

#[test]
fn another_version_or_a_missing_annotation_never_means_drift() {
    let hash = node_pool_hash(&pool(json!({})));
    let pool = hashed(pool(json!({})), &hash, "v3");
    assert!(template_changed(&pool, &claim("c", "1", "v3", json!([]))));
    assert!(!template_changed(&pool, &claim("c", "1", "v2", json!([]))));
    for key in [annotations::NODEPOOL_HASH, annotations::NODEPOOL_HASH_VERSION] {
        let (mut bare_pool, mut bare_claim) = (pool.clone(), claim("c", "1", "v3", json!([])));
        bare_claim.metadata.annotations.as_mut().unwrap().remove(key);
        assert!(!template_changed(&pool, &bare_claim), "{key} missing on the claim");
        bare_pool.metadata.annotations.as_mut().unwrap().remove(key);
        assert!(
            !template_changed(&bare_pool, &claim("c", "1", "v3", json!([]))),
            "{key} missing on the pool"
        );
    }
}

#[test]
fn a_new_hash_version_does_not_roll_the_fleet() {
    let pool = hashed(pool(json!({})), "1", "v2");
    let claims: Vec<NodeClaim> = ["a", "b", "c"]
        .map(|name| claim(name, "1", "v2", json!([])))
        .into_iter()
        .chain([claim("d", "0", "v2", condition("Drifted", "True"))])
        .collect();
    let hash = node_pool_hash(&pool);
    let updates = hash_annotations(&pool, &claims);
    assert_eq!(updates.node_pool, stamps(&hash, "v3"));
    for name in ["a", "b", "c"] {
        assert_eq!(updates.node_claims[name], stamps(&hash, "v3"), "{name}");
    }
    let version_only = [(annotations::NODEPOOL_HASH_VERSION.to_owned(), "v3".to_owned())];
    assert_eq!(updates.node_claims["d"], Annotations::from(version_only));

    let mut pool = pool;
    pool.metadata.annotations.as_mut().unwrap().extend(updates.node_pool);
    for mut claim in claims {
        let name = claim.metadata.name.clone().unwrap();
        claim.metadata.annotations.as_mut().unwrap().extend(updates.node_claims[&name].clone());
        assert_eq!(template_changed(&pool, &claim), name == "d", "{name}");
        assert!(hash_annotations(&pool, [&claim]).is_empty());
    }
}

#[test]
fn a_migration_that_stopped_half_way_is_finished() {
    let pool = hashed(pool(json!({})), "1", "v2");
    let hash = node_pool_hash(&pool);
    let claims = [claim("a", &hash, "v3", json!([])), claim("b", "1", "v2", json!([]))];
    let updates = hash_annotations(&pool, &claims);
    assert_eq!(updates.node_claims.keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_drifted_condition_that_is_not_true_does_not_keep_the_old_hash() {
    let pool = hashed(pool(json!({})), "1", "v2");
    let claims = [claim("a", "1", "v2", condition("Drifted", "False"))];
    assert_eq!(hash_annotations(&pool, &claims).node_claims["a"], stamps(&node_pool_hash(&pool), "v3"));
}

#[test]
fn a_changed_template_of_the_same_version_touches_the_pool_only() {
    let pool = hashed(pool(json!({"metadata": {"labels": {"a": "1"}}})), "1", "v3");
    let claim = claim("a", "1", "v3", json!([]));
    let updates = hash_annotations(&pool, [&claim]);
    assert!(updates.node_claims.is_empty());
    assert_eq!(updates.node_pool.keys().collect::<Vec<_>>(), [annotations::NODEPOOL_HASH]);
}

#[test]
fn pools_of_other_node_classes_and_claims_of_other_pools_are_left_alone() {
    let foreign =
        pool(json!({"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"}}}));
    assert!(hash_annotations(&foreign, &[]).is_empty());
    let mut other = claim("a", "1", "v2", json!([]));
    other.metadata.labels.as_mut().unwrap().insert(labels::NODEPOOL.to_owned(), "q".to_owned());
    assert!(hash_annotations(&pool(json!({})), [&other]).node_claims.is_empty());
}
