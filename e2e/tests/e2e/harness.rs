//! The harness itself: what the other suites lean on.

mod cloud;
mod planes;
