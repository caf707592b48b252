//! A real control plane and a hollow cloud, for end-to-end tests and the demo.
//!
//! The control plane is etcd, the Kubernetes components, kwok and Cluster API's core manager as ordinary processes, built
//! from Go modules once and cached. The hollow cloud is a Cluster API infrastructure provider whose machines are Nodes that
//! kwok keeps alive. No container runtime is needed.
//!
//! This crate knows nothing of the operator under test: names of labels and annotations are written out here a second time,
//! so that a wrong constant in the product is seen. Everything that it starts ends with the handle that started it.

pub mod binaries;
pub mod demo;
pub mod hollow;
pub mod hypershift;
pub mod objects;
mod operator_binary;
pub mod plane;
pub mod wait;
pub mod workload;

pub use operator_binary::operator_binary;
