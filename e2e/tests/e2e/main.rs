//! End-to-end tests against a real control plane.

mod api;
mod harness;
mod operator;
