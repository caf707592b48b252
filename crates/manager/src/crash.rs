//! Crash points, for test builds only: the process kills itself after so many writes, as a power cut would.
//!
//! Counting writes at the client finds every point between any two of them, whichever controller makes them. Leases and Events
//! don't count: nothing depends on them.

use std::sync::atomic::{AtomicU64, Ordering};

use http::Request;

/// After how many writes the process dies; without it, it doesn't.
const AFTER_WRITES: &str = "KARPENTER_CAPI_CRASH_AFTER_WRITES";

static WRITES: AtomicU64 = AtomicU64::new(0);

/// A write that is about to be sent.
pub(crate) struct Point(Option<String>);

impl Point {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let path = request.uri().path();
        let counts = !path.contains("/leases") && !path.contains("/events");
        Self(counts.then(|| format!("{} {}", request.method(), request.uri())))
    }

    /// The write has been answered.
    pub(crate) fn passed(self) {
        let Some(write) = self.0 else { return };
        tracing::info!("write {write}");
        let limit = std::env::var(AFTER_WRITES).ok().and_then(|text| text.parse::<u64>().ok());
        if limit.is_some_and(|limit| WRITES.fetch_add(1, Ordering::SeqCst) + 1 == limit) {
            tracing::error!("crash point after {write}");
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}
