use crate::common::{chosen, example, reasons, simulate_json};
use serde_json::Value;

fn of(name: &str) -> (i32, Value) {
    simulate_json(&[example(name).to_str().unwrap()], &["--audit"])
}

fn pods_on(answer: &Value, deployment: &str) -> Vec<String> {
    let claims = answer["nodeClaims"].as_array().unwrap().iter();
    let own = claims.filter(|claim| claim["machineDeployment"] == format!("default/{deployment}"));
    own.flat_map(|claim| claim["pods"].as_array().unwrap())
        .map(|pod| pod.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn web_shop_fills_what_is_there_and_buys_the_rest_by_pool() {
    let (code, answer) = of("web-shop");
    assert_eq!(code, 0, "{}", reasons(&answer));
    assert_eq!(chosen(&answer), ["large-a", "large-a", "large-b-spot"]);
    let batch = pods_on(&answer, "large-b-spot");
    assert_eq!(batch.len(), 6);
    assert!(batch.iter().all(|pod| pod.starts_with("shop/resize-images-")), "{batch:?}");
    assert_eq!(pods_on(&answer, "large-a").len(), 7);
    assert_eq!(
        answer["placements"],
        serde_json::json!([{"node": "small-a-1", "pods": ["shop/storefront-3"]}])
    );
    assert_eq!(answer["machineDeployments"][3]["reason"], "MaxSize");
    assert_eq!(answer["cost"]["before"].as_f64(), Some(0.17), "two small machines");
    assert_eq!(answer["cost"]["after"].as_f64(), Some(0.98), "0.17 + 2 * 0.34 + 0.13");
}

#[test]
fn mixed_arch_gpu_gives_each_pod_the_machine_that_it_can_run_on() {
    let (code, answer) = of("mixed-arch-gpu");
    assert_eq!(code, 1);
    let pending: Vec<_> =
        answer["pending"].as_array().unwrap().iter().map(|pod| pod["pod"].as_str().unwrap()).collect();
    assert_eq!(pending, ["lab/render-1", "lab/mainframe-1"]);
    assert!(reasons(&answer).contains("amd.com/gpu: needs 1"), "{}", reasons(&answer));
    assert_eq!(pods_on(&answer, "gpu-large"), ["lab/training-1"]);
    assert_eq!(pods_on(&answer, "gpu-small"), ["lab/inference-1", "lab/inference-2"]);
    assert!(pods_on(&answer, "gpu-large-spot").is_empty(), "excluded by hand, though it is cheaper");
    let legacy = pods_on(&answer, "general-amd64");
    assert!(
        legacy.contains(&"lab/legacy-1".to_owned()) && legacy.contains(&"lab/legacy-2".to_owned()),
        "{legacy:?}"
    );
    let builders = pods_on(&answer, "general-arm64");
    assert!(
        builders.contains(&"lab/builder-1".to_owned()) && builders.contains(&"lab/builder-2".to_owned()),
        "{builders:?}"
    );
    let sweeps = pods_on(&answer, "general-arm64-spot");
    assert!(
        sweeps.contains(&"lab/sweep-1".to_owned()) && sweeps.contains(&"lab/sweep-2".to_owned()),
        "{sweeps:?}"
    );
}
