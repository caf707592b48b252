//! The controllers' clients: limited, and behind the fence.

use std::time::Duration;

use karpenter_capi_access::{Access, AccessError};
use kube::Client;
use kube::client::ClientBuilder;
use tower::limit::RateLimitLayer;

use crate::fence::{Fence, FenceLayer};

/// The most that a client sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests a second in the long run; 0 for no limit.
    pub(crate) per_second: u32,
    /// Requests at once.
    pub(crate) burst: u32,
}

/// A client for the controllers.
pub(crate) fn fenced(access: &Access, limits: Limits, fence: Fence) -> Result<Client, AccessError> {
    let builder = ClientBuilder::try_from(access.config()).map_err(|error| access.no_client(&error))?;
    // The limit outside: what has waited for its turn is held against the fence when it really goes out.
    Ok(builder.with_layer(&FenceLayer(fence)).with_layer(&limits.layer()).build())
}

impl Limits {
    /// As many requests as `burst` within the time that so many take in the long run.
    fn layer(self) -> RateLimitLayer {
        if self.per_second == 0 {
            return RateLimitLayer::new(u64::MAX, Duration::from_secs(1));
        }
        let burst = self.burst.max(1);
        let window = Duration::from_secs_f64(f64::from(burst) / f64::from(self.per_second));
        RateLimitLayer::new(u64::from(burst), window)
    }
}
