//! What it costs to move a pod, as upstream counts it, in whole numbers.

use k8s_openapi::api::core::v1::Pod;

/// What moving an ordinary pod costs: the unit of upstream, as 2²⁷ parts.
pub const ORDINARY: i64 = 1 << 27;

/// No pod costs more than ten ordinary ones, and none saves more.
const MOST: i64 = 10 * ORDINARY;
/// Kubernetes' own annotation by which a pod is made dearer or cheaper than its like.
const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The cost of moving one pod: 1, with its deletion cost in 2²⁷ths and its priority in 2²⁵ths added, between −10 and 10; in units
/// of 1/[`ORDINARY`]. Of a deletion cost the whole part counts; one that can't be read is none.
pub fn eviction_cost(pod: &Pod) -> i64 {
    let annotated = pod.metadata.annotations.as_ref().and_then(|all| all.get(POD_DELETION_COST));
    let deletion = annotated.and_then(|text| whole_part(text)).unwrap_or(0);
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
    ORDINARY
        .saturating_add(deletion)
        .saturating_add(i64::from(priority).saturating_mul(1 << 2))
        .clamp(-MOST, MOST)
}

fn whole_part(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    fraction.bytes().all(|digit| digit.is_ascii_digit()).then(|| whole.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Costs as upstream's own code counted them.
    const FIXTURE: &[u8] = include_bytes!("../tests/fixtures/eviction_costs.json.zst");

    #[test]
    fn pods_cost_what_they_cost_upstream() {
        let text = zstd::decode_all(FIXTURE).unwrap();
        let cases: Vec<Value> = serde_json::from_slice(&text).unwrap();
        assert_eq!(cases.len(), 70);
        for case in cases {
            let mut pod =
                json!({ "metadata": {}, "spec": { "containers": [], "priority": case["priority"] } });
            if case["podDeletionCost"] != "" {
                pod["metadata"]["annotations"] = json!({ POD_DELETION_COST: case["podDeletionCost"] });
            }
            let own = eviction_cost(&serde_json::from_value(pod).unwrap());
            #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
            let difference = own as f64 - case["cost"].as_f64().unwrap() * ORDINARY as f64;
            assert!(difference.abs() < 1.0, "{case}: {own}");
        }
    }
}
