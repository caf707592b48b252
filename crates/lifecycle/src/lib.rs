//! The pure steps of a NodeClaim's life: assigned, counted in replicas, bound to a Machine, launched, registered, initialized,
//! drained and given back.
//!
//! Every step is a function from what was observed to the writes that come next. Nothing here reads a clock or the network, so
//! that every interleaving of steps, crashes and other people's writes can be explored by tests.

pub mod assign;
pub mod capacity_buffer;
pub mod claim;
pub mod drain;
pub mod eviction_cost;
pub mod hash;
pub mod invariants;
pub mod ledger;
pub mod node;
pub mod node_class;
pub mod node_overlay;
pub mod node_pool;
pub mod static_capacity;
pub mod workload;

mod conditions;
