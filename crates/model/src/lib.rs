//! The domain in memory: resources, requirements and their algebra, taints, pods, nodes, NodePools, instance types and offerings.
//!
//! Conversion from API objects happens here once and finds everything that is wrong with them. The crate knows no policy, and
//! it never reads a clock, the environment or the network.

pub mod daemon;
pub mod feature_gates;
pub mod instance_type;
pub mod label;
pub mod name;
pub mod node;
pub mod node_pool;
pub mod pod;
pub mod price;
pub mod quantity;
pub mod reason;
pub mod requirement;
pub mod requirements;
pub mod resources;
pub mod selector;
pub mod taint;
