//! The fence: requests that change something only go out while the Lease is certainly ours.
//!
//! The elector moves the fence's end forward with every renewal, to a time that is well before anybody else may take the Lease.
//! After that time (the process was stopped and goes on, the API server was away) nothing is written any more, whatever the
//! controllers believe; a request that is under way is given up.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request};
use karpenter_capi_access::HeldBack;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, Layer, Service};

/// About thirty years: what a timer can still hold.
const FOREVER: Duration = Duration::from_hours(24 * 365 * 30);

/// A write that was not sent, or given up.
const NOT_LEADING: HeldBack =
    HeldBack("this process doesn't hold the leader election lease, so it must not write");

/// Until when writes may go out; `None` is never.
#[derive(Clone, Debug)]
pub(crate) struct Fence(watch::Receiver<Option<Instant>>);

impl Fence {
    /// A fence whose end is moved by the sender.
    pub(crate) fn new() -> (watch::Sender<Option<Instant>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }

    /// When the fence is always open: where there is no leader election.
    pub(crate) fn end_of_time() -> Instant {
        Instant::now() + FOREVER
    }

    fn is_open(&self) -> bool {
        self.0.borrow().is_some_and(|end| Instant::now() < end)
    }

    /// Returns when the fence closes, taking renewals into account.
    async fn closed(&mut self) {
        loop {
            let end = *self.0.borrow_and_update();
            let Some(end) = end.filter(|end| Instant::now() < *end) else {
                return;
            };
            tokio::select! {
                biased;
                () = sleep_until(end) => {}
                moved = self.0.changed() => if moved.is_err() {
                    sleep_until(end).await;
                }
            }
        }
    }
}

/// Puts a [`Fence`] before a client.
#[derive(Clone, Debug)]
pub(crate) struct FenceLayer(pub(crate) Fence);

impl<S> Layer<S> for FenceLayer {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced { inner, fence: self.0.clone() }
    }
}

/// A client behind a [`Fence`].
#[derive(Debug)]
pub(crate) struct Fenced<S> {
    inner: S,
    fence: Fence,
}

impl<S, B> Service<Request<B>> for Fenced<S>
where
    S: Service<Request<B>, Error = BoxError>,
    S::Response: Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
            return self.inner.call(request).boxed();
        }
        if !self.fence.is_open() {
            return futures::future::ready(Err(NOT_LEADING.into())).boxed();
        }
        let mut fence = self.fence.clone();
        #[cfg(feature = "crash-points")]
        let point = crate::crash::Point::of(&request);
        let answer = self.inner.call(request);
        async move {
            tokio::select! {
                // The fence first: a process that was stopped for a while finds both ready when it goes on.
                biased;
                () = fence.closed() => Err(NOT_LEADING.into()),
                answer = answer => {
                    #[cfg(feature = "crash-points")]
                    point.passed();
                    answer
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts requests and answers each after a while.
    fn server(
        takes: Duration,
        sent: Arc<AtomicUsize>,
    ) -> ServiceFn<impl FnMut(Request<()>) -> BoxFuture<'static, Result<(), BoxError>>> {
        ServiceFn(move |_| {
            sent.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(takes).map(Ok).boxed()
        })
    }

    struct ServiceFn<F>(F);

    impl<F> Service<Request<()>> for ServiceFn<F>
    where
        F: FnMut(Request<()>) -> BoxFuture<'static, Result<(), BoxError>>,
    {
        type Response = ();
        type Error = BoxError;
        type Future = BoxFuture<'static, Result<(), BoxError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<()>) -> Self::Future {
            (self.0)(request)
        }
    }

    fn request(method: Method) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        request
    }

    #[tokio::test]
    async fn writes_pass_only_until_the_end_and_reads_always() {
        let sent = Arc::new(AtomicUsize::new(0));
        let (end, fence) = Fence::new();
        let mut client = FenceLayer(fence).layer(server(Duration::ZERO, sent.clone()));
        assert!(client.call(request(Method::PATCH)).await.unwrap_err().is::<HeldBack>());
        assert!(client.call(request(Method::GET)).await.is_ok());
        end.send_replace(Some(Instant::now() + Duration::from_hours(1)));
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(client.call(request(method)).await.is_ok());
        }
        end.send_replace(Some(Instant::now()));
        assert!(client.call(request(Method::DELETE)).await.unwrap_err().is::<HeldBack>());
        assert_eq!(sent.load(Ordering::SeqCst), 5);
    }

    #[tokio::test]
    async fn a_write_under_way_is_given_up_at_the_end() {
        let (end, fence) = Fence::new();
        let mut client = FenceLayer(fence).layer(server(Duration::from_hours(1), Arc::default()));
        end.send_replace(Some(Instant::now() + Duration::from_millis(200)));
        assert!(client.call(request(Method::PATCH)).await.unwrap_err().is::<HeldBack>());
    }

    #[tokio::test]
    async fn a_write_under_way_is_given_up_when_leadership_is_lost() {
        let (end, fence) = Fence::new();
        let mut client = FenceLayer(fence).layer(server(Duration::from_hours(1), Arc::default()));
        end.send_replace(Some(Instant::now() + Duration::from_hours(1)));
        let write = client.call(request(Method::PATCH));
        end.send_replace(None);
        assert!(write.await.unwrap_err().is::<HeldBack>());
    }

    #[tokio::test]
    async fn a_renewal_lets_a_write_under_way_finish() {
        let (end, fence) = Fence::new();
        let mut client = FenceLayer(fence).layer(server(Duration::from_secs(1), Arc::default()));
        end.send_replace(Some(Instant::now() + Duration::from_millis(500)));
        let write = client.call(request(Method::PATCH));
        end.send_replace(Some(Instant::now() + Duration::from_hours(1)));
        assert!(write.await.is_ok());
    }
}
