//! Kubernetes quantities, read exactly.
