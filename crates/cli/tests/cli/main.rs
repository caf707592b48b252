//! The binary as its users meet it: arguments in; exit code, standard output and standard error out.

#![expect(clippy::unwrap_used, reason = "a test says by panicking that it failed")]

mod api_server;
mod cases;
mod cases_topology;
mod common;
mod doctor;
mod document;
mod examples;
mod gates;
mod nodes;
mod two_hundred_nodes;
mod usage;
