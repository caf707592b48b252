//! End-to-end tests against a real control plane.

mod harness;
