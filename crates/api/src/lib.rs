//! The API of karpenter-capi: every Kubernetes kind, field, default, validation rule and name that it reads or writes.
//!
//! * [`v1`]: `karpenter.sh/v1` NodePool and NodeClaim, wire-compatible with upstream Karpenter.
//! * [`v1alpha1`]: `karpenter.cluster.x-k8s.io/v1alpha1` `ClusterAPINodeClass`.
//! * [`node_overlay`]: `karpenter.sh/v1alpha1` NodeOverlay, wire-compatible with upstream Karpenter.
//! * [`capacity_buffer`]: `autoscaling.x-k8s.io/v1beta1` CapacityBuffer, as the Cluster Autoscaler has it.
//! * [`capi`]: the parts of Cluster API's kinds that are needed, one Rust type for `v1beta1` and `v1beta2`.
//! * [`hypershift`]: HyperShift's NodePool, which owns the replicas of its MachineDeployments.
//! * [`names`]: labels, annotations, taints, finalizers, condition types, reasons and field managers, each once.
//! * [`crd`]: the `CustomResourceDefinition`s, generated from the types.
//! * [`defaults`] and [`validation`]: what the API server would fill in and refuse, for objects that come from files.
//!
//! This crate never decides anything, and never does I/O.

#[macro_use]
mod open_enum;

pub mod capacity_buffer;
pub mod capi;
pub mod condition;
pub mod crd;
pub mod defaults;
pub mod duration;
pub mod hypershift;
pub mod names;
pub mod node_overlay;
pub mod schedule;
pub mod v1;
pub mod v1alpha1;
pub mod validation;

mod schema;
