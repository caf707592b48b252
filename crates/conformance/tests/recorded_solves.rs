//! Two hundred clusters with what upstream Karpenter v1.14 decided for them, every tie made explicit. None may come out worse.

use karpenter_capi_conformance::case::archive;
use karpenter_capi_conformance::listed::List;
use karpenter_capi_conformance::verdict::Verdict;

const FIXTURE: &[u8] = include_bytes!("../fixtures/solve.jsonl.zst");

#[test]
fn no_recorded_cluster_is_decided_worse_than_by_upstream() {
    let cases = archive(FIXTURE).unwrap();
    assert_eq!(cases.len(), 200);
    let mut list = List::kept().unwrap();
    let judged: Vec<_> = cases.iter().map(|case| case.judge(&mut list)).collect();
    let worse: Vec<String> = judged
        .iter()
        .filter(|judged| matches!(judged.verdict, Verdict::Worse(_)))
        .map(|judged| format!("{}: {}", judged.name, judged.verdict.words()))
        .collect();
    assert!(worse.is_empty(), "{} of 200 are worse:\n{}", worse.len(), worse.join("\n"));
    let needless: Vec<_> = list.needless().collect();
    assert!(needless.is_empty(), "listed without need: {needless:?}");
}
