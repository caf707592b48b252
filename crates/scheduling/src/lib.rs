//! Which pods fit where: `solve(&Input) -> Plan`, and `audit`, a checker written independently of it.
//!
//! Pure: the same input gives the same plan, byte for byte. The crate doesn't know where an instance type came from, and never
//! reads a clock, the environment or the network.

mod audit;
pub mod input;
pub mod plan;
mod screen;
mod solve;
mod zones;

pub use audit::{Violation, audit};
pub use solve::{solve, solve_while};
pub use zones::effective_zones;
