//! Free ports of 127.0.0.1.

use std::{collections::BTreeSet, net::TcpListener, sync::Mutex};

use anyhow::{Context, Result};

/// Ports given out by this process, so that two planes that start at once never get the same.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port for each listener of a plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) etcd: u16,
    pub(super) etcd_peer: u16,
    pub(super) api_server: u16,
    pub(super) controller_manager: u16,
    pub(super) scheduler: u16,
    pub(super) kwok: u16,
    pub(super) capi_webhook: u16,
    pub(super) capi_health: u16,
    pub(super) capi_diagnostics: u16,
}

impl Ports {
    /// Chooses free ports. Nothing holds them until the components listen, so a start must be ready to try again.
    pub(super) fn choose() -> Result<Self> {
        let mut held = Vec::new();
        let mut next = || -> Result<u16> {
            loop {
                let listener =
                    TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port of 127.0.0.1")?;
                let port = listener.local_addr()?.port();
                // Held until all are chosen, or the same port would come again.
                held.push(listener);
                let mut given = GIVEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if given.insert(port) {
                    return Ok(port);
                }
            }
        };
        Ok(Self {
            etcd: next()?,
            etcd_peer: next()?,
            api_server: next()?,
            controller_manager: next()?,
            scheduler: next()?,
            kwok: next()?,
            capi_webhook: next()?,
            capi_health: next()?,
            capi_diagnostics: next()?,
        })
    }
}

/// Whether a component's log says that somebody else took its port.
pub(super) fn taken(message: &str) -> bool {
    message.contains("address already in use")
}
