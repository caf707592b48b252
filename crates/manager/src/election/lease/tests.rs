use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::{BoxError, Service};

use super::*;
use crate::fence::Fence;

/// Short, but long enough for a busy machine to keep.
const TIMING: Timing = Timing {
    lease: Duration::from_secs(5),
    renew_within: Duration::from_secs(2),
    retry: Duration::from_millis(50),
};

/// An API server that holds one Lease, and that can be cut off.
#[derive(Clone, Default)]
struct Server {
    lease: Arc<Mutex<Option<Value>>>,
    away: Arc<AtomicBool>,
}

impl Server {
    fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    fn holder(&self) -> String {
        let lease = self.lease.lock().clone().unwrap_or_default();
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    fn answer(&self, method: &Method, body: &Value) -> (u16, Value) {
        let mut stored = self.lease.lock();
        match (method, stored.as_mut()) {
            (&Method::GET, Some(lease)) => (200, lease.clone()),
            (&Method::GET, None) => failure(404, "NotFound"),
            (&Method::POST, Some(_)) => failure(409, "AlreadyExists"),
            (&Method::POST, None) => {
                let mut lease = body.clone();
                lease["metadata"]["resourceVersion"] = json!("1");
                (201, stored.insert(lease).clone())
            }
            (&Method::PATCH, Some(lease)) => {
                if lease["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
                    return failure(409, "Conflict");
                }
                let version: u64 = lease["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                lease["metadata"]["resourceVersion"] = json!((version + 1).to_string());
                lease["spec"] = body["spec"].clone();
                (200, lease.clone())
            }
            _ => failure(405, "MethodNotAllowed"),
        }
    }
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason }),
    )
}

impl Service<Request<Body>> for Server {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.clone();
        async move {
            if server.away.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (code, answer) = server.answer(&head.method, &body);
            let response = Response::builder().status(code).header("content-type", "application/json");
            Ok(response.body(Body::from(answer.to_string().into_bytes()))?)
        }
        .boxed()
    }
}

struct Standing {
    leading: watch::Receiver<bool>,
    until: watch::Receiver<Option<Instant>>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), LeadershipLost>>,
}

fn stand(server: &Server, identity: &str) -> Standing {
    let (until, _fence) = Fence::new();
    let (leading, is_leading) = watch::channel(false);
    let standing_until = until.subscribe();
    let announcement = Announcement { until, leading };
    let candidate = Candidate::new(identity.to_owned(), TIMING);
    let election = Election::new(
        server.client(),
        "kube-system".into(),
        "karpenter-capi-c1".into(),
        candidate,
        announcement,
    );
    let stop = CancellationToken::new();
    Standing {
        leading: is_leading,
        until: standing_until,
        task: tokio::spawn(election.run(stop.clone())),
        stop,
    }
}

async fn until_leading(standing: &mut Standing) {
    timeout(Duration::from_mins(1), standing.leading.wait_for(|leading| *leading)).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_second_stands_by_until_the_first_gives_the_lease_back() {
    let server = Server::default();
    let mut first = stand(&server, "first");
    until_leading(&mut first).await;
    let mut second = stand(&server, "second");
    sleep(Duration::from_millis(500)).await;
    assert!(!*second.leading.borrow());
    assert_eq!(server.holder(), "first");
    first.stop.cancel();
    assert!(first.task.await.unwrap().is_ok());
    assert!(!*first.leading.borrow());
    assert_eq!(*first.until.borrow(), None);
    let given_back = Instant::now();
    until_leading(&mut second).await;
    assert_eq!(server.holder(), "second");
    assert!(given_back.elapsed() < TIMING.lease, "it need not wait for the Lease to run out");
    let spec = server.lease.lock().clone().unwrap()["spec"].clone();
    assert_eq!((&spec["leaseTransitions"], &spec["leaseDurationSeconds"]), (&json!(1), &json!(5)));
}

#[tokio::test]
async fn a_leader_that_is_cut_off_stops_leading_before_another_begins() {
    let server = Server::default();
    let mut first = stand(&server, "first");
    until_leading(&mut first).await;
    // The second talks to the same Lease, and is not cut off.
    let mut second = stand(&Server { lease: server.lease.clone(), away: Arc::default() }, "second");
    sleep(Duration::from_millis(200)).await;
    server.away.store(true, Ordering::SeqCst);
    let lost = timeout(Duration::from_mins(1), first.task).await.unwrap().unwrap();
    assert!(matches!(lost, Err(LeadershipLost::NotRenewed { .. })), "{lost:?}");
    assert!(!*first.leading.borrow());
    assert_eq!(*first.until.borrow(), None);
    assert!(!*second.leading.borrow(), "the Lease hasn't run out yet");
    until_leading(&mut second).await;
}

#[tokio::test]
async fn a_leader_whose_lease_was_taken_away_ends_and_names_the_other() {
    let server = Server::default();
    let mut first = stand(&server, "first");
    until_leading(&mut first).await;
    {
        let mut lease = server.lease.lock();
        let lease = lease.as_mut().unwrap();
        lease["spec"]["holderIdentity"] = json!("intruder");
        lease["metadata"]["resourceVersion"] = json!("1000");
    }
    let lost = timeout(Duration::from_mins(1), first.task).await.unwrap().unwrap();
    let lost = lost.unwrap_err().to_string();
    assert!(lost.contains("kube-system/karpenter-capi-c1") && lost.contains("intruder"), "{lost}");
    assert!(!*first.leading.borrow());
    assert_eq!(server.holder(), "intruder", "it is not taken back");
}

#[test]
fn two_processes_have_two_names() {
    assert_ne!(identity(), identity());
}

#[test]
fn a_lease_is_read_as_it_was_written() {
    let record = Record {
        holder: "a".into(),
        duration: Some(Duration::from_secs(15)),
        acquired: Some(Timestamp::from_second(5).unwrap()),
        renewed: Some(Timestamp::from_second(9).unwrap()),
        transitions: 3,
    };
    let object = LeaseObject {
        metadata: kube::core::ObjectMeta { resource_version: Some("12".into()), ..Default::default() },
        spec: Some(spec(&record)),
    };
    let text = serde_json::to_string(&object).unwrap();
    let lease = read(serde_json::from_str(&text).unwrap());
    assert_eq!(lease, Lease { version: "12".into(), record });
}
