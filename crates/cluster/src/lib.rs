//! One picture of the cluster, fed by many watches or by files, and what the decisions are made from.
//!
//! * [`index`]: a synchronous index of objects; own writes count at once and are dropped when the watch has caught up.
//! * [`snapshot`]: an immutable picture of the index, cheap to take.
//! * [`input`]: from a snapshot to the input of `solve`; the same function serves the operator and the simulator.
//! * [`surface`]: where a MachineDeployment's number and ledger stand.
//! * [`static_claims`]: the claims that NodePools with `replicas` lack.
//! * [`buffers`]: what CapacityBuffers refer to, and where their pods found room.
//! * [`claim`]: from a planned claim to the NodeClaim that is created.
//! * [`scheduler_config`]: what pods get by default that say nothing.
//! * [`files`]: YAML and JSON to objects, as the API server would have stored them.
//!
//! The crate decides nothing and is never asynchronous; it reads neither clock, nor network, nor disk.

pub mod buffers;
pub mod claim;
pub mod files;
pub mod index;
pub mod input;
pub mod object;
pub mod scheduler_config;
pub mod snapshot;
pub mod static_claims;
pub mod surface;

mod store;
