use karpenter_capi_conformance::document::Document;
use std::time::Instant;
fn main() {
    for file in std::env::args().skip(1) {
        let value: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let doc = Document::parse(&value).unwrap();
        let input = doc.into_input();
        let mut best = f64::MAX;
        let mut n = (0, 0, 0.0);
        for _ in 0..5 {
            let t = Instant::now();
            let plan = karpenter_capi_scheduling::solve(&input);
            best = best.min(t.elapsed().as_secs_f64());
            n = (plan.node_claims.len(), plan.pending.len(), plan.node_claims.iter().map(|c| c.chosen().unwrap().offering.price.unwrap().to_f64()).sum());
        }
        println!("{file} {:.2} ms claims {} pending {} price {:.2}", best * 1e3, n.0, n.1, n.2);
    }
}
