//! The manager as a process: flags and variables, what it says about what is wrong, exit codes, HTTP, signals.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod clusters;
mod harness;
mod kubeconfig;
mod serving;
mod usage;
