//! What `solve` decides, told as cases; `audit` looks over every plan.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it did not expect must end")]

mod audit;
mod cases;
mod cases_capacity;
mod cases_nodes;
mod cases_topology;
mod constrained;
mod packing;
mod properties;
mod reasons;
mod support;
mod zones;
