//! End-to-end tests against a real control plane.

mod api;
mod demo;
mod harness;
mod operator;
