//! `/healthz`, `/readyz` and `/metrics` over HTTP.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder};
use tokio::net::TcpListener;

use crate::supervisor::Pulse;

/// A port that can't be had.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address} ({flag}); choose another port, or 0 for none")]
pub(crate) struct PortTaken {
    address: SocketAddr,
    flag: &'static str,
    source: std::io::Error,
}

/// Listens on a port; 0 is no port.
pub(crate) async fn listen(
    address: IpAddr,
    port: u16,
    flag: &'static str,
) -> Result<Option<TcpListener>, PortTaken> {
    if port == 0 {
        return Ok(None);
    }
    let address = SocketAddr::new(address, port);
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(source) => Err(PortTaken { address, flag, source }),
    }
}

type Question = Box<dyn Fn() -> Result<(), &'static str> + Send + Sync>;

/// Whether the process does its work; nothing is ready while nobody says how to find out.
#[derive(Clone, Default)]
pub(crate) struct Readiness(Arc<Mutex<Option<Question>>>);

impl Readiness {
    /// `question` is asked at every probe from now on; its error says what isn't ready.
    pub(crate) fn ask(&self, question: impl Fn() -> Result<(), &'static str> + Send + Sync + 'static) {
        *self.0.lock() = Some(Box::new(question));
    }

    /// There is nobody to ask any longer.
    pub(crate) fn forget(&self) {
        *self.0.lock() = None;
    }

    fn answer(&self) -> Result<(), &'static str> {
        let question = self.0.lock();
        question.as_ref().map_or(Err("waiting for the clusters"), |question| question())
    }
}

/// What `/metrics` shows: metrics of the process, and of the operator that runs at present. An operator that is started anew begins
/// with new ones, as a new process would: no gauge of the old one stays behind.
#[derive(Clone, Default)]
pub(crate) struct Exposition {
    pub(crate) process: Registry,
    operator: Arc<Mutex<Registry>>,
}

impl Exposition {
    /// A new operator's; those of the last one end.
    pub(crate) fn show(&self, operator: Registry) {
        *self.operator.lock() = operator;
    }

    fn encode(&self) -> prometheus::Result<String> {
        let mut families = self.process.gather();
        families.extend(self.operator.lock().gather());
        TextEncoder::new().encode_to_string(&families)
    }
}

#[derive(Clone)]
struct Health {
    pulse: Pulse,
    readiness: Readiness,
}

/// `/healthz`: the supervisor is alive. `/readyz`: caches are in sync.
pub(crate) fn health(pulse: Pulse, readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state(Health { pulse, readiness })
}

async fn alive(State(health): State<Health>) -> impl IntoResponse {
    if health.pulse.is_beating() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the supervisor doesn't respond\n")
    }
}

async fn ready(State(health): State<Health>) -> impl IntoResponse {
    match health.readiness.answer() {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

/// `/metrics` in Prometheus' text format.
pub(crate) fn metrics(exposition: Exposition) -> Router {
    Router::new().route("/metrics", get(scrape)).with_state(exposition)
}

async fn scrape(State(exposition): State<Exposition>) -> impl IntoResponse {
    match exposition.encode() {
        Ok(text) => (StatusCode::OK, [(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
            format!("{error}\n"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicBool, Ordering};

    use karpenter_capi_controllers::metrics::Metrics;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::supervisor::Supervisor;

    async fn serve(router: Router) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    /// Status code, head and body.
    async fn request(address: SocketAddr, path: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_lowercase(), body.to_owned())
    }

    #[tokio::test]
    async fn readiness_follows_the_question_and_liveness_does_not() {
        let readiness = Readiness::default();
        let supervisor = Supervisor::new();
        let address = serve(health(supervisor.pulse(), readiness.clone())).await;
        let (status, _, body) = request(address, "/readyz").await;
        assert_eq!((status, body.as_str()), (503, "waiting for the clusters\n"));
        let synced = Arc::new(AtomicBool::new(false));
        let asked = synced.clone();
        readiness.ask(
            move || {
                if asked.load(Ordering::SeqCst) { Ok(()) } else { Err("caches are not in sync") }
            },
        );
        let (status, _, body) = request(address, "/readyz").await;
        assert_eq!((status, body.as_str()), (503, "caches are not in sync\n"));
        assert_eq!(request(address, "/healthz").await.0, 200);
        synced.store(true, Ordering::SeqCst);
        assert_eq!(request(address, "/readyz").await.0, 200);
        assert_eq!(request(address, "/metrics").await.0, 404);
        readiness.forget();
        assert_eq!(request(address, "/readyz").await.0, 503);
    }

    #[tokio::test]
    async fn liveness_ends_with_the_supervisor() {
        let supervisor = Supervisor::new();
        let address = serve(health(supervisor.pulse(), Readiness::default())).await;
        assert_eq!(request(address, "/healthz").await.0, 200);
        drop(supervisor);
        assert_eq!(request(address, "/healthz").await.0, 503);
    }

    #[tokio::test]
    async fn metrics_are_in_prometheus_text_format() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        metrics.watch_failed("Machine");
        let exposition = Exposition::default();
        let address = serve(super::metrics(exposition.clone())).await;
        assert_eq!(request(address, "/metrics").await.2, "");
        exposition.show(registry);
        let (status, head, body) = request(address, "/metrics").await;
        assert_eq!(status, 200);
        assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
        assert!(body.contains("# TYPE karpenter_build_info gauge"), "{body}");
        assert!(body.contains("karpenter_capi_watch_errors_total{kind=\"Machine\"} 1"), "{body}");
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_named_with_its_flag_on_one_line() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = taken.local_addr().unwrap();
        let error = listen(address.ip(), address.port(), "--metrics-port").await.unwrap_err().to_string();
        assert!(error.contains(&address.to_string()) && error.contains("--metrics-port"), "{error}");
        assert_eq!(error.lines().count(), 1);
        assert!(listen(address.ip(), 0, "--metrics-port").await.unwrap().is_none());
    }
}
